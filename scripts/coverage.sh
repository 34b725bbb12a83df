#!/usr/bin/env bash
# Which lines of the engine do simulated worlds run?
#
#     scripts/coverage.sh [WORLDS] [--cuts] [--lines]
#
# Builds the simulator once more, instrumented and in a target directory of its own (coverage/ in
# the usual one), runs WORLDS worlds (300) and with --cuts the power cuts, and prints a table of
# the engine's files, most missed first; with --lines also the lines that were never run. The
# audit and the planted bugs, which are not what is tested, are left out.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
limit=${STEADYRAID_LIMIT:-3600}
if [ -z "${STEADYRAID_BOUNDED:-}" ]; then
    STEADYRAID_BOUNDED=1 exec timeout --kill-after=60 "$limit" "$0" "$@"
fi

worlds=300
cuts=
lines=
for word in "$@"; do
    case $word in
    --cuts) cuts=1 ;;
    --lines) lines=1 ;;
    *[!0-9]*)
        echo "usage: $0 [WORLDS] [--cuts] [--lines]" >&2
        exit 2
        ;;
    *) worlds=$word ;;
    esac
done

# The tools must be those of the compiler: the format of what they read changes with it.
tools() {
    echo "$(rustc --print sysroot)/lib/rustlib/$(rustc -vV | sed -n 's/^host: //p')/bin"
}

install_tools() {
    [ -x "$(tools)/llvm-cov" ] && return
    echo "coverage: installing llvm-tools" >&2
    if ! rustup component add llvm-tools >&2 || [ ! -x "$(tools)/llvm-cov" ]; then
        echo "coverage: no llvm-cov; try: rustup component add llvm-tools" >&2
        exit 1
    fi
}

# Reads `llvm-cov export -format=lcov`. A line counts as run if any copy of its code was.
table() {
    awk -v root="$PWD/" -v lines="$lines" '
        /^SF:/ { file = substr($0, 4); sub(root, "", file); next }
        /^DA:/ {
            split(substr($0, 4), field, ",")
            key = file SUBSEP field[1]
            if (!(key in hits)) { order[++count] = key }
            if (field[2] > hits[key] + 0) { hits[key] = field[2] } else { hits[key] += 0 }
        }
        END {
            for (at = 1; at <= count; at++) {
                split(order[at], part, SUBSEP)
                if (!(part[1] in all)) { files[++known] = part[1] }
                all[part[1]]++
                if (hits[order[at]] == 0) { missed[part[1]]++; note(part[1], part[2]) }
            }
            printf "%-44s %6s %6s %7s\n", "file", "lines", "missed", "run"
            for (at = 1; at <= known; at++) {
                file = worst()
                shown[file] = 1
                row(file, all[file], missed[file])
            }
            row("total", sum, gone)
            if (lines) { print "\nnever run:" }
            for (at = 1; lines && at <= known; at++) {
                if (files[at] in list) { print files[at] ":" list[files[at]] dash(files[at]) }
            }
        }
        function worst(    at, found) {
            for (at = 1; at <= known; at++) {
                if (files[at] in shown) { continue }
                if (!found || missed[files[at]] > missed[found]) { found = files[at] }
            }
            return found
        }
        function dash(file) { return last[file] > from[file] ? "-" last[file] : "" }
        function note(file, line) {
            if (file in last && line == last[file] + 1) { last[file] = line; return }
            list[file] = (file in list ? list[file] dash(file) : "") " " line
            from[file] = line
            last[file] = line
        }
        function row(name, of, without) {
            if (name != "total") { sum += of; gone += without }
            printf "%-44s %6d %6d %6.1f%%\n", name, of, without, 100 * (of - without) / of
        }'
}

install_tools
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")/coverage
binary=$target/release/steadyraid-sim
profiles=$target/profiles
echo "coverage: building" >&2
RUSTFLAGS="-C instrument-coverage" CARGO_TARGET_DIR=$target \
    LLVM_PROFILE_FILE=$target/build-%m.profraw \
    cargo build --locked --quiet --release --package sim
rm -rf "$profiles"
mkdir -p "$profiles"
# One file for each binary, which all processes add to (%m).
export LLVM_PROFILE_FILE=$profiles/%m.profraw
status=0
first=10000
echo "coverage: $worlds worlds" >&2
"$binary" world --seeds "$first..$((first + worlds))" --jobs "$(nproc)" >&2 || status=1
[ -z "$cuts" ] || "$binary" cuts >&2 || status=1
"$(tools)/llvm-profdata" merge -sparse "$profiles"/*.profraw -o "$profiles/all.profdata"
"$(tools)/llvm-cov" export -format=lcov -instr-profile "$profiles/all.profdata" "$binary" \
    -ignore-filename-regex '/audit(\.rs|/)|/image\.rs|/planted\.rs|/pool/replayed\.rs' \
    -sources crates/engine/src | table
if [ "$status" != 0 ]; then
    echo "coverage: some worlds failed" >&2
fi
exit "$status"

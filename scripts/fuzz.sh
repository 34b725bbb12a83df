#!/usr/bin/env bash
# Fuzzes what reads bytes of strangers and of drives, guided by coverage.
#
#   scripts/fuzz.sh [SECONDS [TARGET...]]    each target so long (600), as many at once as CPUs
#   FUZZ_JOBS=N                              so many at once
#
# What was learned stays in target/fuzz/corpus. An input that makes a target panic, hang or eat
# memory is told and left in target/fuzz/found: put it into crates/fuzz/cases/TARGET, and mend.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
seconds=${1:-600}
shift || true
targets=("$@")
[ $# != 0 ] || targets=(nbd api config labels journal objects pages verbs)
jobs=${FUZZ_JOBS:-$(nproc)}
target_dir=${CARGO_TARGET_DIR:-target}
# libFuzzer's own: the longest input, time for one (seconds), memory (MiB).
options=(-max_len=8192 -timeout=10 -rss_limit_mb=1024 -print_final_stats=1 -verbosity=0)

scripts/setup.sh c++:build-essential timeout:coreutils
RUSTC_WORKSPACE_WRAPPER=$PWD/scripts/fuzz-rustc.sh cargo build --locked --quiet --release \
    --workspace --features fuzz/libfuzzer --bin steadyraid-fuzz

program=$target_dir/fuzz/steadyraid-fuzz
mkdir -p "$target_dir/fuzz/found" "$target_dir/fuzz/corpus" "$target_dir/fuzz/logs"
# The next build for something else may take its place.
cp "$target_dir/release/steadyraid-fuzz" "$program"

run() { # TARGET
    local target=$1 corpus=$target_dir/fuzz/corpus/$1 log=$target_dir/fuzz/logs/$1 status=0
    local cases=crates/fuzz/cases/$target
    mkdir -p "$corpus"
    [ -d "$cases" ] || cases=
    # shellcheck disable=SC2086  # one word or none
    STEADYRAID_FUZZ=$target STEADYRAID_FUZZ_SEEDS=$corpus timeout --kill-after=10 \
        $((seconds + 60)) "$program" "${options[@]}" -max_total_time="$seconds" \
        -artifact_prefix="$target_dir/fuzz/found/$target-" "$corpus" $cases \
        >"$log" 2>&1 || status=$?
    if [ $status != 0 ]; then
        grep -v '^stat::' "$log" | tail -40
        echo "fuzz: $target failed (status $status), all of it in $log" >&2
        return 1
    fi
    echo "$target: $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") inputs in" \
        "$seconds s, corpus of $(find "$corpus" -type f | wc -l), nothing found"
}

failed=0
pids=()
for target in "${targets[@]}"; do
    if [ ${#pids[@]} -ge "$jobs" ]; then
        wait "${pids[0]}" || failed=1
        pids=("${pids[@]:1}")
    fi
    run "$target" &
    pids+=($!)
done
for pid in "${pids[@]}"; do
    wait "$pid" || failed=1
done
exit $failed

#!/usr/bin/env bash
# Builds the program without any library to load at run time: target/static/steadyraid runs on any
# Linux of the architecture. Names of webhooks' hosts are looked up by glibc, which for that alone
# wants the libraries it was built with; addresses need nothing.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
target=$(realpath -m "${CARGO_TARGET_DIR:-$root/target}")
host=$(rustc -vV | sed -n 's/^host: //p')
profile=${PROFILE:-dist}
cd "$root"

# With a target named, the flag is not for build scripts and macros, which can't be static.
RUSTFLAGS="${RUSTFLAGS:-} -C target-feature=+crt-static" cargo build --locked \
    --profile "$profile" --target "$host" --workspace --bin steadyraid
install -D "$target/$host/$profile/steadyraid" "$target/static/steadyraid"

program=$target/static/steadyraid
# As in the package: the names of functions stay, for backtraces.
strip --strip-debug "$program"
said=$(ldd "$program" 2>&1 || true)
case $said in
*'not a dynamic executable'* | *'statically linked'*) ;;
*)
    echo "static: $program still loads: $said" >&2
    exit 1
    ;;
esac
# In an empty root there is nothing to load.
if [ "$(id -u)" = 0 ]; then
    empty=$(mktemp -d)
    trap 'rm -rf "$empty"' EXIT
    cp "$program" "$empty"
    chroot "$empty" /steadyraid --version
fi
echo "$program: $(stat -c %s "$program") bytes, statically linked"

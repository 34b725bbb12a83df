#!/usr/bin/env bash
# Prints the rustup toolchain to build with: the one of rust-toolchain.toml if it is here or can
# be had, else an installed one that is new enough. Prints nothing where there is no rustup.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
wanted=$(sed -n 's/^channel = "\(.*\)"/\1/p' rust-toolchain.toml)
oldest=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)

version_of() { # TOOLCHAIN
    rustup run "$1" rustc --version 2>/dev/null | cut -d' ' -f2
}

installed() {
    rustup toolchain list | cut -d' ' -f1 | grep -v '^no$' || true
}

# The first installed toolchain that is VERSION, or at least VERSION.
find_version() { # exactly|at-least VERSION
    local toolchain version lowest
    for toolchain in $(installed); do
        case $toolchain in nightly* | beta*) continue ;; esac
        version=$(version_of "$toolchain") || continue
        lowest=$(printf '%s\n' "$2" "$version" | sort -V | head -1)
        if [ "$version" = "$2" ] || { [ "$1" = at-least ] && [ "$lowest" = "$2" ]; }; then
            echo "$toolchain"
            return
        fi
    done
    return 1
}

command -v rustup >/dev/null || exit 0
installed | grep -m1 "^$wanted-" && exit 0
find_version exactly "$wanted" && exit 0
if rustup toolchain install "$wanted" --profile minimal --component rustfmt,clippy >&2; then
    echo "$wanted"
    exit 0
fi
if find_version at-least "$oldest"; then
    echo "warning: Rust $wanted is neither here nor to be had; using another one" >&2
    exit 0
fi
echo "no Rust toolchain of at least $oldest; try: rustup toolchain install $wanted" >&2
exit 1

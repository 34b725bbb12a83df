#!/usr/bin/env bash
# Installs by apt what the tests and the demo need. Does nothing when all of it is here.
#
#   scripts/setup.sh [COMMAND:PACKAGE...]     only these
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."

# command:package
needs=(
    cc:build-essential
    fio:fio
    nbdinfo:libnbd-bin nbdcopy:libnbd-bin nbdfuse:libnbd-bin
    nbdkit:nbdkit
    qemu-img:qemu-utils qemu-io:qemu-utils
    fusermount3:fuse3
    mkfs.ext4:e2fsprogs e2fsck:e2fsprogs
    mkfs.xfs:xfsprogs xfs_repair:xfsprogs
    losetup:mount mount:mount
    runuser:util-linux
    pgrep:procps
    jq:jq
)
[ $# = 0 ] || needs=("$@")
few=$#

fail() {
    echo "setup: $*" >&2
    exit 1
}

have() { # COMMAND; root's tools may be off a user's PATH
    PATH=$PATH:/usr/sbin:/sbin command -v "$1" >/dev/null
}

missing_packages() {
    local need
    for need in "${needs[@]}"; do
        have "${need%%:*}" || echo "${need#*:}"
    done
    [ "$few" = 0 ] || return 0
    compgen -G '/usr/lib/postgresql/*/bin/pgbench' >/dev/null || echo postgresql postgresql-contrib
    [ -n "$(find /usr/share/fonts -name '*.ttf' -print -quit 2>/dev/null)" ] || echo fonts-dejavu-core
}

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif have sudo; then
        sudo "$@"
    else
        fail "'$*' needs root: run as root, or install sudo"
    fi
}

install_packages() {
    local packages
    packages=$(missing_packages | tr ' ' '\n' | sort -u | xargs)
    [ -n "$packages" ] || return 0
    have apt-get || fail "there is no apt here; please install: $packages"
    echo "setup: installing $packages"
    as_root apt-get -qq update
    # shellcheck disable=SC2086  # one word each
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq install --yes \
        --no-install-recommends $packages >/dev/null
    packages=$(missing_packages | xargs)
    [ -z "$packages" ] || fail "still missing after installation: $packages"
}

check_rust() {
    local oldest version tool
    oldest=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
    have cargo || fail "no cargo: install Rust $oldest or later, see https://rustup.rs"
    if [ -z "${RUSTUP_TOOLCHAIN:-}" ]; then
        RUSTUP_TOOLCHAIN=$(scripts/toolchain.sh) || fail "no usable Rust toolchain"
        [ -z "$RUSTUP_TOOLCHAIN" ] || export RUSTUP_TOOLCHAIN
    fi
    version=$(cargo --version | cut -d' ' -f2) || fail "cargo does not run"
    [ "$(printf '%s\n' "$oldest" "$version" | sort -V | head -1)" = "$oldest" ] ||
        fail "Rust $version is too old: $oldest or later is needed, see https://rustup.rs"
    for tool in fmt clippy; do
        cargo "$tool" --version >/dev/null 2>&1 ||
            fail "no cargo $tool; try: rustup component add rustfmt clippy"
    done
}

install_packages
[ "$few" != 0 ] || check_rust

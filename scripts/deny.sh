#!/usr/bin/env bash
# What is linked into the product has licences that it may have, and nothing that deny.toml bans.
# Needs cargo-deny; without it cargo builds it, once for this user (a few minutes).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
version=0.20.2
limit=${STEADYRAID_LIMIT:-1800}
if [ -z "${STEADYRAID_BOUNDED:-}" ]; then
    STEADYRAID_BOUNDED=1 exec timeout --kill-after=60 "$limit" "$0" "$@"
fi

PATH=$PATH:${CARGO_HOME:-$HOME/.cargo}/bin
command -v cargo-deny >/dev/null ||
    cargo install cargo-deny --locked --version "$version" --no-default-features

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

check() { # CONFIGURATION
    cargo deny --locked --log-level error --config "$1" check licenses bans
}

# A check that can't fail is none: without one of the licences, and with one crate more banned.
must_fail() { # WHAT SED-SCRIPT
    sed "$2" deny.toml >"$work/deny.toml"
    ! cmp -s deny.toml "$work/deny.toml" || { echo "deny: deny.toml has changed: $1" >&2; exit 1; }
    ! check "$work/deny.toml" >"$work/said" 2>&1 || { echo "deny: not noticed: $1" >&2; exit 1; }
}

must_fail 'a licence that is not allowed' '/"ISC",/d'
must_fail 'a crate that is banned' 's/crate = "openssl-sys"/crate = "thiserror"/'
check deny.toml

#!/usr/bin/env bash
# Sourced by the scripts beside it: a time limit, a place to work, a pool, its server, and the
# removal of all that, whatever happens. Set `limit` (seconds) before sourcing.
set -euo pipefail

if [ -z "${STEADYRAID_BOUNDED:-}" ]; then
    STEADYRAID_BOUNDED=1 exec timeout --kill-after=60 "$limit" "$0" "$@"
fi

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
built=$(realpath -m "${CARGO_TARGET_DIR:-$root/target}/release")
steadyraid=${STEADYRAID:-$built/steadyraid}
xtask=$built/xtask
PATH=$PATH:/usr/sbin:/sbin

# --- Saying things ---------------------------------------------------------------------------

step() {
    printf '\n== %s\n' "$*"
}

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

[ -x "$steadyraid" ] && [ -x "$xtask" ] || fail "build it first: make build"

# --- Where things are -------------------------------------------------------------------------

work=$(mktemp -d "${TMPDIR:-/tmp}/steadyraid.XXXXXX")
chmod 755 "$work" # PostgreSQL runs as another user
cd "$work"
drives=$work/drives
socket=$work/nbd.sock
control=$work/control.sock
export_name=tank/vm1
uri="nbd+unix:///$export_name?socket=$socket"
server=

# --- Cleaning up -----------------------------------------------------------------------------

cleanups=()

# Runs a command at the end; the last one given runs first.
defer() {
    cleanups+=("$*")
}

finish() {
    local status=$? index
    trap - EXIT INT TERM
    set +e
    if [ "$status" != 0 ] && [ -s "$work/server.log" ]; then
        echo "--- last lines of the server's log:" >&2
        tail -20 "$work/server.log" >&2
    fi
    for ((index = ${#cleanups[@]} - 1; index >= 0; index--)); do
        eval "${cleanups[index]}"
    done
    rm -rf "$work"
    exit "$status"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# --- Waiting ---------------------------------------------------------------------------------

wait_until() { # SECONDS COMMAND...
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        [ "$SECONDS" -lt "$end" ] || return 1
        sleep 0.05
    done
}

# A zombie is gone: whoever has to bury it may be slow.
gone() { # PID
    ! grep -qs '^State:[[:space:]]*[^ZX[:space:]]' "/proc/$1/status"
}

# --- Pool and server -------------------------------------------------------------------------

make_pool() { # DRIVES SIZE VOLUME-SIZE [OPTIONS OF create...]
    local count=$1 size=$2 volume=$3 list=() number
    shift 3
    mkdir -p "$drives"
    for number in $(seq -w 1 "$count"); do
        list+=("$drives/drive$number.img:$size")
    done
    "$steadyraid" create tank "$@" "${list[@]}"
    "$steadyraid" volume create "$export_name" "$volume" --drives "$drives"
}

serve_command() {
    printf '%s\n' "$steadyraid" serve --nbd "unix:$socket" --control "$control" "$drives"
}

is_ready() {
    gone "$server" || grep -qx ready "$work/server.out"
}

start_server() {
    local command
    mapfile -t command < <(serve_command)
    : >"$work/server.out" # now, not in the child: it must not say `ready` from last time
    "${command[@]}" >>"$work/server.out" 2>>"$work/server.log" &
    server=$!
    wait_until 60 is_ready || fail "the server is not ready after 60 s"
    ! gone "$server" || fail "the server ended before it was ready"
}

# A clean stop, which must succeed.
stop_server() {
    local pid=$server
    server=
    kill -TERM "$pid"
    wait "$pid" || fail "the server's exit code after SIGTERM is $?"
}

kill_server() {
    local pid=$server
    server=
    [ -n "$pid" ] || return 0
    kill -KILL "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
}
defer kill_server

status_json() {
    "$steadyraid" status tank --json --control "$control"
}

#!/usr/bin/env bash
# A drive that is there and never answers: the server starts without it, is not kept by the looks at it,
# and takes it back as soon as it answers. It is a file on a filesystem of another process, which is
# stopped, and a loop device over such a file. Needs root and FUSE; takes 2 minutes.
#
#   scripts/tests/silent_drive.sh
set -euo pipefail
limit=400
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh" "$@"
"$root/scripts/setup.sh" nbdfuse:nbdfuse nbdkit:nbdkit losetup:mount

cd "$work"
export STEADYRAID_RUNTIME_DIR=$work/run
mkdir mounted
truncate --size 64M behind
nbdfuse mounted --command nbdkit -s file behind &
filesystem=$!
defer "kill -CONT $filesystem; umount '$work/mounted'; kill $filesystem"
wait_until 20 test -e mounted/nbd || fail "no filesystem"
device=$(losetup --find --show mounted/nbd)
defer "kill -CONT $filesystem; losetup --detach $device 2>/dev/null"

is() { ("$steadyraid" status || true) | grep -q "state: $1"; }
threads() { find "/proc/$server/task" -mindepth 1 -maxdepth 1 | wc -l; }

with_silent() { # DRIVE
    local all=("$1" d1 d2 d3) before
    rm -f d1 d2 d3 out err
    "$steadyraid" create --force tank "$1" d1:64M d2:64M d3:64M >/dev/null
    "$steadyraid" volume create tank/vm 16M --drives "${all[@]}"

    step "$1: the start goes on without it"
    kill -STOP "$filesystem"
    "$steadyraid" serve "${all[@]}" >out 2>err &
    server=$!
    wait_until 60 grep -qsx ready out || fail "not served: $(cat out err)"
    grep -q "$1: has not answered for 35 s, and is left out" err || fail "nobody is told: $(cat err)"
    is DEGRADED || fail "no status"

    step "$1: looks at it take no more threads"
    before=$(threads)
    sleep 12
    [ "$(threads)" -le "$before" ] || fail "$(threads) threads, and $before before"

    step "$1: it answers, and is taken back"
    kill -CONT "$filesystem"
    wait_until 20 is ONLINE || fail "it does not join: $("$steadyraid" events)"
    kill -TERM "$server"
    wait "$server"
    server=
}

with_silent "$device"
losetup --detach "$device"
with_silent mounted/nbd

step "What others list goes on without it"
kill -STOP "$filesystem"
# 1: it is degraded.
timeout 60 "$steadyraid" list --drives mounted d1 d2 d3 >out 2>&1 || [ $? = 1 ] ||
    fail "list does not end: $(cat out)"
grep -q '^tank .* 3 of 4 ' out || fail "the pool is not listed: $(cat out)"
kill -CONT "$filesystem"
echo ok

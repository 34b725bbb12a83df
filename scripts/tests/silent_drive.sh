#!/usr/bin/env bash
# A drive that is there and never answers: the server starts without it, is not kept by the looks at it,
# and takes it back as soon as it answers. It is a loop device over a file whose filesystem, of another
# process, is stopped. Needs root and FUSE; takes 50 s.
#
#   scripts/tests/silent_drive.sh
set -euo pipefail
limit=300
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
defer "kill -CONT $filesystem; losetup --detach $device"
all=("$device" d1 d2 d3)
"$steadyraid" create tank "$device" d1:64M d2:64M d3:64M >/dev/null
"$steadyraid" volume create tank/vm 16M --drives "${all[@]}"

step "The start goes on without it"
kill -STOP "$filesystem"
"$steadyraid" serve "${all[@]}" >out 2>err &
server=$!
wait_until 60 grep -qx ready out || fail "not served: $(cat out err)"
grep -q "$device: has not answered for 35 s, and is left out" err || fail "nobody is told: $(cat err)"
is() { ("$steadyraid" status || true) | grep -q "state: $1"; }
is DEGRADED || fail "no status"

step "Looks at it take no more threads"
threads() { find "/proc/$server/task" -mindepth 1 -maxdepth 1 | wc -l; }
before=$(threads)
sleep 12
[ "$(threads)" -le "$before" ] || fail "$(threads) threads, and $before before"

step "It answers: it is taken back"
kill -CONT "$filesystem"
wait_until 20 is ONLINE || fail "it does not join: $("$steadyraid" events)"
kill -TERM "$server"
wait "$server"
server=
echo ok

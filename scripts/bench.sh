#!/usr/bin/env bash
# Latency and throughput of a volume over NBD, beside the ceiling of the transport (nbdkit with
# a RAM disk) in the same run: machines are noisy, so only the ratio means much.
#
#   scripts/bench.sh [SECONDS PER ROW]
#
# Drives are files in /dev/shm, so that the engine is measured and not a disk. Set
# BENCH_DRIVES to a folder on real SSDs to measure those.
set -euo pipefail
limit=1800
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh" "$@"

seconds=${1:-5}
drives=$(mktemp -d "${BENCH_DRIVES:-/dev/shm}/steadyraid-bench.XXXXXX")
defer "rm -rf '$drives'"
ceiling=

start_ceiling() {
    nbdkit --foreground --unix "$work/ceiling.sock" memory 1G &
    ceiling=$!
    wait_until 10 test -S "$work/ceiling.sock" || fail "nbdkit does not start"
}

stop_ceiling() {
    [ -z "$ceiling" ] || kill "$ceiling" 2>/dev/null || true
}
defer stop_ceiling

measure() { # URI READ-OR-WRITE SIZE DEPTH
    fio --name=bench --ioengine=nbd --uri="$1" --rw="$2" --bs="$3" --iodepth="$4" --size=768M \
        --time_based --runtime="$seconds" --output-format=json --output="$work/fio.json" ||
        fail "fio: $(cat "$work/fio.json")"
    jq -r --arg side "${2#rand}" '.jobs[0][$side] | [(.iops | floor),
        (.clat_ns.percentile."50.000000" / 1000 | floor),
        (.clat_ns.percentile."99.000000" / 1000 | floor)] | @tsv' "$work/fio.json"
}

row() { # WHAT OPTIONS...
    local ours best
    ours=$(measure "$uri" "${@:2}")
    best=$(measure "nbd+unix:///?socket=$work/ceiling.sock" "${@:2}")
    printf '%s\t%s\t%s\n' "$1" "$ours" "$best" >>"$work/table.tsv"
    printf '%s\n' "$1" >&2
}

make_pool 13 512M 2G --width 7 >/dev/null
start_server
start_ceiling
printf 'request\tIOPS\tp50 µs\tp99 µs\tceiling IOPS\tp50 µs\tp99 µs\n' >"$work/table.tsv"
row '4 KiB random write, depth 1' randwrite 4k 1
row '4 KiB random write, depth 16' randwrite 4k 16
row '4 KiB random write, depth 32' randwrite 4k 32
row '64 KiB random write, depth 16' randwrite 64k 16
row '384 KiB write, depth 16' write 384k 16
row '4 KiB random read, depth 1' randread 4k 1
row '4 KiB random read, depth 32' randread 4k 32
echo
column -t -R 2,3,4,5,6,7 -s $'\t' "$work/table.tsv"
status_json | jq -r '.pools[0] | "\(.counters.writes) writes of clients,"
    + " \([.drives[].counters.writes] | add) of drives"'
stop_server

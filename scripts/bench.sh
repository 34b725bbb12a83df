#!/usr/bin/env bash
# The benchmarks, in one run and as ratios: machines are shared and noisy.
#
#   scripts/bench.sh [SECONDS PER ROW]
#
# 1 A volume on memory drives over NBD beside the ceiling of the transport (nbdkit memory),
#   taking turns row by row; fio is the client of both.
# 2 The engine alone, without transport (steadyraid-eval engine).
# 3 Random overwrites of a volume that fills 80 % of the pool, three times (steadyraid-eval space).
# 4 Metadata per block, and opening a large pool after a kill (steadyraid-eval recovery).
set -euo pipefail
limit=1800
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh" "$@"

seconds=${1:-5}
ceiling=

serve_command() {
    printf '%s\n' "$steadyraid" serve --nbd "unix:$socket" --control "$control" \
        --mem-pool tank:13:256M:vm1=1G
}

start_ceiling() {
    nbdkit --foreground --unix "$work/ceiling.sock" memory 1G &
    ceiling=$!
    wait_until 10 test -S "$work/ceiling.sock" || fail "nbdkit does not start"
}

stop_ceiling() {
    [ -z "$ceiling" ] || kill "$ceiling" 2>/dev/null || true
}
defer stop_ceiling

client() { # URI OPTIONS...
    local uri=$1
    shift
    fio --name=bench --ioengine=nbd --uri="$uri" --size=768M --output-format=json \
        --output="$work/fio.json" "$@" || fail "fio: $(cat "$work/fio.json")"
}

# The first touch of memory costs more than a request: both sides get theirs before. Writes go
# to new places, so it takes several rounds to touch all of the pool.
touch_all() { # URI
    client "$1" --rw=write --bs=1M --iodepth=4 --loops=5 >/dev/null
    client "$1" --rw=randwrite --bs=4k --iodepth=16 --time_based --runtime="$seconds" >/dev/null
}

measure() { # URI READ-OR-WRITE SIZE DEPTH
    client "$1" --rw="$2" --bs="$3" --iodepth="$4" --time_based --runtime="$seconds"
    jq -r --arg side "${2#rand}" '.jobs[0][$side] | [(.iops | floor),
        (.clat_ns.percentile."50.000000" / 1000 | floor),
        (.clat_ns.percentile."99.000000" / 1000 | floor)] | @tsv' "$work/fio.json"
}

row() { # WHAT OPTIONS...
    local ours best ratio
    best=$(measure "nbd+unix:///?socket=$work/ceiling.sock" "${@:2}")
    ours=$(measure "$uri" "${@:2}")
    ratio=$(awk -v a="${ours%%$'\t'*}" -v b="${best%%$'\t'*}" 'BEGIN { printf "%.2f", a / b }')
    printf '%s\t%s\t%s\t%s\n' "$1" "$ours" "$best" "$ratio" >>"$work/table.tsv"
    printf '%s\n' "$1" >&2
}

start_server
start_ceiling
touch_all "$uri"
touch_all "nbd+unix:///?socket=$work/ceiling.sock"
printf 'request\tIOPS\tp50 µs\tp99 µs\tceiling\tp50 µs\tp99 µs\tratio\n' >"$work/table.tsv"
row '4 KiB random read, depth 1' randread 4k 1
row '4 KiB random read, depth 32' randread 4k 32
row '4 KiB random write, depth 1' randwrite 4k 1
row '4 KiB random write, depth 32' randwrite 4k 32
row '64 KiB random write, depth 16' randwrite 64k 16
row '384 KiB write, depth 16' write 384k 16
step "Over NBD: a volume of 6+1 on 13 memory drives, and nbdkit memory (bound: 0.70 for 4 KiB)"
column -t -R 2,3,4,5,6,7,8 -s $'\t' "$work/table.tsv"
stop_server
stop_ceiling
step "The engine alone"
"$built/steadyraid-eval" engine
step "Space"
"$built/steadyraid-eval" space
step "Recovery"
"$built/steadyraid-eval" recovery

#!/usr/bin/env bash
# A pool of 13 drives (files here), a volume on it, a server: checked with fio, killed while it
# is being written to, started again, and held to what it had promised.
set -euo pipefail
limit=600
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh" "$@"

# flush-check writes to the first 64 MiB; fio stays behind it.
fio_offset=128M
fio_size=256M

run_fio() { # NAME OPTIONS...
    local name=$1
    shift
    fio --name="$name" --ioengine=nbd --uri="$uri" --offset="$fio_offset" --size="$fio_size" \
        --output-format=json --output="$work/$name.json" "$@" ||
        fail "fio: $(cat "$work/$name.json")"
}

latency_row() { # NAME WHAT read|write
    jq -r --arg what "$2" --arg side "$3" '.jobs[0][$side] |
        def us: . / 1000 | floor;
        [$what, (.iops | floor), (.bw / 1024 | floor), (.clat_ns.percentile."50.000000" | us),
         (.clat_ns.percentile."99.000000" | us), (.clat_ns.max | us)]
        | @tsv' "$work/$1.json"
}

show_latencies() {
    {
        printf 'request\tIOPS\tMiB/s\tp50 µs\tp99 µs\tmax µs\n'
        latency_row write1 '4 KiB random write, 1 at a time' write
        latency_row write16 '4 KiB random write, 16 at a time' write
        latency_row stripe '384 KiB write, 4 at a time' write
        latency_row read1 '4 KiB random read, 1 at a time' read
    } | column -t -R 2,3,4,5,6 -s $'\t'
}

show_counters() {
    status_json | jq -r '.pools[0] | "state \(.state)",
        (.counters | to_entries[] | select(.value != 0) | "\(.key) \(.value)")' | column -c 100
}

step "A pool of 13 drives, stripes of 6 data blocks and a parity block, a volume of 1 GiB"
make_pool 13 256M 1G --width 7
start_server
echo "serving $uri"

step "fio writes 256 MiB in requests of 4 KiB to 512 KiB and verifies every checksum"
run_fio verify --rw=randwrite --bsrange=4k-512k --iodepth=32 --verify=crc32c \
    --verify_fatal=1 --verify_state_save=0 --do_verify=1
echo "ok: no error"

step "Four clients write and flush; after 5 seconds the server gets SIGKILL"
"$xtask" flush-check write --socket "$socket" --export "$export_name" --log "$work/writes.log" \
    --seconds 60 &
writer=$!
defer '[ -z "$writer" ] || kill "$writer"'
sleep 5
kill_server
wait "$writer"
writer=

step "The server starts again. Is every flushed write there, and is no page torn?"
start_server
"$xtask" flush-check verify --socket "$socket" --export "$export_name" --log "$work/writes.log"
status_json | jq -r '.pools[0].recovery | "recovery: \(.records_replayed) records replayed,"
    + " \(.records_dropped) unfinished ones dropped,"
    + " \((.load_nanos + .replay_nanos) / 1e6 | floor) ms"'

step "Latency, as fio sees it over NBD (drives are files: the figures are this machine's)"
run_fio write1 --rw=randwrite --bs=4k --iodepth=1 --time_based --runtime=5
run_fio write16 --rw=randwrite --bs=4k --iodepth=16 --time_based --runtime=5
run_fio stripe --rw=write --bs=384k --iodepth=4 --time_based --runtime=5
run_fio read1 --rw=randread --bs=4k --iodepth=1 --time_based --runtime=5
show_latencies

step "What the pool did for it"
show_counters
stop_server
step "Done; all that was made is removed"

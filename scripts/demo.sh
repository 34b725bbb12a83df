#!/usr/bin/env bash
# First half: a pool of 13 drives (files here), a volume on it, a server: checked with fio, killed
# while it is being written to, started again, and held to what it had promised.
# Second half: a pool of modelled drives, one of which collects garbage; the same requests with
# spike handling off and on.
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
# --- Second half -------------------------------------------------------------------------------

# Seven drives that cope, and one that has to move old data whenever new data comes, and answers
# nobody meanwhile. What runs must not depend on luck, so seeds are fixed by the drives' names.
flat_pool=tank:7:model:dc-nvme,size=5G,fill=aged:1:model:consumer-sata,size=5G,fill=aged:vm1=1G
flat_seconds=20
spikes=on

serve_command() {
    printf '%s\n' "$steadyraid" serve --nbd "unix:$socket" --control "$control" \
        --spikes "$spikes" --mem-pool "$flat_pool"
}

# The volume is written once, so that reads have something to read; then reads and writes of
# 16 KiB come at random, at a rate that the drives are far from being busy with.
measure_flat() { # off|on
    local common=(--ioengine=nbd --uri="$uri" --size=1G --output-format=json)
    spikes=$1
    start_server
    fio --name=fill "${common[@]}" --rw=write --bs=1M --iodepth=4 --output="$work/fill.json" ||
        fail "fio: $(cat "$work/fill.json")"
    fio "${common[@]}" --bs=16k --iodepth=64 --time_based --runtime="$flat_seconds" \
        --rate_process=poisson --percentile_list=50:99:99.9 --output="$work/flat-$1.json" \
        --name=read --rw=randread --rate_iops=1000 \
        --name=write --rw=randwrite --rate_iops=1000 || fail "fio: $(cat "$work/flat-$1.json")"
    status_json >"$work/status-$1.json"
    "$steadyraid" status tank --control "$control" --latency >"$work/status-$1.txt"
    "$steadyraid" events tank --control "$control" >"$work/events-$1.txt"
    stop_server
    sed -n 's/.*at most; \([0-9]* collections\).*/\1/p' "$work/server.out" >"$work/collections-$1"
}

flat_row() { # read|write
    jq -rn --arg side "$1" --slurpfile off "$work/flat-off.json" \
        --slurpfile on "$work/flat-on.json" '
        def ms: . / 1e4 | round / 100;
        def cells: .jobs[] | select(.jobname == $side) | .[$side] |
            [.total_ios, (.clat_ns.percentile | .["50.000000"], .["99.000000"], .["99.900000"] | ms),
             (.clat_ns.max | ms)];
        ["\($side)s"] + ($off[0] | cells) + ["|"] + ($on[0] | cells) | @tsv'
}

show_flat() {
    {
        printf '\toff: requests\tp50\tp99\tp99.9\tmax\t|\ton: requests\tp50\tp99\tp99.9\tmax\n'
        flat_row read
        flat_row write
    } | column -t -R 2,3,4,5,6,8,9,10,11,12 -s $'\t'
}

show_flat_counters() { # off|on
    jq -r --arg mode "$1" --arg collections "$(tail -1 "$work/collections-$1")" '.pools[0].counters |
        "\($mode): redirected \(.redirected_reads) reads, \(.redirected_writes) writes; "
        + "hedged \(.hedged_reads) reads, \(.hedged_writes) writes, "
        + "\(.hedged_journal_blocks) journal blocks, \(.hedge_wins) of them first, "
        + "\(.hedges_refused) refused; the slow drive: \($collections)"' "$work/status-$1.json"
}

step "One drive of eight collects garbage: 1,000 reads and 1,000 writes a second, spike handling off"
measure_flat off
echo "done, $flat_seconds s"
step "The same with spike handling on"
measure_flat on
echo "done, $flat_seconds s"
step "Latency in ms. Drives are modelled, time is real: what else this machine does is in it"
show_flat
show_flat_counters off
show_flat_counters on
step "What the server saw of it (steadyraid events, the last lines)"
tail -8 "$work/events-on.txt"
step "Done; all that was made is removed"

#!/usr/bin/env bash
# Measures nbd_ram against `nbdkit memory` in the same run, alternating, and prints the ratios.
# usage: compare_nbdkit.sh <nbd_ram binary> [seconds per measurement] [rounds]
# needs: fio, nbdkit, jq
set -euo pipefail
binary=$1 seconds=${2:-3} rounds=${3:-3}
dir=$(mktemp -d)
"$binary" "$dir/ours" 1024 & ours=$!
nbdkit --foreground --unix "$dir/nbdkit" memory 1G & nbdkit=$!
trap 'kill $ours $nbdkit; wait; rm -r "$dir"' EXIT
sleep 1

iops() { # socket, rw, block size, depth
    fio --name=x --ioengine=nbd --uri="nbd+unix:///?socket=$dir/$1" --rw="$2" --bs="$3" \
        --iodepth="$4" --runtime="$seconds" --time_based --size=1G --output-format=json |
        sed -n '/^{/,$p' |
        jq '.jobs[0] | .read.iops + .write.iops | floor'
}

for socket in ours nbdkit; do
    fio --name=fill --ioengine=nbd --uri="nbd+unix:///?socket=$dir/$socket" --rw=write --bs=1M \
        --iodepth=4 --size=1G >/dev/null
done
printf '%-10s %5s %5s  %9s %9s %6s\n' pattern block depth ours nbdkit ratio
for shape in "randread 4k 1" "randread 4k 32" "randwrite 4k 1" "randwrite 4k 32" \
    "read 64k 8" "write 64k 8" "read 1M 8" "write 1M 8"; do
    set -- $shape
    a=0 b=0
    for _ in $(seq "$rounds"); do
        a=$((a + $(iops ours "$@"))) b=$((b + $(iops nbdkit "$@")))
    done
    printf '%-10s %5s %5s  %9d %9d ' "$@" $((a / rounds)) $((b / rounds))
    awk "BEGIN { printf \"%6.2f\\n\", $a / $b }"
done

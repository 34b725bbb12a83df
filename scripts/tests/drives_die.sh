#!/usr/bin/env bash
# Drives die under fio, which verifies what it reads, and under PostgreSQL: their files are cut to
# nothing, overwritten with noise, or removed. No client sees an error; afterwards the drive is
# replaced, and a scrub finds nothing wrong. Needs root.
#
#   scripts/tests/drives_die.sh              three of 13 drives, each in one way
#   scripts/tests/drives_die.sh all          all 13 of a RAID5 pool, each in every way
#   scripts/tests/drives_die.sh pairs        RAID6: every pair of 9 drives
#
# The last two take more than ten minutes: they need STEADYRAID_LIMIT=2700 (seconds).
set -euo pipefail
limit=${STEADYRAID_LIMIT:-600}
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh" "$@"
which=${1:-some}
scale=2
# shellcheck source=scripts/database.sh
source "$root/scripts/database.sh"

drive_size=160M
load_seconds=8
# fio and the filesystem have a volume each.
fio_uri="nbd+unix:///tank/fio?socket=$socket"
fio_size=192M
spares=0
loads=()

ask() {
    "$steadyraid" "$@" --control "$control"
}

start_load() { # SECONDS
    fio --name=verify --ioengine=nbd --uri="$fio_uri" --rw=randwrite --bsrange=4k-256k \
        --iodepth=8 --size="$fio_size" --randrepeat=0 --time_based --runtime="$1" --fsync=128 \
        --verify=crc32c --verify_backlog=256 --verify_fatal=1 --verify_state_save=0 \
        --output="$work/fio.txt" &
    loads=($!)
    as_postgres "$binaries/pgbench" -h "$database_socket" --no-vacuum -c 2 -T "$1" postgres \
        >"$work/pgbench.log" 2>&1 &
    loads+=($!)
}

end_load() {
    wait "${loads[0]}" || fail "fio: $(tail -20 "$work/fio.txt")"
    wait "${loads[1]}" || fail "pgbench: $(tail -20 "$work/pgbench.log")"
    grep -q 'number of failed transactions: 0 ' "$work/pgbench.log" ||
        fail "pgbench: $(cat "$work/pgbench.log")"
}

drive_file() { # INDEX
    status_json | jq -r --argjson index "$1" '.pools[0].drives[$index].name'
}

drive_state() { # INDEX
    status_json | jq -r --argjson index "$1" '.pools[0].drives[$index].state'
}

die() { # FILE WAY
    case $2 in
    truncate) truncate -s 0 "$1" ;;
    noise) dd if=/dev/urandom of="$1" bs=1M count="${drive_size%M}" conv=notrunc status=none ;;
    remove) rm "$1" ;;
    esac
}

# What an operator does: a drive of no use is failed, any is replaced.
replace() { # INDEX WAY
    spares=$((spares + 1))
    # The server may have failed it by itself: it could not be flushed, or its file was deleted.
    if [ "$(drive_state "$1")" = active ]; then
        [ "$2" != remove ] || fail "drive $1: nobody noticed that its file was deleted"
        ask drive fail tank "$1" --force >/dev/null
    fi
    ask drive replace tank "$1" "$drives/spare$spares.img:$drive_size" >/dev/null
}

scrub_is_clean() { # WHEN
    ask scrub start tank >/dev/null
    ask wait tank scrub --timeout 300
    ask scrub status tank --json >"$work/scrub.json"
    jq -e '.scrub.state == "done" and .scrub.lost_pages == 0' "$work/scrub.json" >/dev/null ||
        fail "$1: $(cat "$work/scrub.json")"
    [ "$1" != first ] || return 0
    jq -e '.scrub.bad_pages == 0' "$work/scrub.json" >/dev/null || fail "$1: $(cat "$work/scrub.json")"
}

# Drives with their ways to die, at the same time.
round() { # INDEX WAY [INDEX WAY]
    local pairs=("$@") at
    echo "drive ${*}:"
    start_load "$load_seconds"
    sleep 2
    for ((at = 0; at < ${#pairs[@]}; at += 2)); do
        die "$(drive_file "${pairs[at]}")" "${pairs[at + 1]}"
    done
    end_load
    start_load "$load_seconds"
    for ((at = 0; at < ${#pairs[@]}; at += 2)); do
        replace "${pairs[at]}" "${pairs[at + 1]}"
    done
    ask wait tank restore online --timeout 300
    end_load
    scrub_is_clean "after drive ${*}"
}

begin() { # DRIVES OPTIONS...
    local count=$1
    shift
    make_pool "$count" "$drive_size" 384M "$@"
    "$steadyraid" volume create tank/fio "$fio_size" --drives "$drives" >/dev/null
    start_server
    attach
    mkfs.ext4 -q -F "$loop"
    mkdir -p "$mount_point"
    mount "$loop" "$mount_point"
    create_database
}

end() {
    check_sums
    stop_postgres
    umount "$mount_point"
    e2fsck -f -n "$loop" >"$work/fsck.txt" 2>&1 || fail "e2fsck: $(cat "$work/fsck.txt")"
    detach
    stop_server
    echo "ok: no client saw an error; e2fsck: clean"
}

ways=(truncate noise remove)
case $which in
some | all)
    step "RAID5 6+1 on 13 drives: they die one after the other under fio and PostgreSQL"
    begin 13 --width 7
    last=12
    [ "$which" = all ] || last=2
    for index in $(seq 0 "$last"); do
        own=("${ways[index % 3]}")
        [ "$which" = some ] || own=("${ways[@]}")
        for way in "${own[@]}"; do round "$index" "$way"; done
    done
    end
    ;;
pairs)
    step "RAID6 5+2 on 9 drives: every pair dies"
    begin 9 --width 7 --parity 2
    count=0
    for first in $(seq 0 7); do
        for second in $(seq $((first + 1)) 8); do
            round "$first" "${ways[count % 3]}" "$second" "${ways[(count + 1) % 3]}"
            count=$((count + 1))
        done
    done
    end
    ;;
*) fail "what is '$which'? Nothing, 'all' or 'pairs'" ;;
esac

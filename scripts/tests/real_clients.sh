#!/usr/bin/env bash
# Clients that others wrote, against the NBD server: nbdinfo, fio, qemu-img, nbdcopy.
set -euo pipefail
limit=${STEADYRAID_LIMIT:-600}
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh" "$@"

volume_mib=512
megabytes=${1:-192}

check_nbdinfo() {
    step "nbdinfo: what the server says about the volume"
    nbdinfo --json "$uri" >"$work/info.json"
    jq -e --argjson size $((volume_mib << 20)) '.exports[0] |
        ."export-size" == $size and .is_read_only == false and .can_flush and .can_fua
        and ."block_size_minimum" <= 512' "$work/info.json" >/dev/null ||
        fail "unexpected: $(jq -c . "$work/info.json")"
    if nbdinfo "nbd+unix:///tank/nothing?socket=$socket" >/dev/null 2>&1; then
        fail "an export that does not exist was opened"
    fi
    echo ok
}

fio_job() { # OPTIONS...
    fio --name=verify --ioengine=nbd --uri="$uri" --rw=randwrite --bsrange=512-1M \
        --blockalign=512 --iodepth=32 --size="${megabytes}M" --fsync=64 --randseed=7 \
        --verify=crc32c --verify_fatal=1 --verify_state_save=0 --output="$work/fio.txt" "$@"
}

check_fio() {
    step "fio: $megabytes MiB in requests of 512 B to 1 MiB, 32 at a time, read back by checksum"
    fio_job --do_verify=1 || fail "$(cat "$work/fio.txt")"
    grep -E '^ +(read|write):' "$work/fio.txt"
    # Once more without writing; and the same check must see a single foreign sector.
    fio_job --verify_only=1 || fail "$(cat "$work/fio.txt")"
    qemu-io -f raw -c 'write -P 0xaa 1M 512' "$uri" >/dev/null
    if fio_job --verify_only=1 >/dev/null 2>&1; then
        fail "fio did not notice a damaged sector: its check is worth nothing"
    fi
    echo "ok; and a damaged sector is noticed"
}

# Random data with holes, as disk images are.
make_image() { # FILE
    local offset
    truncate -s ${volume_mib}M "$1"
    for offset in 0 33 100 101 250 $((volume_mib - 24)); do
        dd if=/dev/urandom of="$1" bs=1M count=24 seek=$offset conv=notrunc status=none
    done
}

check_qemu() {
    step "qemu-img: convert in, compare, convert out; qemu-io: zeroes and discard"
    make_image "$work/image.raw"
    qemu-img convert -n -f raw -O raw "$work/image.raw" "$uri"
    qemu-img compare -f raw -F raw "$work/image.raw" "$uri"
    qemu-img convert -f raw -O raw "$uri" "$work/back.raw"
    cmp "$work/image.raw" "$work/back.raw"
    qemu-io -f raw -c 'write -P 7 5M 1M' -c 'write -z 5M 300k' -c 'read -P 0 5M 300k' \
        -c 'read -P 7 5421k 200k' -c 'discard 5M 1M' -c flush "$uri" >"$work/qemu-io.txt"
    ! grep -i 'fail' "$work/qemu-io.txt" || fail "qemu-io: see above"
    echo ok
}

check_nbdcopy() {
    step "nbdcopy: in, out, and out again after a clean restart"
    make_image "$work/image2.raw"
    nbdcopy --flush "$work/image2.raw" "$uri"
    nbdcopy "$uri" "$work/back2.raw"
    cmp "$work/image2.raw" "$work/back2.raw"
    stop_server
    start_server
    nbdcopy "$uri" "$work/back3.raw"
    cmp "$work/image2.raw" "$work/back3.raw"
    echo ok
}

# --- A client that is there before and after -------------------------------------------------

open_client() { # RECONNECT-DELAY
    rm -f "$work/ask"
    mkfifo "$work/ask"
    # Line by line, so that it is seen what was answered. It takes one command at a time.
    stdbuf -oL qemu-io --image-opts "driver=nbd,server.type=unix,server.path=$socket,export=$export_name,reconnect-delay=$1" \
        <"$work/ask" >"$work/answers" 2>&1 &
    client=$!
    exec 5>"$work/ask"
}

close_client() {
    echo quit >&5
    exec 5>&-
    wait "$client" || true
}

ask_client() { # COMMAND
    echo "$1" >&5
}

answers() { # COUNT: so many requests are answered, well or not
    [ "$(grep -cE '(wrote|read) [0-9]+/|failed' "$work/answers")" -ge "$1" ]
}

check_reconnect() {
    step "qemu with reconnect-delay: a client that is there before a restart goes on after it"
    local client
    open_client 30
    ask_client 'write -P 0x51 3M 64k'
    wait_until 20 answers 1 || fail "nothing was written: $(cat "$work/answers")"
    stop_server
    ask_client 'read -P 0x51 3M 64k'
    sleep 0.5
    ! answers 2 || fail "a client is answered by nobody: $(cat "$work/answers")"
    start_server
    wait_until 20 answers 2 || fail "the client does not go on: $(cat "$work/answers")"
    # The same after a crash, for what was durable before.
    ask_client 'write -f -P 0x52 4M 64k'
    wait_until 20 answers 3 || fail "nothing was written: $(cat "$work/answers")"
    kill_server
    ask_client 'read -P 0x52 4M 64k'
    start_server
    wait_until 20 answers 4 || fail "the client does not go on: $(cat "$work/answers")"
    close_client
    ! grep -iE 'fail|error' "$work/answers" || fail "the client saw an error"

    # Without it the same client must see errors, or nothing has been shown.
    open_client 0
    ask_client 'read -P 0x52 4M 64k'
    wait_until 20 answers 1 || fail "nothing was read: $(cat "$work/answers")"
    stop_server
    ask_client 'read -P 0x52 4M 64k'
    wait_until 20 answers 2 || fail "a client is answered by nobody: $(cat "$work/answers")"
    start_server
    close_client
    grep -q 'read failed' "$work/answers" || fail "no error without a server: $(cat "$work/answers")"
    echo "ok; and without reconnect-delay it fails"
}

make_pool 13 160M "${volume_mib}M" --width 7
start_server
check_nbdinfo
check_fio
check_qemu
check_nbdcopy
check_reconnect
stop_server

#!/usr/bin/env bash
# Kills the server with SIGKILL under load, again and again; after each kill every flushed write
# must be there. The last time a drive is taken away as well.
#
#   scripts/tests/crash_kill.sh [CYCLES] [SEED]
set -euo pipefail
limit=${STEADYRAID_LIMIT:-900}
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh" "$@"

cycles=${1:-200}
seed=${2:-$((RANDOM << 15 | RANDOM))}

# A server that keeps everything in memory loses it all: if that passed, nothing would fail.
check_the_check() {
    step "canary: a server that forgets must be caught"
    cat >"$work/forgetful.sh" <<X
#!/usr/bin/env bash
set -euo pipefail
rm -f "$work/canary.sock"
(until [ -S "$work/canary.sock" ]; do sleep 0.01; done; echo ready) &
exec nbdkit --foreground --unix "$work/canary.sock" memory 64M
X
    chmod +x "$work/forgetful.sh"
    if "$xtask" flush-check kill-loop --socket "$work/canary.sock" --export '' --cycles 2 \
        -- "$work/forgetful.sh" >"$work/canary.txt" 2>&1; then
        fail "it was not"
    fi
    grep -q 'was flushed' "$work/canary.txt" || fail "it was, but not for that: $(cat "$work/canary.txt")"
    echo "ok: it is caught"
}

kill_loop() { # PARITY CYCLES OPTIONS...
    local parity=$1 count=$2 command
    shift 2
    step "RAID$((parity + 4)), four connections: $count kills under load, the last one with $parity lost"
    # Small drives, so that space is short and conversion and compaction are busy too.
    make_pool 13 80M 300M --width 7 --parity "$parity"
    mapfile -t command < <(serve_command)
    "$xtask" flush-check kill-loop --socket "$socket" --export "$export_name" \
        --cycles "$count" --seed "$seed" "$@" -- "${command[@]}" 2> >(tee -a "$work/server.log" >&2)
    rm -rf "$drives"
}

check_the_check
kill_loop 1 "$cycles" --lose "$drives/drive03.img"
kill_loop 2 $((cycles / 4)) --lose "$drives/drive03.img" --lose "$drives/drive08.img"

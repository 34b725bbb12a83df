#!/usr/bin/env bash
# Nobody stops everybody: what a client has from a volume while other clients are stopped, stand in
# the middle of a message, are slow, flood, connect a thousand times a second.
#
#   scripts/tests/isolation.sh                    each of its requests is answered, and the server
#                                                 ends beside all of them: nothing that depends on
#                                                 how fast this machine is
#   scripts/tests/isolation.sh measure [ROUNDS] [SECONDS]
#                                                 a table: alone and beside each kind, taking turns;
#                                                 ratios of 99th percentiles (the bar is 1.2)
#
# DRIVE is what a drive of the pool in memory is: 256M, or model:dc-nvme,size=1G.
set -euo pipefail
limit=${STEADYRAID_LIMIT:-600}
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh" "$@"

drive=${DRIVE:-256M}
neighbours=()

serve_command() {
    printf '%s\n' "$steadyraid" serve --nbd "unix:$socket" --control "$control" \
        --mem-pool "tank:8:$drive:good=64M:bad=300M"
}

with_clients() { # VERB OPTIONS...
    "$xtask" neighbours "$1" --socket "$socket" --good tank/good --bad tank/bad "${@:2}"
}

begin() { # KIND
    "$xtask" neighbours be "$1" "$socket" tank/bad >"$work/$1.out" &
    neighbours+=($!)
    wait_until 60 test -s "$work/$1.out" || fail "neighbour $1 does not begin"
}

end_neighbours() {
    local pid
    for pid in "${neighbours[@]}"; do
        kill -KILL "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
    done
    neighbours=()
}
defer end_neighbours

check() {
    step "Beside each kind of bad neighbour, one at a time"
    with_clients check --requests 2000
    step "Beside all of them at once: status, and a clean end"
    local kind
    for kind in stopped half-sent slow half-open; do
        begin "$kind"
    done
    status_json | jq -e '.server.nbd[] | select(.transport == "unix") |
        .handshaking <= 64 and .established >= 10' >/dev/null ||
        fail "connections are not counted: $(status_json | jq -c .server)"
    # However long the clients would be waited for, it is less than what any of them waits for.
    local pid=$server
    kill -TERM "$pid"
    wait_until 30 gone "$pid" || fail "a server that is told to stop waits for its clients"
    stop_server_that_ended
    end_neighbours
    echo ok
}

stop_server_that_ended() {
    local pid=$server
    server=
    wait "$pid" || fail "the server's exit code after SIGTERM is $?"
}

start_server
case ${1:-check} in
check) check ;;
measure)
    step "4 KiB reads, one at a time, on 8 drives ($drive), alone and beside others"
    with_clients measure --rounds "${2:-7}" --seconds "${3:-2}" >"$work/table.tsv"
    column -t -s $'\t' "$work/table.tsv"
    stop_server
    ;;
*) fail "what is '$1'?" ;;
esac

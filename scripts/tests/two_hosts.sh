#!/usr/bin/env bash
# Two hosts see the same drives. Never do both serve the pool, and what was acknowledged is there.
# Hosts are stood for by namespaces with a machine-id and a name of their own, and loop devices of
# their own over the same files: locks of this kernel don't reach from one to the other. Needs root.
#
#   scripts/tests/two_hosts.sh [ATTEMPTS]     each of all kinds, in turn (5: every kind once)
set -euo pipefail
limit=${STEADYRAID_LIMIT:-1800}
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh" "$@"
"$root/scripts/setup.sh" qemu-io:qemu-utils losetup:mount unshare:util-linux nsenter:util-linux

attempts=${1:-5}
declare -A namespaces=() devices=() servers=()
# What was acknowledged last, as a byte.
value=0

end_all() {
    kill -KILL "${servers[@]}" || true
    wait "${servers[@]}" || true
} 2>/dev/null

make_host() { # NAME
    local file
    printf '%032x\n' "0x$(printf '%s' "$1" | od -An -tx1 | tr -d ' ')" >"$work/$1.machine-id"
    # It only keeps the namespaces.
    unshare --mount --uts --fork --kill-child sh -c "
        mount --bind '$work/$1.machine-id' /etc/machine-id; hostname '$1'; : >'$work/$1.up'
        exec sleep infinity" &
    wait_until 10 test -e "$work/$1.up" || fail "no namespaces for host $1"
    namespaces[$1]=$(pgrep -P $! sleep)
    defer "kill ${namespaces[$1]} 2>/dev/null"
    for file in "$work"/files/*; do
        devices[$1]+="$(losetup --find --show --direct-io=on "$file") "
    done
    mkdir "$work/$1"
    defer "losetup --detach ${devices[$1]} 2>/dev/null"
}

# In the place of this shell, so that a signal to it reaches the command.
on() { # HOST COMMAND...
    local enter=(nsenter --target "${namespaces[$1]}" --mount --uts)
    exec "${enter[@]}" env STEADYRAID_RUNTIME_DIR="$work/$1" "${@:2}"
}

begin() { # HOST OPTIONS...
    : >"$work/$1.log" # now, not in the child: it must not say `ready` from last time
    # shellcheck disable=SC2086  # a word for each device
    (on "$1" "$steadyraid" serve "${@:2}" ${devices[$1]} >>"$work/$1.log" 2>&1) &
    servers[$1]=$!
}

has_answered() { # HOST
    grep -qx ready "$work/$1.log" || gone "${servers[$1]}"
}

serves() { # HOST OPTIONS...
    begin "$@"
    wait_until 40 has_answered "$1" || fail "$1 neither serves nor refuses: $(cat "$work/$1.log")"
    grep -qx ready "$work/$1.log"
}

end() { # HOST SIGNAL
    kill "-$2" "${servers[$1]}"
    wait "${servers[$1]}" || true
}

client() { # HOST COMMAND...
    local commands=()
    for command in "${@:2}"; do commands+=(-c "$command"); done
    local said
    said=$(timeout 20 qemu-io -f raw "${commands[@]}" \
        "nbd+unix:///tank/vm?socket=$work/$1/nbd.sock" 2>&1) || { echo "$said" >"$work/$1.client"; return 1; }
    echo "$said" >"$work/$1.client"
    ! grep -q failed <<<"$said"
}

writes() { # HOST
    client "$1" "write -P $((value % 255 + 1)) 1M 64k" flush ||
        fail "$1 does not write: $(cat "$work/$1.client" "$work/$1.log")"
    value=$((value % 255 + 1))
}

reads() { # HOST
    [ "$value" = 0 ] || client "$1" "read -P $value 1M 64k" ||
        fail "$1 does not read what was acknowledged ($value): $(cat "$work/$1.client" "$work/$1.log")"
}

refused() { # HOST WHAT
    grep -q "$2" "$work/$1.log" || fail "$1 is not refused for '$2': $(cat "$work/$1.log")"
}

# --- Kinds of attempts. Each begins and ends with a pool that nobody has. ----------------------

start_together() {
    local host served=()
    begin alpha
    begin beta
    for host in alpha beta; do
        wait_until 40 has_answered $host || fail "$host neither serves nor refuses"
        if grep -qx ready "$work/$host.log"; then served+=("$host"); fi
    done
    [ ${#served[@]} -le 1 ] || fail "both serve"
    for host in "${served[@]}"; do
        reads "$host"
        writes "$host"
        end "$host" TERM
    done
    echo "${served[*]:-nobody} serves"
}

in_turn() {
    serves alpha || fail "$(cat "$work/alpha.log")"
    reads alpha
    ! serves beta || fail "both serve"
    refused beta 'host alpha'
    ! serves beta --take-over || fail "a host that is alive was taken over"
    refused beta 'is alive'
    writes alpha
    end alpha TERM
    serves beta || fail "what alpha let go beta does not get: $(cat "$work/beta.log")"
    reads beta
    end beta TERM
}

kill_and_take_over() {
    serves alpha || fail "$(cat "$work/alpha.log")"
    writes alpha
    end alpha KILL
    ! serves beta || fail "beta has what alpha did not let go"
    refused beta 'take-over'
    serves beta --take-over || fail "beta does not take over: $(cat "$work/beta.log")"
    reads beta
    writes beta
    end beta TERM
}

kill_and_start_again() {
    serves beta || fail "$(cat "$work/beta.log")"
    writes beta
    end beta KILL
    serves beta || fail "beta does not get back what it had: $(cat "$work/beta.log")"
    reads beta
    end beta TERM
}

stop_and_go_on() {
    serves alpha || fail "$(cat "$work/alpha.log")"
    writes alpha
    kill -STOP "${servers[alpha]}"
    serves beta --take-over || fail "beta does not take over: $(cat "$work/beta.log")"
    reads beta
    writes beta
    # It asks before the server goes on, and waits for it.
    client alpha 'write -P 0 1M 64k' flush &
    local asked=$!
    client alpha 'read 1M 64k' &
    local asked_too=$!
    sleep 0.3
    kill -CONT "${servers[alpha]}"
    ! wait $asked || fail "alpha answers what it has no more"
    ! wait $asked_too || fail "alpha gives away what it has no more"
    wait_until 10 grep -q 'host beta .* has taken it over' "$work/alpha.log" ||
        fail "alpha does not say that it was taken over: $(cat "$work/alpha.log")"
    (on alpha "$steadyraid" status) >"$work/status" || true
    grep -q 'host beta' "$work/status" || fail "nor does its status: $(cat "$work/status")"
    reads beta
    end alpha TERM
    end beta TERM
}

step "$attempts attempts of two hosts that see the same drives"
mkdir files
for number in 0 1 2 3; do truncate -s 128M "files/$number"; done
make_host alpha
make_host beta
defer end_all
# shellcheck disable=SC2086  # a word for each device
(on alpha "$steadyraid" create --scheme "${SCHEME:-fusion}" tank ${devices[alpha]}) >/dev/null
# shellcheck disable=SC2086
(on alpha "$steadyraid" volume create tank/vm 32M --drives ${devices[alpha]}) >/dev/null
kinds=(start_together in_turn kill_and_take_over kill_and_start_again stop_and_go_on)
for ((attempt = 0; attempt < attempts; attempt++)); do
    kind=${kinds[attempt % ${#kinds[@]}]}
    echo "attempt $((attempt + 1)): $kind"
    "$kind"
done
echo ok

#!/usr/bin/env bash
# Cells of experiments spread over two hosts by GNU parallel over ssh, collected and reported: the
# same results as of one run here. The hosts are two logins on an ssh server of the script's own on
# 127.0.0.1, each with a folder of its own and throwaway keys. Debian: parallel, openssh-server,
# rsync are installed if they are missing.
#
#   scripts/tests/spread.sh [EXPERIMENT...]     by default a few that take seconds
set -euo pipefail
limit=${STEADYRAID_LIMIT:-600}
if [ -z "${STEADYRAID_BOUNDED:-}" ]; then
    STEADYRAID_BOUNDED=1 exec timeout --kill-after=60 "$limit" "$0" "$@"
fi

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
PATH=$PATH:/usr/sbin:/sbin
program=$(realpath -m "${CARGO_TARGET_DIR:-$root/target}/release")/steadyraid-eval
experiments=("$@")
[ $# -gt 0 ] || experiments=(hybraid-table4 hybraid-fig16 ldm-fig10 fusionraid-fig4)
hosts=(one two)

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

[ -x "$program" ] || fail "build it first: cargo build --release -p eval"
"$root/scripts/setup.sh" parallel:parallel sshd:openssh-server ssh:openssh-client rsync:rsync

# --- A place to work, and its removal -----------------------------------------------------------

work=$(mktemp -d "${TMPDIR:-/tmp}/steadyraid.XXXXXX")
server=
privilege=/run/sshd # of a server that root starts; the package's own unit makes it otherwise
made_privilege=

finish() {
    local status=$?
    trap - EXIT INT TERM
    set +e
    if [ -n "$server" ]; then
        kill -TERM "$server" 2>/dev/null
        wait "$server" 2>/dev/null
    fi
    [ "$status" = 0 ] || tail -20 "$work/sshd.log" >&2
    [ -z "$made_privilege" ] || rmdir "$privilege"
    rm -rf "$work"
    exit "$status"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
cd "$work"

# --- Two hosts ------------------------------------------------------------------------------------

# One nobody listens on; another process may still take it, then the server says so and we end.
free_port() {
    local port
    while true; do
        port=$((20000 + RANDOM % 20000))
        (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || break
    done
    echo "$port"
}

# A key for each: whoever logs in by it is in that host's folder, whatever he runs.
make_host() { # NAME
    mkdir "$work/$1"
    ssh-keygen -q -t ed25519 -N '' -f "$work/$1.key"
    printf 'command="cd %s && exec sh -c \\"$SSH_ORIGINAL_COMMAND\\"",restrict %s\n' \
        "$work/$1" "$(cat "$work/$1.key.pub")" >>"$work/authorized_keys"
    cat >>"$work/ssh_config" <<END
Host $1
    HostName 127.0.0.1
    Port $port
    IdentityFile $work/$1.key
    IdentitiesOnly yes
    UserKnownHostsFile $work/known_hosts
    StrictHostKeyChecking yes
    BatchMode yes
    LogLevel ERROR
END
}

start_server() {
    ssh-keygen -q -t ed25519 -N '' -f "$work/host.key"
    printf '[127.0.0.1]:%s %s\n' "$port" "$(cat "$work/host.key.pub")" >"$work/known_hosts"
    cat >"$work/sshd_config" <<END
ListenAddress 127.0.0.1
Port $port
HostKey $work/host.key
AuthorizedKeysFile $work/authorized_keys
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
UsePAM no
PidFile none
END
    if [ "$(id -u)" = 0 ] && [ ! -d "$privilege" ]; then
        mkdir -m 755 "$privilege"
        made_privilege=yes
    fi
    "$(command -v sshd)" -D -e -f "$work/sshd_config" 2>"$work/sshd.log" &
    server=$!
    local end=$((SECONDS + 20))
    until ssh -F "$work/ssh_config" "${hosts[0]}" true 2>/dev/null; do
        kill -0 "$server" 2>/dev/null || fail "the ssh server ended"
        [ "$SECONDS" -lt "$end" ] || fail "the ssh server does not answer"
        sleep 0.1
    done
}

port=$(free_port)
for host in "${hosts[@]}"; do
    make_host "$host"
done
start_server
[ "$(ssh -F "$work/ssh_config" two pwd)" = "$work/two" ] || fail "a host is not in its folder"

# --- Spread, collected, reported ------------------------------------------------------------------

cells() {
    "$program" list --cells --quick "${experiments[@]}" | cut -f1
}

echo "$(cells | wc -l) cells on ${hosts[*]}"
cells | PARALLEL_SSH="ssh -F $work/ssh_config" HOME=$work \
    parallel --will-cite --sshlogin "$(printf '1/%s,' "${hosts[@]}" | sed 's/,$//')" \
    "$program" run --quick --cell {} --out results
mkdir -p spread/cells
for host in "${hosts[@]}"; do
    count=$(find "$work/$host/results/cells" -name '*.json' | wc -l)
    [ "$count" -gt 0 ] || fail "host $host ran nothing"
    echo "$host ran $count"
    rsync -a -e "ssh -F $work/ssh_config" "$host:results/cells/" spread/cells/
done
"$program" report spread --quick "${experiments[@]}" >/dev/null

# --- The same as of one run -----------------------------------------------------------------------

"$program" run --quick --out here "${experiments[@]}" >/dev/null 2>here.log || fail "$(cat here.log)"
"$program" compare here spread
for file in results.json results.md report.html; do
    cmp "here/$file" "spread/$file"
done
diff -r here/pictures spread/pictures
echo "the results of ${hosts[*]} are those of one run"

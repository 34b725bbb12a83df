# Sourced after lib.sh: the volume as a block device of the kernel, and PostgreSQL on it.
#
# The kernel gets its block device by way of nbdfuse (export as a file) and a loop device with
# direct I/O. Needs root. `scale` is pgbench's.
set -euo pipefail

branches_sum_query="select (select sum(abalance) from pgbench_accounts)
    || ' ' || (select sum(bbalance) from pgbench_branches)
    || ' ' || (select sum(tbalance) from pgbench_tellers)
    || ' ' || (select coalesce(sum(delta), 0) from pgbench_history)"

node=$work/node
mount_point=$work/mnt
data=$mount_point/pg
database_socket=$work/postgres
fuse=
loop=

[ "$(id -u)" = 0 ] || fail "loop devices and mounts need root"

# --- The block device ------------------------------------------------------------------------

node_has_size() {
    [ "$(stat -c %s "$node/nbd" 2>/dev/null || echo 0)" -gt 0 ]
}

attach() {
    mkdir -p "$node"
    touch "$node/nbd"
    nbdfuse "$node/nbd" "$uri" 2>>"$work/nbdfuse.log" &
    fuse=$!
    wait_until 20 node_has_size || fail "nbdfuse: $(cat "$work/nbdfuse.log")"
    loop=$(losetup --direct-io=on --show --find "$node/nbd")
}

loop_is_free() {
    ! losetup "$loop" >/dev/null 2>&1
}

# Bears a dead server, and having been called before.
detach() {
    if [ -n "$loop" ]; then
        losetup --detach "$loop" 2>/dev/null || true
        wait_until 20 loop_is_free || echo "warning: $loop stays busy" >&2
        loop=
    fi
    if [ -n "$fuse" ]; then
        wait_until 10 umount "$node/nbd" 2>/dev/null || umount --lazy "$node/nbd" || true
        kill "$fuse" 2>/dev/null || true
        wait "$fuse" 2>/dev/null || true
        fuse=
    fi
}
defer detach

release_mount() {
    ! mountpoint -q "$mount_point" || umount "$mount_point" 2>/dev/null ||
        umount --lazy "$mount_point"
}
defer release_mount

# --- PostgreSQL ------------------------------------------------------------------------------

binaries=$(compgen -G '/usr/lib/postgresql/*/bin' | sort -V | tail -1)
postmaster=

as_postgres() {
    runuser -u postgres -- env -C / "$@"
}

sql() {
    as_postgres "$binaries/psql" -X -h "$database_socket" -qAt -v ON_ERROR_STOP=1 "$@"
}

answers() {
    sql -c 'select 1' >/dev/null 2>&1
}

start_postgres() {
    as_postgres "$binaries/postgres" -D "$data" -k "$database_socket" -c listen_addresses= \
        -c shared_buffers=32MB -c checkpoint_timeout=30s >>"$work/postgres.log" 2>&1 &
    wait_until 60 answers || fail "PostgreSQL: $(tail -5 "$work/postgres.log")"
    postmaster=$(head -1 "$data/postmaster.pid")
}

# Every process that works in the data directory.
postgres_processes() {
    local pid
    for pid in $(pgrep -u postgres -f '^postgres: |/postgres -D'); do
        [ "$(readlink "/proc/$pid/cwd" 2>/dev/null)" != "$data" ] || echo "$pid"
    done
}

none_left() {
    local pids
    pids=$(postgres_processes)
    [ -n "$pids" ] || return 0
    # shellcheck disable=SC2086
    kill -KILL $pids 2>/dev/null || true
    return 1
}

# The postmaster goes first, so that it can't fork any more: a backend that outlives the others
# waits for ever for a lock that one of them held.
kill_postgres() {
    [ -n "$postmaster" ] || return 0
    # It may have ended by itself: PostgreSQL panics when its disk is gone.
    kill -KILL "$postmaster" 2>/dev/null || true
    wait_until 30 gone "$postmaster" || echo "warning: PostgreSQL's postmaster stays" >&2
    wait_until 30 none_left || echo "warning: PostgreSQL stays: $(postgres_processes)" >&2
    postmaster=
}
defer kill_postgres

stop_postgres() {
    as_postgres "$binaries/pg_ctl" -D "$data" -m fast -w stop >/dev/null
    postmaster=
}

create_database() {
    mkdir "$data" "$database_socket"
    chown postgres "$data" "$database_socket"
    as_postgres "$binaries/initdb" -D "$data" --auth=trust >"$work/initdb.log"
    start_postgres
    as_postgres "$binaries/pgbench" -h "$database_socket" -i -q -s "$scale" postgres 2>"$work/pgbench.log"
    sql -c 'create table acked (id bigserial primary key)'
}

# What pgbench moved about adds up.
check_sums() {
    local found sums
    sums=$(sql -c "$branches_sum_query")
    [ "$(tr ' ' '\n' <<<"$sums" | sort -u | wc -l)" = 1 ] || fail "the sums differ: $sums"
    found=$(sql -c 'select count(*) from pgbench_history')
    [ "$found" -gt 0 ] || fail "pgbench did nothing"
    echo "balances agree (${sums%% *}) after $found transactions"
    as_postgres "$binaries/pg_amcheck" -h "$database_socket" --heapallindexed -d postgres \
        --install-missing >"$work/amcheck.log" 2>&1 || fail "amcheck: $(cat "$work/amcheck.log")"
}

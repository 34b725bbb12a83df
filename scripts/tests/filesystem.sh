#!/usr/bin/env bash
# ext4 and PostgreSQL on a volume; the server and PostgreSQL die together under load, come back,
# and no transaction that was acknowledged is missing. Then XFS on the same volume.
#
# The kernel gets its block device by way of nbdfuse (export as a file) and a loop device with
# direct I/O. Needs root.
#
#   scripts/tests/filesystem.sh [CRASHES]
set -euo pipefail
limit=${STEADYRAID_LIMIT:-600}
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh" "$@"

crashes=${1:-2}
load_seconds=8
scale=5
branches_sum_query="select (select sum(abalance) from pgbench_accounts)
    || ' ' || (select sum(bbalance) from pgbench_branches)
    || ' ' || (select sum(tbalance) from pgbench_tellers)
    || ' ' || (select coalesce(sum(delta), 0) from pgbench_history)"

node=$work/node
mount_point=$work/mnt
data=$mount_point/pg
database_socket=$work/postgres
acked=$work/acked.txt
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

# Writes down each row that PostgreSQL said is committed.
insert_until_it_fails() {
    local id
    while id=$(sql -c 'insert into acked default values returning id' 2>/dev/null); do
        echo "$id" >>"$acked"
    done
}

crash_under_load() {
    local bench inserter rows
    rows=$(wc -l <"$acked")
    as_postgres "$binaries/pgbench" -h "$database_socket" --no-vacuum -c 4 -T 60 postgres >"$work/pgbench.log" 2>&1 &
    bench=$!
    insert_until_it_fails &
    inserter=$!
    sleep "$load_seconds"
    kill_server
    # nbdfuse has nobody to talk to, and sometimes never says so to the kernel.
    kill -KILL "$fuse"
    kill_postgres
    wait_until 30 gone "$bench" || fail "pgbench outlives PostgreSQL"
    wait_until 30 gone "$inserter" || fail "psql outlives PostgreSQL"
    wait "$bench" "$inserter" || true
    rows=$(($(wc -l <"$acked") - rows))
    echo "killed; $rows rows were acknowledged meanwhile"
    [ "$rows" -gt 20 ] || fail "too few to prove anything"
}

check_database() {
    local found sums
    sums=$(sql -c "$branches_sum_query")
    [ "$(tr ' ' '\n' <<<"$sums" | sort -u | wc -l)" = 1 ] || fail "the sums differ: $sums"
    [ "$(sql -c 'select count(*) from pgbench_history')" -gt 0 ] || fail "pgbench did nothing"
    sql -c 'select id from acked' | sort >"$work/found.txt"
    sort "$acked" | comm -23 - "$work/found.txt" >"$work/lost.txt"
    [ ! -s "$work/lost.txt" ] || fail "lost acknowledged rows: $(xargs <"$work/lost.txt")"
    found=$(sql -c 'select count(*) from pgbench_history')
    echo "balances agree (${sums%% *}) after $found transactions; no acknowledged row is lost"
    as_postgres "$binaries/pg_amcheck" -h "$database_socket" --heapallindexed -d postgres \
        --install-missing >"$work/amcheck.log" 2>&1 || fail "amcheck: $(cat "$work/amcheck.log")"
}

# --- The tests -------------------------------------------------------------------------------

check_ext4() {
    local crash
    step "ext4 and PostgreSQL, $crashes crashes of server and database together"
    attach
    mkfs.ext4 -q -F "$loop"
    mkdir -p "$mount_point"
    mount "$loop" "$mount_point"
    : >"$acked"
    create_database
    for crash in $(seq "$crashes"); do
        echo "crash $crash:"
        crash_under_load
        release_mount
        detach
        start_server
        attach
        mount "$loop" "$mount_point"
        start_postgres
        check_database
    done
    stop_postgres
    umount "$mount_point"
    e2fsck -f -n "$loop" >"$work/fsck.txt" 2>&1 || fail "e2fsck: $(cat "$work/fsck.txt")"
    echo "e2fsck: clean"
}

check_xfs() {
    step "XFS: files written, read back after a restart, xfs_repair"
    mkfs.xfs -q -f "$loop"
    mount "$loop" "$mount_point"
    mkdir "$mount_point/files"
    cp -r "$root/crates" "$mount_point/files"
    head -c 64M /dev/urandom >"$mount_point/files/random"
    (cd "$mount_point/files" && find . -type f -exec sha256sum {} +) >"$work/sums.txt"
    umount "$mount_point"
    detach
    stop_server
    start_server
    attach
    mount "$loop" "$mount_point"
    (cd "$mount_point/files" && sha256sum --quiet --check "$work/sums.txt") || fail "files differ"
    umount "$mount_point"
    xfs_repair -n "$loop" >"$work/fsck.txt" 2>&1 || fail "xfs_repair: $(cat "$work/fsck.txt")"
    detach
    echo "$(wc -l <"$work/sums.txt") files are as they were; xfs_repair: clean"
}

make_pool 13 160M 768M --width 7
start_server
check_ext4
check_xfs
stop_server

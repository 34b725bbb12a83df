#!/usr/bin/env bash
# ext4 and PostgreSQL on a volume; the server and PostgreSQL die together under load, come back,
# and no transaction that was acknowledged is missing. Then XFS on the same volume.
# Needs root.
#
#   scripts/tests/filesystem.sh [CRASHES]
set -euo pipefail
limit=${STEADYRAID_LIMIT:-600}
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh" "$@"

crashes=${1:-2}
load_seconds=8
scale=5
acked=$work/acked.txt
# shellcheck source=scripts/database.sh
source "$root/scripts/database.sh"

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
    check_sums
    sql -c 'select id from acked' | sort >"$work/found.txt"
    sort "$acked" | comm -23 - "$work/found.txt" >"$work/lost.txt"
    [ ! -s "$work/lost.txt" ] || fail "lost acknowledged rows: $(xargs <"$work/lost.txt")"
    echo "no acknowledged row is lost"
}

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

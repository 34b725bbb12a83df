#!/usr/bin/env bash
# The package in a clean root of Debian, by the commands of the book and nothing else: installed, a
# pool, a volume, ext4, PostgreSQL under pgbench, a drive pulled, the alert received, the drive
# replaced, all healthy; then purged, with nothing left behind. Needs root.
#
# The drives are loop devices, and pulling one is to make it have no bytes any more. No systemd
# runs in a chroot: `systemctl` there is a script that starts the unit's command as the unit's user.
#
#   scripts/tests/package.sh [PACKAGE.deb]     one that is there, instead of building it
set -euo pipefail
limit=${STEADYRAID_LIMIT:-1800}
if [ -z "${STEADYRAID_BOUNDED:-}" ]; then
    STEADYRAID_BOUNDED=1 exec timeout --kill-after=60 "$limit" "$0" "$@"
fi

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
package=${1:+$(realpath -m "$1")}
PATH=$PATH:/usr/sbin:/sbin

step() {
    printf '\n== %s\n' "$*"
}

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

[ "$(id -u)" = 0 ] || fail "a clean root and loop devices need root"
"$root/scripts/setup.sh" debootstrap:debootstrap unshare:util-linux losetup:mount

work=$(mktemp -d "${TMPDIR:-/tmp}/steadyraid.XXXXXX")
chmod 755 "$work"
clean=$work/root
shelf=$work/shelf
loops=()
inside=

loop_is_free() { # DEVICE
    ! losetup "$1" >/dev/null 2>&1
}

finish() {
    local status=$? loop
    trap - EXIT INT TERM
    set +e
    # Its end is that of all processes and mounts inside.
    [ -z "$inside" ] || { kill -KILL "$inside"; wait "$inside"; } 2>/dev/null
    [ ! -s "$shelf/loop" ] || loops+=("$(cat "$shelf/loop")")
    for loop in "${loops[@]}"; do
        losetup --detach "$loop"
        for _ in $(seq 50); do loop_is_free "$loop" && break || sleep 0.1; done
    done
    rm -rf --one-file-system "$work"
    exit "$status"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# --- The clean root ---------------------------------------------------------------------------

mirror() {
    apt-get indextargets --format '$(SITE)' 'Created-By: Packages' | grep -m 1 /debian
}

make_root() {
    local codename
    codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
    debootstrap --variant=minbase "$codename" "$clean" "$(mirror)" >"$work/debootstrap.log" 2>&1 ||
        fail "debootstrap: $(tail -5 "$work/debootstrap.log")"
    cp /etc/resolv.conf "$clean/etc/resolv.conf"
    # Packages start nothing there.
    printf '#!/bin/sh\nexit 101\n' >"$clean/usr/sbin/policy-rc.d"
    chmod 755 "$clean/usr/sbin/policy-rc.d"
}

make_drives() {
    local name
    mkdir "$shelf"
    for name in A B C D E F G; do
        truncate -s 400M "$shelf/$name"
        loops+=("$(losetup --find --show --direct-io=on "$shelf/$name")")
    done
}

# --- Stand-ins for what a chroot has not --------------------------------------------------------

# No systemd: the unit's command, environment, runtime directory and user, by hand.
cat >"$work/systemctl" <<'END'
#!/bin/bash
set -euo pipefail
unit=/usr/lib/systemd/system/steadyraid.service
of() { sed -n "s/^$1=//p" "$unit"; }
directory=/run/$(of RuntimeDirectory)
start() {
    local user groups command variables
    user=$(of User) groups=$(of Group),$(of SupplementaryGroups)
    install -d -m "$(of RuntimeDirectoryMode)" -o "$user" -g "$(of Group)" "$directory"
    read -ra command <<<"$(of ExecStart)"
    mapfile -t variables < <(of Environment)
    env "${variables[@]}" setpriv --reuid "$user" --regid "$(of Group)" --groups "$groups" \
        --no-new-privs --inh-caps=-all --bounding-set=-all "${command[@]}" \
        >/var/log/server.out 2>&1 </dev/null &
    echo $! >/run/server.pid
    for _ in $(seq 300); do
        grep -qx ready /var/log/server.out && return
        [ -d "/proc/$(cat /run/server.pid)" ] || break
        sleep 0.1
    done
    cat /var/log/server.out
    exit 1
}
stop() {
    kill "$(cat /run/server.pid)"
    for _ in $(seq 600); do
        ! grep -qs '^State:[[:space:]]*[^ZX[:space:]]' "/proc/$(cat /run/server.pid)/status" && break
        sleep 0.1
    done
    grep -qx stopped /var/log/server.out
    rm -rf "$directory" /run/server.pid
}
case "$*" in
'enable --now steadyraid') start ;;
'restart steadyraid') stop; start ;;
'disable --now steadyraid') stop ;;
*) echo "systemctl stand-in: '$*'?" >&2; exit 1 ;;
esac
END

# What is done by hand on the page: the drive has no bytes any more.
cat >"$work/doc_by_hand" <<'END'
#!/bin/bash
set -euo pipefail
[ "$1" = pull ] || { echo "what is it to $1?" >&2; exit 1; }
device=$(readlink -f "/dev/disk/by-id/$2")
# A write that comes between the two makes the file longer again.
for _ in $(seq 100); do
    truncate -s 0 "/shelf/${2#nvme-}"
    losetup --set-capacity "$device"
    [ "$(blockdev --getsize64 "$device")" != 0 ] || exit 0
done
echo "$device keeps $(blockdev --getsize64 "$device") bytes"
exit 1
END

# The page's own loop device, for the case that it does not come to its end: its backing file has no
# name outside.
cat >"$work/losetup" <<'END'
#!/bin/bash
set -euo pipefail
case $1 in
--detach) /usr/sbin/losetup "$@" && rm -f /shelf/loop ;;
--find) /usr/sbin/losetup "$@" | tee /shelf/loop ;;
*) exec /usr/sbin/losetup "$@" ;;
esac
END

# --- Inside -----------------------------------------------------------------------------------

# Runs in a mount and process namespace of its own: what it leaves running or mounted ends with it.
cat >"$work/inside" <<'END'
set -euo pipefail
clean=$1 shelf=$2
shift 2
mount --make-rprivate /
mount -t proc proc "$clean/proc"
mount -t sysfs -o ro sysfs "$clean/sys"
mount -t tmpfs -o mode=755 tmpfs "$clean/run"
mount -t tmpfs -o mode=755 tmpfs "$clean/dev"
mkdir -p "$clean"/dev/{shm,pts,disk/by-id} "$clean/shelf"
mount -t tmpfs -o mode=1777 tmpfs "$clean/dev/shm"
mount --bind "$shelf" "$clean/shelf"
node() { mknod -m "$1" "$clean/dev/$2" "$3" "$4" "$5"; }
node 666 null c 1 3; node 666 zero c 1 5; node 666 full c 1 7
node 666 random c 1 8; node 666 urandom c 1 9; node 666 tty c 5 0
node 600 loop-control c 10 237; node 600 fuse c 10 229
ln -s /proc/self/fd "$clean/dev/fd"
ln -s /proc/self/fd/0 "$clean/dev/stdin"
ln -s /proc/self/fd/1 "$clean/dev/stdout"
ln -s /proc/self/fd/2 "$clean/dev/stderr"
for number in $(seq 0 63); do node 660 "loop$number" b 7 "$number"; done
chroot "$clean" chgrp disk $(seq -f /dev/loop%g 0 63)
for name in A B C D E F G; do
    ln -s "../../$(basename "$1")" "$clean/dev/disk/by-id/nvme-$name"
    shift
done
cd /
exec env -i HOME=/root DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 \
    ${http_proxy:+http_proxy="$http_proxy"} \
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    chroot "$clean" /bin/bash -c 'cd /install
    bash pages.sh && exit
    echo "--- the server, its pool, its events, what the webhook got:"
    tail -20 /var/log/server.out
    steadyraid status | head -40
    steadyraid events | tail -20
    tail -5 alerts.log
    exit 1' >&2
END

# --- Checks ------------------------------------------------------------------------------------

# What stands between the pages: done when the package is installed, before it is used.
check_unit='
for unit in /usr/lib/systemd/system/steadyraid*.service; do
    systemd-analyze verify --man=no "$unit"
    systemd-analyze security --offline=true --threshold=30 --no-pager "$unit" | tail -1
done
[ -e /usr/share/man/man1/steadyraid-drive-replace.1.gz ]
! getent passwd steadyraid | grep -q "/bin/bash"
[ ! -e /run/steadyraid ]
bash -c ". /usr/share/bash-completion/completions/steadyraid && complete -p steadyraid"
'

write_pages() {
    local pages=$clean/install/pages.sh
    {
        "$root/scripts/doc_commands.sh" "$root"/docs/{installing,database,removing}.md
        # After the first command of the first page, which is to install it.
    } | awk -v check="$check_unit" '
        { print }
        /^} >"\$doc_out"/ && !done {
            print "doc_at=\"what was installed\"; echo \"$doc_at\"; {" check "} >\"$doc_out\" 2>&1"
            print "cat \"$doc_out\""
            done = 1
        }' >"$pages"
    grep -q 'what was installed' "$pages" || fail "the pages have no commands"
}

nothing_is_left() {
    local left
    # By names inside: the root's own path has the word.
    left=$(cd "$clean" && find . -xdev -ipath '*steadyraid*' -not -path './install/*')
    [ -z "$left" ] || fail "left behind: $left"
    ! grep -q steadyraid "$clean"/etc/{passwd,group,shadow,gshadow} || fail "the user stays"
    ! grep -qx 'Package: steadyraid' "$clean/var/lib/dpkg/status" || fail "dpkg still knows it"
}

step "The package"
if [ -z "${1:-}" ]; then
    "$root/scripts/package.sh" "$work/built"
    package=$(compgen -G "$work/built/*.deb")
fi
[ -f "$package" ] || fail "$package: no such package"
step "A clean root"
make_root
make_drives
mkdir "$clean/install"
cp "$package" "$clean/install"
install -m 755 "$work"/{systemctl,doc_by_hand,losetup} "$clean/usr/local/bin"
write_pages
step "The commands of the book"
unshare --mount --pid --fork --kill-child bash "$work/inside" "$clean" "$shelf" "${loops[@]}" &
inside=$!
wait "$inside" || { inside=; fail "the pages: see above"; }
inside=
step "Purged: what is left?"
nothing_is_left
echo "nothing"

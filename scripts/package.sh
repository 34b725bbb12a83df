#!/usr/bin/env bash
# Builds the Debian package, with dpkg-deb alone: the program (profile `dist`), the unit and its
# user, a configuration to fill in, manual pages and completions that the program writes itself,
# the book, alert rules and a dashboard.
#
#   scripts/package.sh [DIRECTORY]       the package goes there; target/debian if not said
#
# STEADYRAID=PATH packages that program instead of building one.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
target=$(realpath -m "${CARGO_TARGET_DIR:-$root/target}")
out=$(realpath -m "${1:-$target/debian}")
"$root/scripts/setup.sh" dpkg-deb:dpkg dpkg-shlibdeps:dpkg-dev gzip:gzip
cd "$root"

if [ -z "${STEADYRAID:-}" ]; then
    cargo build --locked --profile dist --workspace --bin steadyraid
    STEADYRAID=$target/dist/steadyraid
fi
STEADYRAID=$(realpath "$STEADYRAID")
umask 022
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
tree=$work/tree
share=$tree/usr/share
doc=$share/doc/steadyraid

# The same sources make the same bytes.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
export SOURCE_DATE_EPOCH

put() { # MODE FILE WHERE
    install -D -m "$1" "$2" "$tree/$3"
}

fill() {
    put 755 "$STEADYRAID" usr/bin/steadyraid
    strip --strip-debug "$tree/usr/bin/steadyraid"
    for unit in packaging/systemd/*.service; do
        put 644 "$unit" "usr/lib/systemd/system/$(basename "$unit")"
    done
    put 644 packaging/sysusers.conf usr/lib/sysusers.d/steadyraid.conf
    put 644 packaging/steadyraid.toml etc/steadyraid/steadyraid.toml
    put 644 packaging/prometheus/alerts.yml usr/share/steadyraid/prometheus/alerts.yml
    put 644 packaging/grafana/steadyraid.json usr/share/steadyraid/grafana/steadyraid.json
    "$STEADYRAID" generate "$share"
    find "$share/man" -type f -exec gzip -9n {} +
    for page in README.md ARCHITECTURE.md DRIVES.md docs/*.md; do
        put 644 "$page" "usr/share/doc/steadyraid/$page"
    done
    mkdir -p "$doc/docs/pictures"
    install -m 644 docs/pictures/* "$doc/docs/pictures"
    put 644 CHANGELOG.md usr/share/doc/steadyraid/changelog
    gzip -9n "$doc/changelog"
    cat LICENSE-MIT - LICENSE-APACHE >"$doc/copyright" <<<$'\nOr, at your option:\n'
    find "$tree" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
}

# The libraries that the program was linked against, in the versions it needs.
depends() {
    mkdir -p "$work/debian"
    printf 'Source: steadyraid\n\nPackage: steadyraid\nArchitecture: any\n' >"$work/debian/control"
    (cd "$work" && dpkg-shlibdeps -O tree/usr/bin/steadyraid) | sed -n 's/^shlibs:Depends=//p'
}

control() { # FILE
    local version architecture size depends
    version=$("$STEADYRAID" --version | cut -d' ' -f2)
    architecture=$(dpkg --print-architecture)
    size=$(du -sk --apparent-size "$tree" | cut -f1)
    depends=$(depends)
    [ -n "$depends" ] || depends=libc6
    sed "s/@VERSION@/$version/; s/@ARCHITECTURE@/$architecture/; s/@SIZE@/$size/;
        s/@DEPENDS@/$depends/" packaging/debian/control.in >"$1"
}

fill
mkdir "$work/DEBIAN"
control "$work/DEBIAN/control"
echo /etc/steadyraid/steadyraid.toml >"$work/DEBIAN/conffiles"
install -m 755 packaging/debian/{postinst,prerm,postrm} "$work/DEBIAN"
(cd "$tree" && find usr -type f -exec md5sum {} + | LC_ALL=C sort -k2) >"$work/DEBIAN/md5sums"
mv "$work/DEBIAN" "$tree/DEBIAN"
chmod 644 "$tree"/DEBIAN/{control,conffiles,md5sums}
mkdir -p "$out"
dpkg-deb --root-owner-group -Zxz --build "$tree" "$out"

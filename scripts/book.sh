#!/usr/bin/env bash
# Makes the book of docs/ and the pages beside it: target/book/index.html. Needs mdBook; without it
# cargo builds it for this once.
#
#   scripts/book.sh [DIRECTORY]
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
target=$(realpath -m "${CARGO_TARGET_DIR:-$root/target}")
out=$(realpath -m "${1:-$target/book}")
version=0.5.4
PATH=$PATH:$target/tools/bin
command -v mdbook >/dev/null ||
    cargo install mdbook --locked --version "$version" --no-default-features --root "$target/tools"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/src"
cp -r "$root"/docs/. "$root"/*.md "$work/src"
mv "$work/src/book.toml" "$work"
# All pages are in one directory there, and the sources are not; the table of contents is no page.
sed -i -E 's#\]\(\.\./([A-Za-z-]+\.md)#](\1#g; s#\]\(docs/#](#g
    s#\[([^]]*)\]\(SUMMARY\.md\)#\1#g
    s#\[([^]]*)\]\((\.\./)?(crates|scripts|packaging)/[^)]*\)#\1#g' "$work"/src/*.md
mdbook build --dest-dir "$out" "$work"

# A link to nothing is a defect.
broken=0
while IFS=$'\t' read -r page link; do
    link=${link%%#*}
    [ -z "$link" ] || [ -e "$out/$link" ] || {
        echo "book: $page links to $link, which is not in the book" >&2
        broken=1
    }
done < <(cd "$out" && grep -oHE '(href|src)="[^":]+"' ./*.html |
    sed -E 's/^\.\/([^:]*):(href|src)="([^"]*)"/\1\t\3/' | sort -u)
[ "$broken" = 0 ]
echo "book: $(find "$out" -maxdepth 1 -name '*.html' | wc -l) pages in $out"

#!/usr/bin/env bash
# Does what the book says: every command of these pages, in their order, with what they print held
# against the page. Those that take a machine of their own are run by scripts/tests/package.sh; that no
# page is left out is seen by `xtask tidy`.
#
#   scripts/tests/docs.sh [PAGE.md...]
set -euo pipefail
limit=400
"$(dirname "${BASH_SOURCE[0]}")/../setup.sh" openssl:openssl nbdinfo:libnbd-bin qemu-img:qemu-utils \
    fio:fio curl:curl
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh" "$@"

pages=("$@")
[ $# -gt 0 ] || pages=("$root"/docs/{quick-start,operating,remote,api,testing,simulator,traces,experiments}.md)
mkdir "$work/bin"
ln -s "$steadyraid" "$work/bin/steadyraid"
for tool in steadyraid-sim steadyraid-eval; do
    [ -x "$built/$tool" ] || fail "build it first: make build"
    ln -s "$built/$tool" "$work/bin/$tool"
done

run_page() { # PAGE
    local here=$work/$1.d
    mkdir "$here"
    "$root/scripts/doc_commands.sh" "$2" >"$here.sh" || return
    (cd "$here" && PATH=$work/bin:$PATH bash "$here.sh")
}

# A test that can't fail is not a test.
must_fail() { # WHY SAYS
    cat >"$work/bad.md"
    rm -rf "$work"/bad.d*
    ! run_page bad "$work/bad.md" >"$work/bad.log" 2>&1 || fail "not noticed: $1"
    grep -qF -- "$2" "$work/bad.log" || fail "$1, but: $(cat "$work/bad.log")"
}

step "What is wrong on a page is noticed"
must_fail 'a command fails' 'bad.md:1: exit code 1' <<'END'
```sh
false
echo on
```
END
must_fail 'other output' 'the page says:' <<'END'
```console
$ echo one two
one ... three
```
END
must_fail 'output that the page does not end with' 'the page says:' <<'END'
```console
$ printf 'a\nb\n'
a
```
END
must_fail 'a command hides in a text' 'a command that is not run' <<'END'
```text
steadyraid status
```
END
must_fail 'a command is excused too late' 'a command that is not run' <<'END'
```text
steadyraid-sim world
# Not run with this page: it takes long
```
END
must_fail 'a block that nobody runs' 'a block needs to be' <<'END'
```
steadyraid status
```
END
must_fail 'a page without commands' '0 commands' <<'END'
Nothing.
END
echo ok

for page in "${pages[@]}"; do
    step "$(basename "$page")"
    rm -rf "$work/page.d"
    run_page page "$page" || fail "$(basename "$page"): see above"
done

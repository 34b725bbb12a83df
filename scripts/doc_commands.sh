#!/usr/bin/env bash
# Makes a shell script of the commands in pages of the book, to be run in an empty directory:
#
#   scripts/doc_commands.sh PAGE.md... >script
#
# Blocks marked ```sh are commands. In blocks marked ```console those follow `$ `, go on after `> `,
# and what they print is below them: `...` stands for anything, also for whole lines, and blanks
# in a row are as good as one. What a hand has to do is <!-- by hand: WHAT -->: the command
# `doc_by_hand WHAT`, which the test has. All blocks run in one shell, which ends at the first one that fails
# or prints something else. Blocks marked ```text are not run, and must not be commands unless their
# first line says `# Not run with this page: WHY`; ```http are requests, which Rust tests send.
set -euo pipefail

[ $# -gt 0 ] || {
    echo "doc_commands: which pages?" >&2
    exit 2
}

cat <<'PRELUDE'
set -eEuo pipefail
doc_at= doc_out=$(mktemp) doc_blocks=0
exec 4>&2 # a command that fails does so with its output still in the file
doc_end() {
    local status=$?
    trap - ERR EXIT
    if [ "$status" != 0 ]; then
        { echo "FAILED: $doc_at: exit code $status; it printed:"; cat "$doc_out"; } >&4
    fi
    # shellcheck disable=SC2046  # one word each
    kill $(jobs -p) 2>/dev/null || true
    wait || true
    rm -f "$doc_out"
    exit "$status"
}
trap doc_end EXIT
doc_plain() { # TEXT: blanks in a row are one, none at ends of lines
    sed -E 's/[[:blank:]]+/ /g; s/^ //; s/ $//' <<<"$1"
}
doc_compare() { # EXPECTED
    local pattern printed character
    pattern=$(doc_plain "$1")
    printed=$(doc_plain "$(cat "$doc_out")")
    for character in '\' '*' '?' '[' ']' '(' ')' '|' '!' '+' '@'; do
        pattern=${pattern//"$character"/"\\$character"}
    done
    pattern=${pattern//.../*}
    # shellcheck disable=SC2053  # a pattern it is
    [[ $printed == $pattern ]] || {
        { echo "the page says:"; echo "$1"; } >>"$doc_out"
        return 1
    }
}
PRELUDE

awk '
    function command_begins() {
        printf "doc_at=%s:%d; echo \"$doc_at\"; doc_blocks=$((doc_blocks + 1))\n{\n", FILENAME, FNR
    }
    function ends() {
        if (state == "command") print "} >\"$doc_out\" 2>&1 </dev/null"
        if (state == "output") print "DOC_EXPECTED\n)\""
        state = ""
    }
    function refuse(why) {
        printf "doc_commands: %s:%d: %s\n", FILENAME, FNR, why > "/dev/stderr"
        failed = 1
        exit 1
    }
    /^```/ {
        if (block == "") {
            block = substr($0, 4)
            if (block !~ /^(sh|console|text|http|toml|ini|json|yaml)$/)
                refuse("a block needs to be sh, console, or what is not run")
            begins = FNR + 1
            excused = 0
            if (block == "sh") { command_begins(); state = "command" }
        } else {
            ends()
            block = ""
        }
        next
    }
    block == "" && /^<!-- by hand: .* -->$/ {
        command_begins()
        state = "command"
        print "doc_by_hand " substr($0, 15, length($0) - 18)
        ends()
    }
    block == "sh" { print }
    block == "console" && /^\$ / { ends(); command_begins(); state = "command"; print substr($0, 3); next }
    block == "console" && /^> / && state == "command" { print substr($0, 3); next }
    block == "console" {
        if (state == "command") {
            ends()
            state = "output"
            print "doc_compare \"$(cat <<'\''DOC_EXPECTED'\''"
        }
        if (state == "") refuse("output before any command")
        print
    }
    block == "text" && FNR == begins && /^# Not run with this page: ./ { excused = 1 }
    block == "text" && !excused && /^ *(\$ |steadyraid(-sim|-eval)? |cargo |curl |sudo |apt |systemctl )/ {
        refuse("a command that is not run")
    }
    END {
        if (!failed && block != "") refuse("a block does not end")
        if (!failed) print "echo \"$doc_blocks commands and blocks ran\"; [ \"$doc_blocks\" -gt 0 ]"
    }' "$@"

#!/usr/bin/env bash
# The console in a real browser: a pool of modelled drives, one of which collects garbage, under
# load, beside others; drives fail, the server stops and comes back. Needs Chromium and Node.js.
#
#   scripts/tests/console.sh [PICTURES]     keeps pictures of the page there: those of the book are
#                                           made by `scripts/tests/console.sh docs/pictures`
set -euo pipefail
limit=300
pictures=${1:+$(realpath -m "$1")} # before that goes elsewhere
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh" "$@"
pictures=${pictures:-$work/pictures}
mkdir -p "$pictures"

step "What it needs"
"$root/scripts/setup.sh" chromium:chromium node:nodejs npm:npm
cp "$root"/scripts/tests/console/{package.json,package-lock.json,look.mjs} .
npm ci --silent --no-audit --no-fund

step "A pool of eight modelled drives, one of which is small, old and collects garbage; two others"
export STEADYRAID_RUNTIME_DIR=$work
mkdir r5
(cd r5 && "$steadyraid" create r5 --scheme raid5 d0:64M d1:64M d2:64M d3:64M) >/dev/null
"$steadyraid" volume create r5/vm 64M --drives r5 >/dev/null

start() { # ADDRESS
    : >"$work/server.log"
    "$steadyraid" serve --http "$1" --nbd "unix:$socket" --control "$control" \
        --mem-pool gc:7:model:dc-nvme,size=5G:1:model:consumer-sata,size=5G,fill=aged:vm=2G \
        --mem-pool calm:4:256M:vm=64M r5 >>"$work/server.log" 2>&1 &
    server=$!
    wait_until 60 grep -q '^ready' server.log || fail "the server does not start"
}

stop() {
    kill "$server"
    wait "$server" || true
}

start 127.0.0.1:0
address=$(sed -n 's/^http //p' server.log)
url=http://$address

step "A load"
fio --name=r5 --ioengine=nbd --uri="nbd+unix:///r5/vm?socket=$socket" --rw=write --bs=256k \
    --size=32M --output="$work/r5.txt" >/dev/null 2>&1
fio --name=load --ioengine=nbd --uri="nbd+unix:///gc/vm?socket=$socket" --rw=randrw --rwmixread=50 \
    --bs=4k --iodepth=8 --size=2G --time_based --runtime=200 --output="$work/fio.txt" \
    >/dev/null 2>&1 &
load=$!
defer 'kill "$load" 2>/dev/null || true; wait "$load" 2>/dev/null || true'

drive() { # VERB POOL DRIVE...
    "$steadyraid" drive "$@" --control "$control" >/dev/null
}

step "Looking"
coproc look { node look.mjs "$url" "$pictures"; }
# The array goes with the process.
look_in=${look[1]} look_out=${look[0]} look_pid=$!
ok=
while IFS= read -r line <&"$look_out"; do
    echo "$line"
    case $line in
        'please let drive 4 sit out') drive sit-out gc 4 ;;
        'please let drive 4 be used') drive auto gc 4 ;;
        'please fail a drive of calm') drive fail calm 1 --force ;;
        'please fail a drive') drive fail gc 2 --force ;;
        'please stop the server') stop ;;
        'please start the server') start "$address" ;;
        'please fail another drive') drive fail gc 3 --force ;;
        ok) ok=1 ;;
    esac
    case $line in please*) echo done >&"$look_in" ;; esac
done
wait "$look_pid" || ok=
[ -n "$ok" ] || fail "the console is not as it should be"

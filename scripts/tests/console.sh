#!/usr/bin/env bash
# The console in a real browser: a pool of modelled drives, one of which collects garbage, under
# load; a drive fails, the server stops. Needs Chromium and Node.js.
#
#   scripts/tests/console.sh [PICTURES]     pictures of the page go there, docs/pictures if not said
set -euo pipefail
limit=300
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh" "$@"
pictures=$(realpath -m "${1:-$root/docs/pictures}")
mkdir -p "$pictures"

step "What it needs"
"$root/scripts/setup.sh" chromium:chromium node:nodejs npm:npm
cp "$root"/scripts/tests/console/{package.json,package-lock.json,look.mjs} .
npm ci --silent --no-audit --no-fund

step "A pool of eight modelled drives, one of which is small, old and collects garbage"
export STEADYRAID_RUNTIME_DIR=$work
"$steadyraid" serve --http 127.0.0.1:0 --nbd "unix:$socket" --control "$control" \
    --mem-pool gc:7:model:dc-nvme,size=5G:1:model:consumer-sata,size=5G,fill=aged:vm=2G \
    >"$work/server.log" 2>&1 &
server=$!
defer 'kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true'
wait_until 60 grep -q '^ready' server.log || fail "the server does not start"
url=http://$(sed -n 's/^http //p' server.log)

step "A load"
fio --name=load --ioengine=nbd --uri="nbd+unix:///gc/vm?socket=$socket" --rw=randrw --rwmixread=50 \
    --bs=4k --iodepth=8 --size=2G --time_based --runtime=200 --output="$work/fio.txt" \
    >/dev/null 2>&1 &
load=$!
defer 'kill "$load" 2>/dev/null || true; wait "$load" 2>/dev/null || true'

step "Looking"
coproc look { node look.mjs "$url" "$pictures"; }
# The array goes with the process.
look_in=${look[1]} look_out=${look[0]} look_pid=$!
ok=
while IFS= read -r line <&"$look_out"; do
    echo "$line"
    case $line in
        'please fail a drive') "$steadyraid" drive fail gc 2 --force --control "$control" >/dev/null ;;
        'please stop the server') kill "$server" ;;
        ok) ok=1 ;;
    esac
    case $line in please*) echo done >&"$look_in" ;; esac
done
wait "$look_pid" || ok=
[ -n "$ok" ] || fail "the console is not as it should be"

#!/usr/bin/env bash
# Storms over pools of every scheme: kills, stops, rot, stale and lost drives, rebuilds and scrubs
# in random sequences; after each, what was flushed must be there.
#
#   scripts/tests/storm.sh [RUNS [SEED [OPTIONS OF cargo xtask flush-check storm]]]
#
# A run of one scheme takes some ten seconds; more than five runs need a longer STEADYRAID_LIMIT
# (seconds).
set -euo pipefail
limit=${STEADYRAID_LIMIT:-1800}
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh" "$@"

runs=${1:-1}
seed=${2:-$((RANDOM << 15 | RANDOM))}
shift $(($# < 2 ? $# : 2))

step "canary: an older version in both copies must be noticed"
"$xtask" flush-check storm --binary "$steadyraid" --folder "$work" --canary >"$work/canary.txt" ||
    fail "it was not: $(cat "$work/canary.txt")"
echo "ok: it is noticed"

storms() { # WHAT [OPTIONS...]
    step "$1: $runs runs of each scheme, from seed $seed"
    shift
    "$xtask" flush-check storm --binary "$steadyraid" --folder "$work" --scheme all \
        --runs "$runs" --seed "$seed" "$@" || failed=1
}

failed=0
storms "within what each scheme bears" "$@"
storms "beyond it, errors and no wrong bytes" --beyond "$@"
[ "$failed" = 0 ] || fail "see above"

#!/usr/bin/env bash
# Storms over pools of every scheme: kills, stops, rot, stale and lost drives, rebuilds and scrubs
# in random sequences; after each, what was flushed must be there.
#
#   scripts/tests/storm.sh [RUNS [SEED [OPTIONS OF cargo xtask flush-check storm]]]
#
# For each ten there is one that goes beyond what the schemes bear. A run of one scheme takes some
# 15 seconds, with `--steps 4` some ten. Two cores do ten short ones of each scheme in seven minutes;
# more than twice as many need a longer STEADYRAID_LIMIT (seconds).
set -euo pipefail
limit=${STEADYRAID_LIMIT:-1800}
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh" "$@"

runs=${1:-1}
export seed=${2:-$((RANDOM << 15 | RANDOM))} xtask steadyraid work
shift $(($# < 2 ? $# : 2))

step "canary: an older version in both copies must be noticed"
"$xtask" flush-check storm --binary "$steadyraid" --folder "$work" --canary >"$work/canary.txt" ||
    fail "it was not: $(cat "$work/canary.txt")"
echo "ok: it is noticed"

# All runs of a scheme; what they say, if one fails.
storm() { # SCHEME RUNS [OPTIONS...]
    local said=$work/$1.txt
    if "$xtask" flush-check storm --binary "$steadyraid" --folder "$work" --scheme "$1" \
        --runs "$2" --seed "$seed" "${@:3}" >"$said" 2>&1; then
        grep --after-context=1 '^scheme ' "$said" | tail -1
        return
    fi
    cat "$said"
    return 1
}
export -f storm

# Storms wait most of the time: four at once for each core keep it busy.
storms() { # WHAT RUNS [OPTIONS...]
    step "$1: $2 runs of each scheme, from seed $seed"
    # The last ones take longest.
    "$xtask" flush-check storm --names | tac |
        xargs -P "$((4 * $(nproc)))" -I{} bash -c 'storm "$@"' storm {} "${@:2}" || failed=1
}

failed=0
storms "within what each scheme bears" "$runs" "$@"
[ "$runs" -lt 10 ] || storms "beyond it, errors and no wrong bytes" $((runs / 10)) --beyond "$@"
[ "$failed" = 0 ] || fail "see above"

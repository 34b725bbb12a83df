#!/usr/bin/env bash
# Metrics as a real Prometheus has them: it scrapes a pool at work and loads our alert rules; all
# that rules and dashboard ask for is there; a drive is pulled, and the right alerts fire. Needs
# root, for a loop device, and Prometheus from Debian's packages, which is run here and nowhere else.
set -euo pipefail
limit=${STEADYRAID_LIMIT:-300}
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh" "$@"

[ "$(id -u)" = 0 ] || fail "loop devices need root"

rules=$root/packaging/prometheus/alerts.yml
dashboard=$root/packaging/grafana/steadyraid.json
# Files; the last drive is a loop device, whose health a program in smartctl's place tells.
files=5
pulled=$files

install_prometheus() {
    step "What it needs"
    # The package would start a server of its own for the whole machine.
    local policy=/usr/sbin/policy-rc.d
    if ! command -v prometheus >/dev/null && [ ! -e "$policy" ]; then
        defer "rm -f $policy"
        printf '#!/bin/sh\nexit 101\n' >"$policy"
        chmod 755 "$policy"
    fi
    "$root/scripts/setup.sh" prometheus:prometheus promtool:prometheus python3:python3 \
        curl:curl losetup:mount fio:fio nbdinfo:libnbd-bin jq:jq
}

make_pool_with_loop() {
    local number list=()
    truncate -s 1G "$work/backing.img"
    loop=$(losetup --find --show "$work/backing.img")
    defer 'losetup --detach "$loop" 2>/dev/null || true'
    mkdir "$drives"
    for number in $(seq 1 $files); do
        list+=("$drives/drive$number.img:1G")
    done
    "$steadyraid" create tank "${list[@]}" "$loop"
    "$steadyraid" volume create "$export_name" 256M --drives "$drives" --drives "$loop"
    "$steadyraid" volume create tank/idle 64M --drives "$drives" --drives "$loop"
}

# What the drive behind the loop device would say if there were one.
fake_smartctl() {
    mkdir "$work/bin"
    cat >"$work/bin/smartctl" <<END
#!/bin/sh
echo "\$@" >>'$work/smartctl.log'
cat '$root/crates/app/src/serve/smart/nvme.json'
END
    chmod 755 "$work/bin/smartctl"
    PATH=$work/bin:$PATH
}

serve_command() {
    printf '%s\n' "$steadyraid" serve --http 127.0.0.1:0 --nbd "unix:$socket" \
        --nbd tcp:127.0.0.1:0 --allow 10.0.0.0/8 \
        --control "$control" "$drives" "$loop" --mem-pool spare:4:128M:vm=16M
}

start_load() { # SECONDS
    fio --name=load --ioengine=nbd --uri="$uri" --rw=randrw --rwmixread=50 --bs=4k --iodepth=8 \
        --fsync=32 --size=256M --time_based --runtime="$1" --output="$work/fio.txt" \
        >/dev/null 2>&1 &
    load=$!
    defer "kill $load 2>/dev/null || true; wait $load 2>/dev/null || true"
}

start_prometheus() {
    # The same rules; nobody here has a minute.
    sed 's/for: .*/for: 2s/' "$rules" >"$work/alerts.yml"
    cat >"$work/prometheus.yml" <<END
global: { scrape_interval: 1s, evaluation_interval: 1s }
rule_files: ['$work/alerts.yml']
scrape_configs:
  - job_name: steadyraid
    static_configs: [{ targets: ['$metrics'] }]
END
    promtool check config "$work/prometheus.yml" >/dev/null
    local free='import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
    prometheus=127.0.0.1:$(python3 -c "$free")
    command prometheus --config.file="$work/prometheus.yml" --storage.tsdb.path="$work/tsdb" \
        --web.listen-address="$prometheus" >"$work/prometheus.log" 2>&1 &
    prometheus_pid=$!
    defer 'kill "$prometheus_pid" 2>/dev/null || true; wait "$prometheus_pid" 2>/dev/null || true'
    wait_until 30 curl -sf "http://$prometheus/-/ready" -o /dev/null ||
        fail "Prometheus does not start: $(tail -3 "$work/prometheus.log")"
}

query() { # EXPRESSION
    curl -sf --max-time 20 --data-urlencode "query=$1" "http://$prometheus/api/v1/query"
}

has_series() { # EXPRESSION
    query "$1" | jq -e '.data.result | length > 0' >/dev/null
}

value() { # EXPRESSION
    query "$1" | jq -r '.data.result[0].value[1]'
}

is() { # EXPRESSION NUMBER
    local found
    found=$(value "$1")
    [ "$found" = "$2" ] || fail "$1 is $found, and should be $2"
}

alerts() {
    curl -sf --max-time 20 "http://$prometheus/api/v1/alerts" | jq -c '.data.alerts[]'
}

# The summary of an alert that fires.
fires() { # ALERT
    alerts | jq -r --arg name "$1" 'select(.labels.alertname == $name and .state == "firing")
        | "\($name): \(.annotations.summary)"' | grep .
}

# --- Checks ------------------------------------------------------------------------------------

check_formats() {
    step "promtool: rules, and the metrics as text"
    promtool check rules "$rules"
    curl -sf "http://$metrics/metrics" >metrics.txt
    promtool check metrics <metrics.txt >lint.txt 2>&1 || fail "$(cat lint.txt)"
    [ ! -s lint.txt ] || fail "$(cat lint.txt)"
    # The check can fail.
    ! printf '# TYPE wrong counter\nwrong 1\n' | promtool check metrics >/dev/null 2>&1 ||
        fail "promtool finds nothing wrong with anything"
    curl -sf -H 'accept: application/openmetrics-text; version=1.0.0' "http://$metrics/metrics" |
        tail -1 | grep -qx '# EOF' || fail "no OpenMetrics for who asks for it"
    echo "$(grep -c '^# TYPE' metrics.txt) families, $(grep -vc '^#' metrics.txt) samples"
}

# Each expression of the dashboard has a series, and each name in the rules: the rules themselves
# are empty as long as all is well.
check_expressions() {
    step "Every expression of dashboard and rules, asked of Prometheus"
    timeout 120 python3 - "$dashboard" "$rules" "http://$prometheus" <<'END'
import json, re, sys, time, urllib.parse, urllib.request

dashboard, rules, server = sys.argv[1:]
# No scrub was ever run.
EMPTY_WHEN_WELL = {"steadyraid_pool_scrub_progress_ratio"}

def ask(path, **arguments):
    query = urllib.parse.urlencode(arguments)
    with urllib.request.urlopen(f"{server}/api/v1/{path}?{query}", timeout=20) as answer:
        return json.load(answer)["data"]

def names(expression):
    return set(re.findall(r"\b(?:steadyraid|process)_\w+", expression))

def filled_in(expression):
    return expression.replace("$__rate_interval", "10s").replace("$pool", ".*")

panels = [(panel["title"], target["expr"]) for panel in json.load(open(dashboard))["panels"]
          for target in panel["targets"]]
loaded = [rule for group in ask("rules")["groups"] for rule in group["rules"]]
alerts = [rule["query"] for rule in loaded]
assert len(alerts) == open(rules).read().count("- alert:"), alerts
asked = set().union(*map(names, alerts))

def missing():
    for title, expression in panels:
        found = ask("query", query=filled_in(expression))["result"]
        if not found and not names(expression) & EMPTY_WHEN_WELL:
            yield title, expression
    yield from (("alerts.yml", name) for name in asked if not ask("query", query=name)["result"])

# Rates need some scrapes.
for _ in range(30):
    gone = list(missing())
    if not gone:
        break
    time.sleep(1)
assert not gone, f"nothing there: {gone}"
loaded = [rule for group in ask("rules")["groups"] for rule in group["rules"]]
assert all(rule["health"] == "ok" for rule in loaded), [(r["name"], r["health"]) for r in loaded]
wrong = [name for name in EMPTY_WHEN_WELL if ask("query", query=name)["result"]]
assert not wrong, f"they are there, and all is well: {wrong}"
firing = [alert["labels"] for alert in ask("alerts")["alerts"]]
assert not firing, f"alerts of a pool that is well: {firing}"
print(f"{len(panels)} expressions of panels, {len(alerts)} alerts that ask for {len(asked)} names")
END
}

check_values() {
    step "Numbers are what they say"
    is 'steadyraid_pool_surviving_copies{pool="tank"}' 2
    is 'steadyraid_pool_redundancy_margin{pool="tank"}' 1
    is "steadyraid_drive_temperature_celsius{drive=\"$pulled\",pool=\"tank\"}" 38
    is "steadyraid_drive_media_errors_total{drive=\"$pulled\",pool=\"tank\"}" 2
    # Files and memory have no health, and a drive is not asked with every scrape.
    is 'count(steadyraid_drive_temperature_celsius)' 1
    [ "$(cat smartctl.log)" = "--json --all --nocheck=standby $loop" ] || fail "$(cat smartctl.log)"
    has_series 'process_resident_memory_bytes > 1e6 < 1e10' || fail "memory"
    has_series 'time() - process_start_time_seconds < 300' || fail "the time of the start"
    # fio has eight requests under way, nobody else has any. A scrape may come when few are.
    wait_until 30 has_series \
        'max_over_time(steadyraid_volume_queue_depth{volume="vm1"}[30s]) >= 4 <= 16' ||
        fail "queue depth of a volume: $(query 'steadyraid_volume_queue_depth')"
    is 'max_over_time(steadyraid_volume_queue_depth{volume="idle"}[10s])' 0
    has_series 'sum(max_over_time(steadyraid_drive_queue_depth{pool="tank"}[10s])) > 1' ||
        fail "queue depth of drives"
    ! timeout 10 nbdinfo "nbd://127.0.0.1:$nbd_port/$export_name" >/dev/null 2>&1 ||
        fail "a client was let in whom no network allows"
    wait_until 10 has_series 'steadyraid_nbd_refused_total{reason="network"} > 0' ||
        fail "a refused client is not counted"
    echo ok
}

# What clients did, once nobody does any more.
check_sums() {
    step "Sums agree with what fio did"
    kill -INT "$load"
    wait "$load" || true
    wait_until 20 has_series 'steadyraid_nbd_clients == 0' || fail "fio is still there"
    local reads counted volume='volume="vm1",operation="read"'
    reads=$(sed -n 's/.*issued rwts: total=\([0-9]*\),.*/\1/p' fio.txt)
    [ -n "$reads" ] || fail "fio says nothing: $(tail -5 fio.txt)"
    counted=$(value "steadyraid_volume_operations_total{$volume}")
    # Some were on their way when it was told to stop.
    [ $((counted - reads)) -le 64 ] && [ $((reads - counted)) -le 64 ] ||
        fail "$counted reads counted, $reads by fio"
    is "steadyraid_volume_latency_seconds_count{$volume}" "$counted"
    is "steadyraid_volume_latency_seconds_bucket{$volume,le=\"+Inf\"}" "$counted"
    is "steadyraid_volume_bytes_total{$volume}" $((counted * 4096))
    is 'steadyraid_volume_queue_depth{volume="vm1"}' 0
    echo "$reads reads by fio, $counted counted"
}

check_pulled_drive() {
    step "A drive is pulled: its alerts fire, and no others"
    truncate -s 0 "$work/backing.img"
    losetup --set-capacity "$loop"
    start_load 120
    local alert expected=(SteadyRaidPoolDegraded SteadyRaidNoRedundancyLeft SteadyRaidDriveErrors)
    for alert in "${expected[@]}"; do
        wait_until 40 fires "$alert" >/dev/null || fail "$alert does not fire: $(alerts)"
        fires "$alert"
    done
    alerts | jq -r 'select(.state == "firing") | "\(.labels.alertname) \(.labels.pool)"' |
        sort -u >firing.txt
    printf '%s tank\n' "${expected[@]}" | sort | diff - firing.txt || fail "other alerts fire"
    is "steadyraid_drive_state{drive=\"$pulled\",pool=\"tank\",state=\"failed\"}" 1
    is 'steadyraid_pool_surviving_copies{pool="tank"}' 1
    is 'steadyraid_pool_state{pool="spare",state="online"}' 1
    kill -INT "$load"
    wait "$load" || true
}

install_prometheus
step "A pool of files and a loop device, under load, and one in memory"
make_pool_with_loop
fake_smartctl
start_server
metrics=$(sed -n 's/^http //p' server.out)
nbd_port=$(sed -n 's/^nbd tcp:.*:\([0-9]*\)$/\1/p' server.out)
start_load 240
start_prometheus
check_formats
check_expressions
check_values
check_sums
check_pulled_drive
stop_server
echo ok

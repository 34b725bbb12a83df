//! `status`.

use std::fs::{self, File};
use std::io::pipe;

use serde_json::Value;

use crate::nbd::{Client, FUA};
use crate::support::Scratch;

#[test]
fn a_healthy_pool_is_online_served_or_not() {
    let scratch = Scratch::with_pool();
    let check = |arguments: &[&str]| {
        let done = scratch.run(&[&["status"], arguments].concat()).expect(0);
        done.says("pool: tank").says("state: ONLINE").says("d3").says("vm").says("SINCE OPENING");
    };
    check(&["--drives", "."]);
    check(&["tank", "--drives", "d0", "d1", "d2", "d3"]);
    let server = scratch.serve(&["."]);
    check(&[]);
    check(&["tank"]);
    server.stop();
    check(&["--drives", "."]);
}

#[test]
fn looking_changes_nothing() {
    let scratch = Scratch::with_pool();
    let bytes = || -> Vec<Vec<u8>> {
        ["d0", "d1", "d2", "d3"].map(|name| fs::read(scratch.path(name)).expect("read")).into()
    };
    let before = bytes();
    scratch.run(&["status", "--drives", "."]).expect(0);
    scratch.run(&["volume", "list", "--drives", "."]).expect(0);
    scratch.run(&["list", "--drives", "."]).expect(0);
    scratch.run(&["inspect", "d0", "--journal", "--checkpoint"]).expect(0);
    assert!(before == bytes(), "a read-only verb wrote to a drive");
}

#[test]
fn a_degraded_pool_says_why_and_what_to_do() {
    let scratch = Scratch::with_pool();
    fs::remove_file(scratch.path("d2")).expect("removed");
    let done = scratch.run(&["status", "--drives", "."]).expect(1);
    done.says("state: DEGRADED").says("reason: drive 2").says("action: ").says("missing");
    let status = scratch.run(&["status", "--json", "--drives", "."]).expect(1).json();
    let pool = &status["pools"][0];
    assert_eq!(pool["state"], "degraded");
    assert_eq!(pool["redundancy_margin"], 0);
    assert_eq!(pool["drives"][2]["state"], "missing");
}

#[test]
fn counters_move_with_the_work() {
    let scratch = Scratch::with_pool();
    let _server = scratch.serve(&["."]);
    let mut client = Client::open(&scratch.path("run/nbd.sock"), "tank/vm");
    client.write(0, &[7; 65536], 0);
    client.write(1 << 20, &[8; 4096], 0);
    client.flush();
    client.read(0, 4096);
    client.trim(1 << 20, 4096);
    let pool = &scratch.run(&["status", "--json"]).expect(0).json()["pools"][0];
    let counters = &pool["counters"];
    assert_eq!(counters["writes"], 2);
    assert_eq!(counters["write_bytes"], 65536 + 4096);
    assert_eq!((&counters["reads"], &counters["flushes"]), (&1.into(), &1.into()));
    assert_eq!(counters["trims"], 1);
    let written = |drive: &serde_json::Value| drive["counters"]["write_bytes"].as_u64();
    let sum: u64 = pool["drives"].as_array().expect("a list").iter().filter_map(written).sum();
    assert!(sum >= 2 * 65536, "both copies of a block, at least: {sum}");
}

#[test]
fn latency_of_drives_is_shown_on_demand_and_buckets_in_json() {
    let scratch = Scratch::with_pool();
    let _server = scratch.serve(&["."]);
    let mut client = Client::open(&scratch.path("run/nbd.sock"), "tank/vm");
    (0..16).for_each(|at| client.write(at << 16, &[7; 65536], 0));
    client.read(0, 4096);
    let short = scratch.run(&["status"]).expect(0).says("HEALTH").says("VOLUME LATENCY");
    assert!(!short.out.contains("DRIVE LATENCY"), "{}", short.out);
    let long = scratch.run(&["status", "--latency"]).expect(0);
    long.says("DRIVE LATENCY").says("STRAGGLER AFTER").says("P99.9 ").says("THREAD HELD BY");
    assert!(!short.out.contains("THREAD HELD BY"), "{}", short.out);
    scratch.run(&["status", "-v"]).expect(0).says("DRIVE LATENCY");
    scratch.run(&["status", "--latency", "--json"]).expect(2);

    let pool = &scratch.run(&["status", "--json"]).expect(0).json()["pools"][0];
    let check = |latency: &Value, what: &str| {
        let latency = &latency["writes"];
        let count = latency["count"].as_u64().expect(what);
        let buckets = latency["buckets"].as_array().expect(what);
        let sum: u64 = buckets.iter().filter_map(|bucket| bucket[1].as_u64()).sum();
        assert!(count > 0 && sum == count, "{what}: {latency}");
        let quantiles = ["p50_nanos", "p99_nanos", "p999_nanos", "p9999_nanos", "max_nanos"];
        let quantiles = quantiles.map(|name| latency[name].as_u64().expect(name));
        assert!(quantiles[0] > 0 && quantiles.is_sorted(), "{what}: {latency}");
    };
    check(&pool["volumes"][0]["latency"], "the volume");
    assert_eq!(pool["volumes"][0]["latency"]["writes"]["count"], 16);
    assert_eq!(pool["volumes"][0]["latency"]["reads"]["count"], 1);
    check(&pool["drives"][0]["latency"], "a drive");
    let drive = &pool["drives"][0];
    assert_eq!((&drive["health"], &drive["decided"]), (&"good".into(), &"automatic".into()));
    assert!(drive["spikes"]["threshold_nanos"].as_u64() > Some(0), "{drive}");
    assert_eq!(pool["backlog"]["pressure_permille"], 0);
}

#[test]
fn top_shows_what_happened_between_two_looks() {
    let scratch = Scratch::new();
    let server = scratch.serve(&["--mem-pool", "demo:4:128M:vm=16M"]);
    let said = scratch.run(&["top", "--once", "--seconds", "0.1"]).expect(0).out;
    let first = said.lines().next().unwrap_or_default();
    assert!(first.starts_with("pool demo  ONLINE  fusion, "), "{said}");
    assert!(said.contains("\nmem:3 "), "{said}");
    assert!(said.lines().any(|line| line.starts_with("vm ") && line.contains("16 MiB")), "{said}");
    let space = said.lines().find(|line| line.starts_with("drives "));
    assert!(space.is_some_and(|line| line.contains(" replicated, ")), "{said}");
    scratch.run(&["top", "--seconds", "0"]).expect(2).says("not from 0.1 to 3600");
    scratch.run(&["drive", "sit-out", "demo", "3"]).expect(0);
    scratch.run(&["drive", "fail", "demo", "3", "--force"]).expect(0);
    let said = scratch.run(&["top", "--once", "--seconds", "0.1"]).expect(0).out;
    assert!(said.starts_with("pool demo  DEGRADED  fusion, "), "{said}");
    assert!(said.lines().any(|line| line.starts_with("action: ")), "{said}");
    let told = |what: &str| said.lines().position(|line| line.contains(what));
    let (sat_out, failed) = (told("an operator decided sit-out"), told("  drive-failed  "));
    assert!(failed.is_some() && failed < sat_out, "the newest first: {said}");
    server.stop();
    scratch.run(&["top", "--once"]).expect(3).says("no server is running here");
}

/// A script would take the half that it has for the answer. Who reads no further has what it
/// wanted.
#[test]
fn an_answer_that_can_not_be_written_is_none() {
    let scratch = Scratch::with_pool();
    let server = scratch.serve(&["."]);
    // So that there is an event.
    scratch.run(&["drive", "sit-out", "tank", "3"]).expect(0);
    let commands = [
        "status|status --json|status --latency|list --drives .|list --json --drives .|volume list",
        "events|events --json|events -f|top --once --seconds 0.1|inspect d0|inspect --json d0",
        "schemes|schemes --json|scrub status tank|volume limit tank/vm --iops 5",
        "--help|create --help|--version",
    ];
    for command in commands.iter().flat_map(|some| some.split('|')) {
        let words: Vec<&str> = command.split(' ').collect();
        let full = File::options().write(true).open("/dev/full").expect("it is there");
        let done = scratch.run_into(full, &words);
        let said = "error: standard output: No space left on device";
        assert!(done.exit == 3 && done.err.starts_with(said), "{command}: {done:?}");
        let (reader, writer) = pipe().expect("a pipe");
        drop(reader);
        let done = scratch.run_into(File::from(std::os::fd::OwnedFd::from(writer)), &words);
        assert!(done.exit == 0 && done.err.is_empty(), "{command}: {done:?}");
    }
    server.stop();
}

/// What a pool's clients wait for is that pool's, and what it does by itself counts nowhere.
#[test]
fn what_clients_wait_for_is_told_by_cause() {
    let scratch = Scratch::with_pool();
    for drive in ["e0", "e1", "e2"] {
        scratch.file(drive, 64 << 20);
    }
    scratch.run(&["create", "--scheme", "raid5", "five", "e0", "e1", "e2"]).expect(0);
    scratch.run(&["volume", "create", "five/vm", "16M", "--drives", "."]).expect(0);
    let server = scratch.serve(&["."]);
    scratch.run(&["wait", "five", "background", "--timeout", "60"]).expect(0);
    let counts = |pool: &str, field: &str| -> Vec<(String, u64)> {
        let status = scratch.run(&["status", pool, "--json"]).expect(0).json();
        let waits = status["pools"][0]["waits"].as_array().expect("a list").clone();
        let number = |wait: &Value| wait["last_minute"][field].as_u64().expect("a number");
        let cause = |wait: &Value| wait["cause"].as_str().expect("a name").to_owned();
        waits.iter().map(|wait| (cause(wait), number(wait))).collect()
    };
    let all = |pool: &str| counts(pool, "count").iter().map(|(_, count)| count).sum::<u64>();
    let of = |pool: &str, cause: &str| {
        let counts = counts(pool, "count");
        counts.iter().find(|(own, _)| own == cause).expect("all causes are there").1
    };
    let write = |pool: &str, times: u64| {
        let mut client = Client::open(&scratch.path("run/nbd.sock"), &format!("{pool}/vm"));
        (0..times).for_each(|at| client.write(at * 4096, &[7; 4096], FUA));
        client.disconnect();
    };
    let silent = |pool: &str| {
        let done = scratch.run(&["status", pool, "--latency"]).expect(0);
        assert!(!done.out.contains("waits:") && !done.out.contains("CLIENTS WAIT FOR"), "{done:?}");
    };
    silent("tank");
    write("tank", 20);
    assert!(of("tank", "drives") >= 20 && of("tank", "limits") == 0);
    let shares: u64 = counts("tank", "share_permille").iter().map(|(_, share)| share).sum();
    assert!((990..=1000).contains(&shares), "{shares}");
    let table = scratch.run(&["status", "tank", "--latency"]).expect(0);
    table.says("CLIENTS WAIT FOR").says("  drives ");
    assert_eq!(all("five"), 0, "nobody asked for anything of it");
    silent("five");

    write("five", 20);
    assert!(of("five", "drives") >= 20);
    scratch.run(&["volume", "limit", "tank/vm", "--iops", "1"]).expect(0);
    write("tank", 2);
    assert!(of("tank", "limits") > 0, "those of another client count as well");
    scratch.run(&["status", "tank"]).expect(0).says("waits: in the last minute for ");
    server.stop();
    let done = scratch.run(&["status", "tank", "--drives", ".", "--json"]).expect(0).json();
    assert_eq!(done["pools"][0]["waits"].as_array().map(Vec::len), Some(0));
}

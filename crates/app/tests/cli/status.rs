//! `status`.

use std::fs;

use crate::nbd::Client;
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

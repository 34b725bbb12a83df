//! `volume create | list | resize | limit | delete`, on drives and through a server.

use crate::events::pause;
use crate::nbd::{Client, FUA, data};
use crate::schemes::{SCHEMES, make};
use crate::support::{Done, Scratch};

#[test]
fn volumes_come_and_go_on_an_unserved_pool() {
    let scratch = Scratch::with_pool();
    let at = ["--drives", "."];
    let run = |verb: &[&str]| scratch.run(&[&["volume"], verb, &at[..]].concat());
    run(&["create", "tank/wide", "32M", "--parity", "2", "--width", "4"])
        .expect(0)
        .says("volume tank/wide of 32 MiB created");
    run(&["list"]).expect(0).says("tank/vm").says("2+2");
    run(&["resize", "tank/vm", "128M"]).expect(0).says("resized to 128 MiB");
    run(&["delete", "tank/wide"]).expect(0).says("deleted");

    let list = run(&["list", "tank", "--json"]).expect(0).json();
    let volumes = list["volumes"].as_array().expect("a list");
    assert_eq!(volumes.len(), 1);
    assert_eq!(volumes[0]["pool"], "tank");
    assert_eq!(volumes[0]["name"], "vm");
    assert_eq!(volumes[0]["size"], 128 << 20);
}

#[test]
fn changes_while_serving_take_effect_at_once() {
    let scratch = Scratch::with_pool();
    let server = scratch.serve(&["."]);
    let socket = scratch.path("run/nbd.sock");
    scratch.run(&["volume", "create", "tank/new", "16M"]).expect(0).says("created");
    assert_eq!(Client::unix(&socket).list(), ["tank/vm", "tank/new"]);
    let client = Client::open(&socket, "tank/new");
    assert_eq!(client.size, 16 << 20);
    client.disconnect();
    scratch.run(&["volume", "resize", "tank/new", "32M"]).expect(0);
    let client = Client::open(&socket, "tank/new");
    assert_eq!(client.size, 32 << 20);
    scratch.run(&["volume", "delete", "tank/new"]).expect(3).says("is in use");
    // One that is on its way out is waited for.
    std::thread::scope(|threads| {
        threads.spawn(|| scratch.run(&["volume", "delete", "tank/new"]).expect(0));
        (0..6).for_each(|_| pause());
        client.disconnect();
    });
    assert!(Client::unix(&socket).go("tank/new").is_err());
    server.stop();
    scratch.run(&["volume", "list", "--drives", "."]).expect(0).says("tank/vm");
}

#[test]
fn a_pool_may_be_named_by_its_uuid() {
    let scratch = Scratch::with_pool();
    let list = scratch.run(&["list", "--json", "--drives", "."]).expect(0).json();
    let uuid = list["pools"][0]["uuid"].as_str().expect("text").to_owned();
    let volume = format!("{uuid}/vm");
    scratch.run(&["volume", "resize", &volume, "96M", "--drives", "."]).expect(0);
    let _server = scratch.serve(&["."]);
    scratch.run(&["volume", "resize", &volume, "64M"]).expect(0).says("tank/vm resized");
}

#[test]
fn limits_are_set_one_by_one_and_taken_away() {
    let scratch = Scratch::with_pool();
    let server = scratch.serve(&["."]);
    let limits = || {
        let list = scratch.run(&["volume", "list", "--json"]).expect(0).json();
        let limits = &list["volumes"][0]["limits"];
        (limits["iops"].as_u64(), limits["bytes_per_sec"].as_u64())
    };
    let limit = |options: &[&str]| {
        scratch.run(&[&["volume", "limit", "tank/vm"], options].concat()).expect(0)
    };
    assert_eq!(limits(), (Some(0), Some(0)));
    limit(&["--iops", "5000"]).says("volume tank/vm limited to 5000 IOPS\n");
    limit(&["--bandwidth", "200M/s"]).says("limited to 5000 IOPS, 200 MiB/s");
    assert_eq!(limits(), (Some(5000), Some(200 << 20)));
    scratch.run(&["volume", "list"]).expect(0).says("5000 IOPS, 200 MiB/s");
    limit(&["--iops", "0"]).says("limited to 200 MiB/s");
    limit(&["--none"]).says("volume tank/vm has no limits");
    assert_eq!(limits(), (Some(0), Some(0)));
    server.stop();
}

/// Somebody makes a path of a name, and is elsewhere.
#[test]
fn nothing_is_named_like_a_directory() {
    let scratch = Scratch::with_pool();
    scratch.run(&["create", "--scheme", "raid5", "five", "e0:64M", "e1:64M", "e2:64M"]).expect(0);
    let rule = "is not '.' or '..'";
    for name in [".", ".."] {
        for scheme in ["fusion", "raid10", "hybrid", "mirror-log"] {
            let drives = ["n0:64M", "n1:64M", "n2:64M", "n3:64M", "n4:64M", "n5:64M"];
            let create = ["create", "--scheme", scheme, name];
            scratch.run(&[&create[..], &drives].concat()).expect(2).says(rule);
        }
        for pool in [&format!("{name}:4:64M"), &format!("demo:4:64M:{name}=1M")] {
            scratch.run(&["serve", "--mem-pool", pool]).expect(2).says(rule);
        }
    }
    let server = scratch.serve(&["."]);
    for name in ["tank/.", "tank/..", "five/.", "five/.."] {
        scratch.run(&["volume", "create", name, "1M"]).expect(2).says(&format!("'{name}': "));
    }
    server.stop();
}

/// Schemes that tell drives nothing.
const LOGS: [&str; 2] = ["log-raid", "mirror-log"];

/// The same with the other schemes; files that are sparse have the space again. What is beside it
/// stays, and a scrub finds nothing.
#[test]
fn drives_of_every_scheme_are_told_of_what_is_trimmed() {
    for (scheme, drives, _) in SCHEMES {
        let scratch = make(scheme, drives);
        let server = scratch.serve(&["."]);
        let mut client = Client::open(&scratch.path("run/nbd.sock"), "tank/vm");
        (0..16).for_each(|at| client.write(at << 20, &data(1), 0));
        client.flush();
        client.trim(4 << 20, 8 << 20);
        client.flush();
        let told = |status: &Done| {
            let pool = &status.json()["pools"][0];
            let drives = pool["drives"].as_array().expect("a list").iter();
            let bytes = drives.map(|drive| {
                assert_eq!(drive["takes_discards"], true, "{scheme}");
                drive["counters"]["discard_bytes"].as_u64().expect("a number")
            });
            bytes.sum::<u64>()
        };
        let least = if LOGS.contains(&scheme) { 0 } else { 6 << 20 };
        scratch.until(&["status", "--json"], |status| told(status) >= least);
        for at in [0, 15] {
            assert!(client.read(at << 20, 1 << 20) == data(1), "{scheme}: {at} MiB");
        }
        scratch.run(&["scrub", "start", "tank"]).expect(0);
        scratch.run(&["wait", "tank", "scrub", "--timeout", "60"]).expect(0);
        scratch.run(&["scrub", "status", "tank"]).expect(0).says("nothing wrong");
        client.disconnect();
        server.stop();
    }
}

/// What is trimmed is told to the drives, and counted for each. Files that are sparse take that.
#[test]
fn discards_reach_the_drives_and_are_counted() {
    let scratch = Scratch::with_pool();
    let server = scratch.serve(&["."]);
    let mut client = Client::open(&scratch.path("run/nbd.sock"), "tank/vm");
    (0..16).for_each(|at| client.write(at << 20, &data(1), 0));
    client.flush();
    client.trim(0, 16 << 20);
    // What was freed is free when a later block of the journal says so.
    client.write(32 << 20, &data(1), FUA);
    let are_told = |status: &Done| {
        let pool = &status.json()["pools"][0];
        let mut drives = pool["drives"].as_array().expect("a list").iter();
        drives.all(|drive| {
            let (count, bytes) =
                (&drive["counters"]["discards"], &drive["counters"]["discard_bytes"]);
            drive["takes_discards"] == true && count.as_u64() > Some(0) && bytes.as_u64() > Some(0)
        })
    };
    scratch.until(&["status", "--json"], are_told);
    client.disconnect();
    server.stop();
}

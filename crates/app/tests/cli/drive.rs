//! `drive sit-out | trust | auto | fail`.

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use crate::nbd::{Client, FUA, data};
use crate::support::Scratch;

const POOL: [&str; 2] = ["--mem-pool", "demo:5:128M:vm=16M"];

fn drive(scratch: &Scratch, index: usize) -> Value {
    scratch.run(&["status", "--json"]).json()["pools"][0]["drives"][index].clone()
}

#[test]
fn what_is_decided_about_a_drive_is_seen_and_taken_back() {
    let scratch = Scratch::new();
    let server = scratch.serve(&POOL);
    assert_eq!(drive(&scratch, 3)["health"], "good");
    assert_eq!(drive(&scratch, 3)["decided"], "automatic");
    scratch.run(&["drive", "sit-out", "demo", "3"]).expect(0).says("drive 3 (mem:3) sits out");
    assert_eq!(drive(&scratch, 3)["decided"], "sit-out");
    scratch.run(&["status"]).expect(0).says("good, sit-out");
    scratch.run(&["drive", "trust", "demo", "mem:3"]).expect(0).says("is trusted");
    assert_eq!(drive(&scratch, 3)["decided"], "trusted");
    assert_eq!(drive(&scratch, 2)["decided"], "automatic");
    let uuid = drive(&scratch, 3)["uuid"].as_str().expect("text").to_owned();
    scratch.run(&["drive", "auto", "demo", &uuid]).expect(0).says("is judged by its latency");
    assert_eq!(drive(&scratch, 3)["decided"], "automatic");
    server.stop();
}

#[test]
fn the_data_is_there_whatever_sits_out_or_is_failed() {
    let scratch = Scratch::new();
    let server = scratch.serve(&POOL);
    let mut client = Client::open(&scratch.path("run/nbd.sock"), "demo/vm");
    let data = |byte: u8| vec![byte; 1 << 20];
    client.write(0, &data(1), FUA);
    scratch.run(&["drive", "sit-out", "demo", "0"]).expect(0);
    client.write(1 << 20, &data(2), FUA);
    assert!(client.read(0, 1 << 20) == data(1));
    scratch.run(&["drive", "fail", "demo", "1"]).expect(3).says("no redundancy is left");
    assert_eq!(drive(&scratch, 1)["state"], "active");
    scratch.run(&["drive", "fail", "demo", "1", "--force"]).expect(0).says("0 more may die");
    assert_eq!(drive(&scratch, 1)["state"], "failed");
    client.write(2 << 20, &data(3), FUA);
    for at in 0..3u8 {
        assert!(client.read(u64::from(at) << 20, 1 << 20) == data(at + 1), "at {at} MiB");
    }
    // The last drive that the data needs stays, whoever asks.
    scratch.run(&["drive", "fail", "demo", "2", "--force"]).expect(3).says("would be lost");
    scratch.run(&["drive", "fail", "demo", "1", "--force"]).expect(3).says("is failed");
    scratch.run(&["drive", "trust", "demo", "1"]).expect(3).says("is failed");
    scratch.run(&["status"]).expect(1).says("DEGRADED");
    client.disconnect();
    let err = server.stop();
    assert!(err.contains("pool demo: ") && err.contains("failed by an operator"), "{err}");
}

/// Waits until all drives are in use again; a bounded while.
pub fn until_whole(scratch: &Scratch) {
    scratch.run(&["wait", "tank", "restore", "online", "--timeout", "30"]).expect(0);
}

/// That the last event of a kind about a place names the drive that had it then.
pub fn expect_named(scratch: &Scratch, kind: &str, place: &str, name: &str) {
    let told = scratch.run(&["events", "--json"]).expect(0).out;
    let about = format!("\"kind\":\"{kind}\",\"drive\":{place},");
    let last = told.lines().rfind(|line| line.contains(&about));
    let event: Value = serde_json::from_str(last.expect(&told)).expect("JSON");
    let named = event["drive_name"].as_str();
    assert!(named.is_some_and(|named| named.ends_with(name)), "{told}");
}

/// The everyday of an operator: a drive is lost while a pool is used, and another takes its place;
/// one was not there for a while, and comes back. Each time the data survives the loss of others.
#[test]
fn lost_drives_are_replaced_or_come_back() {
    let scratch = Scratch::with_pool();
    let server = scratch.serve(&["."]);
    let socket = scratch.path("run/nbd.sock");
    let mut client = Client::open(&socket, "tank/vm");
    let data = |byte: u8| vec![byte; 1 << 20];
    let check = |client: &mut Client, most: u8| {
        for at in 0..most {
            assert!(client.read(u64::from(at) << 20, 1 << 20) == data(at + 1), "at {at} MiB");
        }
    };
    client.write(0, &data(1), FUA);
    client.write(1 << 20, &data(2), FUA);
    let replace =
        |words: &[&str]| scratch.run(&[&["drive", "replace", "tank", "1"], words].concat());
    scratch.run(&["drive", "online", "tank", "1", "d1"]).expect(3).says("it is not lost");
    replace(&["d2"]).expect(3).says("in use");
    scratch.run(&["drive", "fail", "tank", "1", "--force"]).expect(0);
    scratch.run(&["status"]).expect(1).says("drive replace");
    scratch.run(&["wait", "tank", "restore"]).expect(0);
    scratch.run(&["wait", "tank", "online", "--timeout", "0"]).expect(1).says("still waiting");
    scratch.run(&["wait", "tonk", "online"]).expect(3).says("no such pool is served");
    replace(&["d2"]).expect(3).says("in use");
    replace(&["small:16M"]).expect(3).says("needs");
    assert!(!scratch.path("small").exists(), "nor one that is too small");
    scratch.copy("d0", "other");
    replace(&["other"]).expect(3).says("belongs to SteadyRAID pool tank").says("--force");
    scratch.run(&["drive", "online", "tank", "1", "other"]).expect(3).says("not the drive that");
    replace(&["other", "--force"]).expect(0).says("has taken the place").says("blocks");
    // Whether it is still being restored or whole by now, it may be failed and taken back.
    scratch.run(&["drive", "fail", "tank", "1", "--force"]).expect(0);
    scratch.run(&["drive", "online", "tank", "1", "other"]).expect(0).says("is back");
    client.write(2 << 20, &data(3), FUA);
    until_whole(&scratch);
    scratch.run(&["events", "--json"]).expect(0).says("drive-restored");
    check(&mut client, 3);
    server.crash();

    // The lost one is a stranger now, and another may be missing.
    std::fs::rename(scratch.path("d2"), scratch.path("elsewhere")).expect("it is there");
    let server = scratch.serve(&["d0", "other", "d3", "d1"]);
    assert!(server.said.join("\n").starts_with("pool tank: degraded, "), "{:?}", server.said);
    let mut client = Client::open(&socket, "tank/vm");
    check(&mut client, 3);
    client.write(3 << 20, &data(4), FUA);
    scratch.run(&["drive", "online", "tank", "2", "elsewhere"]).expect(0).says("is back");
    until_whole(&scratch);
    check(&mut client, 4);
    server.crash();
    std::fs::remove_file(scratch.path("d0")).expect("it is there");
    let server = scratch.serve(&["other", "elsewhere", "d3"]);
    let mut client = Client::open(&socket, "tank/vm");
    check(&mut client, 4);
    client.disconnect();
    server.stop();
}

/// A drive that works is copied, and may be pulled when the other has its place.
#[test]
fn a_working_drive_is_replaced_and_one_is_offline_for_a_while() {
    let scratch = Scratch::with_pool();
    let server = scratch.serve(&["."]);
    let mut client = Client::open(&scratch.path("run/nbd.sock"), "tank/vm");
    let data = |byte: u8| vec![byte; 1 << 20];
    (0..8u8).for_each(|at| client.write(u64::from(at) << 20, &data(at), FUA));
    let done = scratch.run(&["drive", "replace", "tank", "2", "new:128M"]).expect(0);
    done.says("MiB are being copied onto").says("then takes its place");
    until_whole(&scratch);
    expect_named(&scratch, "drive-replaced", "2", "/new");
    let now = drive(&scratch, 2);
    assert!(now["name"].as_str().is_some_and(|name| name.ends_with("/new")), "{now}");
    std::fs::remove_file(scratch.path("d2")).expect("nobody needs it");
    scratch.run(&["drive", "offline", "tank", "0"]).expect(3).says("no redundancy is left");
    let done = scratch.run(&["drive", "offline", "tank", "0", "--force"]).expect(0);
    done.says("is offline").says("drive online");
    (0..8u8).for_each(|at| assert!(client.read(u64::from(at) << 20, 1 << 20) == data(at)));
    client.write(0, &data(9), FUA);
    scratch.run(&["drive", "online", "tank", "0", "d0"]).expect(0).says("is back");
    until_whole(&scratch);
    // It knows all there was when it went, and nothing came since: also nothing was converted.
    scratch.run(&["wait", "tank", "background", "--timeout", "30"]).expect(0);
    scratch.run(&["drive", "offline", "tank", "0", "--force"]).expect(0);
    let done = scratch.run(&["drive", "online", "tank", "0", "d0"]).expect(0);
    done.says("is back; 0 blocks are being restored");
    until_whole(&scratch);
    client.disconnect();
    server.crash();
    std::fs::remove_file(scratch.path("d1")).expect("one may be lost");
    let server = scratch.serve(&["."]);
    let mut client = Client::open(&scratch.path("run/nbd.sock"), "tank/vm");
    assert!(client.read(0, 1 << 20) == data(9));
    (1..8u8).for_each(|at| assert!(client.read(u64::from(at) << 20, 1 << 20) == data(at)));
    client.disconnect();
    server.stop();
}

/// The same of a scheme beside `fusion`, where two drives may be wrong.
#[test]
fn what_rots_in_place_is_found_and_mended() {
    let scratch = Scratch::with_drives(5);
    let create = ["create", "--scheme", "raid6", "tank", "d0", "d1", "d2", "d3", "d4"];
    scratch.run(&create).expect(0).says("checksums: on: ");
    scratch.run(&["volume", "create", "tank/vm", "32M", "--drives", "."]).expect(0);
    let server = scratch.serve(&["."]);
    let mut client = Client::open(&scratch.path("run/nbd.sock"), "tank/vm");
    let data = |byte: u8| vec![byte; 1 << 20];
    (0..16u8).for_each(|at| client.write(u64::from(at) << 20, &data(at + 1), FUA));
    // All but the labels: log, intents, sums, data.
    let noise: Vec<u8> = (0..20u32 << 20).map(|at| (at / 7 % 251) as u8).collect();
    scratch.poke("d1", 1 << 20, &noise);
    scratch.poke("d3", 8 << 20, &noise);
    let check = |client: &mut Client| {
        (0..16u8).for_each(|at| assert!(client.read(u64::from(at) << 20, 1 << 20) == data(at + 1)));
    };
    check(&mut client);
    scratch.run(&["scrub", "start", "tank"]).expect(0);
    scratch.run(&["wait", "tank", "scrub", "--timeout", "60"]).expect(0);
    let found =
        scratch.run(&["scrub", "status", "tank", "--json"]).expect(0).json()["scrub"].clone();
    assert!(found["bad_pages"].as_u64() > Some(100), "{found}");
    assert_eq!((&found["state"], &found["lost_pages"]), (&"done".into(), &0.into()), "{found}");
    scratch.run(&["status", "tank"]).expect(0).says("pages were not as they were written");
    scratch.run(&["scrub", "start", "tank"]).expect(0);
    scratch.run(&["wait", "tank", "scrub", "--timeout", "60"]).expect(0);
    scratch.run(&["scrub", "status", "tank"]).expect(0).says("nothing wrong");
    scratch.run(&["drive", "fail", "tank", "0"]).expect(0);
    scratch.run(&["drive", "fail", "tank", "2", "--force"]).expect(0);
    check(&mut client);
    client.disconnect();
    server.stop();
    for scheme in ["raid6", "fusion"] {
        let off = ["create", "--checksums", "off", "--scheme", scheme, "--force", "two"];
        let all = ["d0", "d1", "d2", "d3"];
        scratch.run(&[&off[..], &all].concat()).expect(0).says("checksums: off");
        scratch.run(&["status", "two", "--drives", "."]).expect(0).says(", no checksums\n");
    }
}

/// Bytes that change on a drive behind everybody's back are noticed and written again.
#[test]
fn what_rots_on_a_drive_is_found_and_mended() {
    let scratch = Scratch::with_pool();
    let server = scratch.serve(&["."]);
    let mut client = Client::open(&scratch.path("run/nbd.sock"), "tank/vm");
    let data = |byte: u8| vec![byte; 1 << 20];
    (0..16u8).for_each(|at| client.write(u64::from(at) << 20, &data(at + 1), FUA));
    // All but the labels: data, journal, metadata.
    let noise: Vec<u8> = (0..126u32 << 20).map(|at| (at / 7 % 251) as u8).collect();
    scratch.poke("d1", 1 << 20, &noise);
    let check = |client: &mut Client| {
        (0..16u8).for_each(|at| assert!(client.read(u64::from(at) << 20, 1 << 20) == data(at + 1)));
    };
    scratch.run(&["scrub", "pause", "tank"]).expect(3).says("is not being scrubbed");
    scratch.run(&["scrub", "start", "tank"]).expect(0);
    scratch.run(&["wait", "tank", "scrub", "--timeout", "60"]).expect(0);
    let found =
        scratch.run(&["scrub", "status", "tank", "--json"]).expect(0).json()["scrub"].clone();
    assert!(found["bad_pages"].as_u64() > Some(100), "{found}");
    assert_eq!((&found["state"], &found["lost_pages"]), (&"done".into(), &0.into()), "{found}");
    let status = scratch.run(&["status", "tank"]).expect(0).says("ONLINE");
    status.says("pages of drive 1 were not as they were written").says("drive replace");
    check(&mut client);
    scratch.run(&["scrub", "start", "tank"]).expect(0);
    scratch.run(&["wait", "tank", "scrub", "--timeout", "60"]).expect(0);
    scratch.run(&["scrub", "status", "tank"]).expect(0).says("nothing wrong");
    scratch.run(&["drive", "fail", "tank", "2", "--force"]).expect(0);
    check(&mut client);
    client.disconnect();
    server.stop();
}

/// Drives join a pool that is not being served, larger ones, too; what it holds moves when asked.
#[test]
fn a_pool_grows_and_is_rebalanced() {
    let scratch = Scratch::with_pool();
    let server = scratch.serve(&["."]);
    let socket = scratch.path("run/nbd.sock");
    let mut client = Client::open(&socket, "tank/vm");
    let data = |byte: u8| vec![byte; 1 << 20];
    (0..32u8).for_each(|at| client.write(u64::from(at) << 20, &data(at + 1), FUA));
    let usable = |scratch: &Scratch| {
        scratch.run(&["status", "--json"]).json()["pools"][0]["space"]["usable"].as_u64()
    };
    let before = usable(&scratch).expect("a number");
    client.disconnect();
    let add = |new: &[&str], rest: &[&str]| {
        scratch
            .run(&[&["drive", "add", "tank"], new, &["--drives", "d0", "d1", "d2"], rest].concat())
    };
    add(&["e0:128M"], &["d3"]).expect(3).says("in use");
    server.stop();
    add(&["e0:128M"], &[]).expect(3).says("place 3 has no whole drive");
    add(&["e0:8M"], &["d3"]).expect(3).says("too small");
    assert!(!scratch.path("e0").exists(), "a file that is not used is not made");
    add(&["e0:128M", "e1:192M"], &["d3"])
        .expect(0)
        .says("2 drives added, 6 now")
        .says("can't be used");
    add(&["e0"], &["d3", "e1"]).expect(3).says("belongs to SteadyRAID pool tank");
    let server = scratch.serve(&["."]);
    assert!(usable(&scratch).expect("a number") > before * 5 / 4, "{before}");
    scratch.run(&["status"]).expect(0).says("zones lie on fewer drives than they could");
    scratch.run(&["rebalance", "tank"]).expect(0);
    scratch.run(&["wait", "tank", "rebalance", "--timeout", "60"]).expect(0);
    let mut client = Client::open(&socket, "tank/vm");
    scratch.run(&["drive", "fail", "tank", "2", "--force"]).expect(0);
    (0..32u8).for_each(|at| assert!(client.read(u64::from(at) << 20, 1 << 20) == data(at + 1)));
    client.disconnect();
    server.stop();
}

/// Drives join while clients write and read; nobody gets an error, and what was written is there,
/// also without one of the old drives.
#[test]
fn drives_join_a_pool_that_is_served() {
    let scratch = Scratch::with_pool();
    let server = scratch.serve(&["."]);
    let socket = scratch.path("run/nbd.sock");
    let over = AtomicBool::new(false);
    let data = |at: u64, round: u8| vec![at as u8 ^ round; 1 << 16];
    let use_it = &|first: u64| {
        let (mut client, mut rounds) = (Client::open(&socket, "tank/vm"), 0u8);
        while !over.load(Ordering::Relaxed) {
            rounds = rounds.wrapping_add(1);
            for at in first..first + 16 {
                client.write(at << 16, &data(at, rounds), if at % 4 == 0 { FUA } else { 0 });
                assert!(client.read(at << 16, 1 << 16) == data(at, rounds), "{at}, {rounds}");
            }
        }
        client.disconnect();
        rounds
    };
    /// Clients end also if what is asserted beside them fails.
    struct Ends<'a>(&'a AtomicBool);
    impl Drop for Ends<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let rounds: Vec<u8> = std::thread::scope(|scope| {
        let ends = Ends(&over);
        let clients: Vec<_> =
            [0, 16].into_iter().map(|first| scope.spawn(move || use_it(first))).collect();
        scratch.run(&["drive", "add", "tank", "d1"]).expect(3).says("d1");
        scratch.run(&["drive", "add", "tank", "e0:8M"]).expect(3).says("too small");
        assert!(!scratch.path("e0").exists(), "a file that is not used is not made");
        let added = scratch.run(&["drive", "add", "tank", "e0:128M", "e1:192M"]);
        added.expect(0).says("2 drives added, 6 now").says("requests waited");
        scratch.run(&["drive", "add", "tank", "e2:128M"]).expect(0).says("1 drives added, 7 now");
        scratch.run(&["rebalance", "tank"]).expect(0);
        scratch.run(&["wait", "tank", "rebalance", "--timeout", "240"]).expect(0);
        drop(ends);
        clients.into_iter().map(|client| client.join().expect("no errors")).collect()
    });
    scratch.run(&["events"]).expect(0).says("drives-added").says("7 now");
    assert_eq!(scratch.run(&["status", "--json"]).json()["pools"][0]["failed"], Value::Null);
    server.stop();
    let server = scratch.serve(&["."]);
    scratch.run(&["drive", "fail", "tank", "2", "--force"]).expect(0);
    let mut client = Client::open(&socket, "tank/vm");
    for at in 0..32 {
        let round = rounds[usize::from(at >= 16)];
        assert!(client.read(at << 16, 1 << 16) == data(at, round), "{at}");
    }
    client.disconnect();
    server.stop();
}

/// A drive is emptied and let go of; later another takes its place, and gets back what the others
/// hold for it.
#[test]
fn a_drive_is_removed_and_its_place_taken() {
    let scratch = Scratch::with_drives(6);
    let all = ["d0", "d1", "d2", "d3", "d4", "d5"];
    scratch.run(&[&["create", "tank"], &all[..], &["--width", "4"]].concat()).expect(0);
    scratch.run(&["volume", "create", "tank/vm", "64M", "--drives", "."]).expect(0);
    let server = scratch.serve(&["."]);
    let mut client = Client::open(&scratch.path("run/nbd.sock"), "tank/vm");
    let data = |byte: u8| vec![byte; 1 << 20];
    let check = |client: &mut Client| {
        (0..32u8).for_each(|at| assert!(client.read(u64::from(at) << 20, 1 << 20) == data(at + 1)));
    };
    (0..32u8).for_each(|at| client.write(u64::from(at) << 20, &data(at + 1), FUA));
    scratch.run(&["drive", "remove", "tank", "1", "--stop"]).expect(3).says("not being removed");
    scratch.run(&["rebuild", "pause", "tank"]).expect(0);
    scratch.run(&["drive", "remove", "tank", "1"]).expect(0).says("is being emptied");
    // Whoever wants it back wants it after a restart, too.
    server.crash();
    let server = scratch.serve(&["."]);
    let mut client = Client::open(&scratch.path("run/nbd.sock"), "tank/vm");
    scratch.run(&["wait", "tank", "restore", "--timeout", "60"]).expect(0);
    assert_eq!(drive(&scratch, 1)["state"], "vacated");
    scratch.run(&["status"]).expect(0).says("nothing is missing");
    std::fs::remove_file(scratch.path("d1")).expect("nobody needs it");
    // As redundant as before: another may be lost.
    scratch.run(&["drive", "fail", "tank", "4", "--force"]).expect(0);
    check(&mut client);
    scratch.run(&["rebuild", "pause", "tank"]).expect(0);
    scratch.run(&["rebuild", "resume", "tank"]).expect(0);
    scratch.run(&["drive", "online", "tank", "4", "d4"]).expect(0);
    scratch.run(&["drive", "replace", "tank", "1", "new:128M"]).expect(0);
    scratch.run(&["wait", "tank", "restore", "online", "--timeout", "60"]).expect(0);
    assert_eq!(drive(&scratch, 1)["state"], "active");
    check(&mut client);
    client.disconnect();
    server.crash();
    std::fs::remove_file(scratch.path("d0")).expect("one may be lost");
    let server = scratch.serve(&["."]);
    check(&mut Client::open(&scratch.path("run/nbd.sock"), "tank/vm"));
    server.stop();
}

/// All pages of a MiB, every copy of them, are overwritten on the drives: `status` ends with 1
/// until they are written again and a scrub has found none. They are not told one by one.
fn is_lost_until_written_again(scheme: &str) {
    let scratch = Scratch::with_drives(5);
    let create = ["create", "--scheme", scheme, "tank", "d0", "d1", "d2", "d3", "d4"];
    scratch.run(&create).expect(0);
    scratch.run(&["volume", "create", "tank/vm", "32M", "--drives", "."]).expect(0);
    let server = scratch.serve(&["."]);
    let mut client = Client::open(&scratch.path("run/nbd.sock"), "tank/vm");
    (0..16u8).for_each(|at| client.write(u64::from(at) << 20, &data(at + 1), FUA));
    for drive in ["d0", "d1", "d2", "d3", "d4"] {
        let held = std::fs::read(scratch.path(drive)).expect("it is there");
        let pages = held.chunks(4096).enumerate();
        let own = pages.filter(|(_, page)| *page == &data(5)[..4096]);
        own.for_each(|(at, _)| scratch.poke(drive, (at as u64) << 12, &[0x3c; 4096]));
    }
    scratch.run(&["status", "tank"]).expect(0);
    let scrub = || {
        scratch.run(&["scrub", "start", "tank"]).expect(0);
        scratch.run(&["wait", "tank", "scrub", "--timeout", "60"]).expect(0);
    };
    scrub();
    let lost = |exit| {
        scratch.run(&["status", "tank", "--json"]).expect(exit).json()["pools"][0]["lost_pages"]
            .as_u64()
    };
    assert!(lost(1) >= Some(256), "{:?}", lost(1));
    scratch.run(&["status", "tank"]).expect(1).says("ONLINE").says("pages are lost").says("scrub");
    let told = scratch.run(&["events"]).expect(0).out.matches("page-lost").count();
    // Sixteen of a drive, and the sums: one in ten seconds.
    assert!((5..=5 * 24).contains(&told), "{told} events");
    client.write(4 << 20, &data(5), FUA);
    scratch.run(&["status", "tank"]).expect(1);
    scrub();
    assert_eq!(lost(0), Some(0));
    client.disconnect();
    server.stop();
}

#[test]
fn lost_pages_of_fusion_end_with_a_scrub() {
    is_lost_until_written_again("fusion");
}

#[test]
fn lost_pages_of_an_array_end_with_a_scrub() {
    is_lost_until_written_again("raid5");
}

//! Schemes other than the default: documented, made, served, degraded, crashed.

use std::fs;

use crate::drive::{expect_named, until_whole};
use crate::nbd::{Client, FUA};
use crate::support::{Scratch, check_page};

/// Scheme, number of drives, and drives it can do without, all at once.
pub const SCHEMES: [(&str, usize, &[usize]); 18] = [
    ("raid0", 3, &[]),
    ("raid1", 3, &[0, 2]),
    ("raid10", 4, &[0, 3]),
    ("raid4", 4, &[3]),
    ("raid5", 4, &[1]),
    ("raid6", 5, &[2, 4]),
    ("raid50", 6, &[0, 5]),
    ("raid60", 8, &[0, 1, 6, 7]),
    ("n-raid5", 6, &[1, 3]),
    ("tole-raid", 4, &[3]),
    ("mirror-log", 6, &[1, 3]),
    ("log-raid", 6, &[2, 4]),
    ("hybrid", 6, &[1, 3]),
    ("log-mirror", 6, &[2, 5]),
    ("hpda", 5, &[1, 4]),
    ("steering", 5, &[3]),
    ("alternate", 4, &[1]),
    ("cached-raid5", 5, &[0, 4]),
];

fn pattern(seed: u32, len: u32) -> Vec<u8> {
    (0..len).map(|at| ((at ^ seed).wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

pub fn make(scheme: &str, drives: usize) -> Scratch {
    let scratch = Scratch::with_drives(drives);
    let names: Vec<String> = (0..drives).map(|at| format!("d{at}")).collect();
    let mut command = vec!["create", "--scheme", scheme, "tank"];
    command.extend(names.iter().map(String::as_str));
    scratch.run(&command).expect(0).says(&format!("scheme: {scheme}, ")).says("created");
    scratch.run(&["volume", "create", "tank/vm", "32M", "--drives", "."]).expect(0);
    scratch
}

/// Every scheme: what was flushed survives a crash, and the loss of as many drives as it bears.
#[test]
fn every_scheme_serves_volumes_through_crashes_and_losses() {
    for (scheme, drives, gone) in SCHEMES {
        let scratch = make(scheme, drives);
        scratch.run(&["inspect", "d1"]).expect(0).says(&format!("scheme: {scheme}\n"));
        let socket = scratch.path("run/nbd.sock");
        let server = scratch.serve(&["."]);
        let mut client = Client::open(&socket, "tank/vm");
        client.write(4096, &pattern(1, 300 << 10), 0);
        client.write((5 << 20) + 512, &pattern(2, 1024), FUA);
        client.flush();
        server.crash();

        for drive in gone {
            fs::remove_file(scratch.path(&format!("d{drive}"))).expect("removed");
        }
        let server = scratch.serve(&["."]);
        let state = if gone.is_empty() { "online" } else { "degraded" };
        assert!(server.said.join("\n").starts_with(&format!("pool tank: {state}, ")), "{scheme}");
        let mut client = Client::open(&socket, "tank/vm");
        assert!(client.read(4096, 300 << 10) == pattern(1, 300 << 10), "{scheme}");
        assert!(client.read((5 << 20) + 512, 1024) == pattern(2, 1024), "{scheme}");
        assert!(client.read(20 << 20, 4096) == [0; 4096], "{scheme}: a hole reads as zeroes");
        client.write(9 << 20, &pattern(3, 1 << 20), 0);
        assert!(client.read(9 << 20, 1 << 20) == pattern(3, 1 << 20), "{scheme}");
        client.trim(9 << 20, 1 << 20);
        client.disconnect();
        let status = scratch.run(&["status", "--json"]);
        let pool = &status.json()["pools"][0];
        assert_eq!(pool["scheme"], scheme);
        check_latencies(pool);
        status.expect(i32::from(!gone.is_empty()));
        server.stop();
    }
}

/// What is written is not free, and is told as what it is: once the space bar of a RAID5 with
/// 100 MiB in it was all free. Pieces of space are larger than this volume, which holds no more
/// than it is.
#[test]
fn space_of_every_scheme_adds_up() {
    for (scheme, drives) in [("raid5", 4), ("raid10", 4), ("log-raid", 6)] {
        let scratch = make(scheme, drives);
        scratch.run(&["volume", "create", "tank/small", "100K", "--drives", "."]).expect(0);
        let server = scratch.serve(&["."]);
        let mut client = Client::open(&scratch.path("run/nbd.sock"), "tank/small");
        client.write(0, &pattern(1, 4096), FUA);
        client.disconnect();
        let status = scratch.run(&["status", "--json"]);
        let pool = &status.json()["pools"][0];
        let space = |name: &str| pool["space"][name].as_u64().expect("a number");
        assert!(space("raid") > 0 && space("raid") == space("used"), "{scheme}: {pool}");
        assert_eq!(space("raid") + space("limbo") + space("free"), space("total"), "{scheme}");
        let mapped = pool["volumes"].as_array().expect("a list").iter();
        let mapped = mapped.map(|volume| volume["mapped_bytes"].as_u64().expect("a number"));
        assert_eq!(mapped.sum::<u64>(), 100 << 10, "{scheme}: {pool}");
        server.stop();
    }
}

/// After four reads, a write and a trim.
#[track_caller]
fn check_latencies(pool: &serde_json::Value) {
    let volume = &pool["volumes"][0];
    let counters = ["reads", "writes", "trims", "errors"].map(|name| &volume["counters"][name]);
    assert_eq!(counters, [4, 1, 1, 0], "{volume}");
    assert_eq!(volume["latency"]["reads"]["count"], 4, "{volume}");
    assert_eq!(volume["under_way"], 0, "{volume}");
    let timed = |drive: &serde_json::Value| drive["latency"]["writes"]["count"].as_u64();
    let all: u64 = pool["drives"].as_array().expect("a list").iter().filter_map(timed).sum();
    assert!(all > 0, "{pool}");
}

/// Scheme, number of drives, one that is replaced, and one that it could not do without, too.
const REPLACED: [(&str, usize, usize, usize); 17] = [
    ("raid1", 2, 0, 1),
    ("raid10", 4, 2, 3),
    ("raid4", 4, 3, 0),
    ("raid5", 4, 1, 2),
    ("raid6", 4, 2, 0),
    ("raid50", 6, 0, 1),
    ("raid60", 8, 5, 4),
    ("n-raid5", 6, 3, 5),
    ("tole-raid", 4, 0, 3),
    ("mirror-log", 4, 1, 0),
    ("log-raid", 6, 2, 0),
    ("hybrid", 6, 1, 0),
    ("log-mirror", 6, 4, 5),
    ("hpda", 5, 3, 4),
    ("steering", 5, 3, 1),
    ("alternate", 4, 1, 2),
    ("cached-raid5", 5, 0, 1),
];

/// Every scheme that has redundancy: a drive that works is copied, its copy fails and another takes
/// its place, then one that the data could not do without before; that one is taken back, and a
/// crash meanwhile is nothing.
#[test]
fn every_scheme_replaces_drives_while_it_serves() {
    let drive_bytes = 64 << 20;
    for (scheme, drives, first, second) in REPLACED {
        let scratch = Scratch::new();
        (0..drives).for_each(|at| scratch.file(&format!("d{at}"), drive_bytes));
        let names: Vec<String> = (0..drives).map(|at| format!("d{at}")).collect();
        let names = names.iter().map(String::as_str);
        let create = ["create", "--scheme", scheme, "tank"].into_iter().chain(names);
        scratch.run(&create.collect::<Vec<_>>()).expect(0);
        scratch.run(&["volume", "create", "tank/vm", "8M", "--drives", "."]).expect(0);
        let socket = scratch.path("run/nbd.sock");
        let server = scratch.serve(&["."]);
        let mut client = Client::open(&socket, "tank/vm");
        client.write(0, &pattern(1, 2 << 20), FUA);
        let (first, second) = (first.to_string(), second.to_string());
        let drive = |words: &[&str]| scratch.run(&[&["drive"], words].concat());
        drive(&["replace", "tank", &first, "copy:64M"]).expect(0).says("are being copied onto");
        scratch.run(&["wait", "tank", "restore", "--timeout", "60"]).expect(0);
        expect_named(&scratch, "drive-replaced", &first, "/copy");
        scratch.run(&["inspect", &format!("d{first}")]).says("nothing known is on this drive");
        drive(&["fail", "tank", &first, "--force"]).expect(0).says("is failed");
        client.write(1 << 20, &pattern(2, 2 << 20), FUA);
        drive(&["replace", "tank", &first, "small:8M"]).expect(3).says("small");
        drive(&["replace", "tank", &first, "new:64M"]).expect(0).says("has taken the place");
        client.write(2 << 20, &pattern(3, 2 << 20), FUA);
        until_whole(&scratch);
        expect_named(&scratch, "drive-restored", &first, "/new");
        // What was told of the one before names that.
        expect_named(&scratch, "drive-failed", &first, "/copy");
        drive(&["fail", "tank", &second, "--force"]).expect(0);
        let check = |client: &mut Client| {
            assert!(client.read(0, 1 << 20) == pattern(1, 1 << 20), "{scheme}");
            assert!(client.read(1 << 20, 1 << 20) == pattern(2, 1 << 20), "{scheme}");
            assert!(client.read(2 << 20, 2 << 20) == pattern(3, 2 << 20), "{scheme}");
        };
        check(&mut client);
        let back = format!("d{second}");
        drive(&["online", "tank", &second, &back]).expect(0).says("is back");
        server.crash();
        let server = scratch.serve(&["."]);
        until_whole(&scratch);
        let mut client = Client::open(&socket, "tank/vm");
        check(&mut client);
        client.disconnect();
        server.stop();
    }
}

/// Blocks that a drive is to be given, from what `drive online` answers.
fn blocks_told(answer: &str) -> u64 {
    let told = answer.split(" blocks are being restored").next();
    let number = told.and_then(|told| told.split(' ').next_back());
    number.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("a number: {answer}"))
}

/// A drive that was away is given what was written meanwhile and no more, also if the server was
/// started anew; afterwards it has everything, and another one may be lost.
#[test]
fn a_drive_that_was_away_is_given_what_it_missed() {
    // Of `hybrid` the last four are RAID5, which the volume's stripes are written to whole.
    for (scheme, drives, away, lost) in [("raid5", 4, 2, 0), ("hybrid", 6, 3, 4)] {
        let scratch = Scratch::new();
        let names: Vec<String> = (0..drives).map(|at| format!("d{at}:128M")).collect();
        let names = names.iter().map(String::as_str);
        let create = ["create", "--scheme", scheme, "tank"].into_iter().chain(names);
        scratch.run(&create.collect::<Vec<_>>()).expect(0);
        scratch.run(&["volume", "create", "tank/vm", "64M", "--drives", "."]).expect(0);
        let socket = scratch.path("run/nbd.sock");
        let mut server = scratch.serve(&["."]);
        let mut client = Client::open(&socket, "tank/vm");
        (0..64).for_each(|at| client.write(at << 20, &pattern(at as u32, 1 << 20), 0));
        // Nothing is marked any more when it has agreed and been durable for some seconds: each
        // flush takes some of the marks back.
        scratch.run(&["wait", "tank", "background", "--timeout", "60"]).expect(0);
        client.flush();
        rest();
        (0..8).for_each(|_| client.flush());
        let (place, back) = (away.to_string(), format!("d{away}"));
        for turn in 0..2u64 {
            scratch.run(&["drive", "offline", "tank", &place, "--force"]).expect(0);
            client.write((turn * 20) << 20, &pattern(70, 4096), FUA);
            client.write((turn * 20 + 5) << 20, &pattern(71, 64 << 10), FUA);
            if turn == 1 {
                client.disconnect();
                server.crash();
                server = scratch.serve(&["."]);
                client = Client::open(&socket, "tank/vm");
            }
            let online = scratch.run(&["drive", "online", "tank", &place, &back]).expect(0);
            let blocks = blocks_told(&online.says("is back").out);
            // Some regions of 1 MiB, of 121.
            assert!((1..3000).contains(&blocks), "{scheme}: {blocks} of some 31000 blocks");
            until_whole(&scratch);
        }
        client.disconnect();
        server.stop();
        fs::remove_file(scratch.path(&format!("d{lost}"))).expect("one may be lost");
        let server = scratch.serve(&["."]);
        let mut client = Client::open(&socket, "tank/vm");
        for at in 0..64u64 {
            let mut data = pattern(at as u32, 1 << 20);
            match at {
                0 | 20 => data[..4096].copy_from_slice(&pattern(70, 4096)),
                5 | 25 => data[..64 << 10].copy_from_slice(&pattern(71, 64 << 10)),
                _ => {}
            }
            assert!(client.read(at << 20, 1 << 20) == data, "{scheme}: MiB {at}");
        }
        client.disconnect();
        server.stop();
    }
}

#[test]
fn a_scheme_without_redundancy_has_nothing_to_restore_from() {
    let scratch = make("raid0", 3);
    let _server = scratch.serve(&["."]);
    let fail = scratch.run(&["drive", "fail", "tank", "0", "--force"]);
    fail.expect(3).says("is needed: without it data would be lost");
}

#[test]
fn looking_at_a_pool_does_not_write_off_what_is_missing() {
    let scratch = make("raid5", 4);
    fs::create_dir(scratch.path("away")).expect("made");
    let hidden = scratch.path("away/d2");
    fs::rename(scratch.path("d2"), &hidden).expect("moved");
    scratch.run(&["status", "--drives", "."]).expect(1).says("drive 2").says("is missing");
    fs::rename(&hidden, scratch.path("d2")).expect("moved back");
    scratch.run(&["status", "--drives", "."]).expect(0).says("ONLINE");
}

#[test]
fn a_drive_that_was_away_is_not_taken_back() {
    let scratch = make("raid5", 4);
    fs::create_dir(scratch.path("away")).expect("made");
    let hidden = scratch.path("away/d2");
    fs::rename(scratch.path("d2"), &hidden).expect("moved");
    scratch.serve(&["."]).stop();
    fs::rename(&hidden, scratch.path("d2")).expect("moved back");
    let server = scratch.serve(&["."]);
    assert!(server.said.join("\n").starts_with("pool tank: degraded, "));
    server.stop();
}

#[test]
fn more_losses_than_a_scheme_bears_are_refused() {
    let scratch = make("raid5", 4);
    for name in ["d0", "d1"] {
        fs::remove_file(scratch.path(name)).expect("removed");
    }
    let refused = scratch.run(&["serve", "."]).expect(3);
    let refused = refused.says("2 drives of a group of 4 are lost, at most 1 may be");
    refused.says("give these drives too: 0 (").says("), 1 (");
}

#[test]
fn options_that_a_scheme_has_not_are_refused() {
    let scratch = Scratch::with_drives(4);
    let create = |options: &[&str]| {
        let drives = ["tank", "d0", "d1", "d2", "d3"];
        scratch.run(&[&["create"], options, &drives].concat())
    };
    create(&["--scheme", "raid7"]).expect(2).says("possible values: fusion, fusion-nd, raid0");
    create(&["--scheme", "raid5", "--parity", "2"]).expect(2).says("leave --parity out");
    create(&["--scheme", "raid5", "--width", "3"]).expect(2).says("has no groups");
    create(&["--scheme", "raid10", "--width", "3"]).expect(2).says("do not divide into groups");
    create(&["--scheme", "raid50"]).expect(2).says("too narrow");
    create(&["--scheme", "raid1", "--block-size", "5000"]).expect(2).says("power of two");
    create(&["--scheme", "raid5", "--flush-log", "all"]).expect(2).says("leave --flush-log out");
    create(&["--flush-log", "writer"]).expect(2).says("--flush-log");
    create(&["--scheme", "alternate", "--mirrors", "5"]).expect(2).says("use 2 to 4");
    create(&["--scheme", "alternate", "--mirrors", "3"]).expect(2).says("as many drives");
    let writer = ["--scheme", "alternate", "--mirrors", "4", "--flush-log", "writer", "--dry-run"];
    create(&writer).expect(0).says("four replicas in turn").says("one log");
    let mirrors = ["--scheme", "steering", "--mirrors", "2"];
    create(&[&mirrors[..], &["--parity", "2"]].concat()).expect(2).says("leave one of the options");
    create(&[&mirrors[..], &["--dry-run"]].concat()).expect(0).says("mirrors of 2");
    create(&["--scheme", "raid6", "--dry-run"]).expect(0).says("RAID6 2+2").says("nothing was");
    scratch.run(&["list", "--drives", "."]).expect(1);
}

#[test]
fn fusion_only_verbs_say_so() {
    let scratch = make("raid1", 3);
    let _server = scratch.serve(&["."]);
    scratch.run(&["volume", "limit", "tank/vm", "--iops", "5"]).expect(3).says("need the scheme");
    scratch.run(&["volume", "create", "tank/w", "1M", "--parity", "2"]).expect(2);
    scratch.run(&["volume", "resize", "tank/vm", "48M"]).expect(0);
    scratch.run(&["volume", "create", "tank/w", "1M"]).expect(0);
    scratch.run(&["volume", "delete", "tank/w"]).expect(0);
    scratch.run(&["volume", "list"]).expect(0).says("48 MiB");
}

#[test]
fn schemes_are_documented_by_their_headers() {
    let scratch = Scratch::new();
    let list = scratch.run(&["schemes"]).expect(0);
    for (scheme, ..) in SCHEMES {
        assert!(list.out.contains(&format!("\n{scheme} ")), "{scheme}");
        let text = scratch.run(&["schemes", scheme]).expect(0);
        assert!(text.out.contains("Device writes per user write:"), "{scheme}");
    }
    scratch.run(&["schemes", "raid7"]).expect(2).says("no such scheme");
    let json = scratch.run(&["schemes", "raid5", "--json"]).expect(0).json();
    assert_eq!(json["schemes"][0]["name"], "raid5");
    let page = scratch.run(&["schemes", "--markdown"]).expect(0).out;
    check_page("schemes.md", "schemes", &page);
}

/// A drive that is slow is led round: it is written to, and read by nobody, until it is said that
/// it may be again.
#[test]
fn a_drive_sits_out_whatever_the_scheme() {
    for scheme in ["raid5", "steering", "alternate", "mirror-log"] {
        let scratch = make(scheme, 4);
        let server = scratch.serve(&["."]);
        let mut client = Client::open(&scratch.path("run/nbd.sock"), "tank/vm");
        client.write(0, &pattern(1, 1 << 20), FUA);
        let drive = |words: &[&str]| scratch.run(&[&["drive"], words].concat());
        let decided = || scratch.run(&["status", "--json"]).json()["pools"][0]["drives"][1].clone();
        drive(&["sit-out", "tank", "1"]).expect(0).says("sits out");
        assert_eq!(decided()["decided"], "sit-out", "{scheme}");
        scratch.run(&["status"]).expect(0).says("good, sit-out").says("ONLINE");
        client.write(1 << 20, &pattern(2, 1 << 20), FUA);
        assert!(client.read(0, 1 << 20) == pattern(1, 1 << 20), "{scheme}");
        drive(&["online", "tank", "1"]).expect(0).says("is read like any other again");
        assert_eq!(decided()["decided"], "automatic", "{scheme}");
        let name = decided()["name"].as_str().expect("a path").to_owned();
        drive(&["sit-out", "tank", &name]).expect(0);
        drive(&["online", "tank", "1", "d1"]).expect(0).says("is read like any other again");
        drive(&["online", "tank", "1", "d1"]).expect(3).says("it is not lost");
        drive(&["sit-out", "tank", "1"]).expect(0);
        drive(&["auto", "tank", "1"]).expect(0).says("is read like any other again");
        assert!(client.read(1 << 20, 1 << 20) == pattern(2, 1 << 20), "{scheme}");
        client.disconnect();
        server.stop();
    }
    let scratch = make("raid0", 3);
    let _server = scratch.serve(&["."]);
    scratch.run(&["drive", "sit-out", "tank", "0"]).expect(3).says("no redundancy is left");
}

/// Longer than a mark stays after the last write of its region.
#[expect(clippy::disallowed_methods, reason = "a server in another process has no other clock")]
fn rest() {
    std::thread::sleep(std::time::Duration::from_secs(6));
}

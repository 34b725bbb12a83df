//! Pools of in-place schemes grow by further arrays, served or not.

use crate::nbd::{Client, FUA};
use crate::support::{Done, Scratch};

/// Schemes, the drives that they are made of, and what `create` is told besides.
const GROWN: [(&str, usize, &[&str]); 5] = [
    ("raid0", 2, &[]),
    ("raid5", 4, &[]),
    ("raid60", 8, &[]),
    ("hybrid", 6, &[]),
    ("steering", 4, &["--mirrors", "2"]),
];

fn names(first: usize, drives: usize, size: &str) -> Vec<String> {
    (first..first + drives).map(|at| format!("d{at}{size}")).collect()
}

fn pattern(seed: u64, len: usize) -> Vec<u8> {
    (0..len as u64).map(|at| (at * 31 + at / 512 + seed * 7) as u8).collect()
}

fn run(scratch: &Scratch, words: &[&str], more: &[String]) -> Done {
    let more = more.iter().map(String::as_str);
    scratch.run(&words.iter().copied().chain(more).collect::<Vec<_>>())
}

#[test]
fn a_pool_grows_while_it_is_served() {
    for (scheme, drives, shape) in GROWN {
        let scratch = Scratch::new();
        let create = [&["create", "--scheme", scheme, "tank"], shape].concat();
        run(&scratch, &create, &names(0, drives, ":64M")).expect(0);
        scratch.run(&["volume", "create", "tank/vm", "1G", "--drives", "."]).expect(0);
        let server = scratch.serve(&["."]);
        let mut client = Client::open(&scratch.path("run/nbd.sock"), "tank/vm");
        client.write(0, &pattern(0, 2 << 20), FUA);
        let add = [&["drive", "add", "--array", "tank"], shape].concat();
        if scheme != "raid0" {
            let refused = run(&scratch, &add, &names(drives, 1, ":64M"));
            assert_ne!(refused.exit, 0, "{scheme}: {}", refused.out);
            assert!(!scratch.path(&format!("d{drives}")).exists(), "{scheme}: it was refused");
        }
        let more = names(drives, drives, ":64M");
        run(&scratch, &add, &more).expect(0).says("drives added as a further array");
        scratch.run(&["status", "tank"]).expect(0).says("2 arrays, each");
        scratch.run(&["events", "--json"]).expect(0).says("array-added");
        (1..20).for_each(|at| client.write(at << 21, &pattern(at, 2 << 20), FUA));
        run(&scratch, &add, &[format!("d{drives}")]).expect(3);
        server.crash();
        scratch.run(&["inspect", &format!("d{drives}")]).expect(0).says("1 of pool");
        let all = format!("{0} of {0}", 2 * drives);
        scratch.run(&["list", "--drives", "."]).expect(0).says(&all);
        let server = scratch.serve(&["."]);
        let mut client = Client::open(&scratch.path("run/nbd.sock"), "tank/vm");
        let is_there = |at| client.read(at << 21, 2 << 20) == pattern(at, 2 << 20);
        assert!((0..20).all(is_there), "{scheme}");
        client.disconnect();
        server.stop();
    }
}

#[test]
fn a_pool_grows_that_nobody_serves() {
    let scratch = Scratch::new();
    let create = ["create", "--scheme", "raid50", "--width", "3", "tank"];
    run(&scratch, &create, &names(0, 6, ":64M")).expect(0);
    let add = ["drive", "add", "--drives", ".", "--array", "--width", "3", "tank"];
    run(&scratch, &add, &names(6, 6, ":96M")).expect(0).says("usable now");
    scratch.run(&["status", "--drives", "."]).expect(0).says("2 arrays, each");
    // Some of its drives are away: one of each group of each array.
    for lost in ["d0", "d3", "d6", "d9"] {
        std::fs::remove_file(scratch.path(lost)).expect("removed");
    }
    scratch.run(&["status", "--drives", "."]).expect(1).says("missing");
    for lost in ["d7", "d8"] {
        std::fs::remove_file(scratch.path(lost)).expect("removed");
    }
    scratch.run(&["status", "--drives", "."]).expect(3).says("at most 1 may be");
    for lost in ["d10", "d11"] {
        std::fs::remove_file(scratch.path(lost)).expect("removed");
    }
    let said = "array 1 of pool tank: none of its drives is here";
    scratch.run(&["status", "--drives", "."]).expect(2).says(said);
}

#[test]
fn arrays_are_for_schemes_that_have_them() {
    let scratch = Scratch::new();
    run(&scratch, &["create", "tank"], &names(0, 4, ":256M")).expect(0);
    let add = ["drive", "add", "--drives", ".", "--array", "tank"];
    run(&scratch, &add, &names(4, 4, ":256M")).expect(3).says("leave --array out");
    let alone = ["drive", "add", "--drives", ".", "--width", "3", "tank", "d9:1G"];
    scratch.run(&alone).expect(2).says("--array");
}

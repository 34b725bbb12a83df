//! `list`.

use std::fs;
use std::os::unix::net::UnixListener;

use crate::support::Scratch;

#[test]
fn pools_are_found_on_drives_and_at_the_server() {
    let scratch = Scratch::with_drives(7);
    scratch.run(&["create", "one", "d0", "d1", "d2", "d3"]).expect(0);
    scratch.run(&["create", "two", "d4", "d5", "d6"]).expect(0);
    let done = scratch.run(&["list", "--drives", "."]).expect(0);
    done.says("one").says("two").says("4 of 4").says("3 of 3");

    let _server = scratch.serve(&["d0", "d1", "d2", "d3"]);
    let served = scratch.run(&["list", "--json"]).expect(0).json();
    assert_eq!(served["pools"].as_array().map(Vec::len), Some(1));
    assert_eq!(served["pools"][0]["served"], true);
    assert_eq!(served["pools"][0]["volumes"], 0);
    let both = scratch.run(&["list", "--json", "--drives", "."]).expect(0).json();
    let is_served = |name: &str| {
        let pools = both["pools"].as_array().expect("a list");
        pools.iter().find(|pool| pool["name"] == name).map(|pool| pool["served"] == true)
    };
    assert_eq!((is_served("one"), is_served("two")), (Some(true), Some(false)));
}

#[test]
fn missing_drives_are_counted() {
    let scratch = Scratch::with_pool();
    fs::remove_file(scratch.path("d0")).expect("removed");
    scratch.run(&["list", "--drives", "."]).expect(1).says("degraded").says("3 of 4");
    fs::remove_file(scratch.path("d1")).expect("removed");
    fs::remove_file(scratch.path("d2")).expect("removed");
    scratch.run(&["list", "--drives", "."]).expect(1).says("incomplete").says("1 of 4");
}

#[test]
fn a_drive_found_by_several_links_is_one_drive() {
    let scratch = Scratch::with_pool();
    fs::create_dir(scratch.path("by-id")).expect("a directory");
    for index in 0..4 {
        for link in ["a", "b"] {
            let (to, name) = (format!("../d{index}"), format!("by-id/{link}{index}"));
            std::os::unix::fs::symlink(to, scratch.path(&name)).expect("a link");
        }
    }
    scratch.run(&["list", "--drives", "by-id", "."]).expect(0).says("4 of 4");
    scratch.run(&["status", "--drives", "by-id"]).expect(0).says("ONLINE");
}

/// The kernel holds the socket of a server that was killed until its ring is wound up: clients
/// still get in, and are hung up on. `list` said that the connection broke, and showed nothing.
#[test]
fn a_server_that_was_just_killed_hides_no_pool() {
    let scratch = Scratch::with_pool();
    fs::create_dir(scratch.path("run")).expect("a directory");
    let dying = UnixListener::bind(scratch.path("run/control.sock")).expect("it listens");
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let client = dying.accept().expect("a client");
            drop(dying);
            drop(client);
        });
        scratch.run(&["list", "--drives", "."]).expect(0).says("4 of 4");
    });
    scratch.run(&["list"]).expect(3).says("no server is running here");
}

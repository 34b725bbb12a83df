//! Spares, drives that leave, drives that hang: of pools of other schemes than `fusion`.

use std::time::Duration;

use serde_json::{Value, json};

use crate::drive::until_whole;
use crate::http::Control;
use crate::modelled::timed;
use crate::nbd::{Client, FUA, data};
use crate::support::Scratch;

/// A pool of RAID6 on d0 to d4, with a volume of 16 MiB.
fn raid6() -> Scratch {
    let scratch = Scratch::new();
    (0..5).for_each(|at| scratch.file(&format!("d{at}"), 64 << 20));
    scratch.run(&["create", "--scheme", "raid6", "tank", "d0", "d1", "d2", "d3", "d4"]).expect(0);
    scratch.run(&["volume", "create", "tank/vm", "16M", "--drives", "."]).expect(0);
    scratch
}

fn drives(scratch: &Scratch) -> Vec<Value> {
    let status = scratch.run(&["status", "--json"]).json();
    status["pools"][0]["drives"].as_array().expect("drives").clone()
}

/// What each drive of the pool is, by its file.
fn states(scratch: &Scratch) -> Vec<String> {
    let told = |drive: &Value| {
        let name = drive["name"].as_str().expect("a name");
        let file = name.rsplit('/').next().expect("a file");
        format!("{file} {}", drive["state"].as_str().expect("a state"))
    };
    drives(scratch).iter().map(told).collect()
}

/// Until no spare is left; a bounded while.
fn until_taken(scratch: &Scratch) {
    let taken = (0..1000).any(|_| states(scratch).len() == 5);
    assert!(taken, "no spare is taken");
}

#[test]
fn a_spare_is_added_found_again_and_takes_the_place_of_a_lost_drive() {
    let scratch = raid6();
    let add = |words: &[&str]| scratch.run(&[&["drive", "add", "tank"], words].concat());
    add(&["s0:64M", "--drives", "."]).expect(0).says("pool tank: 1 spares added");
    scratch.run(&["list", "--drives", "."]).expect(0).says("5 of 5");
    let server = scratch.serve(&["--rebuild-after", "1s", "."]);
    assert!(server.said.join("\n").starts_with("pool tank: online, 5 drives, 1 spares, "));
    add(&["small:8M"]).expect(3).says("smaller than any drive of the pool");
    assert!(!scratch.path("small").exists());
    add(&["d2"]).expect(3).says("in use");
    add(&["s1:64M"]).expect(0).says("1 spares added");
    scratch.run(&["inspect", "s0"]).expect(0).says("spare");
    assert_eq!(states(&scratch)[5..], ["s0 spare", "s1 spare"]);
    scratch.run(&["drive", "fail", "tank", "5"]).expect(3).says("is spare");
    scratch.run(&["drive", "remove", "tank", "s1"]).expect(3).says("no such drive");
    scratch.run(&["drive", "remove", "tank", "6"]).expect(0).says("is a spare no more");
    scratch.run(&["inspect", "s1"]).says("nothing known is on this drive");
    let mut client = Client::open(&scratch.path("run/nbd.sock"), "tank/vm");
    client.write(0, &data(1), FUA);
    scratch.run(&["drive", "fail", "tank", "1"]).expect(0).says("is failed");
    scratch.run(&["status"]).expect(1).says("takes the place of the lost drive");
    client.write(1 << 20, &data(2), FUA);
    until_taken(&scratch);
    scratch.run(&["wait", "tank", "rebuild", "--timeout", "30"]).expect(0);
    until_whole(&scratch);
    assert_eq!(states(&scratch)[1], "s0 active");
    scratch.run(&["events"]).expect(0).says("takes the place of drive 1");
    client.disconnect();
    server.crash();
    for lost in ["d0", "d1", "d2"] {
        std::fs::remove_file(scratch.path(lost)).expect("removed");
    }
    let server = scratch.serve(&["."]);
    let mut client = Client::open(&scratch.path("run/nbd.sock"), "tank/vm");
    assert!(client.read(0, 1 << 20) == data(1) && client.read(1 << 20, 1 << 20) == data(2));
    client.disconnect();
    server.stop();
}

#[test]
fn a_member_leaves_and_comes_back() {
    let scratch = raid6();
    let server = scratch.serve(&["--rebuild-after", "never", "."]);
    let mut client = Client::open(&scratch.path("run/nbd.sock"), "tank/vm");
    client.write(0, &data(1), FUA);
    let drive = |words: &[&str]| scratch.run(&[&["drive"], words].concat());
    drive(&["remove", "tank", "2"]).expect(3).says("no spare fits").says("drive add");
    drive(&["add", "tank", "s0:64M"]).expect(0);
    scratch.run(&["rebuild", "pause", "tank"]).expect(0).says("no spare takes a place");
    let removed = drive(&["remove", "tank", "2"]).expect(0);
    removed.says("serves on while").says("copied onto the spare");
    drive(&["remove", "tank", "2"]).expect(3).says("is being replaced already");
    let status = scratch.run(&["status"]).expect(0);
    status.says("paused").says("it is copied onto the drive that replaces it");
    scratch.run(&["wait", "tank", "rebuild", "--timeout", "0"]).expect(1);
    drive(&["remove", "tank", "2", "--stop"]).expect(0).says("stays");
    drive(&["remove", "tank", "2", "--stop"]).expect(3).says("not being replaced");
    drive(&["remove", "tank", "2"]).expect(0).says("serves on while");
    scratch.run(&["rebuild", "resume", "tank"]).expect(0).says("goes on");
    until_whole(&scratch);
    assert_eq!(states(&scratch)[2], "s0 active");
    scratch.run(&["inspect", "d2"]).says("nothing known is on this drive");
    // The one that has left may be a spare now.
    drive(&["add", "tank", "d2"]).expect(0).says("1 spares added");
    drive(&["offline", "tank", "3"]).expect(0).says("is offline");
    client.write(1 << 20, &data(2), FUA);
    drive(&["online", "tank", "3", "d3"]).expect(0).says("is back");
    until_whole(&scratch);
    assert!(client.read(0, 1 << 20) == data(1) && client.read(1 << 20, 1 << 20) == data(2));
    client.disconnect();
    server.stop();
}

/// Half a minute: as long as it takes until nobody waits for the drive any more.
#[test]
fn a_drive_that_hangs_is_failed_and_a_spare_takes_its_place() {
    let scratch = raid6();
    scratch.run(&["drive", "add", "tank", "s0:64M", "--drives", "."]).expect(0);
    let server = scratch.serve(&["--test-faults", "--rebuild-after", "1s", "."]);
    let mut client = Client::open(&scratch.path("run/nbd.sock"), "tank/vm");
    client.write(0, &data(1), FUA);
    let mut control = Control::connect(&scratch);
    let fault = json!({"effect": {"hang": {}}});
    let answer =
        control.ask(&json!({"request": "fault", "pool": "tank", "drive": "1", "fault": fault}));
    assert!(answer["done"].is_string(), "{answer}");
    let took = timed(|| client.write(1 << 20, &data(2), FUA));
    assert!(client.read(0, 1 << 20) == data(1) && client.read(1 << 20, 1 << 20) == data(2));
    assert!(took > Duration::from_secs(20) && took < Duration::from_secs(50), "{took:?}");
    until_taken(&scratch);
    until_whole(&scratch);
    assert_eq!(states(&scratch)[1], "s0 active");
    scratch.run(&["events"]).expect(0).says("hangs: no answer for 30 s");
    client.disconnect();
    drop(control);
    server.stop();
}

//! Drives that are away and come back while the server runs: they join by themselves, with what
//! they missed, unless an operator took them out of use.

use std::{fs, thread};

use serde_json::json;

use crate::drive::until_whole;
use crate::events::pause;
use crate::http::Control;
use crate::nbd::{Client, FUA, data};
use crate::schemes::{SCHEMES, make};
use crate::support::{Scratch, Server};

const MIB: u32 = 1 << 20;
const SOME: [&str; 3] = ["fusion", "raid5", "mirror-log"];

fn write(client: &mut Client, at: u8) {
    client.write(u64::from(at) << 20, &data(at), FUA);
}

fn pool(scheme: &str) -> Scratch {
    let scratch = Scratch::with_drives(4);
    scratch.run(&["create", "--scheme", scheme, "tank", "d0", "d1", "d2", "d3"]).expect(0);
    scratch.run(&["volume", "create", "tank/vm", "16M", "--drives", "."]).expect(0);
    fs::create_dir(scratch.path("away")).expect("made");
    scratch
}

fn serve(scratch: &Scratch) -> (Server, Client) {
    let server = scratch.serve(&["--test-faults", "--rebuild-after", "never", "."]);
    (server, Client::open(&scratch.path("run/nbd.sock"), "tank/vm"))
}

fn rename(scratch: &Scratch, from: &str, to: &str) {
    fs::rename(scratch.path(from), scratch.path(to)).expect("renamed");
}

fn until(scratch: &Scratch, arguments: &[&str], says: &str) {
    scratch.until(arguments, |done| done.out.contains(says));
}

fn lose_path(scratch: &Scratch, drive: &str) {
    let fault = json!({"effect": "gone"});
    let request = json!({"request": "fault", "pool": "tank", "drive": drive, "fault": fault});
    let answer = Control::connect(scratch).ask(&request);
    assert!(answer["done"].is_string(), "{answer}");
}

/// A look is made meanwhile.
fn wait_for_a_look() {
    // 7 seconds: more than one every 5 s.
    (0..140).for_each(|_| pause());
}

/// Everything is there without another drive.
fn check_without(scratch: &Scratch, client: &mut Client, drive: &str, last: u8) {
    until_whole(scratch);
    scratch.run(&["drive", "fail", "tank", drive, "--force"]).expect(0);
    (1..=last)
        .for_each(|at| assert!(client.read(u64::from(at) << 20, MIB) == data(at), "{at} MiB"));
}

/// They mostly wait.
fn of_some_schemes(check: fn(&str)) {
    thread::scope(|scope| {
        for scheme in SOME {
            scope.spawn(move || check(scheme));
        }
    });
}

/// A drive that was away when its pool was served the last time, and is there when it starts: what
/// it missed is given to it, too. One that an operator has failed waits for him.
#[test]
fn back_before_the_start() {
    let scratch = pool("fusion");
    let (server, mut client) = serve(&scratch);
    write(&mut client, 1);
    client.disconnect();
    server.stop();
    rename(&scratch, "d1", "away/d1");
    let (server, mut client) = serve(&scratch);
    write(&mut client, 2);
    client.disconnect();
    server.stop();
    rename(&scratch, "away/d1", "d1");
    let (server, mut client) = serve(&scratch);
    check_without(&scratch, &mut client, "2", 2);
    client.disconnect();
    let (out, _) = server.end();
    assert!(out.contains("drive 1: ./d1 is back"), "{out}");
    let (server, _client) = serve(&scratch);
    wait_for_a_look();
    until(&scratch, &["status"], "state: DEGRADED");
    server.stop();
}

#[test]
fn late_for_the_start() {
    of_some_schemes(|scheme| {
        let scratch = pool(scheme);
        let (server, mut client) = serve(&scratch);
        write(&mut client, 1);
        client.disconnect();
        server.end();
        rename(&scratch, "d1", "away/d1");
        let (server, mut client) = serve(&scratch);
        scratch.run(&["status"]).expect(1).says("DEGRADED");
        write(&mut client, 2);
        rename(&scratch, "away/d1", "again");
        until(&scratch, &["status"], "again");
        check_without(&scratch, &mut client, "2", 2);
        client.disconnect();
        let (out, _) = server.end();
        assert!(out.contains("drive 1: ./again is back"), "{out}");
    });
}

/// A shelf goes, and with it more drives than the pool can do without: it fails, writes nothing
/// more, and has everything when it is served again with these drives.
fn too_many(scheme: &str, drives: usize, gone: usize) {
    let scratch = if scheme == "fusion" { pool(scheme) } else { make(scheme, drives) };
    let (server, mut client) = serve(&scratch);
    (1..=4).for_each(|at| write(&mut client, at));
    (0..gone).for_each(|drive| lose_path(&scratch, &drive.to_string()));
    let mut is_refused = || client.try_write(5 << 20, &data(5), FUA) != 0;
    assert!((0..100).any(|_| is_refused()), "{scheme}: nobody notices");
    if scheme == "fusion" {
        let told = scratch.run(&["status"]).expect(1).says("state: FAILED");
        let told = told.says("are lost, and the pool bears 1: nothing is written any more");
        told.says("stop and start the server");
    }
    client.disconnect();
    server.end_badly();

    let (server, mut client) = serve(&scratch);
    let mut is_there = |at: u8| client.read(u64::from(at) << 20, MIB) == data(at);
    assert!((1..=4).all(&mut is_there), "{scheme}");
    if scheme == "fusion" {
        check_without(&scratch, &mut client, "3", 4);
    }
    client.disconnect();
    server.end();
}

#[test]
fn too_many_while_it_is_served() {
    thread::scope(|scope| {
        for (scheme, drives, _) in SCHEMES.into_iter().chain([("fusion", 4, &[][..])]) {
            // Mirrors can do without all but one.
            let gone = if scheme == "raid1" { drives } else { drives - 1 };
            scope.spawn(move || too_many(scheme, drives, gone));
        }
    });
}

#[test]
fn too_many_for_the_pool_to_be_opened() {
    of_some_schemes(|scheme| {
        let scratch = pool(scheme);
        let other = Scratch::with_drives(4);
        for drive in ["d0", "d1", "d2", "d3"] {
            fs::rename(other.path(drive), scratch.path(&format!("o{drive}"))).expect("moved");
        }
        scratch.run(&["create", "other", "od0", "od1", "od2", "od3"]).expect(0);
        ["d0", "d1"].iter().for_each(|name| rename(&scratch, name, &format!("away/{name}")));
        let server = scratch.serve(&["."]);
        scratch.run(&["status", "tank"]).expect(1).says("FAILED");
        rename(&scratch, "away/d0", "d0");
        until(&scratch, &["status", "tank"], "state: DEGRADED");
        rename(&scratch, "away/d1", "d1");
        until(&scratch, &["status", "tank"], "d1");
        until(&scratch, &["status", "tank"], "state: ONLINE");
        server.end();
    });
}

/// Operations fail as on a path that is lost, and the drive is found by another name later.
#[test]
fn lost_while_it_is_used() {
    of_some_schemes(|scheme| {
        let scratch = pool(scheme);
        let (server, mut client) = serve(&scratch);
        write(&mut client, 1);
        lose_path(&scratch, "1");
        rename(&scratch, "d1", "away/d1");
        write(&mut client, 2);
        until(&scratch, &["status"], "is failed");
        wait_for_a_look();
        write(&mut client, 3);
        rename(&scratch, "away/d1", "again");
        until(&scratch, &["status"], "again");
        check_without(&scratch, &mut client, "3", 3);
        client.disconnect();
        server.end();
    });
}

/// One is taken out of use by an operator, and pulled; the other has errors, and stays.
#[test]
fn who_was_not_away_or_is_not_wanted_does_not_join() {
    let scratch = pool("fusion");
    let (server, mut client) = serve(&scratch);
    scratch.run(&["drive", "offline", "tank", "1", "--force"]).expect(0);
    write(&mut client, 1);
    rename(&scratch, "d1", "away/d1");
    wait_for_a_look();
    rename(&scratch, "away/d1", "again");
    wait_for_a_look();
    scratch.run(&["status"]).expect(1).says("DEGRADED");
    scratch
        .run(&["drive", "online", "tank", "1", &scratch.path("again").display().to_string()])
        .expect(0);
    scratch.run(&["wait", "tank", "restore"]).expect(0);
    lose_path(&scratch, "2");
    write(&mut client, 2);
    until(&scratch, &["status"], "is failed");
    wait_for_a_look();
    scratch.run(&["status"]).expect(1).says("DEGRADED");
    client.disconnect();
    server.end();
}

/// Each half of a mirror went on without the other. While the one is served the other does not
/// join by itself: an operator says which of them counts.
#[test]
fn the_other_half_does_not_join() {
    let scratch = Scratch::with_drives(2);
    scratch.run(&["create", "--scheme", "raid1", "tank", "d0", "d1"]).expect(0);
    scratch.run(&["volume", "create", "tank/vm", "16M", "--drives", "."]).expect(0);
    fs::create_dir(scratch.path("away")).expect("made");
    for (own, other, at) in [("d1", "d0", 1), ("d0", "d1", 2)] {
        if !scratch.path(own).exists() {
            rename(&scratch, &format!("away/{own}"), own);
        }
        rename(&scratch, other, &format!("away/{other}"));
        let (server, mut client) = serve(&scratch);
        write(&mut client, at);
        client.disconnect();
        server.end();
    }
    let (server, mut client) = serve(&scratch);
    wait_for_a_look();
    rename(&scratch, "away/d1", "again");
    wait_for_a_look();
    scratch.run(&["status"]).expect(1).says("DEGRADED");
    let again = scratch.path("again").display().to_string();
    let refused = scratch.run(&["drive", "online", "tank", "1", &again]);
    refused.expect(3).says("went on without");
    scratch.run(&["drive", "replace", "--force", "tank", "1", &again]).expect(0);
    until_whole(&scratch);
    scratch.run(&["drive", "fail", "tank", "0", "--force"]).expect(0);
    assert!(client.read(2 << 20, MIB) == data(2), "what the half that was served has");
    assert!(client.read(1 << 20, MIB) != data(1), "and nothing of the other's");
    client.disconnect();
    server.end();
}

/// Opened without it, the pool would have to fill it.
#[test]
fn the_start_waits_for_late_drives() {
    let scratch = pool("raid5");
    rename(&scratch, "d1", "away/d1");
    let (from, to) = (scratch.path("away/d1"), scratch.path("d1"));
    let server = thread::scope(|scope| {
        scope.spawn(move || {
            (0..40).for_each(|_| pause());
            fs::rename(from, to).expect("renamed");
        });
        scratch.serve(&["--wait-for-drives", "50s", "."])
    });
    assert!(server.said[0].starts_with("drives are missing: waiting"), "{:?}", server.said);
    scratch.run(&["status"]).expect(0).says("ONLINE");
    server.stop();

    rename(&scratch, "d1", "away/d1");
    let server = scratch.serve(&["--wait-for-drives", "1s", "."]);
    scratch.run(&["status"]).expect(1).says("DEGRADED");
    server.end();
}

//! A drive's file is deleted while its pool is served: it can still be written, but is lost with
//! the server. Or it is cut, and what lay at its end is lost at once; or somebody writes over it.

use crate::events::pause;
use crate::nbd::{Client, FUA, data};
use crate::support::{Done, Scratch, Server};

const MIB: u32 = 1 << 20;

fn check(client: &mut Client, last: u8) {
    (1..=last)
        .for_each(|at| assert!(client.read(u64::from(at) << 20, MIB) == data(at), "{at} MiB"));
}

/// The events, with one that says this.
fn until_told(scratch: &Scratch, what: &str) -> Done {
    scratch.until(&["events"], |events| events.exit != 0 || events.out.contains(what)).expect(0)
}

/// A pool of five drives that is served, and a client of its volume that has written a MiB.
fn served(scheme: &str) -> (Scratch, Server, Client) {
    let scratch = Scratch::with_drives(5);
    let drives = ["d0", "d1", "d2", "d3", "d4"];
    scratch.run(&[&["create", "--scheme", scheme, "tank"], &drives[..]].concat()).expect(0);
    scratch.run(&["volume", "create", "tank/vm", "16M", "--drives", "."]).expect(0);
    let server = scratch.serve(&["--rebuild-after", "never", "."]);
    let mut client = Client::open(&scratch.path("run/nbd.sock"), "tank/vm");
    client.write(1 << 20, &data(1), FUA);
    (scratch, server, client)
}

/// The pool does without it and is whole again, without whatever the file held.
fn deleted_under(scheme: &str) {
    let (scratch, server, mut client) = served(scheme);

    // Under another name it is the same drive.
    std::fs::rename(scratch.path("d0"), scratch.path("renamed")).expect("it is there");
    client.write(2 << 20, &data(2), FUA);
    scratch.run(&["status"]).expect(0).says("ONLINE");

    std::fs::remove_file(scratch.path("d1")).expect("it is there");
    let told = until_told(&scratch, "drive-failed");
    told.says("drive-deleted").says("d1").says("its file was deleted: ");
    client.write(3 << 20, &data(3), FUA);
    let status = scratch.run(&["status"]).expect(1);
    status.says("DEGRADED").says("drive 1 (").says("is failed");
    check(&mut client, 3);
    scratch.run(&["drive", "replace", "tank", "1", "new:128M"]).expect(0);
    scratch.run(&["wait", "tank", "restore", "online", "--timeout", "60"]).expect(0);
    client.write(4 << 20, &data(4), FUA);
    client.disconnect();
    server.crash();

    let server = scratch.serve(&["."]);
    assert!(server.said[0].starts_with("pool tank: online"), "{:?}", server.said);
    let mut client = Client::open(&scratch.path("run/nbd.sock"), "tank/vm");
    check(&mut client, 4);
    client.disconnect();
    server.stop();
}

#[test]
fn of_fusion() {
    deleted_under("fusion");
}

#[test]
fn of_an_array_in_place() {
    deleted_under("raid5");
}

#[test]
fn of_copies_and_an_array() {
    deleted_under("tole-raid");
}

/// More than the pool can do without: the last is used on, so that it can be copied elsewhere.
#[test]
fn of_a_drive_that_is_needed() {
    let scratch = Scratch::with_pool();
    let server = scratch.serve(&["--rebuild-after", "never", "."]);
    let mut client = Client::open(&scratch.path("run/nbd.sock"), "tank/vm");
    client.write(1 << 20, &data(1), FUA);
    scratch.run(&["drive", "fail", "tank", "1", "--force"]).expect(0);
    std::fs::remove_file(scratch.path("d2")).expect("it is there");
    until_told(&scratch, "drive-deleted");
    client.write(2 << 20, &data(2), FUA);
    check(&mut client, 2);
    let active = |index: usize| {
        let status = scratch.run(&["status", "--json"]).json();
        status["pools"][0]["drives"][index]["state"] == "active"
    };
    assert!(active(2));
    scratch.run(&["drive", "replace", "tank", "1", "new:128M"]).expect(0);
    // Now the pool can do without it, and does.
    let failed = until_told(&scratch, "is not used any more: its file was deleted");
    assert_eq!(failed.out.matches("drive-deleted").count(), 1, "{}", failed.out);
    assert!(active(1) && !active(2));
    check(&mut client, 2);
    client.disconnect();
    server.crash();
}

/// The pool does without the drive.
fn goes_on_without_it(scratch: &Scratch, server: Server, mut client: Client) {
    client.write(2 << 20, &data(2), FUA);
    check(&mut client, 2);
    scratch.run(&["status"]).expect(1).says("DEGRADED").says("is failed");
    client.disconnect();
    server.crash();
}

/// The pool does without it.
fn cut_under(scheme: &str) {
    let (scratch, server, client) = served(scheme);

    // Nothing but a look at its size can tell: nobody writes there.
    let file = std::fs::File::options().write(true).open(scratch.path("d1")).expect("it is there");
    file.set_len(file.metadata().expect("open").len() - 4096).expect("cut");
    let told = until_told(&scratch, "drive-failed").says("drive-shrunk");
    told.says("drive 1 (").says("(134213632 bytes)").says("less than it had");
    goes_on_without_it(&scratch, server, client);
}

#[test]
fn a_drive_that_is_cut_under_fusion() {
    cut_under("fusion");
}

#[test]
fn a_drive_that_is_cut_under_an_array() {
    cut_under("raid5");
}

/// As `dd` does that was given the wrong name. Nobody reads there. Only a label that was seen
/// before is missed, and nothing tells us when it was.
fn overwrite_until_told(scratch: &Scratch) {
    let before = scratch.peek("d1", 0, MIB as usize);
    for _ in 0..10 {
        scratch.poke("d1", 0, &data(0));
        for _ in 0..400 {
            if scratch.run(&["events"]).out.contains("drive-overwritten") {
                return;
            }
            pause();
        }
        scratch.poke("d1", 0, &before);
        (0..200).for_each(|_| pause());
    }
    panic!("nobody notices");
}

fn overwritten_under(scheme: &str) {
    let (scratch, server, client) = served(scheme);
    overwrite_until_told(&scratch);
    until_told(&scratch, "drive-failed").says("drive 1 (./d1): somebody else has written to it");
    goes_on_without_it(&scratch, server, client);
}

#[test]
fn a_drive_that_is_overwritten_under_fusion() {
    overwritten_under("fusion");
}

#[test]
fn a_drive_that_is_overwritten_under_an_array() {
    overwritten_under("raid5");
}

/// It was needed, and so was the claim that says whose it is: requests get an answer, the server
/// ends when it is told to, and the next one has what the drive still holds.
fn overwritten_and_needed(scheme: &str, drives: &[&str]) {
    let scratch = Scratch::with_drives(drives.len());
    scratch.run(&[&["create", "--scheme", scheme, "tank"], drives].concat()).expect(0);
    scratch.run(&["volume", "create", "tank/vm", "16M", "--drives", "."]).expect(0);
    let server = scratch.serve(&["--rebuild-after", "never", "."]);
    let mut client = Client::open(&scratch.path("run/nbd.sock"), "tank/vm");
    client.write(1 << 20, &data(1), FUA);
    scratch.run(&["drive", "fail", "tank", "0", "--force"]).expect(0);
    check(&mut client, 1);

    // Two of four labels, and the claim; no data.
    scratch.poke("d1", 16 << 10, &data(0)[..900 << 10]);
    let mut is_refused = || {
        pause();
        client.try_write(2 << 20, &data(2), FUA) != 0
    };
    assert!((0..1800).any(|_| is_refused()), "nobody notices");
    client.disconnect();
    let (status, said) = server.end_badly();
    assert_eq!(status.code(), Some(3), "{said}");
    assert!(said.contains("drive 1 (./d1)"), "{said}");

    let server = scratch.serve(&["."]);
    let mut client = Client::open(&scratch.path("run/nbd.sock"), "tank/vm");
    check(&mut client, 1);
    client.disconnect();
    server.stop();
}

#[test]
fn a_drive_of_an_array_that_is_overwritten_and_needed() {
    overwritten_and_needed("raid1", &["d0", "d1"]);
}

#[test]
fn a_drive_of_fusion_that_is_overwritten_and_needed() {
    overwritten_and_needed("fusion", &["d0", "d1", "d2", "d3"]);
}

/// The drive is there, and nobody will find it by its name.
#[test]
fn a_drive_whose_name_another_has_is_used_on() {
    let (scratch, server, mut client) = served("fusion");
    std::fs::rename(scratch.path("d1"), scratch.path("renamed")).expect("it is there");
    scratch.file("d1", 1 << 20);
    until_told(&scratch, "drive-elsewhere").says("d1): what has its name now is another file");
    client.write(2 << 20, &data(2), FUA);
    check(&mut client, 2);
    scratch.run(&["status"]).expect(0).says("ONLINE");
    client.disconnect();
    server.crash();
}

/// A drive that comes back is given another label, which is no reason to miss the one before.
#[test]
fn a_drive_with_a_new_label_is_not_overwritten() {
    let (scratch, server, mut client) = served("raid5");
    scratch.run(&["drive", "offline", "tank", "1", "--force"]).expect(0);
    client.write(2 << 20, &data(2), FUA);
    let path = scratch.path("d1").display().to_string();
    scratch.run(&["drive", "online", "tank", "1", &path]).expect(0);
    scratch.run(&["wait", "tank", "restore", "online", "--timeout", "60"]).expect(0);
    // 15 seconds: each of four copies is looked at once in 8, and twice before it is missed.
    (0..300).for_each(|_| pause());
    let events = scratch.run(&["events"]).expect(0);
    assert!(!events.out.contains("drive-overwritten"), "{}", events.out);
    scratch.run(&["status"]).expect(0).says("ONLINE");
    check(&mut client, 2);
    client.disconnect();
    server.crash();
}

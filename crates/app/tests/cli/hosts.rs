//! A pool belongs to one host. Another one is stood for by claims that are written to the drives'
//! files; `scripts/tests/two_hosts.sh` has two that live.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use format::{BEAT_AT, CLAIM_AT, Claim, ClaimState, Holder, Uuid};

use crate::events::pause;
use crate::nbd::{Client, SHUTDOWN};
use crate::support::{DRIVE_BYTES, Scratch};

const DRIVES: [&str; 4] = ["d0", "d1", "d2", "d3"];

/// What a host that died leaves on a drive.
fn leave_claim(scratch: &Scratch, drive: &str) {
    let holder = Holder {
        host: Uuid([0xab; 16]),
        boot: Uuid([0xcd; 16]),
        process: 812,
        namespace: 1,
        started: 1,
        name: "elsewhere".to_owned(),
    };
    let (state, session) = (ClaimState::Held, Uuid([9; 16]));
    let claim = Claim { state, session, holder, beat: 5, seen_secs: 1_700_000_000 };
    let file = OpenOptions::new().write(true).open(scratch.path(drive)).expect("it is there");
    for at in [CLAIM_AT, BEAT_AT] {
        file.write_all_at(&claim.encode(), at).expect("it can be written");
    }
}

#[test]
fn a_drive_tells_who_has_it_open() {
    let scratch = Scratch::with_pool();
    let report = scratch.run(&["inspect", "d1", "--json"]).expect(0).json();
    assert_eq!(report["claim"]["state"], "released", "by the verb that made the volume");
    let server = scratch.serve(&["."]);
    let report = scratch.run(&["inspect", "d1", "--json"]).expect(0).json();
    assert_ne!(report["claim"]["state"], "released");
    let text = scratch.run(&["inspect", "d1"]).expect(0);
    text.says(" open: by host ").says("last seen ");
    server.crash();
    // Of a process that is gone.
    scratch.run(&["volume", "list", "--drives", "."]).expect(0);
    let server = scratch.serve(&["."]);
    server.stop();
    scratch.run(&["inspect", "d1"]).expect(0).says("released: by host ");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "of a test, in real time")]
fn what_another_host_has_open_is_refused_and_can_be_taken_over() {
    let scratch = Scratch::with_pool();
    // One is enough: the others may be those that the host had lost.
    leave_claim(&scratch, "d2");
    let served = [&["serve"], &DRIVES[..]].concat();
    let refused = scratch.run(&served).expect(3);
    refused.says("pool tank: host elsewhere (process 812) has it open").says("--take-over");
    for verb in [
        &["volume", "create", "tank/new", "1M", "--drives", "."][..],
        &["volume", "list", "--drives", "."],
        &["status", "--drives", "."],
        &["drive", "add", "tank", "new:128M", "--drives", "."],
    ] {
        scratch.run(verb).expect(3).says("host elsewhere (process 812) has it open");
    }
    // Who still waits for the other to be silent for long enough can be stopped.
    let begun = Instant::now();
    scratch.run_for("2", &["serve", "--take-over", "."]).expect(0).says("stopped");
    assert!(begun.elapsed() < Duration::from_secs(8), "it takes ten");
    let taken = scratch.serve(&["--take-over", "."]);
    let mut client = Client::open(&scratch.path("run/nbd.sock"), "tank/vm");
    client.write(0, &[7; 4096], 0);
    client.flush();
    client.disconnect();
    taken.stop();
    scratch.serve(&["."]).stop();
}

#[test]
fn a_server_that_was_taken_over_serves_no_more() {
    let scratch = Scratch::with_pool();
    let server = scratch.serve(&["."]);
    let mut client = Client::open(&scratch.path("run/nbd.sock"), "tank/vm");
    client.write(0, &[7; 4096], 0);
    leave_claim(&scratch, "d1");
    // A beat, and much patience.
    let status = (0..400).find_map(|_| {
        pause();
        let status = scratch.run(&["status"]);
        (status.exit != 0).then_some(status)
    });
    let status = status.expect("it is noticed");
    status.says("host elsewhere (process 812) has taken it over");
    assert_eq!(client.read_error(0, 4096), SHUTDOWN);
    scratch.run(&["events"]).says("pool-failed").says("host elsewhere");
    server.stop();
}

#[test]
fn a_pool_is_not_made_of_what_another_host_has_open() {
    let scratch = Scratch::with_drives(4);
    let made = [&["create", "tank"], &DRIVES[..]].concat();
    leave_claim(&scratch, "d3");
    scratch.run(&made).expect(3).says("host elsewhere (process 812) has it open");
    assert_eq!(
        std::fs::metadata(scratch.path("d3")).map(|file| file.len()).ok(),
        Some(DRIVE_BYTES)
    );
    let forced = [&made[..], &["--force"]].concat();
    scratch.run(&forced).expect(0).says("created");
}

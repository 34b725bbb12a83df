//! The machine's disk is full, and drives are files on it that have not had all their space yet:
//! writes are refused, the drives stay, and it goes on when there is room.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::events::pause;
use crate::nbd::{Client, FUA, data};
use crate::support::{Scratch, Server};

const MIB: usize = 1 << 20;
const ENOSPC: u32 = 28;

/// A server of its own mount namespace: `full` is a filesystem of 200 MiB with four drives of
/// 96 MiB on it, which have a pool.
fn serve(scratch: &Scratch, scheme: &str) -> Server {
    fs::create_dir(scratch.path("full")).expect("made");
    let script = format!(
        "set -e; mount --make-rprivate /; mount -t tmpfs -o size=200M none full
         truncate -s 96M full/d0 full/d1 full/d2 full/d3
         \"$1\" create --scheme {scheme} tank full/d0 full/d1 full/d2 full/d3 >&2
         \"$1\" volume create tank/vm 64M --drives full >&2; exec \"$@\""
    );
    let unshare = ["unshare", "--mount", "--map-root-user", "bash", "-c", &script, "-"];
    scratch.serve_by(&unshare, &["full"])
}

/// Writes to a file until there is no room.
fn fill(path: &Path) {
    let mut file = File::create(path).expect("made");
    loop {
        match file.write_all(&[1; 4096]) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::StorageFull => return,
            Err(error) => panic!("{error}"),
        }
    }
}

/// MiB after MiB, until one is refused; how many were written.
#[expect(clippy::disallowed_methods, reason = "of a test, in real time")]
fn write_until_refused(client: &mut Client) -> u8 {
    for at in 1..60 {
        let begun = Instant::now();
        let error = client.try_write(u64::from(at) << 20, &data(at), FUA);
        if error != 0 {
            assert_eq!(error, ENOSPC);
            assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
            return at;
        }
    }
    panic!("nothing was refused")
}

fn until_status(scratch: &Scratch, exit: i32) {
    scratch.until(&["status"], |status| status.exit == exit);
}

fn goes_on(scheme: &str) {
    let scratch = Scratch::new();
    let server = serve(&scratch, scheme);
    let mut client = Client::open(&scratch.path("run/nbd.sock"), "tank/vm");
    client.write(0, &data(100), FUA);
    let filler = server.root(&scratch.path("full/filler"));
    fill(&filler);
    let refused = write_until_refused(&mut client);
    // The next one need not wait for long to know.
    assert_eq!(client.try_write(60 << 20, &data(60), FUA), ENOSPC);
    assert_eq!(client.read(0, MIB as u32), data(100));
    until_status(&scratch, 1);
    let status = scratch.run(&["status"]).expect(1);
    let status = status.says("DEGRADED").says("No space left on device").says("make room");
    assert_eq!(status.out.matches("  active  ").count(), 4, "{}", status.out);
    scratch.run(&["volume", "create", "tank/new", "1M"]).expect(3).says("No space left on device");
    fs::remove_file(filler).expect("removed");
    // At once: what was refused goes on meanwhile, and must not come to lie over this.
    let last = u64::from(refused) << 20;
    while client.try_write(last, &data(200), FUA) != 0 {
        pause();
    }
    until_status(&scratch, 0);
    assert!(client.read(last, MIB as u32) == data(200), "an older write lies over a newer one");
    client.write(60 << 20, &data(60), FUA);
    for at in 1..refused {
        assert!(client.read(u64::from(at) << 20, MIB as u32) == data(at), "{at} MiB");
    }
    scratch.run(&["events"]).expect(0).says("no-room").says("room-again");
    client.disconnect();
    server.end();
}

#[test]
fn goes_on_with_fusion() {
    goes_on("fusion");
}

#[test]
fn goes_on_with_an_array() {
    goes_on("raid5");
}

#[test]
fn goes_on_with_copies() {
    goes_on("raid10");
}

/// A request in many pieces that was refused goes on when there is room. What is written after that
/// answer is newer, and must not come to lie below it.
#[test]
fn what_was_refused_does_not_come_after_what_follows() {
    const END: u64 = 40 << 20;
    let scratch = Scratch::new();
    let server = serve(&scratch, "raid5");
    let mut client = Client::open(&scratch.path("run/nbd.sock"), "tank/vm");
    client.write(0, &data(1), FUA);
    let filler = server.root(&scratch.path("full/filler"));
    fill(&filler);
    assert_eq!(client.try_zero(0, END as u32 + MIB as u32), ENOSPC);
    fs::remove_file(filler).expect("removed");
    while client.try_write(END, &data(200), FUA) != 0 {
        pause();
    }
    until_status(&scratch, 0);
    for _ in 0..20 {
        pause();
        assert!(client.read(END, MIB as u32) == data(200), "an older one lies over it");
    }
    assert!(client.read(0, MIB as u32) == data(0), "it was done in the end");
    client.disconnect();
    server.end();
}

/// A server that can't close its pools for want of room ends all the same.
#[test]
fn a_server_that_has_no_room_can_be_stopped() {
    let scratch = Scratch::new();
    let server = serve(&scratch, "raid5");
    let mut client = Client::open(&scratch.path("run/nbd.sock"), "tank/vm");
    fill(&server.root(&scratch.path("full/filler")));
    write_until_refused(&mut client);
    client.disconnect();
    let (status, err) = server.end_badly();
    assert_eq!(status.code(), Some(3), "{err}");
    assert!(err.contains("pool tank: not closed: drives can't be written"), "{err}");
}

//! Everything without root: who may open the drives needs no other right.

use crate::nbd::{Client, FUA};
use crate::support::{DRIVE_BYTES, Scratch};

#[test]
fn who_owns_the_drives_runs_a_pool() {
    let scratch = Scratch::of_a_user();
    for drive in ["d0", "d1", "d2", "d3", "d4"] {
        scratch.file(drive, DRIVE_BYTES);
        scratch.give(drive);
    }
    scratch.run(&["create", "tank", "d0", "d1", "d2", "d3"]).expect(0);
    scratch.run(&["volume", "create", "tank/vm", "64M", "--drives", "."]).expect(0);
    let server = scratch.serve(&["."]);
    let mut client = Client::open(&scratch.path("run/nbd.sock"), "tank/vm");
    let block = [7; 65536];
    client.write(0, &block, FUA);
    scratch.run(&["drive", "fail", "tank", "1", "--force"]).expect(0);
    scratch.run(&["drive", "replace", "tank", "1", "d4"]).expect(0);
    scratch.run(&["wait", "tank", "rebuild"]).expect(0);
    assert!(client.read(0, 65536) == block);
    client.disconnect();
    scratch.run(&["status", "tank"]).expect(0).says("ONLINE");
    server.stop();
}

#[test]
fn drives_of_others_are_refused_by_name() {
    let scratch = Scratch::of_a_user();
    for drive in ["d0", "d1", "d2"] {
        scratch.file(drive, DRIVE_BYTES);
        scratch.give(drive);
    }
    // Readable at most, to whoever runs this.
    scratch.file("d3", DRIVE_BYTES);
    scratch.read_only("d3");
    let done = scratch.run(&["create", "tank", "d0", "d1", "d2", "d3"]).expect(3);
    done.says("d3: permission denied");
    let blank = vec![0; 4096];
    assert!(scratch.peek("d0", 0, 4096) == blank, "nothing was written to the others");
}

//! `create`.

use crate::support::{DRIVE_BYTES, Scratch};

const DRIVES: [&str; 4] = ["d0", "d1", "d2", "d3"];

#[test]
fn a_pool_is_made_and_described() {
    let scratch = Scratch::with_drives(4);
    let done = scratch.run(&["create", "tank", "d0", "d1", "d2", "d3"]).expect(0);
    let done = done.says("RAID5 3+1").says("blocks of 64 KiB").says("usable").says("created");
    let done = done.says("spare: none: a lost drive has to be replaced");
    assert_eq!(done.err, "");
    let narrow =
        [&["create", "--dry-run", "--force", "--width", "3", "tank"], &DRIVES[..]].concat();
    scratch.run(&narrow).expect(0).says("what 1 lost drives held is restored on the others");
    scratch.run(&["status", "tank", "--drives", "."]).expect(0).says("ONLINE");
}

#[test]
fn a_dry_run_writes_nothing() {
    let scratch = Scratch::with_drives(3);
    let before = scratch.peek("d0", 0, DRIVE_BYTES as usize);
    let arguments = ["create", "--dry-run", "tank", "d0", "d1", "d2", "new:128M"];
    scratch.run(&arguments).expect(0).says("usable").says("nothing was written");
    assert_eq!(scratch.peek("d0", 0, DRIVE_BYTES as usize), before);
    assert!(!scratch.path("new").exists());
    scratch.run(&["list", "--drives", "."]).expect(1).says("no pools");
}

#[test]
fn files_are_made_for_it_and_removed_if_it_fails() {
    let scratch = Scratch::with_drives(1);
    let files = ["a:128M", "b:128M", "c:128M"];
    let bad = [&["create", "tank", "--block-size", "5000"], &files[..]].concat();
    scratch.run(&bad).expect(2);
    assert!(!scratch.path("a").exists());
    scratch.run(&[&["create", "tank", "d0"], &files[..]].concat()).expect(0);
    let made = std::fs::metadata(scratch.path("a")).expect("it was made");
    assert_eq!(made.len(), 128 << 20);
    scratch.run(&["status", "--drives", "."]).expect(0);
}

/// A drive that was used would keep what was on it, and copy it whenever it collects garbage.
#[test]
fn drives_are_told_that_they_hold_nothing() {
    for scheme in ["fusion", "raid5"] {
        for (options, kept) in [(&[][..], 0), (&["--no-discard"], 3)] {
            let scratch = Scratch::with_drives(3);
            let old = vec![7; DRIVE_BYTES as usize / 2];
            ["d0", "d1", "d2"].iter().for_each(|name| scratch.poke(name, 32 << 20, &old));
            let create = [&["create", "--scheme", scheme, "tank"], options, &DRIVES[..3]].concat();
            scratch.run(&create).expect(0);
            let keeps = |name: &&&str| scratch.peek(name, 80 << 20, 4096) == old[..4096];
            assert_eq!(DRIVES[..3].iter().filter(keeps).count(), kept, "{scheme} {options:?}");
        }
    }
}

#[test]
fn shape_and_block_size_are_as_asked() {
    let scratch = Scratch::with_drives(6);
    let arguments = ["create", "--parity", "2", "--width", "5", "--block-size", "16KiB", "tank"];
    let drives = ["d0", "d1", "d2", "d3", "d4", "d5"];
    let done = scratch.run(&[&arguments[..], &drives[..]].concat()).expect(0);
    done.says("RAID6 3+2, blocks of 16 KiB");
    let status = scratch.run(&["status", "--json", "--drives", "."]).expect(0).json();
    let pool = &status["pools"][0];
    assert_eq!((&pool["width"], &pool["parity"]), (&5.into(), &2.into()));
    assert_eq!(pool["block_size"], 16384);
    assert_eq!(pool["redundancy_margin"], 2);
}

#[test]
fn force_overwrites_filesystems_and_other_pools() {
    let scratch = Scratch::with_drives(4);
    scratch.poke("d2", 0, b"XFSB");
    let create = [&["create", "tank"], &DRIVES[..]].concat();
    scratch.run(&create).expect(3).says("holds XFS");
    let forced = [&["create", "--force", "tank"], &DRIVES[..]].concat();
    scratch.run(&forced).expect(0);
    let again = [&["create", "--force", "other"], &DRIVES[..]].concat();
    scratch.run(&again).expect(0);
    let list = scratch.run(&["list", "--json", "--drives", "."]).expect(0).json();
    assert_eq!(list["pools"].as_array().map(Vec::len), Some(1));
    assert_eq!(list["pools"][0]["name"], "other");
}

#[test]
fn larger_drives_are_said_to_be_wasted() {
    let scratch = Scratch::with_drives(3);
    scratch.file("large", 2 * DRIVE_BYTES);
    let done = scratch.run(&["create", "tank", "d0", "d1", "d2", "large"]).expect(0);
    done.says("of the larger drives have");
}

//! Every kind of drive that can be found at start, named or in a directory, needed or not.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;

use format::{LABEL_LEN, label_offsets};

use crate::support::{DRIVE_BYTES, Scratch};

const MIB: u64 = 1 << 20;
const NAMED: &[&str] = &["d0", "d1", "d2", "d3"];
const AND_X: &[&str] = &["d0", "d1", "d2", "d3", "x"];
const DIRECTORY: &[&str] = &["."];
const SCHEMES: [&str; 2] = ["fusion", "raid5"];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Then {
    Online,
    Degraded,
    Refused,
}

/// What happened to a pool on d0 to d3, what is given to `serve`, and what comes of it. `says` is
/// what the server's log has, or nothing of `x`, a drive that nobody lacks.
struct Row {
    what: &'static str,
    happened: fn(&Scratch),
    given: &'static [&'static str],
    then: Then,
    says: &'static str,
}

const ROWS: &[Row] = &[
    Row {
        what: "missing, named",
        happened: |scratch| fs::remove_file(scratch.path("d3")).expect("removed"),
        given: NAMED,
        then: Then::Degraded,
        says: "d3: no such file or device",
    },
    Row {
        what: "missing from a directory",
        happened: |scratch| fs::remove_file(scratch.path("d3")).expect("removed"),
        given: DIRECTORY,
        then: Then::Degraded,
        says: "missing",
    },
    Row {
        what: "unreadable",
        happened: |scratch| damage(scratch, "d3"),
        given: DIRECTORY,
        then: Then::Degraded,
        says: "d3: is a SteadyRAID drive, but",
    },
    Row {
        what: "unreadable, and not needed",
        happened: |scratch| (scratch.copy("d3", "x"), damage(scratch, "x")).1,
        given: DIRECTORY,
        then: Then::Online,
        says: "",
    },
    Row {
        what: "unreadable, not needed, and named",
        happened: |scratch| (scratch.copy("d3", "x"), damage(scratch, "x")).1,
        given: AND_X,
        then: Then::Online,
        says: "x: is a SteadyRAID drive, but",
    },
    Row {
        what: "newer",
        happened: |scratch| renew(scratch, "d3"),
        given: DIRECTORY,
        then: Then::Refused,
        says: "pool tank: a drive of it is missing, and ./d3 may be that: is a SteadyRAID drive, \
               but on-disk format version 9",
    },
    Row {
        what: "newer, and not needed",
        happened: |scratch| (scratch.copy("d3", "x"), renew(scratch, "x")).1,
        given: DIRECTORY,
        then: Then::Online,
        says: "",
    },
    Row {
        what: "newer, not needed, and named",
        happened: |scratch| (scratch.copy("d3", "x"), renew(scratch, "x")).1,
        given: AND_X,
        then: Then::Online,
        says: "x: is a SteadyRAID drive, but on-disk format version 9",
    },
    Row {
        what: "foreign",
        happened: |scratch| scratch.file("x", DRIVE_BYTES),
        given: DIRECTORY,
        then: Then::Online,
        says: "",
    },
    Row {
        what: "foreign, and named",
        happened: |scratch| scratch.file("x", DRIVE_BYTES),
        given: AND_X,
        then: Then::Online,
        says: "x: is not a SteadyRAID drive, and is left out",
    },
    Row {
        what: "a copy",
        happened: |scratch| scratch.copy("d3", "x"),
        given: DIRECTORY,
        then: Then::Refused,
        says: "./x",
    },
    Row {
        what: "the disk whose last partition is a drive",
        happened: |scratch| enclose(scratch, "d3", "x"),
        given: DIRECTORY,
        then: Then::Online,
        says: "",
    },
    Row {
        what: "grown",
        happened: |scratch| resize(scratch, "d3", DRIVE_BYTES + 8 * MIB),
        given: DIRECTORY,
        then: Then::Online,
        says: "",
    },
    Row {
        what: "cut",
        happened: |scratch| resize(scratch, "d3", DRIVE_BYTES - 8 * MIB),
        given: DIRECTORY,
        then: Then::Degraded,
        says: "d3: has 120 MiB, and had 128 MiB when it was last used",
    },
    Row {
        what: "two of them cut",
        happened: |scratch| {
            ["d2", "d3"].iter().for_each(|name| resize(scratch, name, DRIVE_BYTES - 8 * MIB));
        },
        given: DIRECTORY,
        then: Then::Refused,
        says: "pool tank:",
    },
];

#[test]
fn what_follows_is_as_the_table_says() {
    for scheme in SCHEMES {
        for row in ROWS {
            let scratch = Scratch::with_drives(4);
            create(&scratch, scheme);
            (row.happened)(&scratch);
            check(&scratch, &format!("{scheme}: {}", row.what), row);
        }
    }
}

fn create(scratch: &Scratch, scheme: &str) {
    scratch.run(&["create", "--scheme", scheme, "tank", "d0", "d1", "d2", "d3"]).expect(0);
    scratch.run(&["volume", "create", "tank/vm", "64M", "--drives", "."]).expect(0);
}

fn check(scratch: &Scratch, case: &str, row: &Row) {
    let told = if row.then == Then::Refused {
        scratch.run(&[&["serve"], row.given].concat()).expect(3).err
    } else {
        let server = scratch.serve(row.given);
        let status = scratch.run(&["status"]);
        let online = status.out.contains("state: ONLINE");
        assert_eq!(online, row.then == Then::Online, "{case}: {}", status.out);
        server.end().1
    };
    assert!(told.contains(row.says), "{case}: {told}");
    assert!(!row.says.is_empty() || !told.contains("/x"), "{case}: {told}");
}

fn resize(scratch: &Scratch, name: &str, size: u64) {
    let file = File::options().write(true).open(scratch.path(name)).expect("the drive");
    file.set_len(size).expect("resized");
}

/// No copy of its label can be read.
fn damage(scratch: &Scratch, name: &str) {
    label_offsets(DRIVE_BYTES).iter().for_each(|at| scratch.poke(name, at + 100, &[0xa5; 64]));
}

/// As a later version would have written it.
fn renew(scratch: &Scratch, name: &str) {
    for at in label_offsets(DRIVE_BYTES) {
        let mut label = scratch.peek(name, at, LABEL_LEN);
        label[8] = 9;
        // All but the number of the copy, and the checksum itself.
        let sum = crc32c::crc32c(&label[..10]);
        let sum = crc32c::crc32c_append(sum, &label[11..12]);
        let sum = crc32c::crc32c_append(sum, &label[16..]);
        label[12..16].copy_from_slice(&sum.to_le_bytes());
        scratch.poke(name, at, &label);
    }
}

/// A disk with something before its only partition, which ends where the disk does.
fn enclose(scratch: &Scratch, partition: &str, disk: &str) {
    scratch.file(disk, DRIVE_BYTES + MIB);
    scratch.poke(disk, MIB, &scratch.peek(partition, 0, DRIVE_BYTES as usize));
}

fn forbid(scratch: &Scratch, name: &str) {
    fs::set_permissions(scratch.path(name), Permissions::from_mode(0o000)).expect("set");
}

/// A drive that may not be read was written off as missing if it was found in a directory.
#[test]
fn without_permission_the_pool_is_refused_if_it_lacks_a_drive() {
    for scheme in SCHEMES {
        let scratch = Scratch::of_a_user();
        for drive in ["d0", "d1", "d2", "d3", "x"] {
            scratch.file(drive, DRIVE_BYTES);
            scratch.give(drive);
        }
        create(&scratch, scheme);
        forbid(&scratch, "x");
        let row = |given, then, says| Row { what: "", happened: |_| (), given, then, says };
        check(&scratch, scheme, &row(DIRECTORY, Then::Online, ""));
        check(&scratch, scheme, &row(AND_X, Then::Online, "x: permission denied"));
        forbid(&scratch, "d3");
        for given in [DIRECTORY, NAMED] {
            check(
                &scratch,
                scheme,
                &row(given, Then::Refused, "d3 may be that: permission denied"),
            );
        }
        fs::set_permissions(scratch.path("d3"), Permissions::from_mode(0o600)).expect("set");
        check(&scratch, scheme, &row(DIRECTORY, Then::Online, ""));
    }
}

/// Its filesystem went read-only: the pool was not served at all.
#[test]
fn who_cannot_be_written_is_left_out_if_the_pool_can_do_without() {
    for scheme in SCHEMES {
        let scratch = Scratch::with_drives(3);
        fs::create_dir(scratch.path("ro")).expect("made");
        let script = format!(
            "set -e; mount --make-rprivate /; mount -t tmpfs -o size=200M none ro
             truncate -s {DRIVE_BYTES} ro/d3
             \"$1\" create --scheme {scheme} tank d0 d1 d2 ro/d3 >&2
             mount -o remount,ro ro
             \"$1\" status --drives . ro >&2; exec \"$@\""
        );
        let unshare = ["unshare", "--mount", "--map-root-user", "bash", "-c", &script, "-"];
        let server = scratch.serve_by(&unshare, &[".", "ro"]);
        scratch.run(&["status"]).expect(1).says("DEGRADED");
        let (_, told) = server.end();
        assert!(told.contains("ro/d3: is read-only, and is left out of pool tank"), "{told}");
    }
}

/// The other half was lost before, and does not know it: it would be served as what the pool holds.
#[test]
fn who_alone_has_the_newest_label_is_not_left_out() {
    let scratch = Scratch::with_drives(2);
    scratch.run(&["create", "--scheme", "raid1", "tank", "d0", "d1"]).expect(0);
    scratch.run(&["volume", "create", "tank/vm", "16M", "--drives", "."]).expect(0);
    fs::rename(scratch.path("d1"), scratch.path("away")).expect("renamed");
    scratch.serve(&["d0"]).end();
    fs::rename(scratch.path("away"), scratch.path("d1")).expect("renamed");
    resize(&scratch, "d0", DRIVE_BYTES - 8 * MIB);
    let what = "the drive that knows best what the pool holds can't be used";
    scratch.run(&["serve", "."]).expect(3).says(what);
    scratch.run(&["status", "--drives", "."]).expect(3).says(what);
    resize(&scratch, "d0", DRIVE_BYTES);
    scratch.serve(&["."]).end();
}

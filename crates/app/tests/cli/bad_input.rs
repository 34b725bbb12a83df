//! What operators get wrong, and what they are told: a table of cases, each with its exit code
//! and message. docs/errors.md shows the same cases with the whole output.
//!
//! The page is compared with what really happens; `BLESS=1 cargo test -p app --test cli bad_input` writes
//! it anew, for the diff to be read.

use std::fmt::Write;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use crate::nbd::Client;
use crate::support::{BINARY, DRIVE_BYTES, Done, Scratch, Server, check_page, run};

/// What must go on while the command runs.
#[derive(Default)]
struct Guards {
    _servers: Vec<Server>,
    _clients: Vec<Client>,
}

struct Case {
    name: &'static str,
    /// For the page: what is wrong here.
    why: &'static str,
    world: fn() -> (Scratch, Guards),
    command: &'static [&'static str],
    exit: i32,
    says: &'static str,
    /// Root may write to read-only files; run without that privilege.
    as_mere_user: bool,
}

const CASE: Case = Case {
    name: "",
    why: "",
    world: || drives(4),
    command: &[],
    exit: 3,
    says: "",
    as_mere_user: false,
};

fn alone(scratch: Scratch) -> (Scratch, Guards) {
    (scratch, Guards::default())
}

fn drives(count: usize) -> (Scratch, Guards) {
    alone(Scratch::with_drives(count))
}

fn pool() -> (Scratch, Guards) {
    alone(Scratch::with_pool())
}

fn served() -> (Scratch, Guards) {
    let scratch = Scratch::with_pool();
    let server = scratch.serve(&["."]);
    (scratch, Guards { _servers: vec![server], ..Guards::default() })
}

/// A pool that lost drives.
fn without(lost: &[&str]) -> (Scratch, Guards) {
    let scratch = Scratch::with_pool();
    lost.iter().for_each(|name| fs::remove_file(scratch.path(name)).expect("removed"));
    alone(scratch)
}

const LABEL_LEN: usize = 16384;

fn label_offsets() -> [u64; 4] {
    format::label_offsets(DRIVE_BYTES)
}

/// Rewrites every label of a drive as a newer version of the software would.
fn from_the_future(scratch: &Scratch, name: &str) {
    for offset in label_offsets() {
        let mut label = scratch.peek(name, offset, LABEL_LEN);
        label[8..10].copy_from_slice(&99u16.to_le_bytes());
        let crc = crc32c::crc32c(&label[..10]);
        let crc = crc32c::crc32c_append(crc, &label[11..12]);
        let crc = crc32c::crc32c_append(crc, &label[16..]);
        label[12..16].copy_from_slice(&crc.to_le_bytes());
        scratch.poke(name, offset, &label);
    }
}

const CASES: &[Case] = &[
    // Mistakes in a command to make a pool.
    Case {
        name: "too-few-drives",
        why: "A stripe needs drives to be spread over.",
        command: &["create", "tank", "d0", "d1"],
        exit: 2,
        says: "too few",
        ..CASE
    },
    Case {
        name: "width-over-drives",
        why: "A stripe can't be wider than the pool.",
        command: &["create", "--width", "9", "tank", "d0", "d1", "d2", "d3"],
        exit: 2,
        says: "a stripe of 9 blocks needs 9 different drives",
        ..CASE
    },
    Case {
        name: "width-under-parity",
        why: "A stripe needs room for data beside its parity.",
        command: &["create", "--parity", "2", "--width", "2", "tank", "d0", "d1", "d2", "d3"],
        exit: 2,
        says: "too narrow",
        ..CASE
    },
    Case {
        name: "parity-out-of-range",
        why: "One or two drives may die; other promises can't be kept.",
        command: &["create", "--parity", "3", "tank", "d0", "d1", "d2", "d3"],
        exit: 2,
        says: "invalid value '3' for '--parity",
        ..CASE
    },
    Case {
        name: "bad-block-size",
        why: "Blocks are powers of two.",
        command: &["create", "--block-size", "5000", "tank", "d0", "d1", "d2", "d3"],
        exit: 2,
        says: "block size 5000: use a power of two",
        ..CASE
    },
    Case {
        name: "bad-pool-name",
        why: "Names become parts of export names and of paths.",
        command: &["create", "my pool", "d0", "d1", "d2", "d3"],
        exit: 2,
        says: "pool name 'my pool'",
        ..CASE
    },
    Case {
        name: "drive-too-small",
        why: "Journal, checkpoints and some zones must fit.",
        world: || {
            let scratch = Scratch::with_drives(3);
            scratch.file("small", 1 << 20);
            alone(scratch)
        },
        command: &["create", "tank", "d0", "d1", "d2", "small"],
        says: "1 MiB is too small",
        ..CASE
    },
    Case {
        name: "drive-given-twice",
        why: "Two copies on one drive are one copy.",
        command: &["create", "tank", "d0", "d1", "d2", "d1"],
        says: "d1: is given twice",
        ..CASE
    },
    Case {
        name: "drive-given-twice-by-a-link",
        why: "The same drive may have several names; device and inode tell.",
        world: || {
            let scratch = Scratch::with_drives(4);
            symlink("d1", scratch.path("link")).expect("a link");
            alone(scratch)
        },
        command: &["create", "tank", "d0", "d1", "d2", "link"],
        says: "link: is the same drive as d1",
        ..CASE
    },
    Case {
        name: "file-given-twice",
        why: "Also for files that would be made.",
        command: &["create", "tank", "d0", "d1", "new:128M", "./new:128M"],
        says: "./new: is the same drive as new",
        ..CASE
    },
    Case {
        name: "drive-of-another-pool",
        why: "Somebody may still need that pool.",
        world: || {
            let scratch = Scratch::with_pool();
            scratch.file("new", DRIVE_BYTES);
            alone(scratch)
        },
        command: &["create", "other", "new", "d0", "d1", "d2"],
        says: "d0: belongs to SteadyRAID pool tank",
        ..CASE
    },
    Case {
        name: "drive-with-a-filesystem",
        why: "So may somebody the filesystem.",
        world: || {
            let (scratch, guards) = drives(4);
            scratch.poke("d2", 0, b"XFSB");
            (scratch, guards)
        },
        command: &["create", "tank", "d0", "d1", "d2", "d3"],
        says: "d2: holds XFS",
        ..CASE
    },
    Case {
        name: "drive-in-use",
        why: "A drive of a running pool is not taken away from it, with or without --force.",
        world: served,
        command: &["create", "--force", "other", "d0", "d1", "d2", "d3"],
        says: "d0: in use by another process",
        ..CASE
    },
    Case {
        name: "no-such-drive",
        why: "A typing mistake, or a drive that is not attached.",
        command: &["create", "tank", "d0", "d1", "d2", "d9"],
        says: "d9: no such file or device",
        ..CASE
    },
    Case {
        name: "no-such-directory",
        why: "A file can only be made where there is a directory.",
        command: &["create", "tank", "d0", "d1", "d2", "nowhere/d9:128M"],
        says: "nowhere/d9: its directory does not exist",
        ..CASE
    },
    Case {
        name: "directory-as-drive",
        why: "Directories are searched for pools, not made into drives.",
        world: || {
            let scratch = Scratch::with_drives(3);
            fs::create_dir(scratch.path("d9")).expect("a directory");
            alone(scratch)
        },
        command: &["create", "tank", "d0", "d1", "d2", "d9"],
        says: "d9: is a directory",
        ..CASE
    },
    Case {
        name: "character-device-as-drive",
        why: "Only block devices and files keep what is written to them.",
        command: &["create", "tank", "d0", "d1", "d2", "/dev/null"],
        says: "/dev/null: is a character device",
        ..CASE
    },
    Case {
        name: "memory-as-drive",
        why: "Memory ends with the process, and `create` ends at once.",
        command: &["create", "tank", "mem:1G", "mem:1G", "mem:1G"],
        exit: 2,
        says: "memory lives only as long",
        ..CASE
    },
    Case {
        name: "file-exists",
        why: "PATH:SIZE makes a file; it never changes one.",
        command: &["create", "tank", "d0", "d1", "d2", "d3:128M"],
        says: "d3: exists already",
        ..CASE
    },
    Case {
        name: "bad-file-size",
        why: "What follows the last colon of a path that doesn't exist is a size.",
        command: &["create", "tank", "d0", "d1", "d2", "new:12Q"],
        exit: 2,
        says: "'12Q' is not a size",
        ..CASE
    },
    Case {
        name: "full-disk",
        why: "Space for files is really taken, so it must be there. Nothing is made before.",
        command: &["create", "tank", "d0", "d1", "d2", "new:900T"],
        says: "no space",
        ..CASE
    },
    Case {
        name: "read-only-file",
        why: "A drive must be writable.",
        world: || {
            let (scratch, guards) = drives(4);
            let mode = fs::Permissions::from_mode(0o444);
            fs::set_permissions(scratch.path("d1"), mode).expect("changed");
            (scratch, guards)
        },
        command: &["create", "tank", "d0", "d1", "d2", "d3"],
        says: "d1: permission denied",
        as_mere_user: true,
        ..CASE
    },
    // What is wrong with drives of a pool.
    Case {
        name: "one-label-damaged",
        why: "Each drive has four copies of its label; one is enough.",
        world: || {
            let (scratch, guards) = pool();
            scratch.poke("d1", label_offsets()[0], &[0xff; LABEL_LEN]);
            (scratch, guards)
        },
        command: &["status", "tank", "--drives", "."],
        exit: 0,
        says: "state: ONLINE",
        ..CASE
    },
    Case {
        name: "all-labels-damaged",
        why: "The pool does without the drive.",
        world: || {
            let (scratch, guards) = pool();
            label_offsets().iter().for_each(|at| scratch.poke("d1", at + 100, &[0xff; 3]));
            (scratch, guards)
        },
        command: &["status", "tank", "--drives", "d0", "d1", "d2", "d3"],
        exit: 1,
        says: "d1: is a SteadyRAID drive, but damaged",
        ..CASE
    },
    Case {
        name: "all-labels-overwritten",
        why: "Nothing says any more that this was a drive of a pool.",
        world: || {
            let (scratch, guards) = pool();
            label_offsets().iter().for_each(|at| scratch.poke("d1", *at, &[0; LABEL_LEN]));
            (scratch, guards)
        },
        command: &["status", "tank", "--drives", "d0", "d1", "d2", "d3"],
        exit: 1,
        says: "d1: is not a SteadyRAID drive, and is left out",
        ..CASE
    },
    Case {
        name: "newer-format-version",
        why: "What newer software wrote is neither understood nor touched.",
        world: || {
            let (scratch, guards) = pool();
            ["d0", "d1", "d2", "d3"].iter().for_each(|name| from_the_future(&scratch, name));
            (scratch, guards)
        },
        command: &["serve", "d0", "d1", "d2", "d3"],
        says: "on-disk format version 99 is not known",
        ..CASE
    },
    Case {
        name: "newer-format-version-overwritten",
        why: "Nor is it overwritten by accident.",
        world: || {
            let (scratch, guards) = pool();
            ["d0", "d1", "d2", "d3"].iter().for_each(|name| from_the_future(&scratch, name));
            (scratch, guards)
        },
        command: &["create", "tank", "d0", "d1", "d2", "d3"],
        says: "d0: was a SteadyRAID drive: on-disk format version 99",
        ..CASE
    },
    Case {
        name: "drive-missing",
        why: "A pool is opened without the drives that its parity can make up for.",
        world: || without(&["d2"]),
        command: &["status", "--drives", "d0", "d1", "d2", "d3"],
        exit: 1,
        says: "d2: no such file or device",
        ..CASE
    },
    Case {
        name: "too-many-drives-missing",
        why: "But not without more.",
        world: || without(&["d2", "d3"]),
        command: &["serve", "."],
        says: "2 of 4 drives are missing, at most 1 may be",
        ..CASE
    },
    Case {
        name: "copied-drive",
        why: "A copy of a drive is not another drive, and one of the two is out of date.",
        world: || {
            let (scratch, guards) = pool();
            scratch.copy("d1", "d1.copy");
            (scratch, guards)
        },
        command: &["serve", "."],
        says: "is a copy of",
        ..CASE
    },
    Case {
        name: "no-pool-on-drives",
        why: "Serving needs drives that `create` was run on.",
        command: &["serve", "d0", "d1"],
        says: "no SteadyRAID pool was found",
        ..CASE
    },
    Case {
        name: "two-servers-on-one-pool",
        why: "Drives are claimed by the process that uses them.",
        world: served,
        command: &["serve", "--nbd", "unix:other.sock", "--control", "other-c.sock", "."],
        says: "in use by another process",
        ..CASE
    },
    Case {
        name: "two-servers-on-one-address",
        why: "Sockets have one listener.",
        world: served,
        command: &["serve", "."],
        says: "another process listens there",
        ..CASE
    },
    Case {
        name: "status-of-drives-in-use",
        why: "Only the server knows the state of a pool that it serves.",
        world: served,
        command: &["status", "--drives", "."],
        says: "in use by another process",
        ..CASE
    },
    // Volumes.
    Case {
        name: "volume-exists",
        why: "Names of volumes are unique in a pool.",
        world: pool,
        command: &["volume", "create", "tank/vm", "1G", "--drives", "."],
        says: "tank/vm: exists already",
        ..CASE
    },
    Case {
        name: "no-such-volume",
        why: "A typing mistake.",
        world: pool,
        command: &["volume", "resize", "tank/vn", "1G", "--drives", "."],
        says: "tank/vn: no such volume",
        ..CASE
    },
    Case {
        name: "bad-volume-name",
        why: "Names become parts of export names.",
        world: pool,
        command: &["volume", "create", "tank/a b", "1G", "--drives", "."],
        exit: 2,
        says: "volume name 'a b'",
        ..CASE
    },
    Case {
        name: "volume-without-pool",
        why: "A volume is named with its pool.",
        world: pool,
        command: &["volume", "create", "vm2", "1G", "--drives", "."],
        exit: 2,
        says: "'vm2' is not POOL/VOL",
        ..CASE
    },
    Case {
        name: "not-a-size",
        why: "Sizes are numbers with a unit.",
        world: pool,
        command: &["volume", "create", "tank/vm2", "lots", "--drives", "."],
        exit: 2,
        says: "'lots' is not a size",
        ..CASE
    },
    Case {
        name: "decimal-unit",
        why: "KB is 1000 to some and 1024 to others.",
        world: pool,
        command: &["volume", "create", "tank/vm2", "64KB", "--drives", "."],
        exit: 2,
        says: "'64KB' is not a size",
        ..CASE
    },
    Case {
        name: "size-not-in-sectors",
        why: "Volumes consist of sectors of 512 bytes.",
        world: pool,
        command: &["volume", "create", "tank/vm2", "1000", "--drives", "."],
        exit: 2,
        says: "a size of 1000 bytes is not a positive multiple of 512",
        ..CASE
    },
    Case {
        name: "size-zero",
        why: "There is no empty volume.",
        world: pool,
        command: &["volume", "resize", "tank/vm", "0", "--drives", "."],
        exit: 2,
        says: "a size of 0 bytes is not a positive multiple of 512",
        ..CASE
    },
    Case {
        name: "volume-wider-than-pool",
        why: "A volume may have a shape of its own, but not more drives.",
        world: pool,
        command: &["volume", "create", "tank/vm2", "1G", "--width", "7", "--drives", "."],
        exit: 2,
        says: "a stripe of 7 blocks needs 7 different drives",
        ..CASE
    },
    Case {
        name: "shrink-below-data",
        why: "Shrinking never throws data away.",
        world: || {
            let (scratch, guards) = served();
            let mut client = Client::open(&scratch.path("run/nbd.sock"), "tank/vm");
            client.write(32 << 20, &[1; 65536], 0);
            client.disconnect();
            (scratch, guards)
        },
        command: &["volume", "resize", "tank/vm", "1M"],
        says: "tank/vm: holds data beyond 1 MiB",
        ..CASE
    },
    Case {
        name: "volume-in-use",
        why: "A volume is not deleted under a client.",
        world: || {
            let (scratch, mut guards) = served();
            guards._clients.push(Client::open(&scratch.path("run/nbd.sock"), "tank/vm"));
            (scratch, guards)
        },
        command: &["volume", "delete", "tank/vm"],
        says: "tank/vm: is in use",
        ..CASE
    },
    // Reaching a pool.
    Case {
        name: "no-server",
        why: "Without --drives, the server is asked.",
        world: pool,
        command: &["status"],
        says: "no server is running here",
        ..CASE
    },
    Case {
        name: "unknown-pool-on-drives",
        why: "A typing mistake, or other drives.",
        world: pool,
        command: &["status", "tonk", "--drives", "."],
        says: "tonk: no such pool on these drives",
        ..CASE
    },
    Case {
        name: "unknown-pool-at-server",
        why: "A typing mistake, or another server.",
        world: served,
        command: &["status", "tonk"],
        says: "tonk: no such pool is served here",
        ..CASE
    },
    // Serving.
    Case {
        name: "nothing-to-serve",
        why: "Drives are never guessed.",
        command: &["serve"],
        exit: 2,
        says: "nothing to serve",
        ..CASE
    },
    Case {
        name: "tcp-beyond-loopback",
        why: "NBD as spoken here has neither encryption nor passwords.",
        world: pool,
        command: &["serve", "--nbd", "tcp:0.0.0.0:10809", "."],
        exit: 2,
        says: "0.0.0.0 is not a loopback address",
        ..CASE
    },
    Case {
        name: "bad-address",
        why: "An address says which kind it is.",
        world: pool,
        command: &["serve", "--nbd", "localhost:10809", "."],
        exit: 2,
        says: "is neither unix:PATH nor tcp:127.0.0.1:PORT",
        ..CASE
    },
    Case {
        name: "socket-path-taken",
        why: "A file that is not a socket is not replaced by one.",
        world: pool,
        command: &["serve", "--nbd", "unix:d0", "."],
        says: "d0: exists and is not a socket",
        ..CASE
    },
    Case {
        name: "bad-mem-pool",
        why: "Pools in memory have a syntax of their own.",
        command: &["serve", "--mem-pool", "demo:6"],
        exit: 2,
        says: "'demo:6' is not NAME:DRIVES:SIZE",
        ..CASE
    },
    Case {
        name: "unknown-configuration-key",
        why: "A key that is not known is a typing mistake.",
        world: || {
            let (scratch, guards) = pool();
            let text = "drives = ['d0']\nndb = ['unix:x.sock']\n";
            fs::write(scratch.path("steadyraid.toml"), text).expect("written");
            (scratch, guards)
        },
        command: &["serve", "--config", "steadyraid.toml"],
        exit: 2,
        says: "steadyraid.toml: line 2: unknown field `ndb`",
        ..CASE
    },
    Case {
        name: "no-configuration-file",
        why: "A file that is named must be there.",
        command: &["serve", "--config", "nosuch.toml"],
        exit: 2,
        says: "nosuch.toml: can't read it",
        ..CASE
    },
];

fn carry_out(case: &Case, scratch: &Scratch) -> Done {
    if case.as_mere_user && rustix::process::geteuid().is_root() {
        let privileges = "-dac_override,-dac_read_search";
        let drop = ["setpriv", "--bounding-set", privileges, "--inh-caps", privileges, BINARY];
        return run(scratch.command(&[&drop, case.command].concat()));
    }
    scratch.run(case.command)
}

#[test]
fn every_mistake_is_explained_as_the_page_says() {
    let (mut shown, mut wrong) = (String::new(), String::new());
    for case in CASES {
        let (scratch, guards) = (case.world)();
        let done = carry_out(case, &scratch);
        let said = done.out.contains(case.says) || done.err.contains(case.says);
        if done.exit != case.exit || !said {
            let _ = writeln!(
                wrong,
                "{}: expected {} and '{}'; {done:?}",
                case.name, case.exit, case.says
            );
        }
        shown += &section(case, &done, &scratch);
        drop(guards);
    }
    assert!(wrong.is_empty(), "{wrong}");
    check_page("errors.md", "bad_input", &shown);
}

/// What the page shows of a case: the command, what it said that matters, its exit code.
fn section(case: &Case, done: &Done, scratch: &Scratch) -> String {
    let quoted = case
        .command
        .iter()
        .map(|word| if word.contains(' ') { format!("'{word}'") } else { (*word).to_owned() });
    let command = quoted.collect::<Vec<_>>().join(" ");
    let mut text = format!("\n### {}\n\n{}\n\n    $ steadyraid {command}\n", case.name, case.why);
    let telling = |line: &&str| line.contains(case.says);
    let lines: Vec<&str> = match done.err.contains(case.says) {
        true => done.err.lines().filter(|line| !line.is_empty()).collect(),
        false => done.out.lines().filter(telling).collect(),
    };
    for line in lines {
        let _ = writeln!(text, "    {}", masked(line.trim_end(), scratch));
    }
    let _ = writeln!(text, "\nExit code {}.", done.exit);
    text
}

/// The line without what differs from run to run.
fn masked(line: &str, scratch: &Scratch) -> String {
    let line = line.replace(&scratch.path("").display().to_string(), "/tmp/here/");
    let line = match (line.find("filesystem has "), line.find(" free")) {
        (Some(start), Some(end)) => format!("{}N GiB{}", &line[..start + 15], &line[end..]),
        _ => line,
    };
    let words = line.split_inclusive(|c: char| !c.is_ascii_hexdigit() && c != '-');
    words.map(masked_word).collect()
}

fn masked_word(word: &str) -> String {
    let digits = word.trim_end_matches(|c: char| !c.is_ascii_hexdigit());
    let rest = &word[digits.len()..];
    let looks_random = digits.bytes().any(|byte| byte.is_ascii_digit());
    match digits.len() {
        36 if digits.matches('-').count() == 4 => format!("UUID{rest}"),
        8 if looks_random => format!("CHECKSUM{rest}"),
        _ => word.to_owned(),
    }
}

//! Mistakes in making a pool; run by `bad_input`.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use crate::bad_input::{CASE, Case, alone, drives, served};
use crate::support::{DRIVE_BYTES, Scratch};

pub const CASES: &[Case] = &[
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
        says: "pool 'my pool': a name has",
        ..CASE
    },
    Case {
        name: "pool-named-like-a-directory",
        why: "Whoever makes a path of the name would be elsewhere.",
        command: &["create", "..", "d0", "d1", "d2", "d3"],
        exit: 2,
        says: "pool '..': a name has",
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
        name: "model-without-file",
        why: "A pool in memory would be gone with the command that made it.",
        command: &["create", "tank", "model:hdd-10k,size=1G", "d1", "d2"],
        exit: 2,
        says: "has no file=PATH",
        ..CASE
    },
    Case {
        name: "model-unknown",
        why: "Only drives with published figures are modelled.",
        command: &["create", "tank", "model:floppy,size=1G,file=new", "d1", "d2"],
        exit: 2,
        says: "'floppy' is no drive we know",
        ..CASE
    },
    Case {
        name: "model-of-another-size",
        why: "A model has the size of its file.",
        command: &["create", "tank", "model:hdd-10k,size=1G,file=d0", "d1", "d2"],
        says: "d0: has 128 MiB, not the 1 GiB of its model",
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
];

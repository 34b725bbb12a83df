//! Pools that can't be had, volumes that can't be, servers that can't serve; run by `bad_input`.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::bad_input::{
    CASE, Case, Guards, LABEL_LEN, alone, from_the_future, label_offsets, pool, served, without,
};
use crate::nbd::Client;
use crate::support::Scratch;

/// With a pool that has room for two shapes, and volumes of two.
fn small() -> (Scratch, Guards) {
    let scratch = Scratch::new();
    let drives = ["d0:22M", "d1:22M", "d2:22M", "d3:22M", "d4:22M"];
    let create = ["create", "--replicated-area", "30", "tank"];
    scratch.run(&[&create[..], &drives].concat()).expect(0);
    for (volume, parity) in [("tank/a", "1"), ("tank/b", "2")] {
        let create = ["volume", "create", volume, "1M", "--parity", parity, "--drives", "."];
        scratch.run(&create).expect(0);
    }
    alone(scratch)
}

pub const CASES: &[Case] = &[
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
        name: "served-with-a-model-of-another-size",
        why: "The timing of another drive would be nobody's.",
        world: pool,
        command: &["serve", "model:hdd-10k,size=1G,file=d0", "d1", "d2", "d3"],
        says: "a drive of 134217728 bytes can't have the timing of one of 1073741824",
        ..CASE
    },
    Case {
        name: "served-with-a-model-that-is-misspelt",
        why: "Names of drives are read before anything is opened.",
        world: pool,
        command: &["serve", "model:hdd-10k,sise=128M,file=d0", "d1", "d2", "d3"],
        exit: 2,
        says: "'sise=128M' is none of size=SIZE",
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
        name: "drive-without-permission",
        why: "A drive that may not be read is not missing; serving without it would make it so.",
        world: || {
            let (scratch, guards) = pool();
            let mode = fs::Permissions::from_mode(0o000);
            fs::set_permissions(scratch.path("d1"), mode).expect("changed");
            (scratch, guards)
        },
        command: &["serve", "d0", "d1", "d2", "d3"],
        says: "a drive of it is missing, and d1 may be that: permission denied",
        as_mere_user: true,
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
        says: "'tank/a b': a name has",
        ..CASE
    },
    Case {
        name: "volume-named-like-a-directory",
        why: "The same of pools.",
        world: pool,
        command: &["volume", "create", "tank/.", "1G", "--drives", "."],
        exit: 2,
        says: "'tank/.': a name has",
        ..CASE
    },
    Case {
        name: "volume-beside-too-many-shapes",
        why: "Each RAID level and width keeps some zones of a small pool from the others: a volume \
              that is made can be written.",
        world: small,
        command: &["volume", "create", "tank/c", "1M", "--width", "4", "--drives", "."],
        exit: 3,
        says: "tank/c: with it volumes would have stripes of 3 shapes",
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
    // Drives of a pool that is served.
    Case {
        name: "no-such-drive-in-the-pool",
        why: "Drives are named by number, UUID or name.",
        world: served,
        command: &["drive", "sit-out", "tank", "7"],
        says: "'7': no such drive in this pool",
        ..CASE
    },
    Case {
        name: "failing-the-last-spare-drive",
        why: "Failing a drive is for good: think twice when nothing is left after it.",
        world: served,
        command: &["drive", "fail", "tank", "2"],
        says: "without it no redundancy is left",
        ..CASE
    },
    Case {
        name: "failing-a-drive-that-is-needed",
        why: "Nothing takes away a drive that data can't do without.",
        world: || {
            let (scratch, _) = without(&["d2"]);
            let server = scratch.serve(&["d0", "d1", "d2", "d3"]);
            (scratch, Guards { _servers: vec![server], ..Guards::default() })
        },
        command: &["drive", "fail", "tank", "0", "--force"],
        says: "is needed: without it data would be lost",
        ..CASE
    },
    Case {
        name: "deciding-about-a-missing-drive",
        why: "What is not used can't be led round.",
        world: || {
            let (scratch, _) = without(&["d2"]);
            let server = scratch.serve(&["d0", "d1", "d2", "d3"]);
            (scratch, Guards { _servers: vec![server], ..Guards::default() })
        },
        command: &["drive", "trust", "tank", "2"],
        says: "is missing: it is not used at all",
        ..CASE
    },
    Case {
        name: "drive-verb-without-server",
        why: "Decisions about drives are the server's, and end with it.",
        world: pool,
        command: &["drive", "sit-out", "tank", "0"],
        says: "no server is running here",
        ..CASE
    },
    Case {
        name: "events-without-server",
        why: "Events are what a server remembers.",
        world: pool,
        command: &["events", "--follow"],
        says: "no server is running here",
        ..CASE
    },
    Case {
        name: "limit-of-what",
        why: "A limit has a number.",
        world: pool,
        command: &["volume", "limit", "tank/vm", "--drives", "."],
        exit: 2,
        says: "required arguments were not provided",
        ..CASE
    },
    Case {
        name: "limit-and-none",
        why: "A volume can't have limits and none.",
        world: pool,
        command: &["volume", "limit", "tank/vm", "--iops", "100", "--none", "--drives", "."],
        exit: 2,
        says: "cannot be used with",
        ..CASE
    },
    Case {
        name: "limit-that-is-no-rate",
        why: "Bandwidth is a size a second.",
        world: pool,
        command: &["volume", "limit", "tank/vm", "--bandwidth", "10MB/h", "--drives", "."],
        exit: 2,
        says: "invalid value '10MB/h' for '--bandwidth",
        ..CASE
    },
    Case {
        name: "limit-of-unknown-volume",
        why: "A typing mistake.",
        world: served,
        command: &["volume", "limit", "tank/vn", "--iops", "100"],
        says: "tank/vn: no such volume",
        ..CASE
    },
    // Serving.
    Case {
        name: "unknown-spike-mode",
        why: "There are four ways to handle spikes.",
        world: pool,
        command: &["serve", "--spikes", "maybe", "."],
        exit: 2,
        says: "invalid value 'maybe' for '--spikes",
        ..CASE
    },
    Case {
        name: "threshold-that-is-no-time",
        why: "A number without a unit could be anything.",
        world: pool,
        command: &["serve", "--straggler-threshold", "2", "."],
        exit: 2,
        says: "'2' is neither 'learned' nor a time like 500us or 2ms",
        ..CASE
    },
    Case {
        name: "spike-that-never-ends",
        why: "A spike begins with more stragglers than it ends with.",
        world: pool,
        command: &["serve", "--stragglers-enter", "3", "--stragglers-leave", "3", "."],
        exit: 2,
        says: "3 is not less than --stragglers-enter",
        ..CASE
    },
    Case {
        name: "threshold-of-nothing",
        why: "An option that would do nothing is a mistake.",
        world: pool,
        command: &["serve", "--spikes", "off", "--spike-slots", "20", "."],
        exit: 2,
        says: "stragglers are not counted at all",
        ..CASE
    },
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
        why: "NBD has no passwords: other machines need TLS, certificates and a list of networks.",
        world: pool,
        command: &["serve", "--nbd", "tcp:0.0.0.0:10809", "."],
        exit: 2,
        says: "give --tls-cert and --tls-key, --tls-client-ca, --allow too",
        ..CASE
    },
    Case {
        name: "tcp-beyond-loopback-in-part",
        why: "A list of networks alone keeps nobody from pretending to be in one.",
        world: pool,
        command: &["serve", "--nbd", "tcp:[::]:10809", "--allow", "10.1.0.0/16", "."],
        exit: 2,
        says: "give --tls-cert and --tls-key, --tls-client-ca too",
        ..CASE
    },
    Case {
        name: "network-with-host-bits",
        why: "It could mean the network or the one address.",
        world: pool,
        command: &["serve", "--allow", "10.1.2.3/16", "."],
        exit: 2,
        says: "'10.1.2.3/16' has bits beyond its prefix",
        ..CASE
    },
    Case {
        name: "no-certificate",
        why: "The files of TLS are read before anything is opened.",
        world: pool,
        command: &["serve", "--tls-cert", "d0", "--tls-key", "d1", "."],
        exit: 2,
        says: "d0: longer than 1048576 bytes, no PEM file",
        ..CASE
    },
    Case {
        name: "bad-address",
        why: "An address says which kind it is.",
        world: pool,
        command: &["serve", "--nbd", "localhost:10809", "."],
        exit: 2,
        says: "is neither unix:PATH nor tcp:IP:PORT",
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
        name: "configuration-that-makes-no-sense-together",
        why: "Values that are held against each other are named with their line, too.",
        world: || {
            let (scratch, guards) = pool();
            let text = "drives = ['d0']\nstragglers-enter = 3\nstragglers-leave = 3\n";
            fs::write(scratch.path("steadyraid.toml"), text).expect("written");
            (scratch, guards)
        },
        command: &["serve", "--config", "steadyraid.toml"],
        exit: 2,
        says: "steadyraid.toml: line 3: stragglers-leave: 3 is not less",
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

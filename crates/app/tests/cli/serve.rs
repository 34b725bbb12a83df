//! `serve`: what clients see, how it stops, what survives.

use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::http::Control;
use crate::nbd::{Client, FUA};
use crate::support::Scratch;

#[test]
fn it_says_what_it_serves_and_ready_last() {
    let scratch = Scratch::with_pool();
    let server = scratch.serve(&["."]);
    let said = server.said.join("\n");
    assert!(said.starts_with("pool tank: online, 4 drives, "), "{said}");
    assert!(said.contains("\nexport tank/vm: 64 MiB RAID5 3+1\n"), "{said}");
    assert!(said.contains("run/nbd.sock\n"), "{said}");
    assert!(said.ends_with("\nready"), "{said}");
    let mode =
        |name: &str| fs::metadata(scratch.path(name)).expect("there").permissions().mode() & 0o777;
    assert_eq!(
        (mode("run"), mode("run/nbd.sock"), mode("run/control.sock")),
        (0o700, 0o600, 0o600)
    );
    assert_eq!(server.stop(), "");
    assert!(!scratch.path("run/nbd.sock").exists());
    assert!(!scratch.path("run/control.sock").exists());
}

#[test]
fn data_survives_a_clean_stop_and_a_crash() {
    let scratch = Scratch::with_pool();
    let socket = scratch.path("run/nbd.sock");
    let server = scratch.serve(&["."]);
    let mut client = Client::open(&socket, "tank/vm");
    let block: Vec<u8> = (0..65536u32).map(|index| (index % 251) as u8).collect();
    client.write(0, &block, 0);
    client.write(65536 * 3 + 512, &block[..1024], 0);
    client.disconnect();
    server.stop();

    let server = scratch.serve(&["."]);
    let mut client = Client::open(&socket, "tank/vm");
    assert!(client.read(0, 65536) == block);
    assert!(client.read(65536 * 3 + 512, 1024) == block[..1024]);
    client.write(1 << 20, &block, FUA);
    client.write(2 << 20, &block, 0);
    client.flush();
    server.crash();

    let server = scratch.serve(&["."]);
    let mut client = Client::open(&socket, "tank/vm");
    for offset in [0, 1 << 20, 2 << 20] {
        assert!(client.read(offset, 65536) == block, "lost at {offset}");
    }
    assert!(client.read(3 << 20, 4096) == [0; 4096]);
    client.disconnect();
    assert_eq!(server.stop(), "");
}

#[test]
fn a_degraded_pool_is_served_and_said_loudly() {
    let scratch = Scratch::with_pool();
    let socket = scratch.path("run/nbd.sock");
    let server = scratch.serve(&["."]);
    let mut client = Client::open(&socket, "tank/vm");
    let data = [5; 1 << 20];
    client.write(0, &data, 0);
    client.disconnect();
    server.stop();

    fs::remove_file(scratch.path("d1")).expect("removed");
    let server = scratch.serve(&["d0", "d1", "d2", "d3"]);
    assert!(server.said[0].starts_with("pool tank: degraded"), "{:?}", server.said);
    let mut client = Client::open(&socket, "tank/vm");
    assert!(client.read(0, 1 << 20) == data);
    client.write(0, &[6; 4096], FUA);
    assert!(client.read(0, 4096) == [6; 4096]);
    client.disconnect();
    scratch.run(&["status"]).expect(1).says("DEGRADED");
    let err = server.stop();
    assert!(err.contains("warning: pool tank: DEGRADED: drive 1"), "{err}");
    assert!(err.contains("warning: d1: no such file"), "{err}");
}

#[test]
fn several_pools_and_addresses_at_once() {
    let scratch = Scratch::with_drives(7);
    scratch.run(&["create", "one", "d0", "d1", "d2", "d3"]).expect(0);
    scratch.run(&["create", "two", "d4", "d5", "d6"]).expect(0);
    let addresses = ["--nbd", "unix:a.sock", "--nbd", "unix:b.sock", "--nbd", "tcp:127.0.0.1:0"];
    let server = scratch.serve(&[&addresses[..], &["."]].concat());
    for volume in ["one/v", "two/v"] {
        scratch.run(&["volume", "create", volume, "8M"]).expect(0);
    }
    for socket in ["a.sock", "b.sock"] {
        assert_eq!(Client::unix(&scratch.path(socket)).list(), ["one/v", "two/v"]);
    }
    let port = |line: &String| line.strip_prefix("nbd tcp:").map(str::to_owned);
    let address = server.said.iter().find_map(port).expect("an address with its port");
    let mut client = Client::tcp(&address);
    client.go("two/v").expect("the export exists");
    client.write(0, &[1; 512], 0);
    server.stop();
}

#[test]
fn pools_in_memory_live_as_long_as_the_server() {
    let scratch = Scratch::new();
    let server = scratch.serve(&["--mem-pool", "demo:4:128M:a=16M:b=32M"]);
    let mut client = Client::open(&scratch.path("run/nbd.sock"), "demo/b");
    client.write(0, &[3; 65536], 0);
    assert!(client.read(0, 65536) == [3; 65536]);
    scratch.run(&["status", "demo"]).expect(0).says("mem:3");
    scratch.run(&["volume", "list"]).expect(0).says("demo/a");
    client.disconnect();
    server.stop();
}

#[test]
fn a_configuration_file_says_the_same_as_flags() {
    let scratch = Scratch::with_pool();
    let text = "drives = ['d0', 'd1', 'd2', 'd3']\nnbd = ['unix:n.sock']\ncontrol = 'c.sock'\n";
    fs::write(scratch.path("steadyraid.toml"), text).expect("written");
    let server = scratch.serve(&["--config", "steadyraid.toml"]);
    assert_eq!(Client::unix(&scratch.path("n.sock")).list(), ["tank/vm"]);
    scratch.run(&["status", "--control", "c.sock"]).expect(0);
    server.stop();
    let server = scratch.serve(&["--config", "steadyraid.toml", "--nbd", "unix:other.sock"]);
    assert!(!scratch.path("n.sock").exists());
    assert_eq!(Client::unix(&scratch.path("other.sock")).list(), ["tank/vm"]);
    server.stop();
}

#[test]
fn spike_handling_is_chosen_by_flags_and_by_the_file() {
    let scratch = Scratch::with_pool();
    let text = "drives = ['.']\nspikes = 'watch'\nstraggler-threshold = '5ms'\n";
    fs::write(scratch.path("steadyraid.toml"), text).expect("written");
    let handling = |options: &[&str]| {
        let server = scratch.serve(&[&["--config", "steadyraid.toml"], options].concat());
        let status = scratch.run(&["status", "--json"]).expect(0).json();
        server.stop();
        let handling = status["pools"][0]["spike_handling"].clone();
        (handling["mode"].clone(), handling["threshold_nanos"].clone())
    };
    assert_eq!(handling(&[]), ("watch".into(), 5_000_000.into()));
    assert_eq!(handling(&["--spikes", "paper"]), ("paper".into(), 5_000_000.into()));
    let learned = ["--spikes", "on", "--straggler-threshold", "learned"];
    assert_eq!(handling(&learned), ("on".into(), Value::Null));
    fs::write(scratch.path("steadyraid.toml"), "drives = ['.']\n").expect("written");
    assert_eq!(handling(&[]), ("on".into(), Value::Null));
    assert_eq!(handling(&["--spikes", "paper"]), ("paper".into(), 2_000_000.into()));
    assert_eq!(handling(&["--spikes", "off"]).0, "off");
}

/// A pool made as `fusion-nd` only watches, unless it is told to do more.
#[test]
fn a_pool_can_be_made_to_be_served_without_detection() {
    let scratch = Scratch::with_drives(4);
    let create = ["create", "--scheme", "fusion-nd", "tank", "d0", "d1", "d2", "d3"];
    scratch.run(&create).expect(0).says("created");
    scratch.run(&["inspect", "d1"]).expect(0).says("scheme: fusion-nd\n");
    let mode = |options: &[&str]| {
        let server = scratch.serve(&[&["."], options].concat());
        let status = scratch.run(&["status", "--json"]).expect(0).json();
        server.stop();
        assert_eq!(status["pools"][0]["scheme"], "fusion-nd");
        status["pools"][0]["spike_handling"]["mode"].clone()
    };
    assert_eq!(mode(&[]), "watch");
    assert_eq!(mode(&["--straggler-threshold", "5ms"]), "watch");
    assert_eq!(mode(&["--spikes", "on"]), "on");
}

#[test]
fn the_service_manager_is_told() {
    let scratch = Scratch::with_pool();
    let path = scratch.path("notify.sock");
    let socket = UnixDatagram::bind(&path).expect("a socket");
    let server = scratch.serve_with(&[("NOTIFY_SOCKET", &path)], &["."]);
    let mut bytes = [0; 64];
    let mut next = || {
        let count = socket.recv(&mut bytes).expect("a message");
        String::from_utf8_lossy(&bytes[..count]).into_owned()
    };
    assert_eq!(next(), "READY=1");
    server.stop();
    assert_eq!(next(), "STOPPING=1");
}

/// A third of the time after which systemd would end it: every 100 ms.
#[test]
fn the_watchdog_hears_from_a_server_that_turns_and_from_no_other() {
    const DUE_MICROS: &str = "300000";
    let scratch = Scratch::with_pool();
    let path = scratch.path("notify.sock");
    let socket = UnixDatagram::bind(&path).expect("a socket");
    let next = || {
        let mut bytes = [0; 64];
        let count = socket.recv(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes[..count]).into_owned())
    };
    let watched: [(&str, &dyn AsRef<OsStr>); 2] =
        [("NOTIFY_SOCKET", &path), ("WATCHDOG_USEC", &DUE_MICROS)];
    let server = scratch.serve_with(&watched, &["."]);
    let mut told: Vec<String> = (0..6).filter_map(|_| next()).collect();
    told.sort_unstable();
    assert_eq!(
        told,
        ["READY=1", "WATCHDOG=1", "WATCHDOG=1", "WATCHDOG=1", "WATCHDOG=1", "WATCHDOG=1"]
    );
    server.signal(Signal::STOP);
    socket.set_read_timeout(Some(Duration::from_secs(1))).expect("a timeout");
    // What it said before it stood still.
    while next().is_some() {}
    server.signal(Signal::CONT);
    socket.set_read_timeout(None).expect("no timeout");
    assert_eq!(next().as_deref(), Some("WATCHDOG=1"), "it goes on");
    server.stop();
    while next().expect("a message") != "STOPPING=1" {}

    let another = std::process::id().to_string();
    let meant: [(&str, &dyn AsRef<OsStr>); 3] =
        [watched[0], watched[1], ("WATCHDOG_PID", &another)];
    let server = scratch.serve_with(&meant, &["."]);
    assert_eq!(next().as_deref(), Some("READY=1"));
    socket.set_read_timeout(Some(Duration::from_secs(1))).expect("a timeout");
    assert_eq!(next(), None, "systemd waits for another process");
    server.stop();
}

/// 16 connections that said nothing, or stopped within a head, kept everybody else from `status`
/// for a minute.
#[test]
fn a_crowd_on_the_control_socket_is_hung_up_on_and_those_who_ask_are_served() {
    let scratch = Scratch::new();
    let _server = scratch.serve(&["--mem-pool", "demo:4:128M"]);
    let control = scratch.path("run/control.sock");
    let mut first = Control::connect(&scratch);
    let status = json!({"request": "status"});
    // One connection carries many requests.
    (0..3).for_each(|_| assert!(first.ask(&status)["pools"].is_array()));
    let come = |half: &str| {
        let mut stream = UnixStream::connect(&control).expect("it listens");
        // One of those that are hung up on at once does not take it.
        let _ = stream.write_all(half.as_bytes());
        stream
    };
    let heads = ["", "GET /api/v1/po", "PUT /x HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\n{"];
    let crowd: Vec<UnixStream> = (0..60).map(|index| come(heads[index % 3])).collect();
    // There are 16 places, one of them is that of who asked before, and the longest there go.
    for mut silent in crowd.iter().take(60 - 16).step_by(3) {
        assert_eq!(silent.read(&mut [0]).unwrap_or(0), 0, "it is hung up on");
    }
    assert!(first.ask(&status)["pools"].is_array());
    // While all places are taken, so much the more.
    scratch.run(&["status"]).expect(0);
    scratch.run(&["volume", "create", "demo/v", "1M"]).expect(0);
    drop(crowd);
}

#[test]
fn a_stale_socket_of_a_crashed_server_is_replaced() {
    let scratch = Scratch::with_pool();
    scratch.serve(&["."]).crash();
    assert!(scratch.path("run/nbd.sock").exists());
    // The kernel may hold the dead server's socket for a moment.
    let mut asked = (0..100).map(|_| scratch.run(&["status"]).expect(3));
    assert!(asked.any(|done| done.err.contains("no server is running here")));
    let server = scratch.serve(&["."]);
    assert_eq!(Client::unix(&scratch.path("run/nbd.sock")).list(), ["tank/vm"]);
    server.stop();
}

/// Each was said without the file's name, or without the line, so that one had to search for it.
#[test]
fn what_makes_no_sense_in_the_file_is_named_with_its_line() {
    let scratch = Scratch::new();
    let cases = [
        ("stragglers-enter = 3\nstragglers-leave = 3", "line 3: stragglers-leave: 3 is not less"),
        ("spike-slots = 0", "line 2: spike-slots: there must be at least 1"),
        ("stragglers-leave = 2\nspikes = 'off'", "line 3: spikes off: stragglers are not counted"),
        ("nbd = [\n'tcp:0.0.0.0:1']", "line 2: nbd: tcp:0.0.0.0:1: not a loopback address"),
        ("tls-cert = 'c'\ntls-key = 'k'", "line 2: tls-cert: c: can't read it"),
        ("tls-cert = 'c'", "line 2: tls-cert: needs tls-key"),
        ("token-file = 't'", "line 2: token-file: t: no token"),
        (&"[[alert]]\nprogram = ['/x']\n".repeat(9), "line 2: alert: [[alert]]: 9 alerts"),
    ];
    for (text, expected) in cases {
        let text = format!("mem-pools = ['demo:4:128M']\n{text}\n");
        fs::write(scratch.path("c.toml"), text).expect("written");
        let done = scratch.run(&["serve", "--config", "c.toml"]).expect(2);
        done.says(&format!("error: c.toml: {expected}"));
    }
    // The file is not to blame for what the command line says.
    fs::write(scratch.path("c.toml"), "token-file = 't'\nspike-slots = 9\n").expect("written");
    let given = ["serve", "--config", "c.toml", "--mem-pool", "demo:4:128M", "--token-file", "u"];
    scratch.run(&given).expect(2).says("error: u: no token");
}

#[test]
fn one_pool_that_cannot_be_opened_does_not_stop_others() {
    let scratch = Scratch::with_drives(7);
    scratch.run(&["create", "one", "d0", "d1", "d2", "d3"]).expect(0);
    scratch.run(&["create", "two", "d4", "d5", "d6"]).expect(0);
    fs::remove_file(scratch.path("d0")).expect("removed");
    fs::remove_file(scratch.path("d1")).expect("removed");
    let server = scratch.serve(&["."]);
    assert!(server.said[0].starts_with("pool two: online"), "{:?}", server.said);
    let err = server.stop();
    assert!(err.contains("error: pool one: 2 of 4 drives are missing"), "{err}");
}

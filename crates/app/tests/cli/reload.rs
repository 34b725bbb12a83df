//! SIGHUP: the configuration read again while pools are served.

use std::fs;
use std::io::Read;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use rustix::process::Signal;

use crate::http::tcp;
use crate::support::{Scratch, Server};

const TOKENS: [&str; 2] = ["correct-horse-battery", "staple-and-something"];

/// A server that tells its service manager, which is us, what it does.
struct Reloaded {
    scratch: Scratch,
    server: Server,
    manager: UnixDatagram,
}

impl Reloaded {
    fn start(scratch: Scratch, config: &str) -> Reloaded {
        fs::write(scratch.path("c.toml"), config).expect("written");
        let path = scratch.path("notify.sock");
        let manager = UnixDatagram::bind(&path).expect("a socket");
        manager.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
        let server = scratch.serve_with(&[("NOTIFY_SOCKET", &path)], &["--config", "c.toml"]);
        let reloaded = Reloaded { scratch, server, manager };
        assert_eq!(reloaded.told(), "READY=1");
        reloaded
    }

    fn told(&self) -> String {
        let mut bytes = [0; 128];
        let count = self.manager.recv(&mut bytes).expect("a message");
        String::from_utf8_lossy(&bytes[..count]).into_owned()
    }

    /// The file says something else, and the server has read it.
    fn reload(&self, config: &str) {
        fs::write(self.scratch.path("c.toml"), config).expect("written");
        self.server.signal(Signal::HUP);
        let told = self.told();
        let micros = told.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").expect("a reload begins");
        assert!(micros.parse::<u64>().expect("a number") > 0);
        assert_eq!(self.told(), "READY=1");
    }

    fn address(&self, kind: &str) -> String {
        let line = self.server.said.iter().find_map(|line| line.strip_prefix(kind));
        line.expect("an address with its port").to_owned()
    }

    /// Whether NBD over TCP greets us.
    fn is_greeted(&self) -> bool {
        let mut stream = TcpStream::connect(self.address("nbd tcp:")).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting).is_ok() && greeting.starts_with(b"NBDMAGIC")
    }

    /// The status of a change with this token.
    fn change(&self, token: &str) -> u16 {
        let header = format!("authorization: Bearer {token}\r\n");
        tcp(&self.address("http "), "PUT", "/api/v1/pools/demo/scrub", &header, "{}").0
    }
}

fn write_token(scratch: &Scratch, token: &str) {
    let path = scratch.path("token");
    fs::write(&path, token).expect("written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("set");
}

const BASE: &str = "nbd = ['tcp:127.0.0.1:0']\nhttp = '127.0.0.1:0'\ntoken-file = 'token'\n";

#[test]
fn what_can_change_changes_and_the_rest_is_named() {
    let scratch = Scratch::with_pool();
    write_token(&scratch, TOKENS[0]);
    let pools = "mem-pools = ['demo:4:128M']\n";
    let served = Reloaded::start(scratch, &format!("{BASE}{pools}allow = ['127.0.0.0/8']\n"));
    assert!(served.is_greeted());
    assert_eq!((served.change(TOKENS[0]), served.change(TOKENS[1])), (400, 401));

    write_token(&served.scratch, TOKENS[1]);
    let told = served.scratch.path("told");
    let page = served.scratch.path("page");
    let script = format!("#!/bin/sh\necho $STEADYRAID_EVENT >> {}\n", told.display());
    fs::write(&page, script).expect("written");
    fs::set_permissions(&page, fs::Permissions::from_mode(0o755)).expect("executable");
    let alert = format!("[[alert]]\nprogram = ['{}']\nseverity = 'info'\n", page.display());
    let pools = "drives = ['d0', 'd1', 'd2', 'd3']\nmem-pools = ['demo:4:128M', 'more:4:128M']\n";
    let rest = "allow = ['10.0.0.0/8']\nspikes = 'watch'\nlog-level = 'error'\n";
    served.reload(&format!("{BASE}{pools}{rest}{alert}"));
    assert!(!served.is_greeted(), "we are not of that network");
    assert_eq!((served.change(TOKENS[0]), served.change(TOKENS[1])), (401, 400));
    for pool in ["demo", "more", "tank"] {
        served.scratch.run(&["status", pool]).expect(0).says("ONLINE");
    }
    served.scratch.run(&["drive", "sit-out", "more", "2"]).expect(0);
    served.scratch.run(&["drive", "fail", "tank", "1", "--force"]).expect(0);

    let (out, err) = served.server.end();
    let changed = "reloaded: allow, alert, log-level, drives, mem-pools changed; token and";
    assert!(out.contains(changed), "{out}");
    assert!(out.contains("\nexport tank/vm: 64 MiB"), "{out}");
    assert!(err.contains("warning: reload: spikes changed: restart the server"), "{err}");
    assert!(err.contains("refused: in none of the networks allowed"), "{err}");
    let told = fs::read_to_string(told).expect("the program ran");
    assert!(told.contains("drive-override") && told.contains("drive-failed"), "{told}");
    // The pool that came later was closed as well.
    let closed = served.scratch.run(&["status", "--drives", "."]).expect(1);
    closed.says("DEGRADED").says("after a clean stop");
}

/// A drive that no address space has room for ended the server, with all that it served.
#[test]
fn a_pool_in_memory_that_is_too_large_is_refused() {
    let scratch = Scratch::new();
    let served = Reloaded::start(scratch, "mem-pools = ['a:4:64M']\n");
    served.reload("mem-pools = ['a:4:64M', 'z:4:99999T']\n");
    served.scratch.run(&["status", "a"]).expect(0).says("ONLINE");
    let (_, err) = served.server.end();
    assert!(err.contains("error: pool z: no room in memory for a drive of "), "{err}");
    let start = served.scratch.run(&["serve", "--mem-pool", "z:4:99999T"]).expect(3);
    start.says("error: pool z: no room in memory");
}

#[test]
fn a_file_with_a_mistake_changes_nothing() {
    let scratch = Scratch::new();
    write_token(&scratch, TOKENS[0]);
    let pools = "mem-pools = ['demo:4:128M']\n";
    let served = Reloaded::start(scratch, &format!("{BASE}{pools}"));
    let mistakes = [
        ("allow = ['10.0.0.0/8']\nallowed = 1\n", "c.toml: line 6: unknown field `allowed`"),
        ("allow = ['10.0.0.0/8'\n", "c.toml: line "),
        (
            "allow = ['10.0.0.0/8']\ntls-cert = 'nosuch'\ntls-key = 'n'\n",
            "c.toml: line 6: tls-cert: nosuch: can't read it",
        ),
        ("spikes = 'off'\nspike-slots = 3\n", "c.toml: line 5: spikes off: stragglers are not"),
        ("allow = ['10.0.0.0/8']\ndrives = ['d', 'd']\nsyslog = 3\n", "c.toml: line 7: invalid"),
    ];
    for (text, _) in mistakes {
        served.reload(&format!("{BASE}{pools}{text}"));
        assert!(served.is_greeted(), "the list of networks came with a mistake");
        assert_eq!(served.change(TOKENS[0]), 400);
    }
    fs::write(served.scratch.path("token"), "short").expect("written");
    served.reload(&format!("{BASE}{pools}allow = ['10.0.0.0/8']\n"));
    assert!(served.is_greeted() && served.change(TOKENS[0]) == 400);
    write_token(&served.scratch, TOKENS[0]);
    served.reload(&format!("{BASE}{pools}allow = ['10.0.0.0/8']\n"));
    assert!(!served.is_greeted());
    let (_, err) = served.server.end();
    for (_, expected) in mistakes {
        assert!(err.contains(expected), "no {expected:?} in {err}");
    }
    assert!(err.contains("c.toml: line 3: token-file: token: the token has less than 16"), "{err}");
    assert_eq!(err.matches("what was read before stays in force").count(), 6, "{err}");
}

/// Without a file there is nothing to read: somebody closed the terminal.
#[test]
fn without_a_file_the_server_stops() {
    let scratch = Scratch::new();
    let server = scratch.serve(&["--mem-pool", "demo:4:128M"]);
    server.signal(Signal::HUP);
    assert_eq!(server.ended(), "stopped\n");
}

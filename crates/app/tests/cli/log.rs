//! The server's log: its reader gone, its disk full, its reader stuck, the journal and the service
//! manager stuck, too much of one kind. I/O goes on, the server lives, what was dropped is counted.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{Write, pipe};
use std::os::unix::net::UnixDatagram;

use serde_json::Value;

use crate::nbd::{Client, FUA};
use crate::support::{Scratch, Server};

const POOL: [&str; 2] = ["--mem-pool", "demo:5:128M:vm=16M"];
/// What a pipe takes before whoever writes has to wait.
const PIPE_BYTES: usize = 64 << 10;
/// Twice as many events as a datagram socket takes that nobody reads, which is 10 messages unless
/// the machine says otherwise.
const MANY: usize = 20;

/// Writes and reads, as a client that has nothing to do with any log.
fn use_it(scratch: &Scratch) {
    let mut client = Client::open(&scratch.path("run/nbd.sock"), "demo/vm");
    client.write(0, &[7; 4096], FUA);
    assert!(client.read(0, 4096) == [7; 4096]);
    client.disconnect();
}

/// Something to be warned of.
fn fail_a_drive(scratch: &Scratch) {
    scratch.run(&["drive", "fail", "demo", "1", "--force"]).expect(0);
}

fn dropped(scratch: &Scratch, target: &str, reason: &str) -> u64 {
    let status = scratch.run(&["status", "--json"]).json();
    let all = status["server"]["dropped"].as_array().expect("a list");
    let is_it = |one: &&Value| one["target"] == target && one["reason"] == reason;
    all.iter().find(is_it).map_or(0, |one| one["count"].as_u64().expect("a number"))
}

/// What was dropped is counted when the thread that writes has seen it.
fn wait_until_dropped(scratch: &Scratch, target: &str, reason: &str) {
    let mut looks = (0..5000).map(|_| dropped(scratch, target, reason));
    assert!(looks.any(|count| count > 0), "{target} {reason} is not counted");
}

/// One case for each way of not taking what is written.
fn goes_on(scratch: &Scratch, server: Server, reason: &str) {
    use_it(scratch);
    fail_a_drive(scratch);
    use_it(scratch);
    wait_until_dropped(scratch, "stderr", reason);
    scratch.run(&["status"]).expect(1).says("stderr");
    server.end();
}

/// A warning that nobody read ended the server: the macro that wrote it panicked.
#[test]
fn a_log_whose_reader_is_gone_ends_nothing() {
    let scratch = Scratch::new();
    let mut server = scratch.serve(&POOL);
    server.hang_up();
    goes_on(&scratch, server, "failed");
}

#[test]
fn a_log_on_a_full_disk_ends_nothing() {
    let scratch = Scratch::new();
    let full = File::options().write(true).open("/dev/full").expect("it is there");
    let server = scratch.serve_telling(full, &[], &POOL);
    goes_on(&scratch, server, "failed");
}

/// `ulimit -f`, or a quota: the signal that says so ends whoever does not expect it.
#[test]
fn a_log_that_may_not_grow_ends_nothing() {
    let scratch = Scratch::new();
    fs::write(scratch.path("log"), [b'.'; 4096]).expect("written");
    let script = "ulimit -f 1; exec \"$@\" 2>>log";
    let server = scratch.serve_by(&["bash", "-c", script, "-"], &POOL);
    goes_on(&scratch, server, "failed");
}

/// All I/O of all volumes waited for somebody to read the log.
#[test]
fn a_log_whose_reader_is_stuck_keeps_nobody_waiting() {
    let scratch = Scratch::new();
    let (reader, mut writer) = pipe().expect("a pipe");
    writer.write_all(&[b'.'; PIPE_BYTES]).expect("it has room for that");
    let server = scratch.serve_telling(writer, &[], &POOL);
    use_it(&scratch);
    fail_a_drive(&scratch);
    use_it(&scratch);
    scratch.run(&["status"]).expect(1).says("DEGRADED");
    // Nor does a server that ends wait for it.
    assert!(server.end().0.ends_with("stopped\n"));
    drop(reader);
}

/// systemd busy with something else: the watchdog's messages pile up in its socket.
#[test]
fn a_service_manager_that_is_stuck_keeps_nobody_waiting() {
    let scratch = Scratch::new();
    let path = scratch.path("notify.sock");
    let _socket = UnixDatagram::bind(&path).expect("a socket");
    let variables: [(&str, &dyn AsRef<OsStr>); 2] =
        [("NOTIFY_SOCKET", &path), ("WATCHDOG_USEC", &"3000")];
    let server = scratch.serve_with(&variables, &POOL);
    wait_until_dropped(&scratch, "notify", "full");
    use_it(&scratch);
    server.stop();
}

/// journald stuck: a server of its own mount namespace, where its socket is one that nobody reads.
#[test]
fn a_journal_that_is_stuck_keeps_nobody_waiting() {
    let scratch = Scratch::new();
    let socket = scratch.path("journal.sock");
    let _socket = UnixDatagram::bind(&socket).expect("a socket");
    fs::write(scratch.path("err"), "").expect("written");
    let script = format!(
        "set -e; mount --make-rprivate /; mount -t tmpfs none /run
         mkdir -p /run/systemd/journal; ln -s {} /run/systemd/journal/socket
         export JOURNAL_STREAM=$(stat -c %d:%i err); exec \"$@\" 2>>err",
        socket.display()
    );
    let server = scratch
        .serve_by(&["unshare", "--mount", "--map-root-user", "bash", "-c", &script, "-"], &POOL);
    for _ in 0..MANY {
        scratch.run(&["drive", "sit-out", "demo", "0"]).expect(0);
        scratch.run(&["drive", "auto", "demo", "0"]).expect(0);
    }
    use_it(&scratch);
    server.end();
}

/// Clients that break the protocol in a loop: a line for each of them filled disks.
#[test]
fn one_kind_that_has_too_much_to_say_is_held_back() {
    const RUDE: usize = 1000;
    let scratch = Scratch::new();
    let server = scratch.serve(&POOL);
    for _ in 0..RUDE {
        Client::unix(&scratch.path("run/nbd.sock")).speak_nonsense();
    }
    let held_back = dropped(&scratch, "all", "rate") as usize;
    fail_a_drive(&scratch);
    let (_, err) = server.end();
    let written = err.lines().filter(|line| line.contains("NBD client")).count();
    assert!(held_back > RUDE / 4 && written + held_back <= RUDE, "{written} and {held_back}");
    assert!(err.contains("error: pool demo: "), "another kind is written all the same: {err}");
}

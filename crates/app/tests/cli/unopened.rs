//! Pools that can't be opened, or only degraded: everybody who should know is told.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use rustix::process::Signal;
use serde_json::Value;

use crate::events::pause;
use crate::http::tcp;
use crate::support::{Scratch, Server};

/// Pools `one` on d0 to d3 and `two` on d4 to d7, of other schemes.
fn two_pools() -> Scratch {
    let scratch = Scratch::with_drives(8);
    scratch.run(&["create", "one", "d0", "d1", "d2", "d3"]).expect(0);
    scratch.run(&["create", "two", "--scheme", "raid5", "d4", "d5", "d6", "d7"]).expect(0);
    fs::create_dir(scratch.path("away")).expect("a directory");
    scratch
}

fn take_away(scratch: &Scratch, drives: &[&str]) {
    for name in drives {
        fs::rename(scratch.path(name), scratch.path("away").join(name)).expect("moved");
    }
}

fn bring_back(scratch: &Scratch, drives: &[&str]) {
    for name in drives {
        fs::rename(scratch.path("away").join(name), scratch.path(name)).expect("moved");
    }
}

/// A configuration whose alerts write a line for each event.
fn write_config(scratch: &Scratch) {
    let (page, told) = (scratch.path("page"), scratch.path("told"));
    let line = "$STEADYRAID_POOL $STEADYRAID_SEVERITY $STEADYRAID_EVENT $STEADYRAID_DRIVE";
    fs::write(&page, format!("#!/bin/sh\necho {line} >> {}\n", told.display())).expect("written");
    fs::set_permissions(&page, fs::Permissions::from_mode(0o755)).expect("executable");
    let config = format!(
        "drives = ['.']\nhttp = '127.0.0.1:0'\n[[alert]]\nprogram = ['{}']\nseverity = 'info'\n",
        page.display()
    );
    fs::write(scratch.path("c.toml"), config).expect("written");
}

/// What else happens depends on the machine.
fn is_ours(kind: &str) -> bool {
    matches!(kind, "pool-failed" | "drive-missing")
}

fn told(scratch: &Scratch) -> String {
    let told = fs::read_to_string(scratch.path("told")).unwrap_or_default();
    told.lines()
        .filter(|line| is_ours(line.split(' ').nth(2).unwrap_or("")))
        .fold(String::new(), |all, line| all + line + "\n")
}

/// Pool, kind and number of what this is about.
fn events(scratch: &Scratch) -> Vec<(String, String, u64)> {
    let told = scratch.run(&["events", "--json"]).expect(0).out;
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let event = |line: &str| {
        let event: Value = serde_json::from_str(line).expect(line);
        let number = event["sequence"].as_u64().expect("a number");
        (text(&event["pool"]), text(&event["kind"]), number)
    };
    told.lines().map(event).filter(|(_, kind, _)| is_ours(kind)).collect()
}

fn event(pool: &str, kind: &str, number: u64) -> (String, String, u64) {
    (pool.to_owned(), kind.to_owned(), number)
}

fn metrics(server: &Server) -> String {
    let address = server.said.iter().find_map(|line| line.strip_prefix("http "));
    tcp(address.expect("it says where"), "GET", "/metrics", "", "").1
}

/// After a start with two drives of six missing `list` and `status` were happy, `/metrics` had no
/// series that the rule SteadyRaidPoolFailed could fire on, and no alert was sent.
#[test]
fn a_pool_that_cannot_be_opened_is_failed_for_all_who_ask_and_alerts_are_told() {
    let scratch = two_pools();
    write_config(&scratch);
    take_away(&scratch, &["d0", "d3"]);
    let server = scratch.serve(&["--config", "c.toml"]);
    scratch.run(&["list"]).expect(1).says("failed").says("2 of 4").says("online");
    let listed = scratch.run(&["list", "--json"]).expect(1).json();
    let one = &listed["pools"][1];
    assert_eq!((&one["state"], &one["served"]), (&"failed".into(), &false.into()), "{listed}");
    assert!(one["reason"].to_string().contains("2 of 4 drives are missing"), "{listed}");
    let status = scratch.run(&["status"]).expect(1).says("pool: two").says("pool: one");
    status.says("state: FAILED").says("reason: it could not be opened: 2 of 4 drives are missing");
    scratch.run(&["status", "one"]).expect(1).says("action: give these drives too: 0 (");
    scratch.run(&["status", "two"]).expect(0);
    let refused = scratch.run(&["volume", "create", "one/vm", "1M"]).expect(3);
    refused.says("pool one: it could not be opened");
    scratch.run(&["top", "--once", "--seconds", "0.1"]).expect(0).says("pool one  FAILED");

    let text = metrics(&server);
    assert!(text.contains("steadyraid_pool_state{pool=\"one\",state=\"failed\"} 1"), "{text}");
    assert!(text.contains("steadyraid_pool_state{pool=\"two\",state=\"online\"} 1"), "{text}");
    let of_one = text.lines().filter(|line| line.contains("pool=\"one\"")).count();
    assert_eq!(of_one, 3, "only its state is known: {text}");
    assert_eq!(events(&scratch), [event("one", "pool-failed", 1)]);
    let own = scratch.run(&["events", "one"]).expect(0);
    own.says("2 of 4 drives are missing, at most 1 may be");
    let (_, err) = server.end();
    assert!(err.contains("error: pool one: 2 of 4 drives are missing"), "{err}");
    assert!(err.contains("hint: give these drives too"), "{err}");
    assert_eq!(told(&scratch), "one error pool-failed\n");
}

/// A reading of the configuration tries again: the same reason is no news, and who followed the
/// pool's events misses none of those that it has once it is open.
#[test]
fn its_drives_come_back_and_it_is_served() {
    let scratch = two_pools();
    write_config(&scratch);
    take_away(&scratch, &["d0", "d3", "d5", "d6"]);
    let first = scratch.run(&["serve", "--config", "c.toml"]).expect(3);
    first.says("pool one: 2 of 4 drives").says("pool two: ");
    // With nothing to serve it ended, but not in silence.
    let mut lines: Vec<String> = told(&scratch).lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, ["one error pool-failed", "two error pool-failed"]);

    bring_back(&scratch, &["d5", "d6"]);
    let server = scratch.serve(&["--config", "c.toml"]);
    let reload = || {
        let done = "steadyraid_config_reloads_total{result=\"done\"} ";
        let line =
            |text: String| text.lines().find_map(|line| line.strip_prefix(done)?.parse().ok());
        let count = || -> Option<f64> { line(metrics(&server)) };
        let before = count();
        server.signal(Signal::HUP);
        let again = (0..600).any(|_| {
            pause();
            count() > before
        });
        assert!(again, "it was not read again");
    };
    reload();
    assert_eq!(events(&scratch), [event("one", "pool-failed", 1)], "the same once more");
    bring_back(&scratch, &["d0"]);
    reload();
    let opened = [event("one", "pool-failed", 1), event("one", "drive-missing", 2)];
    assert_eq!(events(&scratch), opened);
    scratch.run(&["list"]).expect(1).says("degraded").says("3 of 4");
    let later = scratch.run(&["events", "one", "--json", "--since", "1"]).expect(0).out;
    assert_eq!(later.lines().count(), 1, "{later}");
    server.end();
}

/// An alert for everything heard nothing, and no event was to be seen, while status was DEGRADED.
#[test]
fn drives_that_are_missing_at_the_start_are_told_of_whatever_the_scheme() {
    let scratch = two_pools();
    write_config(&scratch);
    take_away(&scratch, &["d2", "d5"]);
    let server = scratch.serve(&["--config", "c.toml"]);
    scratch.run(&["status"]).expect(1).says("DEGRADED");
    let missing = [event("one", "drive-missing", 1), event("two", "drive-missing", 1)];
    assert_eq!(events(&scratch), missing);
    server.end();
    let told = told(&scratch);
    assert!(told.contains("one warning drive-missing 2\n"), "{told}");
    assert!(told.contains("two warning drive-missing 1\n"), "{told}");
}

/// Metrics and events know pools by name, so that the second one is called by its UUID.
#[test]
fn of_two_pools_of_one_name_the_second_is_failed_under_another() {
    let scratch = Scratch::with_drives(8);
    scratch.run(&["create", "tank", "d0", "d1", "d2", "d3"]).expect(0);
    scratch.run(&["create", "tank", "d4", "d5", "d6", "d7"]).expect(0);
    let server = scratch.serve(&["--http", "127.0.0.1:0", "."]);
    let listed = scratch.run(&["list", "--json"]).expect(1).json();
    let (first, second) = (&listed["pools"][0], &listed["pools"][1]);
    assert_eq!((&first["name"], &first["state"]), (&"tank".into(), &"online".into()));
    assert_eq!((&second["name"], &second["state"]), (&second["uuid"], &"failed".into()));
    scratch.run(&["status", "tank"]).expect(0);
    let uuid = second["uuid"].as_str().expect("text");
    scratch.run(&["status", uuid]).expect(1).says("another pool of this name is being served");
    assert_eq!(events(&scratch), [event(uuid, "pool-failed", 1)]);
    assert!(metrics(&server).contains(&format!("{{pool=\"{uuid}\",state=\"failed\"}} 1")));
    server.end();
}

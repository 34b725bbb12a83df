//! `events`: what is told, followed and missed.

use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::http::Control;
use crate::support::{BINARY, Scratch};

const POOLS: [&str; 4] = ["--mem-pool", "demo:4:128M", "--mem-pool", "other:4:128M"];

fn decide(scratch: &Scratch, verb: &str, pool: &str) {
    scratch.run(&["drive", verb, pool, "2"]).expect(0);
}

/// The documents of a command's output, one a line.
fn documents(text: &str) -> Vec<Value> {
    let parse = |line: &str| -> Value { serde_json::from_str(line).expect(line) };
    let documents: Vec<Value> = text.lines().map(parse).collect();
    assert!(documents.iter().all(|event| event["version"] == 1), "{text}");
    documents
}

#[test]
fn events_are_told_once_they_happen_as_text_and_as_json() {
    let scratch = Scratch::new();
    let server = scratch.serve(&POOLS);
    assert_eq!(scratch.run(&["events"]).expect(0).out, "no events\n");
    assert_eq!(scratch.run(&["events", "--json"]).expect(0).out, "");
    decide(&scratch, "sit-out", "demo");
    decide(&scratch, "trust", "other");
    decide(&scratch, "auto", "demo");
    let done = scratch.run(&["events"]).expect(0);
    assert!(done.out.starts_with("TIME "), "{}", done.out);
    assert_eq!(done.out.lines().count(), 4, "{}", done.out);
    done.says("demo").says("other").says("mem:2").says("drive-override");

    let told = documents(&scratch.run(&["events", "demo", "--json"]).expect(0).out);
    assert_eq!(told.len(), 2);
    for (event, sequence) in told.iter().zip(1..) {
        assert_eq!((&event["pool"], &event["sequence"]), (&json!("demo"), &json!(sequence)));
        assert_eq!((&event["kind"], &event["drive"]), (&json!("drive-override"), &json!(2)));
        let year = event["time"].as_str().and_then(|time| time[..4].parse().ok());
        assert!(year.is_some_and(|year: u32| year > 2020), "{event}");
    }
    let later = scratch.run(&["events", "demo", "--json", "--since", "1"]).expect(0);
    let sequences: Vec<Value> =
        documents(&later.out).iter().map(|event| event["sequence"].clone()).collect();
    assert_eq!(sequences, [2]);
    server.stop();
}

struct Follower {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Follower {
    fn start(scratch: &Scratch, arguments: &[&str]) -> Follower {
        let mut command: Command =
            scratch.command(&[&[BINARY, "events", "-f"], arguments].concat());
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        Follower { child, lines }
    }

    fn next(&mut self) -> Value {
        let line = self.lines.next().expect("a line").expect("text");
        serde_json::from_str(&line).expect("JSON")
    }

    /// What it said on standard error when its server had gone.
    fn end(self) -> (Option<i32>, String) {
        let output = self.child.wait_with_output().expect("ended");
        (output.status.code(), String::from_utf8(output.stderr).expect("text"))
    }
}

#[test]
fn a_follower_sees_what_comes_and_ends_with_its_server() {
    let scratch = Scratch::new();
    let server = scratch.serve(&POOLS);
    decide(&scratch, "sit-out", "demo");
    let mut all = Follower::start(&scratch, &["--json"]);
    let mut one = Follower::start(&scratch, &["other", "--json"]);
    assert_eq!(all.next()["pool"], "demo");
    for round in 1..=20 {
        decide(&scratch, if round % 2 == 0 { "auto" } else { "trust" }, "other");
        assert_eq!(all.next()["sequence"], round);
    }
    let seen: Vec<Value> = (1..=20).map(|_| one.next()["sequence"].clone()).collect();
    assert_eq!(seen, (1..=20).collect::<Vec<u64>>());
    // Followers don't hold up a clean stop, nor wait for a server that is gone.
    server.stop();
    for follower in [all, one] {
        let (exit, err) = follower.end();
        assert_eq!(exit, Some(3), "{err}");
        assert!(err.contains("stopping") || err.contains("the server"), "{err}");
    }
}

#[test]
fn a_follower_of_a_crashed_server_ends_too() {
    let scratch = Scratch::new();
    let server = scratch.serve(&POOLS);
    let mut follower = Follower::start(&scratch, &["--json"]);
    decide(&scratch, "sit-out", "demo");
    follower.next();
    server.crash();
    let (exit, err) = follower.end();
    assert_eq!(exit, Some(3), "{err}");
    assert!(err.contains("the server"), "{err}");
}

#[expect(clippy::disallowed_methods, reason = "a server in another process has no other clock")]
pub fn pause() {
    std::thread::sleep(Duration::from_millis(50));
}

#[test]
fn those_who_wait_are_few_and_keep_nobody_out() {
    let scratch = Scratch::new();
    let server = scratch.serve(&POOLS);
    let mut waiting: Vec<Control> = (0..9).map(|_| Control::connect(&scratch)).collect();
    for control in &mut waiting {
        assert!(control.send(&json!({"request": "events", "wait_millis": u64::MAX})));
    }
    scratch.run(&["events"]).expect(0).says("no events");
    scratch.run(&["status"]).expect(0);
    decide(&scratch, "sit-out", "demo");
    let answers: Vec<Value> = waiting.iter_mut().map(|control| control.answer().unwrap()).collect();
    let (told, refused): (Vec<_>, Vec<_>) =
        answers.iter().partition(|answer| answer["events"][0]["kind"] == "drive-override");
    assert_eq!((told.len(), refused.len()), (8, 1), "{answers:?}");
    assert!(refused[0]["error"]["what"].to_string().contains("8 clients wait"), "{refused:?}");

    // The dead are noticed when their wait is over.
    for mut control in waiting {
        let request = json!({"request": "events", "after": {"demo": 1}, "wait_millis": 50});
        control.send(&request);
    }
    let mut all = Vec::new();
    for _ in 0..16 {
        // A try may be refused in microseconds, and the dead take 50 ms to be noticed.
        let mut tries = (0..600).map(|_| {
            let mut control = Control::connect(&scratch);
            let answered = control.try_ask(&json!({"request": "status"})).is_some();
            if !answered {
                pause();
            }
            answered.then_some(control)
        });
        all.push(tries.find_map(|alive| alive).expect("a place comes free"));
    }
    drop(all);
    server.stop();
}

#[test]
fn requests_that_make_no_sense_get_an_error() {
    let scratch = Scratch::new();
    let server = scratch.serve(&POOLS);
    let mut control = Control::connect(&scratch);
    let mut ask = |request: &Value| control.ask(request);
    decide(&scratch, "sit-out", "demo");
    let after = json!({"nosuch": 1, "demo": u64::MAX});
    assert_eq!(ask(&json!({"request": "events", "after": after}))["events"], json!([]));
    let decide = |drive: &str, decision: &str| {
        json!({
            "request": "drive-decide", "pool": "demo", "drive": drive, "decision": decision
        })
    };
    let wrong = [
        json!({"request": "events", "after": [1]}),
        json!({"request": "events", "after": {"demo": -1}}),
        json!({"request": "events", "pool": "nosuch"}),
        json!({"request": "events", "wait_millis": "long"}),
        json!({"request": "drive-fail", "drive": "0"}),
        json!({"request": "drive-fail", "pool": "demo", "drive": ""}),
        json!({"request": "drive-fail", "pool": "demo", "drive": "0", "force": 1}),
        decide("65536", "trust"),
        decide("-1", "sit-out"),
        decide("00", "sit-out"),
        decide("mem:4", "auto"),
        decide("0", "automatic"),
        json!({"request": "volume-limit", "pool": "demo", "volume": "nosuch", "iops": u64::MAX}),
        json!({"request": "volume-limit", "pool": "demo", "volume": "nosuch", "iops": 0.5}),
    ];
    for request in wrong {
        let answer = ask(&request);
        assert!(answer["error"]["what"].is_string(), "{request}: {answer}");
    }
    scratch.run(&["status", "demo"]).expect(0).says("good, sit-out");
    drop(control);
    server.stop();
}

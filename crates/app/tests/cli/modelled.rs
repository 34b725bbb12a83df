//! Drives with a model's timing, and faults by hand.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::http::Control;
use crate::nbd::{Client, FUA};
use crate::schemes::make;
use crate::support::{DRIVE_BYTES, Scratch};

/// The quickest to make; as slow as any.
const DISK: &str = "model:hdd-10k,size=128M";

/// How long a client waited.
#[expect(clippy::disallowed_methods, reason = "a server in another process has no other clock")]
pub fn timed(act: impl FnOnce()) -> Duration {
    let start = Instant::now();
    act();
    start.elapsed()
}

fn specs() -> Vec<String> {
    (0..3).map(|at| format!("{DISK},file=d{at},seed={at}")).collect()
}

#[test]
fn a_pool_on_modelled_files_is_made_served_and_found_again() {
    let scratch = Scratch::new();
    let specs = specs();
    let names: Vec<&str> = specs.iter().map(String::as_str).collect();
    scratch.run(&[&["create", "slow"], &names[..]].concat()).expect(0).says("384 MiB together");
    assert_eq!(scratch.peek("d2", DRIVE_BYTES - 1, 1).len(), 1, "the file has its size");
    let volume = ["volume", "create", "slow/vm", "16M", "--drives"];
    scratch.run(&[&volume[..], &names].concat()).expect(0);
    let block: Vec<u8> = (0..65536u32).map(|index| (index % 249) as u8).collect();
    let socket = scratch.path("run/nbd.sock");

    let server = scratch.serve(&names);
    let mut client = Client::open(&socket, "slow/vm");
    client.write(0, &block, FUA);
    client.write(1 << 20, &block[..4096], 0);
    client.flush();
    assert!(client.read(0, 65536) == block);
    client.disconnect();
    scratch.run(&["status", "slow"]).expect(0).says(&specs[1]);
    scratch.run(&["list"]).expect(0).says("slow");
    let out = server.stop_and_say();
    assert!(out.lines().filter(|line| line.contains("late on average")).count() == 3, "{out}");
    assert!(!out.contains(": 0 operations"), "{out}");

    // The files are the pool, with or without their models.
    scratch.run(&["status", "--drives", "."]).expect(0).says("ONLINE");
    scratch.run(&[&["list", "--drives"], &names[..]].concat()).expect(0).says("slow");
    scratch.run(&["inspect", names[0]]).expect(0).says("slow");
    let server = scratch.serve(&[&names[..], &["."]].concat());
    let mut client = Client::open(&socket, "slow/vm");
    assert!(client.read(0, 65536) == block);
    assert!(client.read(1 << 20, 4096) == block[..4096]);
    client.disconnect();
    server.stop_and_say();
}

/// The least that a disk at 10,000 revolutions a minute takes to make anything durable: it
/// must turn. Nothing here is below that by much luck, and a machine can only be slower.
#[test]
fn a_modelled_pool_in_memory_is_as_slow_as_its_model() {
    let scratch = Scratch::new();
    let server = scratch.serve(&["--mem-pool", &format!("slow:3:{DISK}:vm=16M")]);
    let mut client = Client::open(&scratch.path("run/nbd.sock"), "slow/vm");
    let took = timed(|| {
        (0..20).for_each(|at| client.write(at * 65536, &[at as u8; 4096], FUA));
    });
    assert!(took > Duration::from_millis(20), "{took:?}");
    assert!(client.read(19 * 65536, 4096) == [19; 4096]);
    client.disconnect();
    scratch.run(&["status", "slow"]).expect(0).says("mem:2");
    server.stop_and_say();
}

trait Faults {
    fn fault(&mut self, drive: &str, fault: &Value);
    fn counts(&mut self, drive: &str) -> String;
}

impl Faults for Control {
    #[track_caller]
    fn fault(&mut self, drive: &str, fault: &Value) {
        let request = json!({"request": "fault", "pool": "demo", "drive": drive, "fault": fault});
        let answer = self.ask(&request);
        assert!(answer["done"].is_string(), "{answer}");
    }

    fn counts(&mut self, drive: &str) -> String {
        let answer = self.ask(&json!({"request": "fault-counts", "pool": "demo", "drive": drive}));
        answer["done"].as_str().expect("a sentence").to_owned()
    }
}

const POOL: [&str; 2] = ["--mem-pool", "demo:4:128M:vm=16M"];

#[test]
fn a_drive_that_fails_does_not_stop_the_service() {
    let scratch = Scratch::new();
    let server = scratch.serve(&[&["--test-faults"], &POOL[..]].concat());
    let mut client = Client::open(&scratch.path("run/nbd.sock"), "demo/vm");
    let mut control = Control::connect(&scratch);
    let data = [7; 1 << 20];
    client.write(0, &data, FUA);
    control.fault("mem:1", &json!({"effect": {"error": {"errno": 5}}}));
    for at in 0..8 {
        client.write(at << 20, &data, 0);
    }
    client.flush();
    assert!(client.read(0, 1 << 20) == data && client.read(7 << 20, 1 << 20) == data);
    assert!(!control.counts("1").contains("error 0"), "by its index, too");
    scratch.run(&["status", "demo"]).expect(1).says("mem:1");
    client.disconnect();
    drop(control);
    let err = server.stop();
    assert!(!err.contains("panic"), "{err}");
}

/// A drive that was 0.3 s late with everything was "good", nothing was said of it, and `status`
/// ended with 0.
#[test]
fn a_drive_that_is_always_slow_is_told_of_with_what_to_do() {
    for (drives, spare) in [(7, true), (7, false), (29, true)] {
        let scratch = Scratch::new();
        let pool = format!("demo:{drives}:128M:vm=16M");
        let options = ["--test-faults", "--rebuild-after", "never", "--mem-pool"];
        let server = scratch.serve(&[&options[..], &[&pool]].concat());
        let mut client = Client::open(&scratch.path("run/nbd.sock"), "demo/vm");
        let mut control = Control::connect(&scratch);
        let mut ask = || control.ask(&json!({"request": "status"}))["pools"][0].clone();
        for at in 0..16 {
            client.write(at << 20, &[7; 1 << 20], 0);
        }
        if !spare {
            scratch.run(&["drive", "fail", "demo", "1", "--force"]).expect(0);
        }
        let mut faults = Control::connect(&scratch);
        let late = json!({"effect": {"delay": {"constant": {"micros": 300_000}}}});
        faults.fault("mem:3", &late);
        let mut told = None;
        let took = timed(|| {
            for at in 0..100_000_u64 {
                client.write((at % 256) << 16, &[at as u8; 65536], 0);
                client.read((at * 7 % 4096) << 12, 4096);
                if at % 16 == 0 && ask()["drives"][3]["slow"].is_object() {
                    told = Some(at);
                    break;
                }
            }
        });
        println!("{drives} drives, spare {spare}: told after {took:?}, {told:?} requests");
        assert!(told.is_some(), "not within {took:?}");
        let status = scratch.run(&["status", "demo"]).expect(1);
        let action = if spare { "drive replace demo 3 NEW" } else { "no redundancy is left" };
        status.says("drive 3 (mem:3) is slow: its ").says(action);
        scratch.run(&["events", "demo"]).expect(0).says("drive-slow");
        let pool = ask();
        let slow = &pool["drives"][3];
        assert_eq!(slow["health"], if spare { "avoided" } else { "slow" }, "{slow}");
        assert_eq!(slow["slow"]["bypassed"], spare, "{slow}");
        client.disconnect();
        drop((control, faults));
        let err = server.stop();
        assert!(err.contains("warning: pool demo: drive mem:3 is slow: "), "{err}");
    }
}

/// In pools of other schemes than `fusion` nothing was said of such a drive.
#[test]
fn a_drive_that_is_always_slow_is_told_of_in_other_schemes() {
    for scheme in ["raid5", "steering"] {
        let scratch = make(scheme, 5);
        let server = scratch.serve(&["--test-faults", "."]);
        let mut client = Client::open(&scratch.path("run/nbd.sock"), "tank/vm");
        let mut control = Control::connect(&scratch);
        let mut ask = |request: Value| control.ask(&request);
        (0..16).for_each(|at| client.write(at << 20, &[7; 1 << 20], 0));
        let late = json!({"effect": {"delay": {"constant": {"micros": 300_000}}}});
        let fault = json!({"request": "fault", "pool": "tank", "drive": "1", "fault": late});
        assert!(ask(fault)["done"].is_string());
        let mut drive = || ask(json!({"request": "status"}))["pools"][0]["drives"][1].clone();
        assert_eq!(drive()["health"], "good");
        let is_told = (0..100_000_u64).any(|at| {
            client.write((at % 256) << 16, &[at as u8; 65536], 0);
            client.read((at * 7 % 4096) << 12, 4096);
            at % 16 == 0 && drive()["slow"].is_object()
        });
        assert!(is_told, "{scheme}: {}", drive());
        assert_eq!(
            (&drive()["health"], &drive()["slow"]["bypassed"]),
            (&json!("slow"), &json!(false))
        );
        let status = scratch.run(&["status", "tank"]).expect(1);
        let status = status.says("is slow: its ").says("requests use it all the same");
        status.says("drive replace tank 1 NEW").says("drive trust tank 1");
        scratch.run(&["events", "tank"]).expect(0).says("drive-slow").says("requests use it");
        scratch.run(&["drive", "trust", "tank", "1"]).expect(0).says("is trusted");
        scratch.run(&["status", "tank"]).expect(0).says("good, trusted");
        scratch.run(&["drive", "auto", "tank", "1"]).expect(0);
        assert_eq!(drive()["decided"], "automatic");
        client.disconnect();
        drop(control);
        let err = server.stop();
        assert!(err.contains("warning: pool tank: drive 1 ("), "{scheme}: {err}");
    }
}

#[test]
fn drives_that_hang_make_requests_wait_until_they_go_on() {
    let scratch = Scratch::new();
    // What goes round drives that hang would not let anybody wait.
    let server = scratch.serve(&[&["--test-faults", "--spikes", "off"], &POOL[..]].concat());
    let mut client = Client::open(&scratch.path("run/nbd.sock"), "demo/vm");
    let mut control = Control::connect(&scratch);
    client.write(0, &[1; 65536], 0);
    let hang =
        json!({"effect": {"hang": {"millis": 200}}, "operation": "write", "times": {"nth": 1}});
    (0..4).for_each(|drive| control.fault(&format!("mem:{drive}"), &hang));
    let took = timed(|| client.write(0, &[2; 65536], FUA));
    assert!(took >= Duration::from_millis(200), "{took:?}");
    assert!(client.read(0, 65536) == [2; 65536]);
    let hung = (0..4).filter(|drive| control.counts(&drive.to_string()).contains("hang 1"));
    assert!(hung.count() >= 2, "copies and journal");
    let release = json!({"request": "fault-release", "pool": "demo", "drive": "0"});
    assert!(control.ask(&release)["done"].is_string());
    scratch.run(&["status", "demo"]).expect(0);
    client.disconnect();
    drop(control);
    assert_eq!(server.stop(), "");
}

#[test]
fn faults_are_refused_where_nobody_asked_for_them_and_if_they_make_no_sense() {
    let scratch = Scratch::new();
    let server = scratch.serve(&POOL);
    let gone =
        json!({"request": "fault", "pool": "demo", "drive": "0", "fault": {"effect": "gone"}});
    let answer = Control::connect(&scratch).ask(&gone);
    assert_eq!(answer["error"]["what"], "this server takes none", "{answer}");
    server.stop();
    let server = scratch.serve(&[&["--test-faults"], &POOL[..]].concat());
    let mut control = Control::connect(&scratch);
    let mut wrong = |change: fn(&mut Value), says: &str| {
        let mut request = gone.clone();
        change(&mut request);
        let answer = control.ask(&request);
        let what = answer["error"]["what"].as_str().unwrap_or_default();
        assert!(what.contains(says), "{answer}");
    };
    wrong(|request| request["drive"] = json!("mem:9"), "no such drive");
    wrong(|request| request["fault"]["effect"] = json!("explode"), "unknown variant");
    wrong(|request| request["fault"]["colour"] = json!("red"), "unknown field");
    wrong(|request| request["fault"]["range"] = json!([9, 9]), "range is empty");
    wrong(|request| request["fault"]["times"] = json!({"nth": 0}), "there is none before it");
    wrong(
        |request| {
            *request = json!({"request": "fault-release", "pool": "demo", "drive": "0", "fault": 9})
        },
        "not armed",
    );
    scratch.run(&["status", "demo"]).expect(0);
    drop(control);
    server.stop();
}

/// Every request that docs/testing.md shows is understood.
#[test]
fn the_page_shows_requests_that_work() {
    let page = include_str!("../../../../docs/testing.md");
    let scratch = Scratch::new();
    let server = scratch.serve(&[&["--test-faults"], &POOL[..]].concat());
    let mut control = Control::connect(&scratch);
    let requests: Vec<&str> =
        page.lines().filter(|line| line.contains(" /api/v1/pools/demo/")).collect();
    assert!(requests.len() >= 12, "one for each kind of fault");
    for request in requests {
        let answer = control.ask_line(request);
        assert!(answer["done"].is_string(), "{request}: {answer}");
    }
    drop(control);
    drop(server);
}

//! Every request there and back, and what nobody should ask.

use std::collections::BTreeSet;

use serde_json::json;

use super::*;
use crate::control::{ArrayShape, Decision, ScrubAction};

fn read_call(call: &Call) -> Result<Target, Wrong> {
    read(call.method.name(), &call.target, call.body.as_deref().unwrap_or("").as_bytes())
}

/// One of each kind, with names that need care.
fn requests() -> Vec<Request> {
    let pool = || "tank & söhne/7?".to_owned();
    let drive = || "/dev/disk/by-id/a b%2F".to_owned();
    let volume = || "vm1".to_owned();
    vec![
        Request::Status { pool: None },
        Request::Status { pool: Some(pool()) },
        Request::Stripe { pool: pool(), number: 7 },
        Request::VolumeCreate {
            pool: pool(),
            volume: volume(),
            size: u64::MAX,
            parity: Some(2),
            width: None,
        },
        Request::VolumeResize { pool: pool(), volume: volume(), size: 1 },
        Request::VolumeDelete { pool: pool(), volume: volume() },
        Request::VolumeLimit { pool: pool(), volume: volume(), iops: Some(7), bytes_per_sec: None },
        Request::DriveDecide { pool: pool(), drive: drive(), decision: Decision::SitOut },
        Request::DriveFail { pool: pool(), drive: drive(), force: true, offline: false },
        Request::DriveReplace {
            pool: pool(),
            drive: drive(),
            path: "/dev/x".to_owned(),
            back: false,
            force: true,
        },
        Request::DriveAdd { pool: pool(), new: vec![drive()], force: false, array: None },
        Request::DriveAdd {
            pool: pool(),
            new: vec![drive(), drive()],
            force: true,
            array: Some(ArrayShape { width: Some(2), ..ArrayShape::default() }),
        },
        Request::DriveRemove { pool: pool(), drive: drive(), stop: true },
        Request::Rebuild { pool: pool(), pause: true },
        Request::Scrub { pool: pool(), action: ScrubAction::Pause },
        Request::Rebalance { pool: pool(), stop: false },
        Request::Events {
            pool: Some(pool()),
            after: [(pool(), 7)].into(),
            wait_millis: 20_000,
            spikes: false,
        },
        Request::Events { pool: None, after: [].into(), wait_millis: 0, spikes: true },
        Request::Fault {
            pool: pool(),
            drive: drive(),
            fault: serde_json::from_value(json!({ "effect": "lost" })).expect("a fault"),
        },
        Request::FaultRelease { pool: pool(), drive: drive(), fault: Some(1) },
        Request::FaultCounts { pool: pool(), drive: drive() },
    ]
}

#[test]
fn every_request_is_read_as_it_was_called() {
    let mut routes = BTreeSet::new();
    for request in requests() {
        let call = Call::of(&request);
        let path = call.target.split('?').next().unwrap_or_default();
        assert!(path.is_ascii() && !path.contains(' '), "{path}");
        routes.insert((call.method.name(), PATHS.at(path).expect("known").value.clone()));
        assert_eq!(read_call(&call), Ok(Target::Request(request)));
    }
    // All but the description and the metrics, which are no requests.
    assert_eq!(routes.len() + 2, ROUTES.len(), "a route that no request takes");
}

#[test]
fn calls_that_nobody_should_make_are_refused() {
    let cases: [(&str, &str, &str, &str); 13] = [
        ("GET", "/", "", "nothing is here"),
        ("GET", "/api/v2/pools", "", "nothing is here"),
        ("GET", "/api/v1/pools/", "", "nothing is here"),
        ("POST", "/api/v1/pools", "", "takes GET, not POST"),
        ("BREW", "/metrics", "", "takes GET, not BREW"),
        ("GET", "/api/v1/pools?extra=1", "", "unknown field `extra`"),
        ("GET", "/api/v1/pools?pool", "", "'pool' is empty"),
        ("GET", "/api/v1/events?after=%7B", "", "'after' is no JSON value"),
        ("GET", "/api/v1/events?wait_millis=1&wait_millis=2", "", "there twice"),
        ("GET", "/api/v1/pools/%ff", "", "not UTF-8"),
        ("POST", "/api/v1/pools/a/volumes", "[1]", "no JSON object"),
        ("POST", "/api/v1/pools/a/volumes", r#"{"pool":"b"}"#, "in the path already"),
        ("PUT", "/api/v1/pools/a/scrub", r#"{"action":"sell"}"#, "unknown variant"),
    ];
    for (method, target, body, expected) in cases {
        let (Wrong::Path(failure) | Wrong::Method(failure) | Wrong::Content(failure)) =
            read(method, target, body.as_bytes()).expect_err(target);
        assert!(failure.usage && failure.what.contains(expected), "{target}: {failure}");
    }
}

#[test]
fn who_asks_for_nothing_is_told_of_what() {
    for target in ["", "?", "/"] {
        match read("GET", target, b"") {
            Err(Wrong::Path(failure)) => assert_eq!(failure.object, "/"),
            other => panic!("{other:?}"),
        }
    }
}

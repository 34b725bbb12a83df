//! `drive sit-out | trust | auto | fail`.

use serde_json::Value;

use crate::nbd::{Client, FUA};
use crate::support::Scratch;

const POOL: [&str; 2] = ["--mem-pool", "demo:5:128M:vm=16M"];

fn drive(scratch: &Scratch, index: usize) -> Value {
    scratch.run(&["status", "--json"]).json()["pools"][0]["drives"][index].clone()
}

#[test]
fn what_is_decided_about_a_drive_is_seen_and_taken_back() {
    let scratch = Scratch::new();
    let server = scratch.serve(&POOL);
    assert_eq!(drive(&scratch, 3)["health"], "good");
    assert_eq!(drive(&scratch, 3)["decided"], "automatic");
    scratch.run(&["drive", "sit-out", "demo", "3"]).expect(0).says("drive 3 (mem:3) sits out");
    assert_eq!(drive(&scratch, 3)["decided"], "sit-out");
    scratch.run(&["status"]).expect(0).says("good, sit-out");
    scratch.run(&["drive", "trust", "demo", "mem:3"]).expect(0).says("is trusted");
    assert_eq!(drive(&scratch, 3)["decided"], "trusted");
    assert_eq!(drive(&scratch, 2)["decided"], "automatic");
    let uuid = drive(&scratch, 3)["uuid"].as_str().expect("text").to_owned();
    scratch.run(&["drive", "auto", "demo", &uuid]).expect(0).says("is judged by its latency");
    assert_eq!(drive(&scratch, 3)["decided"], "automatic");
    server.stop();
}

#[test]
fn the_data_is_there_whatever_sits_out_or_is_failed() {
    let scratch = Scratch::new();
    let server = scratch.serve(&POOL);
    let mut client = Client::open(&scratch.path("run/nbd.sock"), "demo/vm");
    let data = |byte: u8| [byte; 1 << 20];
    client.write(0, &data(1), FUA);
    scratch.run(&["drive", "sit-out", "demo", "0"]).expect(0);
    client.write(1 << 20, &data(2), FUA);
    assert!(client.read(0, 1 << 20) == data(1));
    scratch.run(&["drive", "fail", "demo", "1"]).expect(3).says("no redundancy is left");
    assert_eq!(drive(&scratch, 1)["state"], "active");
    scratch.run(&["drive", "fail", "demo", "1", "--force"]).expect(0).says("0 more may die");
    assert_eq!(drive(&scratch, 1)["state"], "failed");
    client.write(2 << 20, &data(3), FUA);
    for at in 0..3u8 {
        assert!(client.read(u64::from(at) << 20, 1 << 20) == data(at + 1), "at {at} MiB");
    }
    // The last drive that the data needs stays, whoever asks.
    scratch.run(&["drive", "fail", "demo", "2", "--force"]).expect(3).says("would be lost");
    scratch.run(&["drive", "fail", "demo", "1", "--force"]).expect(3).says("is failed");
    scratch.run(&["drive", "trust", "demo", "1"]).expect(3).says("is failed");
    scratch.run(&["status"]).expect(1).says("DEGRADED");
    client.disconnect();
    let err = server.stop();
    assert!(err.contains("pool demo: ") && err.contains("failed by an operator"), "{err}");
}

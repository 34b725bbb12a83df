//! What is said to be left is what can be written: pools of every scheme are filled to the refusal.

use serde_json::Value;

use crate::nbd::{Client, FUA, data};
use crate::schemes::SCHEMES;
use crate::support::{Done, Scratch, Server};

const DRIVE_BYTES: u64 = 32 << 20;
/// `hpda` divides its drives into more parts.
const HPDA_BYTES: u64 = 48 << 20;
const ENOSPC: u32 = 28;
/// More than any of these pools has room for.
const VOLUME: &str = "1G";

/// A pool on drives `d0` and on, with a volume that promises more than there is.
fn make(scheme: &str, drives: usize) -> Scratch {
    let scratch = Scratch::new();
    let names: Vec<String> = (0..drives).map(|at| format!("d{at}")).collect();
    let bytes = if scheme == "hpda" { HPDA_BYTES } else { DRIVE_BYTES };
    names.iter().for_each(|name| scratch.file(name, bytes));
    let mut command = vec!["create", "--scheme", scheme, "tank"];
    command.extend(names.iter().map(String::as_str));
    scratch.run(&command).expect(0);
    let create = ["volume", "create", "tank/vm", VOLUME, "--drives", "."];
    scratch.run(&create).expect(0).says("the pool's volumes promise 1 GiB, and it has room for ");
    scratch
}

fn pool(scratch: &Scratch) -> Value {
    scratch.run(&["status", "--json"]).json()["pools"][0].clone()
}

fn space(pool: &Value, name: &str) -> u64 {
    pool["space"][name].as_u64().expect("a number")
}

/// From `end` on, in smaller and smaller pieces, to the refusal of the smallest.
fn fill(client: &mut Client, mut end: u64) -> u64 {
    for piece in [1 << 20, 64 << 10, 4 << 10] {
        loop {
            match client.try_write(end, &data(1)[..piece], 0) {
                0 => end += piece as u64,
                ENOSPC => break,
                error => panic!("error {error} at {end}"),
            }
        }
    }
    end
}

/// What was said to be left before and at the refusal, in parts of a thousand of all there was.
fn to_the_refusal(scratch: &Scratch, what: &str) {
    let before = pool(scratch);
    let mut client = Client::open(&scratch.path("run/nbd.sock"), "tank/vm");
    let end = fill(&mut client, 0);
    let after = pool(scratch);
    let (said, left) = (space(&before, "available"), space(&after, "available"));
    println!("| {what} | {} | {} | {} |", said >> 10, end >> 10, left >> 10);
    assert!(left * 50 <= end, "{what}: {left} bytes were said to be left of {end}: {after}");
    assert_eq!(after["capacity"], "refused", "{what}: {after}");
    assert!(after["counters"]["space_refusals"].as_u64() >= Some(3), "{what}: {after}");
    assert_eq!(client.try_write(0, &data(2), FUA), 0, "{what}: what is there is overwritten");
    client.disconnect();
}

fn serve(scratch: &Scratch, rebuild_after: &str) -> Server {
    scratch.serve(&[".", "--rebuild-after", rebuild_after])
}

/// Run with `--nocapture` for the table.
#[test]
fn every_scheme_has_as_much_room_as_it_says() {
    println!("| scheme | said, KiB | written | said at the refusal |\n| --- | --- | --- | --- |");
    for (scheme, drives, gone) in [("fusion", 8, &[2, 5][..1])].iter().chain(&SCHEMES) {
        let scratch = make(scheme, *drives);
        let server = serve(&scratch, "never");
        to_the_refusal(&scratch, scheme);
        server.end();
        if gone.is_empty() {
            continue;
        }
        let scratch = make(scheme, *drives);
        for drive in *gone {
            std::fs::remove_file(scratch.path(&format!("d{drive}"))).expect("removed");
        }
        let server = serve(&scratch, "never");
        to_the_refusal(&scratch, &format!("{scheme}, {} drives lost", gone.len()));
        server.end();
    }
}

/// One of eight drives lost, and spared: what the others took over has its place.
#[test]
fn a_spared_drive_is_no_room() {
    let scratch = make("fusion", 8);
    let whole = serve(&scratch, "0s");
    let room = space(&pool(&scratch), "available");
    let mut client = Client::open(&scratch.path("run/nbd.sock"), "tank/vm");
    client.write(0, &data(1), FUA);
    client.disconnect();
    whole.stop();
    std::fs::remove_file(scratch.path("d3")).expect("removed");
    let server = serve(&scratch, "0s");
    scratch.until(&["status"], |status| status.out.contains("vacated"));
    let left = space(&pool(&scratch), "available");
    assert!(left < room * 7 / 8 && left > room * 3 / 4, "{left} of {room}");
    to_the_refusal(&scratch, "fusion, 1 of 8 drives spared");
    server.end();
}

/// Who goes on writing when a drive has been failed does not get the room that the others need for
/// what it held.
#[test]
fn writing_on_leaves_room_for_what_a_lost_drive_held() {
    let scratch = make("fusion", 8);
    let server = serve(&scratch, "0s");
    let mut client = Client::open(&scratch.path("run/nbd.sock"), "tank/vm");
    let some = (space(&pool(&scratch), "available") * 6 / 10) >> 20;
    (0..some).for_each(|at| client.write(at << 20, &data(1), 0));
    client.flush();
    scratch.run(&["drive", "fail", "tank", "3", "--force"]).expect(0);
    let end = fill(&mut client, some << 20);
    assert!(end > some << 20, "{some} MiB, and nothing more");
    scratch.until(&["status"], |status| status.out.contains("vacated"));
    client.disconnect();
    server.end();
}

/// Reason, action, exit code and events, at every mark and back.
#[test]
fn a_pool_that_runs_full_is_told_of() {
    for scheme in ["fusion", "raid5"] {
        let scratch = make(scheme, 4);
        let server = serve(&scratch, "never");
        let mut client = Client::open(&scratch.path("run/nbd.sock"), "tank/vm");
        let room = space(&pool(&scratch), "available");
        let until = |share: u64, from: u64, client: &mut Client| {
            let end = (room * share / 1000) & !0xffff;
            for at in (from..end).step_by(1 << 16) {
                client.write(at, &data(1)[..1 << 16], 0);
            }
            client.flush();
            end
        };
        let end = until(880, 0, &mut client);
        scratch.until(&["status"], |status| status.exit == 0);
        let end = until(920, end, &mut client);
        scratch.run(&["status"]).expect(1).says("ONLINE").says("make room before it runs out");
        let low = |events: &Done| events.out.matches("space-low").count();
        scratch.until(&["events"], |events| low(events) == 1);
        let end = until(970, end, &mut client);
        scratch.run(&["status"]).expect(1).says("of the space is used").says("make room now");
        scratch.until(&["events"], |events| low(events) == 2);
        fill(&mut client, end);
        scratch.run(&["status"]).expect(1).says("writes were refused for want of space, times: ");
        scratch.until(&["events"], |events| events.out.contains("space-refused"));
        client.trim(0, (end / 2) as u32);
        client.flush();
        scratch.until(&["status"], |status| status.exit == 0);
        scratch.until(&["events"], |events| events.out.contains("space-enough"));
        client.disconnect();
        let said = server.stop();
        assert!(said.contains("space is used") && said.contains("were refused"), "{said}");
    }
}

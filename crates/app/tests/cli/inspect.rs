//! `inspect`.

use crate::nbd::Client;
use crate::support::Scratch;

#[test]
fn a_drive_tells_whose_it_is() {
    let scratch = Scratch::with_pool();
    scratch.run(&["inspect", "d1"]).expect(0).says("drive 1 of 4 of pool tank").says("good");
    let report = scratch.run(&["inspect", "d1", "--json"]).expect(0).json();
    assert_eq!(report["content"], "steadyraid");
    assert_eq!(report["labels"].as_array().map(Vec::len), Some(4));
    assert_eq!(report["label"]["pool_name"], "tank");
    assert_eq!(report["label"]["index"], 1);
    assert_eq!(report["label"]["clean"], true);
    assert!(report.get("journal").is_none());
}

#[test]
fn journal_and_checkpoint_are_decoded_even_while_serving() {
    let scratch = Scratch::with_pool();
    let _server = scratch.serve(&["."]);
    let mut client = Client::open(&scratch.path("run/nbd.sock"), "tank/vm");
    client.write(0, &[7; 65536], 0);
    client.flush();
    let (mut records, mut objects) = (String::new(), String::new());
    for drive in ["d0", "d1", "d2", "d3"] {
        let arguments = ["inspect", drive, "--journal", "--checkpoint", "--json"];
        let report = scratch.run(&arguments).expect(0).json();
        assert_eq!(report["label"]["clean"], false, "the pool is open");
        records += &report["journal"]["blocks"].to_string();
        objects += &report["checkpoint"]["slots"].to_string();
        let text = scratch.run(&["inspect", drive, "--journal", "--checkpoint"]).expect(0);
        text.says("journal: ").says("checkpoint: ");
    }
    assert!(records.contains("write v"), "{records}");
    assert!(objects.contains("config"), "{objects}");
    assert!(objects.contains(" vm 64 MiB"), "{objects}");
}

#[test]
fn what_is_not_ours_is_named() {
    let scratch = Scratch::with_drives(2);
    scratch.run(&["inspect", "d0"]).expect(1).says("nothing known");
    scratch.poke("d1", 0, b"XFSB");
    scratch.run(&["inspect", "d1"]).expect(1).says("XFS");
    let report = scratch.run(&["inspect", "d1", "--json"]).expect(1).json();
    assert_eq!(report["content"], "foreign");
    scratch.file("tiny", 4096);
    scratch.run(&["inspect", "tiny"]).expect(1).says("nothing known");
    scratch.file("nothing", 0);
    scratch.run(&["inspect", "nothing"]).expect(1).says("nothing known");
}

#[test]
fn garbage_in_every_structure_is_survived() {
    let scratch = Scratch::with_pool();
    let report = scratch.run(&["inspect", "d0", "--json"]).expect(0).json();
    let offset = |name: &str| report["label"][name]["offset"].as_u64().expect("a number");
    // Every page of journal and metadata damaged at another byte.
    for (name, pages) in [("journal", 64), ("metadata", 256)] {
        for page in 0..pages {
            let at = offset(name) + page * 4096 + page % 96;
            scratch.poke("d0", at, &[0xff; 3]);
        }
    }
    scratch.run(&["inspect", "d0", "--journal", "--checkpoint"]).expect(0);
}

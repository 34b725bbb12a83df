//! The bytes of one of everything, as text beside this file. A difference is a change of the
//! format; the failing test prints what the file should then be.

use crate::samples;
use format::*;
use std::fmt::Write;

/// Rows of 16 bytes; rows of zeroes are left out.
fn dump(bytes: &[u8]) -> String {
    let mut text = format!("{} bytes\n", bytes.len());
    for (row, bytes) in bytes.chunks(16).enumerate() {
        if bytes.iter().any(|byte| *byte != 0) {
            let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            writeln!(text, "{:6x}: {}", row * 16, hex.join(" ")).unwrap();
        }
    }
    text
}

fn check(expected: &str, name: &str, actual: &str) {
    assert!(expected == actual, "the format changed; golden/{name} should then be:\n{actual}");
}

#[test]
fn label() {
    check(include_str!("golden/label.txt"), "label.txt", &dump(&samples::label().encode(2)));
    let listed = dump(&samples::listed_label().encode(2));
    check(include_str!("golden/label-lists.txt"), "label-lists.txt", &listed);
    let spare = dump(&samples::spare_label().encode(2));
    check(include_str!("golden/label-spare.txt"), "label-spare.txt", &spare);
}

#[test]
fn journal_block() {
    let mut block = BlockBuilder::new();
    assert!(samples::records()[..2].iter().all(|record| block.push(record)));
    check(
        include_str!("golden/journal.txt"),
        "journal.txt",
        &dump(&block.finish(&samples::journal_header())),
    );
}

#[test]
fn records() {
    let mut text = String::new();
    for record in samples::records() {
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        writeln!(text, "{record}\n    {hex}").unwrap();
    }
    check(include_str!("golden/records.txt"), "records.txt", &text);
}

#[test]
fn slot() {
    check(
        include_str!("golden/slot.txt"),
        "slot.txt",
        &dump(&encode_slot(&samples::slot_header(), b"payload")),
    );
}

#[test]
fn objects() {
    let chunk = samples::chunk().encode();
    let mut text = String::new();
    for (name, payload) in [
        ("chunk, second part", &chunk[1]),
        ("zone", &samples::zone().encode()[0]),
        ("grown zone", &samples::grown_zone().encode()[0]),
        ("zone with substitutes", &samples::substituted_zone().encode()[0]),
        ("config", &samples::config().encode()[0]),
        ("config with limits", &samples::limited_config().encode()[0]),
        ("sums", &samples::sums().encode()[0]),
    ] {
        write!(text, "{name}: {}", dump(payload)).unwrap();
    }
    let first = &chunk[0];
    assert_eq!(first.len(), SLOT_PAYLOAD);
    write!(text, "chunk, start of first part: {}", dump(&first[..32])).unwrap();
    write!(text, "chunk, end of first part: {}", dump(&first[SLOT_PAYLOAD - 16..])).unwrap();
    check(include_str!("golden/objects.txt"), "objects.txt", &text);
}

#[test]
fn map_entries() {
    let mut text = String::new();
    for (name, entry) in [
        ("unmapped", BmtEntry::UNMAPPED),
        ("base 0x1234 W", BmtEntry::base(Flbn(0x1234), true)),
        ("base max", BmtEntry::base(Flbn::MAX, false)),
        ("patched 5", BmtEntry::patched(5)),
    ] {
        writeln!(text, "{name}: {:02x?}", entry.to_bytes()).unwrap();
    }
    for patch in samples::chunk().patches.into_iter().flat_map(|block| block.patches) {
        writeln!(text, "patch {} at {}: {:02x?}", patch.range, patch.place, patch.pack()).unwrap();
    }
    check(include_str!("golden/entries.txt"), "entries.txt", &text);
}

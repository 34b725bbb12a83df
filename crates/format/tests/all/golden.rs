//! The bytes of one of everything, as text beside this file. A difference is a change of the
//! format. `STEADYRAID_BLESS=1 cargo test -p format golden` writes them anew.

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

#[expect(clippy::disallowed_methods, reason = "golden files are files; this is a test")]
fn check(name: &str, actual: &str) {
    let path = format!("{}/tests/all/golden/{name}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var("STEADYRAID_BLESS").is_ok() {
        std::fs::write(&path, actual).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(expected == actual, "the format changed; {path} should then be:\n{actual}");
}

#[test]
fn label() {
    check("label.txt", &dump(&samples::label().encode(2)));
}

#[test]
fn journal_block() {
    let mut block = BlockBuilder::new();
    assert!(samples::records()[..2].iter().all(|record| block.push(record)));
    check("journal.txt", &dump(&block.finish(&samples::journal_header())));
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
    check("records.txt", &text);
}

#[test]
fn slot() {
    check("slot.txt", &dump(&encode_slot(&samples::slot_header(), b"payload")));
}

#[test]
fn objects() {
    let chunk = samples::chunk().encode();
    let mut text = String::new();
    for (name, payload) in [
        ("chunk, second part", &chunk[1]),
        ("zone", &samples::zone().encode()[0]),
        ("config", &samples::config().encode()[0]),
    ] {
        write!(text, "{name}: {}", dump(payload)).unwrap();
    }
    let first = &chunk[0];
    assert_eq!(first.len(), SLOT_PAYLOAD);
    write!(text, "chunk, start of first part: {}", dump(&first[..32])).unwrap();
    write!(text, "chunk, end of first part: {}", dump(&first[SLOT_PAYLOAD - 16..])).unwrap();
    check("objects.txt", &text);
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
    check("entries.txt", &text);
}

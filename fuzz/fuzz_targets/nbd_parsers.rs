//! The NBD option and request parsers, and the handshake behind them.
#![no_main]

use export::nbd::handshake::{Encryption, Handshake};
use export::nbd::proto::{options, request};
use export::ram::{RamExports, RamVolume};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Some(header) = bytes.first_chunk() {
        let _ = request::parse(header);
    }
    let client = options::ClientFlags { fixed: true, no_zeroes: true };
    let exports = RamExports::new([("disk", RamVolume::new(1 << 20))]);
    let encryption = match bytes.first() {
        Some(first) if first % 2 == 1 => Encryption::Awaited,
        _ => Encryption::NotOffered,
    };
    let mut handshake = Handshake::new(exports, client, encryption);
    let mut rest = bytes;
    let mut replies = Vec::new();
    // Options as (code, length, data): magic numbers would only cost the fuzzer time.
    while let Some(([code, high, low], tail)) = rest.split_first_chunk() {
        let len = usize::from(u16::from_be_bytes([*high, *low])).min(tail.len());
        let (data, next) = tail.split_at(len);
        let header = options::Header { code: (*code).into(), len: len as u32 };
        if handshake.option(header, data, &mut replies).is_err() {
            return;
        }
        rest = next;
    }
});

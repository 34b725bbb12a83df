//! A whole NBD connection: the first byte says in which pieces the rest arrives.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/export/tests/support/feed.rs"]
mod feed;

/// A client's way to transmission, so that the fuzzer doesn't have to find it.
const PROLOGUE: &[u8] = b"\0\0\0\x03IHAVEOPT\0\0\0\x08\0\0\0\0\
    IHAVEOPT\0\0\0\x07\0\0\0\x0a\0\0\0\x04disk\0\0";

fuzz_target!(|bytes: &[u8]| {
    let Some((&first, rest)) = bytes.split_first() else { return };
    let piece = usize::from(first >> 1) * 40 + 1;
    if first & 1 == 0 {
        feed::feed(rest, piece);
    } else {
        feed::feed(&[PROLOGUE, rest].concat(), piece);
    }
});

//! NBD: options and requests, and whole connections.
//!
//! First byte 0: requests and options, parsed; else a connection, which begins in transmission if
//! the byte is odd, and comes in pieces as long as its other bits say.

use export::nbd::handshake::{Encryption, Handshake};
use export::nbd::proto::{options, request};
use export::ram::{RamExports, RamVolume};

use crate::{feed, with_kind};

/// A client's way to transmission, so that the fuzzer doesn't have to find it.
const PROLOGUE: &[u8] = b"\0\0\0\x03IHAVEOPT\0\0\0\x08\0\0\0\0\
    IHAVEOPT\0\0\0\x07\0\0\0\x0a\0\0\0\x04disk\0\0";

pub fn run(bytes: &[u8]) -> bool {
    match bytes.split_first() {
        None => false,
        Some((0, rest)) => parse(rest),
        Some((&first, rest)) => {
            let piece = usize::from(first >> 1) * 40 + 1;
            let transmits = first & 1 == 1;
            let all = if transmits { [PROLOGUE, rest].concat() } else { rest.to_vec() };
            // The greeting is sent to anybody.
            feed::feed(&all, piece) > options::greeting().len()
        }
    }
}

/// Options as (code, length, data): magic numbers would only cost the fuzzer time.
fn parse(bytes: &[u8]) -> bool {
    if let Some(header) = bytes.first_chunk() {
        let _ = request::parse(header);
    }
    let client = options::ClientFlags { fixed: true, no_zeroes: true };
    let exports = RamExports::new([("disk", RamVolume::new(1 << 20))]);
    let encryption = match bytes.first() {
        // Of a listing, among others: only TLS, or an end, is taken there.
        Some(first) if first % 2 == 1 => Encryption::Awaited,
        _ => Encryption::NotOffered,
    };
    let mut handshake = Handshake::new(exports, client, encryption);
    let (mut rest, mut replies) = (bytes, Vec::new());
    while let Some(([code, high, low], tail)) = rest.split_first_chunk() {
        let len = usize::from(u16::from_be_bytes([*high, *low])).min(tail.len());
        let (data, next) = tail.split_at(len);
        let header = options::Header { code: (*code).into(), len: len as u32 };
        if handshake.option(header, data, &mut replies).is_err() {
            return false;
        }
        rest = next;
    }
    !replies.is_empty()
}

fn option(code: u8, data: &[u8]) -> Vec<u8> {
    [&[code], &(data.len() as u16).to_be_bytes()[..], data].concat()
}

fn sent(command: u16, flags: u16, offset: u64, len: u32, payload: &[u8]) -> Vec<u8> {
    let magic = 0x2560_9513_u32.to_be_bytes();
    let (flags, command) = (flags.to_be_bytes(), command.to_be_bytes());
    let (offset, len) = (offset.to_be_bytes(), len.to_be_bytes());
    [&magic[..], &flags, &command, b"cookie!!", &offset, &len, payload].concat()
}

pub fn seeds() -> Vec<Vec<u8>> {
    // Name, one query: base:allocation.
    let context = b"\0\0\0\x04disk\0\0\0\x01\0\0\0\x0fbase:allocation";
    let mut all: Vec<Vec<u8>> = [
        option(2, b""),
        option(3, b""),
        option(6, b"\0\0\0\x04disk\0\x03\0\x03\0\x01\0\x02"),
        option(7, b"\0\0\0\0\0\0"),
        [option(8, b""), option(9, context), option(10, context)].concat(),
        [option(5, b""), option(77, b"?")].concat(),
    ]
    .iter()
    .map(|options| with_kind(0, options))
    .collect();
    let page = [7; 4096];
    let requests = [
        sent(0, 0, 0, 4096, b""),
        [sent(1, 1, 512, 4096, &page), sent(3, 0, 0, 0, b"")].concat(),
        [sent(4, 0, 4096, 8192, b""), sent(6, 2, 0, 512, b""), sent(7, 8, 0, 65536, b"")].concat(),
        [sent(9, 0, 1, 1, b""), sent(2, 0, 0, 0, b"")].concat(),
    ];
    all.extend(requests.iter().map(|request| with_kind(0xff, request)));
    all.push(with_kind(3, &requests[1]));
    all.push(with_kind(0xfe, &[PROLOGUE, &requests[0]].concat()));
    all
}

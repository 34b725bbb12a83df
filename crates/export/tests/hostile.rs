//! Arbitrary bytes and mutilated sessions: the server never panics and always ends.

mod support;

use export::nbd::proto::{options, request};
use proptest::prelude::*;
use support::feed::feed;
use support::*;

/// A session that uses everything.
fn session() -> Vec<u8> {
    let mut bytes = vec![0, 0, 0, 3];
    bytes.extend(option_bytes(option::STRUCTURED_REPLY, &[]));
    bytes.extend(option_bytes(option::LIST, &[]));
    bytes.extend(option_bytes(option::INFO, &info_request("", &[0, 1, 2, 3])));
    let contexts = context_request("disk", &["base:allocation"]);
    bytes.extend(option_bytes(option::LIST_META_CONTEXT, &context_request("disk", &[])));
    bytes.extend(option_bytes(option::SET_META_CONTEXT, &contexts));
    bytes.extend(option_bytes(option::GO, &info_request("disk", &[])));
    for (cookie, command) in (0..8).enumerate() {
        if command != command::DISC {
            bytes.extend(request_bytes(1, command, cookie as u64, 4096, 8192));
        }
        if command == command::WRITE {
            bytes.extend([7; 8192]);
        }
    }
    bytes.extend(request_bytes(0, command::DISC, 0, 0, 0));
    bytes
}

#[test]
fn the_session_works_whole_and_in_bytes() {
    let whole = feed(&session(), usize::MAX);
    assert!(whole > 8192, "everything is answered");
    assert_eq!(feed(&session(), 1), whole);
}

#[test]
fn the_session_may_end_anywhere() {
    let bytes = session();
    for len in (0..600).chain((600..bytes.len()).step_by(97)) {
        feed(&bytes[..len], 1000);
    }
}

fn mutation() -> impl Strategy<Value = (prop::sample::Index, Vec<u8>, usize)> {
    let bytes = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..9),
        prop::collection::vec(prop_oneof![Just(0), Just(0xff), Just(0x80)], 1..9),
    ];
    (any::<prop::sample::Index>(), bytes, 0..9usize)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_bytes_end_a_connection(
        bytes in prop::collection::vec(any::<u8>(), 0..2000),
        piece in 1..2000usize,
    ) {
        feed(&bytes, piece);
        feed(&[&[0, 0, 0, 3], &bytes[..]].concat(), piece);
    }

    #[test]
    fn a_mutilated_session_ends(
        mutations in prop::collection::vec(mutation(), 1..6),
        piece in 1..5000usize,
    ) {
        let mut bytes = session();
        for (index, new, removed) in mutations {
            // Most of the session is one payload; spare it.
            let at = index.index(700.min(bytes.len()));
            let end = (at + removed).min(bytes.len());
            bytes.splice(at..end, new);
        }
        feed(&bytes, piece);
    }

    #[test]
    fn parsers_take_anything(code: u32, bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        options::parse(code % 16, &bytes);
        if let Some(header) = bytes.first_chunk() {
            let _ = options::parse_header(header);
        }
        if let Some(header) = bytes.first_chunk() {
            let _ = request::parse(header);
        }
    }
}

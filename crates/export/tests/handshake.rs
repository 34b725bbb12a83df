//! The handshake, byte by byte.

mod support;

use export::nbd::proto::ProtocolError;
use export::ram::{RamExports, RamVolume};
use export::{ConnectionError, Limits, Server};
use io::Env;
use io::virt::VirtEnv;
use support::*;

const HAS_FLAGS: u16 = 1;
const READ_ONLY: u16 = 2;
/// Flush, FUA, multiple connections.
const ALWAYS: u16 = HAS_FLAGS | 1 << 2 | 1 << 3 | 1 << 8;
/// Trim, write zeroes, fast zero.
const WRITABLE: u16 = 1 << 5 | 1 << 6 | 1 << 11;
const DF: u16 = 1 << 7;

#[test]
fn export_name_ends_the_handshake_with_or_without_zeroes() {
    in_worlds(async |env| {
        for (flags, zeroes) in [(0, 124), (1, 124), (3, 0)] {
            let (server, _) = ram_server(&env);
            let (client, end) = connect(&env, &server);
            client.greet(flags).await;
            client.send(&option_bytes(option::EXPORT_NAME, b"disk")).await;
            assert_eq!(client.u64().await, MIB);
            assert_eq!(client.u16().await, ALWAYS | WRITABLE);
            assert_eq!(client.recv(zeroes).await, vec![0; zeroes]);
            assert_eq!(client.request(command::READ, 0, 512).await.payload, vec![0; 512]);
            client.send(&request_bytes(0, command::DISC, 0, 0, 0)).await;
            assert!(client.is_closed().await);
            assert!(matches!(end.await, Some(Ok(()))));
        }
    });
}

#[test]
fn go_tells_all_and_starts_transmission() {
    in_worlds(async |env| {
        let (server, _) = ram_server(&env);
        let (client, _end) = connect(&env, &server);
        client.greet(3).await;
        assert_eq!(client.verdict(option::STRUCTURED_REPLY, &[]).await, ACK);
        for code in [option::INFO, option::GO] {
            let replies = client.option(code, &info_request("", &[3, 2, 1, 77])).await;
            let flags = (ALWAYS | WRITABLE | DF).to_be_bytes();
            let sizes = [512u32, 4096, 32 << 20].map(u32::to_be_bytes);
            let block_size = [&[0, 3], sizes.as_flattened()].concat();
            let expected: [(u32, &[u8]); 5] = [
                (INFO, &fields(&[&[0, 0], &MIB.to_be_bytes(), &flags])),
                (INFO, &block_size),
                (INFO, b"\0\x01disk"),
                (INFO, b"\0\x021048576 bytes of memory"),
                (ACK, b""),
            ];
            let expected = expected.map(|(kind, data)| (kind, data.to_vec()));
            assert_eq!(replies, expected);
        }
        assert_eq!(client.request(command::READ, 0, 512).await.kind, Some(1));
    });
}

#[test]
fn list_shows_every_export_and_a_missing_one_is_unknown() {
    let env = VirtEnv::fifo(1);
    let volume = RamVolume::new(MIB);
    let exports = RamExports::new([("a", volume.clone()), ("b", volume.frozen())]);
    let server = Server::new(env.clone(), exports, Limits::default());
    run(&env, async {
        let (client, _end) = connect(&env, &server);
        client.greet(3).await;
        let replies = client.option(option::LIST, &[]).await;
        assert_eq!(replies.len(), 3);
        assert_eq!(replies[0], (SERVER, b"\0\0\0\x01a1048576 bytes of memory".to_vec()));
        assert_eq!(replies[1], (SERVER, b"\0\0\0\x01b1048576 bytes of memory".to_vec()));
        // There is no default among two.
        assert_eq!(client.verdict(option::GO, &info_request("", &[])).await, ERR_UNKNOWN);
        assert_eq!(client.verdict(option::INFO, &info_request("c", &[])).await, ERR_UNKNOWN);
        let replies = client.option(option::GO, &info_request("b", &[])).await;
        let flags = (ALWAYS | READ_ONLY).to_be_bytes();
        assert_eq!(replies[0].1[10..], flags);
        let write = client.request_with(0, command::WRITE, 0, 512, &[1; 512]).await;
        assert_eq!(write.error, EPERM);
        for command in [command::TRIM, command::WRITE_ZEROES] {
            assert_eq!(client.request(command, 0, 512).await.error, EPERM);
        }
        assert_eq!(client.request(command::READ, 0, 512).await.error, 0);
    });
}

#[test]
fn a_missing_export_by_export_name_closes() {
    in_worlds(async |env| {
        let (server, _) = ram_server(&env);
        for name in ["missing".to_owned(), "x".repeat(5000)] {
            let (client, end) = connect(&env, &server);
            client.greet(3).await;
            client.send(&option_bytes(option::EXPORT_NAME, name.as_bytes())).await;
            assert!(client.is_closed().await);
            let error = end.await.expect("serve ends").expect_err("no such export");
            let ConnectionError::Protocol(error) = error else { panic!("{error}") };
            assert_eq!(error, ProtocolError::NoSuchExport);
        }
    });
}

#[test]
fn options_we_dont_offer_are_refused_and_the_next_one_works() {
    in_worlds(async |env| {
        let (server, _) = ram_server(&env);
        let (client, _end) = connect(&env, &server);
        client.greet(3).await;
        assert_eq!(client.verdict(option::STARTTLS, &[]).await, ERR_POLICY);
        assert_eq!(client.verdict(option::EXTENDED_HEADERS, &[]).await, ERR_UNSUP);
        assert_eq!(client.verdict(4, b"whatever").await, ERR_UNSUP);
        assert_eq!(client.verdict(u32::MAX, &[7; 20000]).await, ERR_UNSUP);
        assert_eq!(client.verdict(option::LIST, b"data").await, ERR_INVALID);
        assert_eq!(client.verdict(option::STRUCTURED_REPLY, b"x").await, ERR_INVALID);
        assert_eq!(client.verdict(option::ABORT, b"ignored").await, ACK);
        assert!(client.is_closed().await);
    });
}

#[test]
fn malformed_info_requests_are_invalid() {
    in_worlds(async |env| {
        let (server, _) = ram_server(&env);
        let (client, _end) = connect(&env, &server);
        client.greet(3).await;
        let good = info_request("disk", &[1, 2]);
        for len in 0..good.len() {
            assert_eq!(client.verdict(option::GO, &good[..len]).await, ERR_INVALID);
        }
        let not_text = fields(&[&[0, 0, 0, 2, 0xff, 0xfe], &[0, 0]]);
        let long_name = info_request(&"n".repeat(4097), &[]);
        let trailing = [&good[..], &[0]].concat();
        let huge_count = fields(&[&string("disk"), &[0xff, 0xff]]);
        for data in [not_text, long_name, trailing, huge_count] {
            assert_eq!(client.verdict(option::GO, &data).await, ERR_INVALID);
        }
    });
}

#[test]
fn metadata_contexts_are_listed_and_selected() {
    in_worlds(async |env| {
        let (server, _) = ram_server(&env);
        let (client, _end) = connect(&env, &server);
        client.greet(3).await;
        let all = context_request("disk", &["base:allocation"]);
        assert_eq!(client.verdict(option::SET_META_CONTEXT, &all).await, ERR_INVALID);
        assert_eq!(client.verdict(option::STRUCTURED_REPLY, &[]).await, ACK);

        let context = |id: u8| (META_CONTEXT, [&[0, 0, 0, id], &b"base:allocation"[..]].concat());
        let queries: [(&[&str], bool); 5] = [
            (&[], true),
            (&["base:"], true),
            (&["x-mine:a", "base:allocation"], true),
            (&["qemu:"], false),
            (&["base:other"], false),
        ];
        for (queries, listed) in queries {
            let request = context_request("", queries);
            let replies = client.option(option::LIST_META_CONTEXT, &request).await;
            assert_eq!(replies.first() == Some(&context(0)), listed, "{queries:?}");
        }
        let replies = client.option(option::SET_META_CONTEXT, &all).await;
        assert_eq!(replies, [context(1), (ACK, vec![])]);
        let unknown = context_request("gone", &["base:allocation"]);
        assert_eq!(client.verdict(option::SET_META_CONTEXT, &unknown).await, ERR_UNKNOWN);
        // The failed attempt has unset what was set.
        client.option(option::GO, &info_request("disk", &[])).await;
        assert_eq!(client.request(command::BLOCK_STATUS, 0, 512).await.error, EINVAL);
    });
}

#[test]
fn malformed_context_requests_are_invalid() {
    in_worlds(async |env| {
        let (server, _) = ram_server(&env);
        let (client, _end) = connect(&env, &server);
        client.greet(3).await;
        client.verdict(option::STRUCTURED_REPLY, &[]).await;
        let good = context_request("disk", &["base:allocation"]);
        for len in 0..good.len() {
            let cut = &good[..len];
            assert_eq!(client.verdict(option::SET_META_CONTEXT, cut).await, ERR_INVALID);
            assert_eq!(client.verdict(option::LIST_META_CONTEXT, cut).await, ERR_INVALID);
        }
        let huge_count = fields(&[&string("disk"), &[0xff; 4]]);
        assert_eq!(client.verdict(option::SET_META_CONTEXT, &huge_count).await, ERR_INVALID);
    });
}

#[test]
fn what_breaks_the_protocol_ends_the_connection() {
    let too_long = fields(&[b"IHAVEOPT", &[0, 0, 0, 3], &[0xff; 4]]);
    let cases: [(u32, Vec<u8>, ProtocolError); 5] = [
        (4, vec![], ProtocolError::ClientFlags(4)),
        (3, vec![b'x'; 16], ProtocolError::OptionMagic),
        (3, too_long, ProtocolError::OptionLength(u32::MAX)),
        (0, option_bytes(option::LIST, &[]), ProtocolError::NotFixed(3)),
        (3, option_bytes(option::LIST, &[]).repeat(257), ProtocolError::TooManyOptions),
    ];
    for (flags, bytes, expected) in cases {
        let env = VirtEnv::fifo(2);
        let (server, _) = ram_server(&env);
        run(&env, async {
            let (client, end) = connect(&env, &server);
            client.greet(flags).await;
            // Replies must be taken, or neither side goes on.
            let sending = async {
                for option in bytes.chunks(16) {
                    client.send(option).await;
                    env.yield_now().await;
                }
            };
            let taking = async { while !client.is_closed().await {} };
            futures_util::future::join(taking, sending).await;
            let error = end.await.expect("serve ends").expect_err("the protocol is broken");
            let ConnectionError::Protocol(error) = error else { panic!("{error}") };
            assert_eq!(error, expected);
        });
    }
}

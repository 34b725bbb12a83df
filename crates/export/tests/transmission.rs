//! Every command in both reply forms, many at once, and against a model.

mod support;

use std::collections::BTreeMap;

use export::{Limits, Server, Volume, VolumeError};
use io::virt::VirtEnv;
use io::{Buf, Nanos};
use proptest::prelude::*;
use support::slow::SlowVolume;
use support::*;

const FUA: u16 = 1;
const NO_HOLE: u16 = 2;
const DF: u16 = 4;
const REQ_ONE: u16 = 8;
const FAST_ZERO: u16 = 16;
const PAYLOAD_LEN: u16 = 32;

const HOLE: u32 = 3;
const CHUNK: u64 = 64 << 10;

/// What a successful read returns in its payload.
fn read_payload(structured: bool, offset: u64, data: &[u8]) -> Vec<u8> {
    if structured { [&offset.to_be_bytes(), data].concat() } else { data.to_vec() }
}

#[test]
fn what_is_written_is_read_in_both_reply_forms() {
    for structured in [false, true] {
        in_worlds(async |env| {
            let (server, _) = ram_server(&env);
            let (client, _end) = connect(&env, &server);
            client.start(structured).await;
            let lens = [512, 4096, 4608, 65536, 200_192, MIB as usize];
            for (number, len) in lens.into_iter().enumerate() {
                let data: Vec<u8> = (0..len).map(|i| (i / 7 + number) as u8).collect();
                let offset = ((MIB as usize - len) / 2).next_multiple_of(512) as u64;
                let offset = offset.min(MIB - len as u64);
                assert_eq!(client.write(offset, &data).await, 0);
                let reply = client.request(command::READ, offset, len as u32).await;
                assert!(reply.payload == read_payload(structured, offset, &data));
                assert_eq!(reply.kind, structured.then_some(1));
            }
        });
    }
}

#[test]
fn all_commands_take_fua_and_their_own_flags_only() {
    in_worlds(async |env| {
        let (server, _) = ram_server(&env);
        let (client, _end) = connect(&env, &server);
        client.start(true).await;
        let own_flags = [
            (command::READ, DF),
            (command::WRITE, 0),
            (command::FLUSH, 0),
            (command::TRIM, 0),
            (command::WRITE_ZEROES, NO_HOLE | FAST_ZERO),
            (command::BLOCK_STATUS, REQ_ONE),
        ];
        for (command, own) in own_flags {
            for flag in [FUA, NO_HOLE, DF, REQ_ONE, FAST_ZERO, PAYLOAD_LEN] {
                let payload = [5; 512];
                let payload: &[u8] = if command == command::WRITE { &payload } else { &[] };
                let reply = client.request_with(flag, command, 4096, 512, payload).await;
                let allowed = flag & (own | FUA) != 0;
                let expected = if allowed { 0 } else { EINVAL };
                assert_eq!(reply.error, expected, "command {command} flag {flag}");
            }
        }
        for unknown in [command::CACHE, 8, 77, u16::MAX] {
            assert_eq!(client.request(unknown, 0, 512).await.error, EINVAL);
        }
        let both = NO_HOLE | FAST_ZERO;
        let reply = client.request_with(both, command::WRITE_ZEROES, 0, 512, &[]).await;
        assert_eq!(reply.error, ENOTSUP);
    });
}

#[test]
fn df_and_block_status_need_structured_replies() {
    in_worlds(async |env| {
        let (server, _) = ram_server(&env);
        let (client, _end) = connect(&env, &server);
        client.start(false).await;
        assert_eq!(client.request_with(DF, command::READ, 0, 512, &[]).await.error, EINVAL);
        assert_eq!(client.request(command::BLOCK_STATUS, 0, 512).await.error, EINVAL);
    });
}

#[test]
fn ranges_outside_misaligned_or_too_long_are_refused() {
    in_worlds(async |env| {
        let (server, _) = ram_server(&env);
        let (client, _end) = connect(&env, &server);
        client.start(true).await;
        let far = u64::MAX - 511;
        for offset in [MIB, far] {
            for command in [command::READ, command::TRIM, command::BLOCK_STATUS] {
                assert_eq!(client.request(command, offset, 512).await.error, EINVAL);
            }
            assert_eq!(client.request(command::WRITE_ZEROES, offset, 512).await.error, ENOSPC);
            assert_eq!(client.write(offset, &[1; 512]).await, ENOSPC);
        }
        for (offset, len) in [(1, 512), (0, 511), (256, 256)] {
            assert_eq!(client.request(command::READ, offset, len).await.error, EINVAL);
            assert_eq!(client.request(command::WRITE_ZEROES, offset, len).await.error, EINVAL);
            assert_eq!(client.write(offset, &vec![1; len as usize]).await, EINVAL);
        }
        // Refused payloads are skipped; the connection goes on.
        assert_eq!(client.write(MIB - 512, &[1; 100_000]).await, ENOSPC);
        assert_eq!(client.write(MIB - 512, &[1; 512]).await, 0);
    });
}

#[test]
fn reads_longer_than_the_maximum_are_refused() {
    in_worlds(async |env| {
        let volume = SlowVolume::new(&env, 64 * MIB);
        let server = Server::new(env.clone(), volume, Limits::default());
        let (client, _end) = connect(&env, &server);
        client.start(true).await;
        let reply = client.request(command::READ, 0, (32 << 20) + 512).await;
        assert_eq!(reply.error, EINVAL);
        assert_eq!(client.request(command::TRIM, 0, 64 << 20).await.error, 0);
    });
}

#[test]
fn empty_requests_succeed_without_doing_anything() {
    for structured in [false, true] {
        in_worlds(async |env| {
            let (server, _) = ram_server(&env);
            let (client, _end) = connect(&env, &server);
            client.start(structured).await;
            for command in [command::WRITE, command::TRIM, command::WRITE_ZEROES] {
                assert_eq!(client.request(command, 512, 0).await.error, 0);
            }
            let reply = client.request(command::READ, 512, 0).await;
            assert_eq!((reply.error, reply.kind), (0, structured.then_some(0)));
            assert_eq!(client.request(command::BLOCK_STATUS, 0, 0).await.error, EINVAL);
            assert_eq!(client.request(command::FLUSH, 0, 0).await.error, 0);
        });
    }
}

#[test]
fn block_status_describes_holes() {
    in_worlds(async |env| {
        let (server, volume) = ram_server(&env);
        volume.write(CHUNK, Buf::zeroed(2 * CHUNK as usize), false).await.expect("fits");
        let (client, _end) = connect(&env, &server);
        client.start(true).await;
        let describe = async |flags, offset: u64, len: u64| {
            let status = command::BLOCK_STATUS;
            let reply = client.request_with(flags, status, offset, len as u32, &[]).await;
            assert_eq!((reply.error, reply.kind), (0, Some(5)));
            assert_eq!(reply.payload[..4], [0, 0, 0, 1]);
            let number = |bytes: &[u8]| u32::from_be_bytes([0, 1, 2, 3].map(|i| bytes[i]));
            let pairs = reply.payload[4..].chunks_exact(8);
            pairs.map(|pair| (number(pair).into(), number(&pair[4..]))).collect::<Vec<(u64, u32)>>()
        };
        let all = [(CHUNK, HOLE), (2 * CHUNK, 0), (MIB - 3 * CHUNK, HOLE)];
        assert_eq!(describe(0, 0, MIB).await, all);
        assert_eq!(describe(REQ_ONE, 0, MIB).await, all[..1]);
        assert_eq!(describe(REQ_ONE, 0, 512).await, [(512, HOLE)]);
        assert_eq!(describe(0, CHUNK - 512, 1024).await, [(512, HOLE), (512, 0)]);
        assert_eq!(client.request(command::TRIM, CHUNK, CHUNK as u32).await.error, 0);
        assert_eq!(describe(0, 0, 4 * CHUNK).await, [(2 * CHUNK, HOLE), (CHUNK, 0), (CHUNK, HOLE)]);
    });
}

#[test]
fn zeroes_can_be_holes_or_space_kept() {
    in_worlds(async |env| {
        let (server, volume) = ram_server(&env);
        let (client, _end) = connect(&env, &server);
        client.start(true).await;
        let zeroes = command::WRITE_ZEROES;
        for (flags, allocated) in [(NO_HOLE, true), (FAST_ZERO, false), (FUA, false)] {
            assert_eq!(client.write(0, &vec![9; CHUNK as usize]).await, 0);
            let reply = client.request_with(flags, zeroes, 0, CHUNK as u32, &[]).await;
            assert_eq!(reply.error, 0);
            assert_eq!(volume.extents(0, CHUNK)[0].allocated, allocated);
            let read = client.request(command::READ, 0, CHUNK as u32).await;
            assert!(read.payload[8..].iter().all(|&byte| byte == 0));
        }
    });
}

#[test]
fn errors_of_the_volume_reach_the_client_with_their_text() {
    let failures = [
        (VolumeError::NoSpace, ENOSPC, "no space left in the pool"),
        (VolumeError::Io("drive 3 is gone".into()), EIO, "drive 3 is gone"),
        (VolumeError::OutOfRange, EINVAL, "outside the volume"),
        (VolumeError::ReadOnly, EPERM, "the volume is read-only"),
        (VolumeError::ShuttingDown, ESHUTDOWN, "the server is shutting down"),
    ];
    for (failure, errno, text) in failures {
        let env = VirtEnv::new(3);
        let volume = SlowVolume::new(&env, MIB);
        volume.failure.set(Some(failure));
        let server = Server::new(env.clone(), volume, Limits::default());
        run(&env, async {
            for structured in [false, true] {
                let (client, _end) = connect(&env, &server);
                client.start(structured).await;
                let reply = client.request(command::READ, 0, 4096).await;
                assert_eq!(reply.error, errno);
                if structured {
                    assert_eq!(reply.kind, Some(0x8001));
                    assert_eq!(reply.payload[6..], *text.as_bytes());
                }
                assert_eq!(client.write(0, &[1; 4096]).await, errno);
                assert_eq!(client.request(command::FLUSH, 0, 0).await.error, errno);
            }
        });
    }
}

#[test]
fn many_requests_run_at_once_and_each_gets_its_own_reply() {
    in_worlds(async |env| {
        let volume = SlowVolume::new(&env, 4 * MIB);
        let server = Server::new(env.clone(), volume.clone(), Limits::default());
        let (client, _end) = connect(&env, &server);
        client.start(true).await;
        let count = 500;
        let sending = async {
            for cookie in 0..count {
                let payload = [cookie as u8; 4096];
                let header = request_bytes(0, command::WRITE, cookie, cookie * 4096, 4096);
                client.send(&[&header[..], &payload].concat()).await;
            }
        };
        let taking = async {
            let mut seen = BTreeMap::new();
            for _ in 0..count {
                let reply = client.reply(0).await;
                assert_eq!(reply.error, 0);
                assert_eq!(seen.insert(reply.cookie, ()), None);
            }
        };
        futures_util::future::join(sending, taking).await;
        let most = volume.most_running.get();
        assert!((50..=128).contains(&most), "{most} at once");
        for block in 0..count {
            let reply = client.request(command::READ, block * 4096, 4096).await;
            assert!(reply.payload[8..].iter().all(|&byte| byte == block as u8));
        }
    });
}

#[test]
fn payloads_in_flight_stay_within_the_budget() {
    in_worlds(async |env| {
        let volume = SlowVolume::new(&env, 64 * MIB);
        let server = Server::new(env.clone(), volume.clone(), Limits::default());
        let reading = (0..3).map(|_| async {
            let (client, _end) = connect(&env, &server);
            client.start(false).await;
            for offset in 0..4 {
                let len = 20 << 20;
                client.send(&request_bytes(0, command::READ, 0, offset * MIB, len)).await;
            }
            pause(&env, Nanos::from_secs(1)).await;
            // One of each client fits, and none of its others has been begun.
            assert_eq!(server.bytes_in_flight(), 3 * (20 << 20));
            // Whoever doesn't take its replies holds up nobody else, and is disconnected some day.
            drop(client);
        });
        futures_util::future::join_all(reading).await;
        pause(&env, Nanos::from_secs(300)).await;
        assert_eq!((server.connections(), server.bytes_in_flight()), (0, 0));
        assert_eq!(volume.running.get(), 0);
    });
}

#[derive(Clone, Debug)]
enum Step {
    Read,
    Write(u8),
    Zero(bool),
    Trim,
    Flush,
}

fn step() -> impl Strategy<Value = (Step, u64, u64)> {
    let step = prop_oneof![
        Just(Step::Read),
        any::<u8>().prop_map(Step::Write),
        any::<bool>().prop_map(Step::Zero),
        Just(Step::Trim),
        Just(Step::Flush),
    ];
    (step, 0..600u64, 1..300u64)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Random commands, one after the other, against an array of bytes.
    #[test]
    fn a_volume_is_an_array_of_bytes(
        steps in prop::collection::vec(step(), 1..40),
        structured: bool,
        seed: u64,
    ) {
        let env = VirtEnv::new(seed);
        let size = 600 * 512;
        let server = Server::new(env.clone(), SlowVolume::new(&env, size), Limits::default());
        run(&env, async {
            let (client, _end) = connect(&env, &server);
            client.start(structured).await;
            let mut model = vec![0u8; size as usize];
            for (step, sector, sectors) in steps {
                let (offset, len) = (sector * 512, sectors * 512);
                let range = offset as usize..(offset + len) as usize;
                let inside = range.end <= model.len();
                match step {
                    Step::Read => {
                        let reply = client.request(command::READ, offset, len as u32).await;
                        prop_assert_eq!(reply.error == 0, inside);
                        if inside {
                            let expected = read_payload(structured, offset, &model[range]);
                            prop_assert!(reply.payload == expected);
                        }
                    }
                    Step::Write(byte) => {
                        let data = vec![byte; len as usize];
                        prop_assert_eq!(client.write(offset, &data).await == 0, inside);
                        if inside {
                            model[range].copy_from_slice(&data);
                        }
                    }
                    Step::Zero(keep) => {
                        let (flags, zeroes) = (u16::from(keep) * NO_HOLE, command::WRITE_ZEROES);
                        let reply = client.request_with(flags, zeroes, offset, len as u32, &[]);
                        prop_assert_eq!(reply.await.error == 0, inside);
                        if inside {
                            model[range].fill(0);
                        }
                    }
                    Step::Trim => {
                        let reply = client.request(command::TRIM, offset, len as u32).await;
                        prop_assert_eq!(reply.error == 0, inside);
                        if inside {
                            model[range].fill(0);
                        }
                    }
                    Step::Flush => {
                        prop_assert_eq!(client.request(command::FLUSH, 0, 0).await.error, 0);
                    }
                }
            }
            Ok(())
        })?;
        env.crash();
    }
}

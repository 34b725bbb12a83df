//! How connections end: by the client, by time, by limits, by shutdown.

mod support;

use export::nbd::proto::ProtocolError;
use export::{ConnectionError, Limits, Server};
use io::virt::VirtEnv;
use io::{Env, Nanos};
use support::slow::SlowVolume;
use support::*;

fn second(count: u64) -> Nanos {
    Nanos::from_secs(count)
}

#[test]
fn a_client_that_leaves_is_no_error_unless_within_a_message() {
    in_worlds(async |env| {
        let (server, _) = ram_server(&env);
        let (client, end) = connect(&env, &server);
        client.greet(3).await;
        client.close();
        assert!(matches!(end.await, Some(Ok(()))));

        let (client, end) = connect(&env, &server);
        client.start(true).await;
        client.close();
        assert!(matches!(end.await, Some(Ok(()))));

        let whole = request_bytes(0, command::WRITE, 0, 0, 512);
        for sent in [&whole[..1], &whole[..27], &whole[..]] {
            let (client, end) = connect(&env, &server);
            client.start(true).await;
            client.send(sent).await;
            pause(&env, second(1)).await;
            client.close();
            let error = end.await.expect("serve ends");
            let truncated = ConnectionError::Protocol(ProtocolError::Truncated);
            assert_eq!(error.expect_err("cut").to_string(), truncated.to_string());
        }
    });
}

#[test]
fn disconnect_lets_requests_end() {
    in_worlds(async |env| {
        let volume = SlowVolume::new(&env, MIB);
        let server = Server::new(env.clone(), volume.clone(), Limits::default());
        let (client, end) = connect(&env, &server);
        client.start(false).await;
        for cookie in 0..10 {
            client.send(&request_bytes(0, command::FLUSH, cookie, 0, 0)).await;
        }
        client.send(&request_bytes(0, command::DISC, 0, 0, 0)).await;
        for _ in 0..10 {
            assert_eq!(client.reply(0).await.error, 0);
        }
        assert!(client.is_closed().await);
        assert!(matches!(end.await, Some(Ok(()))));
    });
}

#[test]
fn requests_of_a_client_that_is_gone_still_end() {
    in_worlds(async |env| {
        let volume = SlowVolume::new(&env, MIB);
        let server = Server::new(env.clone(), volume.clone(), Limits::default());
        let (client, end) = connect(&env, &server);
        client.start(false).await;
        for cookie in 0..20 {
            client.send(&request_bytes(0, command::FLUSH, cookie, 0, 0)).await;
        }
        drop(client);
        end.await.expect("serve ends").expect("leaving is no error");
        assert_eq!(volume.running.get(), 0);
        assert_eq!(server.connections(), 0);
    });
}

#[test]
fn a_handshake_takes_ten_seconds_at_most() {
    in_worlds(async |env| {
        let (server, _) = ram_server(&env);
        let begun = env.now();
        let (silent, silent_end) = connect(&env, &server);
        let (slow, slow_end) = connect(&env, &server);
        let (done, done_end) = connect(&env, &server);
        done.start(true).await;
        slow.greet(3).await;
        let dripping = async {
            for _ in 0..9 {
                pause(&env, second(1)).await;
                assert_eq!(slow.verdict(option::LIST, b"x").await, ERR_INVALID);
            }
            assert!(slow.is_closed().await);
        };
        dripping.await;
        assert_eq!(env.now(), begun + second(10));
        for end in [silent_end, slow_end] {
            assert!(matches!(end.await, Some(Err(ConnectionError::HandshakeTimeout))));
        }
        drop(silent);
        // The third has chosen and may be idle as long as it likes.
        pause(&env, second(100_000)).await;
        assert_eq!(done.request(command::FLUSH, 0, 0).await.error, 0);
        drop(done);
        assert!(matches!(done_end.await, Some(Ok(()))));
    });
}

#[test]
fn a_client_that_stops_within_a_message_is_disconnected() {
    in_worlds(async |env| {
        let (server, _) = ram_server(&env);
        let header = request_bytes(0, command::WRITE, 0, 0, 65536);
        for sent in [header[..10].to_vec(), [&header[..], &[1; 1000]].concat()] {
            let (client, end) = connect(&env, &server);
            client.start(true).await;
            pause(&env, second(200)).await;
            client.send(&sent).await;
            let begun = env.now();
            assert!(client.is_closed().await);
            let taken = env.now().saturating_sub(begun);
            assert!(second(60) <= taken && taken <= second(120));
            assert!(matches!(end.await, Some(Err(ConnectionError::Stalled))));
            assert_eq!(server.bytes_in_flight(), 0);
        }
    });
}

#[test]
fn a_client_that_doesnt_take_replies_is_disconnected() {
    in_worlds(async |env| {
        let (server, _) = ram_server(&env);
        let (client, end) = connect(&env, &server);
        client.start(true).await;
        client.send(&request_bytes(0, command::READ, 0, 0, 65536)).await;
        assert!(matches!(end.await, Some(Err(ConnectionError::Stalled))));
        assert_eq!(server.bytes_in_flight(), 0);
    });
}

#[test]
fn a_wrong_request_magic_or_a_payload_too_long_closes() {
    in_worlds(async |env| {
        let (server, _) = ram_server(&env);
        let too_long = request_bytes(0, command::WRITE, 0, 0, (32 << 20) + 512);
        let cases = [
            (vec![0; 28], ProtocolError::RequestMagic),
            (too_long, ProtocolError::PayloadLength((32 << 20) + 512)),
        ];
        for (bytes, expected) in cases {
            let (client, end) = connect(&env, &server);
            client.start(true).await;
            client.send(&bytes).await;
            assert!(client.is_closed().await);
            let error = end.await.expect("serve ends").expect_err("the protocol is broken");
            assert_eq!(error.to_string(), expected.to_string());
        }
    });
}

#[test]
fn one_connection_more_than_allowed_is_refused() {
    let env = VirtEnv::fifo(4);
    let limits = Limits { connections: 3, ..Limits::default() };
    let server = Server::new(env.clone(), SlowVolume::new(&env, MIB), limits);
    run(&env, async {
        let mut clients: Vec<_> = (0..3).map(|_| connect(&env, &server)).collect();
        for (client, _) in &clients {
            client.start(true).await;
        }
        let (refused, end) = connect(&env, &server);
        assert!(refused.is_closed().await);
        assert!(matches!(end.await, Some(Err(ConnectionError::TooMany(3)))));
        drop(clients.pop());
        pause(&env, second(1)).await;
        let (client, _end) = connect(&env, &server);
        client.start(true).await;
        assert_eq!(server.connections(), 3);
    });
}

#[test]
fn shutdown_finishes_what_runs_refuses_what_comes_and_closes() {
    in_worlds(async |env| {
        let mut volume = SlowVolume::new(&env, MIB);
        volume.latency = second(5);
        let server = Server::new(env.clone(), volume.clone(), Limits::default());
        let (idle, idle_end) = connect(&env, &server);
        idle.start(true).await;
        let (choosing, choosing_end) = connect(&env, &server);
        choosing.greet(3).await;
        let (busy, busy_end) = connect(&env, &server);
        busy.start(true).await;
        busy.send(&request_bytes(0, command::FLUSH, 1, 0, 0)).await;
        pause(&env, Nanos::from_millis(1)).await;

        server.shut_down();
        assert_eq!(idle.request(command::READ, 0, 512).await.error, ESHUTDOWN);
        assert_eq!(choosing.verdict(option::LIST, &[]).await, ERR_SHUTDOWN);
        let go = info_request("disk", &[]);
        assert_eq!(choosing.verdict(option::GO, &go).await, ERR_SHUTDOWN);
        assert_eq!(choosing.verdict(option::ABORT, &[]).await, ACK);
        assert_eq!(busy.reply(0).await, Reply { cookie: 1, error: 0, kind: None, payload: vec![] });
        server.stopped().await;
        for end in [idle_end, choosing_end, busy_end] {
            assert!(matches!(end.await, Some(Ok(()))));
        }
        assert!(idle.is_closed().await && busy.is_closed().await);
        let (_late, end) = connect(&env, &server);
        assert!(matches!(end.await, Some(Err(ConnectionError::ShuttingDown))));
    });
}

#[test]
fn shutdown_does_not_wait_for_ever_for_a_client() {
    in_worlds(async |env| {
        let (server, _) = ram_server(&env);
        let (greedy, _end) = connect(&env, &server);
        greedy.start(true).await;
        greedy.send(&request_bytes(0, command::READ, 0, 0, 65536)).await;
        let (silent, _end) = connect(&env, &server);
        pause(&env, second(1)).await;
        let begun = env.now();
        server.shut_down();
        server.stopped().await;
        assert!(env.now().saturating_sub(begun) <= second(61));
        drop((greedy, silent));
    });
}

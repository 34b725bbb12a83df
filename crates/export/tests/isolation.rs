//! Nobody waits for somebody else's client: one that stops, is slow, stands in the middle of a
//! message, floods, or takes places. Time is virtual, so "does not wait" is exact.

mod support;

use export::ram::{RamExports, RamVolume};
use export::{ConnectionError, Limits, Origin, Peer, Server, Transport};
use futures_util::FutureExt;
use futures_util::future::join;
use io::virt::VirtEnv;
use io::{Env, Nanos};
use support::slow::SlowVolume;
use support::*;

const LONG: u32 = 32 << 20;

/// A client that has done what `spoils` says, and stands there.
async fn bad_neighbour(client: &Client, spoils: &[u8]) {
    client.start(false).await;
    client.send(spoils).await;
}

/// Announces 32 MiB, sends a little of it, and stops.
fn half_a_write() -> Vec<u8> {
    [&request_bytes(0, command::WRITE, 1, 0, LONG)[..], &[7; 1000]].concat()
}

/// Asks for as much as there is, and takes none of it.
fn reads_that_nobody_takes() -> Vec<u8> {
    (0..64).flat_map(|cookie| request_bytes(0, command::READ, cookie, 0, LONG)).collect()
}

/// The good client's requests of every kind, each answered in no time.
async fn is_served_at_once(env: &VirtEnv, client: &Client) {
    let begun = env.now();
    for round in 0..10u8 {
        assert_eq!(client.write(4096, &[round; 4096]).await, 0);
        let reply = client.request(command::READ, 4096, 4096).await;
        assert_eq!(reply.payload, [round; 4096]);
        assert_eq!(client.request(command::FLUSH, 0, 0).await.error, 0);
        // A long one, too.
        let reply = client.request(command::READ, 0, 4 << 20).await;
        assert_eq!((reply.error, reply.payload.len()), (0, 4 << 20));
    }
    assert_eq!(env.now(), begun, "nobody was waited for");
}

/// One client that stopped in the middle of two long writes kept all others from everything for two
/// minutes: what they were to bring was taken from all when it was announced.
#[test]
fn clients_that_stop_cost_nobody_else_anything() {
    for spoils in [half_a_write(), reads_that_nobody_takes()] {
        let env = VirtEnv::fifo(1);
        let volume = RamVolume::new(64 * MIB);
        let exports = RamExports::new([("disk", volume)]);
        let server = Server::new(env.clone(), exports, Limits::default());
        run(&env, async {
            let bad: Vec<_> = (0..8).map(|_| connect(&env, &server)).collect();
            for (client, _) in &bad {
                bad_neighbour(client, &spoils).await;
            }
            pause(&env, Nanos::from_millis(1)).await;
            let (good, _end) = connect(&env, &server);
            good.start(false).await;
            is_served_at_once(&env, &good).await;
            // Each of them has one request of that length under way, and no more.
            assert_eq!(server.bytes_in_flight(), 8 * u64::from(LONG));
            drop(bad);
        });
        env.crash();
    }
}

/// The volumes' time is shared, of course. But who asks for little has not to wait until others
/// have what they asked for.
#[test]
fn small_requests_do_not_wait_behind_long_ones() {
    let env = VirtEnv::fifo(1);
    let mut volume = SlowVolume::new(&env, 64 * MIB);
    volume.latency = Nanos::from_secs(1);
    let server = Server::new(env.clone(), volume.clone(), Limits::default());
    run(&env, async {
        let others: Vec<_> = (0..4).map(|_| connect(&env, &server)).collect();
        for (client, _) in &others {
            bad_neighbour(client, &request_bytes(0, command::READ, 1, 0, LONG)).await;
        }
        let (good, _end) = connect(&env, &server);
        good.start(false).await;
        pause(&env, Nanos::from_micros(1)).await;
        assert_eq!(volume.running.get(), 2, "two of the long ones at once");
        good.send(&request_bytes(0, command::READ, 2, 0, 4096)).await;
        pause(&env, Nanos::from_micros(1)).await;
        assert_eq!(volume.running.get(), 3, "and the small one beside them");
        assert_eq!(good.reply(4096).await.error, 0);
    });
    env.crash();
}

/// Requests that are at hand all at once, as many as one may have: another client's are begun
/// between them.
#[test]
fn a_flood_lets_others_have_their_turn() {
    let env = VirtEnv::fifo(1);
    let mut volume = SlowVolume::new(&env, 64 * MIB);
    volume.latency = Nanos::from_secs(1);
    let server = Server::new(env.clone(), volume.clone(), Limits::default());
    run(&env, async {
        let (flood, _end) = connect_wide(&env, &server);
        flood.start(false).await;
        let (good, _end) = connect(&env, &server);
        good.start(false).await;
        let all = |command, count| -> Vec<u8> {
            (0..count).flat_map(|cookie| request_bytes(0, command, cookie, 0, 512)).collect()
        };
        // Both are there before the server looks at either.
        join(flood.send(&all(command::READ, 128)), good.send(&all(command::TRIM, 1))).await;
        pause(&env, Nanos::from_micros(1)).await;
        assert!(volume.running.get() > 100, "all of the flood is begun in the end");
        let before = volume.running_at_trim.get().expect("the other one, too");
        assert!(before <= 20, "{before} of the flood came first");
    });
    env.crash();
}

fn peer(transport: Transport, process: u32) -> Peer {
    Peer { transport, origin: Origin::Process(process) }
}

fn connect_from(env: &VirtEnv, server: &Server<VirtEnv, RamExports>, peer: Peer) -> (Client, End) {
    connect_with(env, server, move |server, stream| async move {
        server.serve_peer(stream, None, peer).await
    })
}

/// Who connects and says nothing had all places after a while.
#[test]
fn places_are_not_for_those_who_say_nothing() {
    in_worlds(async |env| {
        let (server, _) = ram_server(&env);
        let (served, _end) = connect_from(&env, &server, peer(Transport::Tcp, 1));
        served.start(true).await;
        let (slow, _end) = connect_from(&env, &server, peer(Transport::Tcp, 2));
        slow.greet(3).await;
        let mut flood = Vec::new();
        for _ in 0..1000 {
            flood.push(connect_from(&env, &server, peer(Transport::Tcp, 3)));
        }
        pause(&env, Nanos::from_millis(1)).await;
        let counted = server.counted(Transport::Tcp);
        assert_eq!((counted.handshaking, counted.established), (64, 1));
        assert_eq!(server.connections(), 65, "those that were put out are gone");
        let told = flood.iter_mut().filter_map(|(_, end)| end.now_or_never());
        let crowded = |end: &Option<_>| matches!(end, Some(Err(ConnectionError::Crowded)));
        assert_eq!(told.filter(crowded).count(), 1000 - 63, "the slow one keeps its place");
        // Everybody else goes on, and comes in.
        assert_eq!(served.request(command::FLUSH, 0, 0).await.error, 0);
        assert_eq!(slow.option(option::LIST, &[]).await.len(), 2);
        for transport in [Transport::Tcp, Transport::Unix] {
            let (late, _end) = connect_from(&env, &server, peer(transport, 4));
            late.start(true).await;
            assert_eq!(late.request(command::FLUSH, 0, 0).await.error, 0);
        }
    });
}

#[test]
fn clients_from_elsewhere_do_not_take_the_places_of_this_machine() {
    let env = VirtEnv::fifo(4);
    let limits = Limits { connections: 3, ..Limits::default() };
    let exports = RamExports::new([("disk", RamVolume::new(MIB))]);
    let server = Server::new(env.clone(), exports, limits);
    run(&env, async {
        let far: Vec<_> = (0..3)
            .map(|process| connect_from(&env, &server, peer(Transport::Tcp, process)))
            .collect();
        for (client, _) in &far {
            client.start(true).await;
        }
        let (refused, end) = connect_from(&env, &server, peer(Transport::Tcp, 9));
        assert!(refused.is_closed().await);
        assert!(matches!(end.await, Some(Err(ConnectionError::TooMany(3)))));
        let (near, _end) = connect_from(&env, &server, peer(Transport::Unix, 9));
        near.start(true).await;
    });
    env.crash();
}

/// As `nbdinfo --list` and `qemu-nbd --list` do: some options for each export, in one connection.
/// 200 exports were too many options.
#[test]
fn hundreds_of_exports_are_listed_with_all_that_is_known_of_each() {
    const EXPORTS: usize = 500;
    let env = VirtEnv::fifo(1);
    let name = |index: usize| -> &'static str { format!("export {index}").leak() };
    let exports = RamExports::new((0..EXPORTS).map(|index| (name(index), RamVolume::new(MIB))));
    let server = Server::new(env.clone(), exports, Limits::default());
    run(&env, async {
        let (client, _end) = connect(&env, &server);
        client.greet(3).await;
        assert_eq!(client.verdict(option::STRUCTURED_REPLY, &[]).await, ACK);
        assert_eq!(client.option(option::LIST, &[]).await.len(), EXPORTS + 1);
        for index in 0..EXPORTS {
            // Over a link on which each answer takes a while.
            pause(&env, Nanos::from_millis(200)).await;
            let contexts = context_request(name(index), &["base:allocation"]);
            let list = context_request(name(index), &[]);
            assert_eq!(client.option(option::SET_META_CONTEXT, &contexts).await.len(), 2);
            assert_eq!(client.option(option::LIST_META_CONTEXT, &list).await.len(), 2);
            let info = client.option(option::INFO, &info_request(name(index), &[1, 2, 3])).await;
            assert_eq!(info.len(), 5, "{info:?}");
        }
        // There is an end all the same.
        let more = async { while !client.is_closed().await {} };
        join(more, pause(&env, Nanos::from_secs(100))).await;
    });
    env.crash();
}

/// SIGTERM: the volumes end what they work on, and no client is waited for for long, whatever it
/// owes. It took two minutes.
#[test]
fn a_server_that_is_told_to_stop_ends_in_seconds_whatever_clients_do() {
    in_worlds(async |env| {
        let volume = RamVolume::new(64 * MIB);
        let exports = RamExports::new([("disk", volume)]);
        let server = Server::new(env.clone(), exports, Limits::default());
        let all: Vec<_> = (0..6).map(|_| connect(&env, &server)).collect();
        bad_neighbour(&all[0].0, &half_a_write()).await;
        bad_neighbour(&all[1].0, &reads_that_nobody_takes()).await;
        bad_neighbour(&all[2].0, &request_bytes(0, command::READ, 1, 0, LONG)[..9]).await;
        all[3].0.greet(3).await;
        all[4].0.start(true).await;
        pause(&env, Nanos::from_secs(1)).await;
        let begun = env.now();
        server.shut_down();
        server.stopped().await;
        let taken = env.now().saturating_sub(begun);
        assert!(taken <= Nanos::from_secs(3), "{taken}");
        assert_eq!(server.bytes_in_flight(), 0);
    });
}

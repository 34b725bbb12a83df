//! Streams over Unix sockets, TCP and memory; listeners and what they find at their path.

use std::cell::Cell;
use std::fs;
use std::future::Future;
use std::io::{self as stdio, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Waker};
use std::thread;

use futures_util::future::{join, join_all};
use io::net::{Address, ByteStream, Listener, NetError, Stream, duplex, recv_exact};
use io::uring::UringEnv;
use io::{Buf, BufMut, Env, Nanos};

use crate::support::{TempDir, pattern};

fn env() -> UringEnv {
    UringEnv::new().unwrap()
}

fn any_port() -> Address {
    Address::Tcp(SocketAddr::from(([127, 0, 0, 1], 0)))
}

fn bind(env: &UringEnv, path: PathBuf) -> Result<Listener, NetError> {
    Listener::bind(env, &Address::Unix(path))
}

/// A listener and both ends of a connection to it.
fn connection(env: &UringEnv, dir: &TempDir) -> (Stream, Stream) {
    let listener = bind(env, dir.join("pair")).unwrap();
    let client = Stream::connect_unix(env, dir.join("pair")).unwrap();
    (client, env.block_on(listener.accept()).unwrap())
}

/// Sends back whatever comes until the end of the stream.
async fn echo(stream: impl ByteStream) {
    let mut buf = BufMut::with_len(10_000);
    loop {
        let (back, count) = stream.recv(buf, 0..10_000).await;
        let Ok(count @ 1..) = count else { return };
        stream.send(vec![Buf::from_slice(&back[..count])]).await.unwrap();
        buf = back;
    }
}

async fn exchange(stream: &impl ByteStream, len: usize, seed: u64) {
    let sent = pattern(len, seed);
    let pieces = vec![sent.slice(0..len / 3), Buf::zeroed(0), sent.slice(len / 3..len)];
    let receive = recv_exact(stream, BufMut::with_len(len + 2), 1..len + 1);
    let (done, (got, result)) = join(stream.send(pieces), receive).await;
    done.unwrap();
    result.unwrap();
    assert!(got[1..len + 1] == sent[..]);
}

fn serve(env: &UringEnv, listener: Listener) {
    let tasks = env.clone();
    env.spawn(async move {
        loop {
            let stream = listener.accept().await.unwrap();
            tasks.spawn(echo(stream));
        }
    });
}

#[test]
fn many_unix_connections_at_once() {
    let (env, dir) = (env(), TempDir::new());
    let path = dir.join("socket");
    serve(&env, bind(&env, path.clone()).unwrap());
    let clients = (0..100u64).map(|client| {
        let stream = Stream::connect_unix(&env, &path).unwrap();
        async move {
            for round in 0..10 {
                exchange(&stream, 1 + (client * 997 + round * 31) as usize % 70_000, client).await;
            }
        }
    });
    env.block_on(join_all(clients));
    env.drop_tasks();
    assert!(!path.exists(), "a listener takes its file with it");
}

/// Blocking clients in threads of their own: another implementation at the other end.
#[test]
fn many_tcp_connections_at_once() {
    let env = env();
    let listener = Listener::bind(&env, &any_port()).unwrap();
    let Address::Tcp(address) = *listener.address() else { panic!("bound to TCP") };
    assert_ne!(address.port(), 0);
    serve(&env, listener);
    let left = std::sync::atomic::AtomicUsize::new(20);
    let client = |seed: u64| {
        let mut stream = TcpStream::connect(address).unwrap();
        let sent: Vec<u8> = (0..50_000u64).map(|index| (index * seed) as u8).collect();
        for part in sent.chunks(7_000) {
            stream.write_all(part).unwrap();
            let mut got = vec![0; part.len()];
            stream.read_exact(&mut got).unwrap();
            assert!(got == part);
        }
        left.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
    };
    thread::scope(|scope| {
        for seed in 1..=20 {
            scope.spawn(move || client(seed));
        }
        env.block_on(async {
            while left.load(std::sync::atomic::Ordering::SeqCst) > 0 {
                env.sleep_until(env.now() + Nanos::from_millis(1)).await;
            }
        });
    });
    env.drop_tasks();
}

#[test]
fn tcp_has_nodelay_and_unix_has_not() {
    let (env, dir) = (env(), TempDir::new());
    let listener = Listener::bind(&env, &any_port()).unwrap();
    let Address::Tcp(address) = *listener.address() else { panic!("bound to TCP") };
    let client = Stream::new(&env, TcpStream::connect(address).unwrap());
    let server = env.block_on(listener.accept()).unwrap();
    client.set_nodelay(true).unwrap();
    server.set_nodelay(false).unwrap();
    assert!(connection(&env, &dir).0.set_nodelay(true).is_err());
}

/// A client whose machine died kept its place, and its volume in use, for ever.
#[test]
fn who_connects_over_tcp_is_asked_whether_it_is_there() {
    let (env, dir) = (env(), TempDir::new());
    let listener = Listener::bind(&env, &any_port()).unwrap();
    let Address::Tcp(address) = *listener.address() else { panic!("bound to TCP") };
    let _client = TcpStream::connect(address).unwrap();
    let server = env.block_on(listener.accept()).unwrap();
    assert!(server.is_kept_alive().unwrap());
    assert_eq!(server.peer_process(), None);
    let (near, far) = connection(&env, &dir);
    assert!(!near.is_kept_alive().unwrap() && near.keep_alive().is_err());
    assert_eq!(far.peer_process(), Some(std::process::id()));
}

#[test]
fn messages_larger_than_any_buffer_and_of_more_pieces_than_one_call_takes() {
    let (env, dir) = (env(), TempDir::new());
    let (client, server) = connection(&env, &dir);
    let all = pattern(24 << 20, 9);
    let pieces: Vec<Buf> = (0..3072).map(|at| all.slice(at * 8192..(at + 1) * 8192)).collect();
    let receive = recv_exact(&server, BufMut::with_len(all.len()), 0..all.len());
    let (sent, (got, received)) = env.block_on(join(client.send(pieces), receive));
    sent.unwrap();
    received.unwrap();
    assert!(got[..] == all[..]);
}

#[test]
fn closing_ends_a_waiting_recv_at_both_ends() {
    let (env, dir) = (env(), TempDir::new());
    let (client, server) = connection(&env, &dir);
    let (client, server) = (Rc::new(client), Rc::new(server));
    let ended = Rc::new(Cell::new(0));
    for stream in [client.clone(), server.clone()] {
        let ended = ended.clone();
        env.spawn(async move {
            let (_, count) = stream.recv(BufMut::with_len(100), 0..100).await;
            assert_eq!(count.unwrap(), 0);
            ended.set(ended.get() + 1);
        });
    }
    env.block_on(async {
        env.yield_now().await;
        client.close();
        while ended.get() < 2 {
            env.yield_now().await;
        }
        let error = server.send(vec![Buf::zeroed(10)]).await.unwrap_err();
        assert_eq!(error.kind(), stdio::ErrorKind::BrokenPipe);
    });
}

#[test]
fn half_closed_streams_and_early_ends() {
    let (env, dir) = (env(), TempDir::new());
    let (client, server) = connection(&env, &dir);
    env.block_on(async {
        client.send(vec![Buf::from_slice(b"last")]).await.unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let (got, result) = recv_exact(&server, BufMut::zeroed(10), 0..10).await;
        assert_eq!(result.unwrap_err().kind(), stdio::ErrorKind::UnexpectedEof);
        assert_eq!(got[..4], *b"last");
        server.send(vec![Buf::from_slice(b"answer")]).await.unwrap();
        drop(server);
        let (got, result) = recv_exact(&client, BufMut::zeroed(6), 0..6).await;
        result.unwrap();
        assert_eq!(got[..], *b"answer");
        assert_eq!(client.recv(BufMut::zeroed(6), 0..6).await.1.unwrap(), 0);
    });
}

fn poll_once(future: impl Future) {
    let _ = pin!(future).poll(&mut Context::from_waker(Waker::noop()));
}

#[test]
fn waits_may_be_given_up() {
    let (env, dir) = (env(), TempDir::new());
    let listener = bind(&env, dir.join("socket")).unwrap();
    env.block_on(async {
        for _ in 0..10 {
            poll_once(listener.accept());
            env.yield_now().await;
        }
        let client = Stream::connect_unix(&env, dir.join("socket")).unwrap();
        let server = listener.accept().await.unwrap();
        for _ in 0..10 {
            poll_once(server.recv(BufMut::with_len(4096), 0..4096));
            env.yield_now().await;
        }
        env.sleep_until(env.now() + Nanos::from_millis(5)).await;
        client.send(vec![Buf::from_slice(b"still here")]).await.unwrap();
        let (got, result) = recv_exact(&server, BufMut::with_len(10), 0..10).await;
        result.unwrap();
        assert_eq!(got[..], *b"still here");
    });
}

/// Leaves the file of a socket that nobody listens on any more. The programs that other tests
/// start have all that is open here until they are executed, so a closed socket may answer for
/// a moment yet.
fn leave_a_stale_socket(path: &Path) {
    /// Some seconds of them.
    const LOOKS_MAX: u32 = 1_000_000;
    drop(UnixListener::bind(path).unwrap());
    let answers = |_: &u32| {
        thread::yield_now();
        UnixStream::connect(path).is_ok()
    };
    assert!((0..LOOKS_MAX).take_while(answers).count() < LOOKS_MAX as usize, "who listens?");
    assert!(path.exists(), "the standard library leaves the file");
}

#[test]
fn a_stale_socket_is_replaced_and_nothing_else() {
    let (env, dir) = (env(), TempDir::new());
    let path = dir.join("socket");
    leave_a_stale_socket(&path);
    let listener = bind(&env, path.clone()).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let error = bind(&env, path.clone()).err().unwrap();
    assert!(matches!(error, NetError::InUse { .. }), "{error}");
    assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
    // The connection that found the listener alive is gone; the next one works.
    let client = Stream::connect_unix(&env, &path).unwrap();
    client.close();
    drop(listener);
    assert!(!path.exists());
    let error = Stream::connect_unix(&env, &path).err().unwrap();
    assert!(matches!(error, NetError::NobodyThere { .. }), "{error}");

    fs::write(&path, "precious").unwrap();
    let error = bind(&env, path.clone()).err().unwrap();
    assert!(matches!(error, NetError::NotASocket { .. }), "{error}");
    assert_eq!(fs::read(&path).unwrap(), b"precious");
    let error = bind(&env, dir.join(&"long".repeat(40))).err().unwrap();
    assert!(matches!(error, NetError::PathTooLong { .. }), "{error}");
}

#[test]
fn a_listener_leaves_the_file_of_its_successor() {
    let (env, dir) = (env(), TempDir::new());
    let path = dir.join("socket");
    let first = bind(&env, path.clone()).unwrap();
    fs::remove_file(&path).unwrap();
    let _second = bind(&env, path.clone()).unwrap();
    drop(first);
    assert!(path.exists());
}

#[test]
fn a_tcp_port_has_one_listener() {
    let env = env();
    let listener = Listener::bind(&env, &any_port()).unwrap();
    let error = Listener::bind(&env, listener.address()).err().unwrap();
    assert!(matches!(error, NetError::InUse { .. }), "{error}");
}

#[test]
fn memory_behaves_like_a_socket() {
    for capacity in [1, 100, 1 << 20] {
        let env = env();
        let (client, server) = duplex(capacity);
        env.spawn(echo(server));
        env.block_on(async {
            for len in [1, 50, 5_000] {
                exchange(&client, len, 3).await;
            }
        });
        client.close();
        let (_, count) = env.block_on(client.recv(BufMut::with_len(1), 0..1));
        assert_eq!(count.unwrap(), 0);
        let error = env.block_on(client.send(vec![Buf::zeroed(1)])).unwrap_err();
        assert_eq!(error.kind(), stdio::ErrorKind::BrokenPipe);
    }
}

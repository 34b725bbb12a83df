//! How fast this machine is without us: `cargo run --release -p io --example uring_speed [PATH]`.
//!
//! Random reads of 4 KiB from a file at PATH (a new one under /tmp by default, removed
//! afterwards) one and 32 at a time, and round trips over a Unix socket; each with and
//! without busy-polling.

use std::error::Error;
use std::path::{Path, PathBuf};

use futures_util::future::join_all;
use io::net::{Address, ByteStream, Listener, Stream, recv_exact};
use io::uring::{Access, UringDrive, UringEnv, create_file};
use io::{Buf, BufMut, Drive, Durability, Env};

const FILE_BYTES: u64 = 256 << 20;
const CHUNK: usize = 1 << 20;
const READS: u64 = 40_000;
const ROUND_TRIPS: u64 = 50_000;
const SPIN_MICROS: u64 = 50;

fn main() -> Result<(), Box<dyn Error>> {
    let env = UringEnv::new()?;
    let given = std::env::args_os().nth(1).map(PathBuf::from);
    let path = given.clone().unwrap_or_else(|| temporary("drive"));
    if given.is_none() {
        create_file(&path, FILE_BYTES)?;
    }
    let drive = UringDrive::open(&env, &path, Access::ReadWrite)?;
    if given.is_none() {
        // Extents never written are not read from the drive.
        env.block_on(fill(&drive))?;
    }
    for spin in [0, SPIN_MICROS] {
        env.set_spin(spin);
        for depth in [1, 32] {
            let name = format!("random reads of 4 KiB, {depth} at a time, spin {spin} µs");
            report(&env, &name, READS, read_randomly(&env, &drive, depth));
        }
        let name = format!("round trips over a Unix socket, spin {spin} µs");
        report(&env, &name, ROUND_TRIPS, round_trips(&env, &temporary("socket")));
    }
    if given.is_none() {
        std::fs::remove_file(&path)?;
    }
    Ok(())
}

fn temporary(name: &str) -> PathBuf {
    PathBuf::from(format!("/tmp/uring-speed-{}-{name}", std::process::id()))
}

fn report(env: &UringEnv, name: &str, count: u64, work: impl Future<Output = ()>) {
    let start = env.now();
    env.block_on(work);
    let nanos = env.now().saturating_sub(start).0;
    println!("{name}: {} per second", count * 1_000_000_000 / nanos.max(1));
}

async fn fill(drive: &UringDrive) -> Result<(), Box<dyn Error>> {
    let data = Buf::from_slice(&[0xa5; CHUNK]);
    for chunk in 0..drive.geometry().size / CHUNK as u64 {
        drive.write(chunk * CHUNK as u64, data.clone(), Durability::Cached).await?;
    }
    Ok(drive.flush().await?)
}

async fn read_randomly(env: &UringEnv, drive: &UringDrive, depth: u64) {
    let pages = drive.geometry().size / 4096;
    let reader = |_| async move {
        for _ in 0..READS / depth {
            drive.read(env.random() % pages * 4096, 4096).await.expect("read");
        }
    };
    join_all((0..depth).map(reader)).await;
}

async fn round_trips(env: &UringEnv, path: &Path) {
    let listener = Listener::bind(env, &Address::Unix(path.into())).expect("listen");
    let client = Stream::connect_unix(env, path).expect("connect");
    let server = listener.accept().await.expect("accept");
    env.spawn(async move {
        let mut buf = BufMut::with_len(64);
        while let (back, Ok(count @ 1..)) = server.recv(buf, 0..64).await {
            server.send(vec![Buf::from_slice(&back[..count])]).await.expect("answer");
            buf = back;
        }
    });
    let (message, mut buf) = (Buf::zeroed(28), BufMut::with_len(28));
    for _ in 0..ROUND_TRIPS {
        client.send(vec![message.clone()]).await.expect("send");
        let (back, result) = recv_exact(&client, buf, 0..28).await;
        result.expect("receive");
        buf = back;
    }
}

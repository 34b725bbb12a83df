//! What bad neighbours do, until they are killed.

use std::collections::VecDeque;
use std::io::{Read, Result, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use crate::clock::pause;
use crate::nbd_client::Client;

/// What one says when it is at it.
pub const BEGUN: &str = "begun\n";

const MIB: u64 = 1 << 20;
/// Of the volume that they have; it has to be as large.
const REGION_BYTES: u64 = 256 * MIB;
/// Longest request of the protocol.
const LONG_BYTES: u64 = 32 * MIB;
const CONNECTS_PER_SECOND: u64 = 1000;
const SLOW_BYTES_PER_SECOND: u64 = 10_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Stopped,
    HalfSent,
    Slow,
    FloodReads,
    FloodWrites,
    Connects,
    HalfOpen,
    /// No client at all: what the machine does to both when somebody needs a processor.
    Burns,
}

impl Kind {
    pub const ALL: [Kind; 8] = [
        Kind::Stopped,
        Kind::HalfSent,
        Kind::Slow,
        Kind::FloodReads,
        Kind::FloodWrites,
        Kind::Connects,
        Kind::HalfOpen,
        Kind::Burns,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Kind::Stopped => "stopped",
            Kind::HalfSent => "half-sent",
            Kind::Slow => "slow",
            Kind::FloodReads => "flood-reads",
            Kind::FloodWrites => "flood-writes",
            Kind::Connects => "connects",
            Kind::HalfOpen => "half-open",
            Kind::Burns => "burns",
        }
    }

    pub fn does(self) -> &'static str {
        match self {
            Kind::Stopped => "stopped: 4 clients, 128 reads of 1 MiB each, none taken",
            Kind::HalfSent => "stands in the middle: 4 clients, half of 32 MiB sent",
            Kind::Slow => "is slow: 2 clients take 20 MB/s, 16 reads of 2 MiB each",
            Kind::FloodReads => "floods: 128 reads of 4 KiB at once",
            Kind::FloodWrites => "floods: 16 writes of 1 MiB at once",
            Kind::Connects => "connects 1,000 times a second and leaves",
            Kind::HalfOpen => "connects 1,000 times a second and stays, silent",
            Kind::Burns => "is no client, and needs a processor",
        }
    }

    pub fn named(name: &str) -> std::result::Result<Kind, String> {
        let found = Kind::ALL.into_iter().find(|kind| kind.name() == name);
        found.ok_or_else(|| format!("there is no neighbour '{name}'"))
    }
}

pub fn be(kind: Kind, socket: &Path, export: &str) -> std::result::Result<(), String> {
    let done = match kind {
        Kind::Stopped => stopped(socket, export),
        Kind::HalfSent => half_sent(socket, export),
        Kind::Slow => slow(socket, export),
        Kind::FloodReads => flood(socket, export, 128, 4096, &send_read()),
        Kind::FloodWrites => flood(socket, export, 16, MIB, &send_write()),
        Kind::Connects => connects(socket, 0),
        Kind::HalfOpen => connects(socket, 500),
        Kind::Burns => burn(),
    };
    done.map_err(|error| format!("{}: {error}", kind.name()))
}

fn say_begun() -> Result<()> {
    print!("{BEGUN}");
    std::io::stdout().flush()
}

fn burn() -> Result<()> {
    say_begun()?;
    loop {
        std::hint::spin_loop();
    }
}

fn for_ever() -> ! {
    loop {
        pause(Duration::from_secs(3600));
    }
}

fn clients(count: usize, socket: &Path, export: &str) -> Result<Vec<Client>> {
    (0..count).map(|_| Client::connect(socket, export)).collect()
}

fn stopped(socket: &Path, export: &str) -> Result<()> {
    let mut all = clients(4, socket, export)?;
    for client in &mut all {
        for number in 0..128 {
            client.send_read(number * MIB, MIB as u32)?;
        }
        client.push()?;
    }
    say_begun()?;
    for_ever()
}

fn half_sent(socket: &Path, export: &str) -> Result<()> {
    let mut all = clients(4, socket, export)?;
    for client in &mut all {
        let half = vec![7; LONG_BYTES as usize / 2];
        client.send_part_of_write(0, LONG_BYTES as u32, &half)?;
        client.push()?;
    }
    say_begun()?;
    for_ever()
}

/// One thread for each, as each has its own link.
fn slow(socket: &Path, export: &str) -> Result<()> {
    const BYTES: u64 = 2 * MIB;
    let all = clients(2, socket, export)?;
    let copy = |mut client: Client| -> Result<()> {
        let mut at = (0..REGION_BYTES).step_by(BYTES as usize).cycle();
        let mut ask = |client: &mut Client| -> Result<()> {
            client.send_read(at.next().unwrap_or(0), BYTES as u32)?;
            client.push()
        };
        (0..16).try_for_each(|_| ask(&mut client))?;
        let mut piece = [0; 64 << 10];
        loop {
            client.receive()?;
            for _ in 0..BYTES / piece.len() as u64 {
                client.take(&mut piece)?;
                let nanos = piece.len() as u64 * 1_000_000_000 / SLOW_BYTES_PER_SECOND;
                pause(Duration::from_nanos(nanos));
            }
            ask(&mut client)?;
        }
    };
    say_begun()?;
    std::thread::scope(|scope| {
        let copies: Vec<_> = all.into_iter().map(|client| scope.spawn(|| copy(client))).collect();
        copies.into_iter().try_for_each(|copy| copy.join().expect("no panic"))
    })
}

/// A request at an offset, of so many bytes.
type Send = Box<dyn Fn(&mut Client, u64, u64) -> Result<u64>>;

fn send_write() -> Send {
    let data = vec![7; MIB as usize];
    Box::new(move |client, offset, bytes| client.send_write(offset, &data[..bytes as usize], false))
}

fn send_read() -> Send {
    Box::new(|client, offset, bytes| client.send_read(offset, bytes as u32))
}

/// As many requests as that at once, one for each that is answered.
fn flood(socket: &Path, export: &str, depth: usize, bytes: u64, send: &Send) -> Result<()> {
    let mut client = Client::connect(socket, export)?;
    // So that reads find something.
    let something = vec![7; MIB as usize];
    for offset in (0..REGION_BYTES).step_by(MIB as usize) {
        client.write(offset, &something, false)?;
    }
    say_begun()?;
    let mut offsets = (0..REGION_BYTES).step_by(bytes as usize).cycle().step_by(7);
    let mut data = vec![0; bytes as usize];
    let mut sent = VecDeque::new();
    loop {
        while sent.len() < depth {
            sent.push_back(send(&mut client, offsets.next().unwrap_or(0), bytes)?);
        }
        client.push()?;
        // As much as is there, or half of it, so that the queue stays deep.
        for _ in 0..depth / 2 {
            let reply = client.receive()?;
            if bytes < MIB {
                client.take(&mut data)?;
            }
            sent.retain(|cookie| *cookie != reply.cookie);
        }
    }
}

/// Each waits for the greeting, and leaves when so many others have come.
fn connects(socket: &Path, kept: usize) -> Result<()> {
    let mut there = VecDeque::new();
    say_begun()?;
    loop {
        for _ in 0..CONNECTS_PER_SECOND / 100 {
            // It may be hung up on at once.
            if let Ok(mut stream) = UnixStream::connect(socket) {
                let _ = stream.read(&mut [0; 18]);
                there.push_back(stream);
            }
            while there.len() > kept {
                there.pop_front();
            }
        }
        pause(Duration::from_millis(10));
    }
}

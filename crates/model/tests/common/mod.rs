//! Loads for modelled SSDs, in virtual time, and the drives the tests share.
#![allow(dead_code, reason = "each test target uses a part")]

use io::Nanos;
use io::model::{Command, Completion, Model, Tag};
use io::rng::Rng;
use model::ssd::{
    Allocation, Buffer, Collection, Config, Destage, Fill, Host, Mode, Ssd, Timing, Victims,
};

/// 16 dies of one plane on 8 channels behind PCIe, static places, no buffer: REF-S.
pub fn reference() -> Config {
    Config {
        channels: 8,
        dies_per_channel: 2,
        planes: 1,
        blocks_per_plane: 64,
        pages_per_block: 256,
        page_bytes: 16 << 10,
        over_provisioning_permille: 280,
        visible_bytes: None,
        mapping_bytes: 16 << 10,
        align: 512,
        allocation: Allocation::Static,
        timing: Timing {
            read: Nanos::from_micros(60),
            program: Nanos::from_micros(700),
            erase: Nanos::from_millis(5),
            channel_bytes_per_sec: 1_000_000_000,
            reads_first: true,
            program_suspend: None,
            erase_suspend: None,
        },
        host: Host {
            // 4.6 of the 5.3 us that a 16 KiB read takes beside sense and transfer: between
            // 4 KiB and 16 KiB reads the reference differs by 3.4 us more than by flash.
            link_bytes_per_sec: 3_600_000_000,
            link_duplex: true,
            write_bytes_per_sec: None,
            read_overhead: Nanos(760),
            write_overhead: Nanos(1_150),
            command: Nanos::ZERO,
            queue_depth: 65_536,
        },
        buffer: None,
        collection: Collection {
            mode: Mode::Blocking,
            victims: Victims::Greedy,
            low: 3,
            high: 5,
            hard: 2,
            idle_after: None,
            copies_in_flight: 1,
        },
        map_log: None,
        fill: Fill::Written,
    }
}

/// A small data-centre drive: 8 dies of 2 planes, superblocks, 4 KiB map, protected buffer.
pub fn data_centre() -> Config {
    Config {
        channels: 4,
        dies_per_channel: 2,
        planes: 2,
        blocks_per_plane: 128,
        pages_per_block: 64,
        over_provisioning_permille: 150,
        visible_bytes: None,
        mapping_bytes: 4 << 10,
        allocation: Allocation::Striped,
        host: Host {
            link_bytes_per_sec: 550_000_000,
            link_duplex: false,
            write_bytes_per_sec: None,
            read_overhead: Nanos::from_micros(25),
            write_overhead: Nanos::from_micros(25),
            command: Nanos::from_micros(5),
            queue_depth: 32,
        },
        buffer: Some(Buffer {
            bytes: 4 << 20,
            power_loss_protected: true,
            destage: Destage::Continuous,
            period: None,
            drain_blocks_host: false,
        }),
        collection: Collection {
            mode: Mode::Paced { gain_percent: 100 },
            victims: Victims::Greedy,
            low: 6,
            high: 8,
            hard: 2,
            idle_after: None,
            copies_in_flight: 16,
        },
        fill: Fill::Aged,
        ..reference()
    }
}

/// Latencies in microseconds, sorted.
#[derive(Default)]
pub struct Latencies(Vec<f64>);

impl Latencies {
    pub fn mean(&self) -> f64 {
        self.0.iter().sum::<f64>() / self.0.len() as f64
    }

    pub fn at(&self, share: f64) -> f64 {
        self.0[((self.0.len() - 1) as f64 * share) as usize]
    }

    pub fn count(&self) -> usize {
        self.0.len()
    }
}

pub struct Outcome {
    pub reads: Latencies,
    pub writes: Latencies,
    /// From the first submission to the last completion.
    pub nanos: u64,
}

impl Outcome {
    pub fn per_second(&self) -> f64 {
        (self.reads.count() + self.writes.count()) as f64 * 1e9 / self.nanos as f64
    }
}

/// Carries commands to a drive and measures how long they take.
pub struct Bench<'a> {
    pub ssd: &'a mut Ssd,
    pub now: Nanos,
    /// By tag: when it was submitted, and whether it reads.
    started: Vec<(Nanos, bool)>,
    reads: Vec<f64>,
    writes: Vec<f64>,
    first: Nanos,
    done: Vec<Completion>,
}

impl<'a> Bench<'a> {
    pub fn new(ssd: &'a mut Ssd, now: Nanos) -> Bench<'a> {
        let (reads, writes) = (Vec::new(), Vec::new());
        Bench { ssd, now, started: Vec::new(), reads, writes, first: now, done: Vec::new() }
    }

    pub fn submit(&mut self, command: Command) {
        let tag = Tag(self.started.len() as u64);
        self.started.push((self.now, matches!(command, Command::Read { .. })));
        self.ssd.submit(self.now, tag, command);
    }

    /// Lets the drive go on until `until`, or until something completes. How many did.
    pub fn advance(&mut self, until: Nanos) -> usize {
        let next = self.ssd.next_event().unwrap_or(until).min(until);
        self.now = next;
        self.done.clear();
        self.ssd.advance(next, &mut self.done);
        for completion in &self.done {
            let (started, read) = self.started[completion.tag.0 as usize];
            let micros = (completion.at.0 - started.0) as f64 / 1e3;
            if read { self.reads.push(micros) } else { self.writes.push(micros) }
        }
        self.done.len()
    }

    pub fn finish(mut self) -> Outcome {
        while self.ssd.in_flight() > 0 {
            self.ssd.next_event().expect("commands wait and nothing will happen");
            self.advance(Nanos(u64::MAX));
        }
        self.reads.sort_by(f64::total_cmp);
        self.writes.sort_by(f64::total_cmp);
        let nanos = self.now.0 - self.first.0;
        Outcome { reads: Latencies(self.reads), writes: Latencies(self.writes), nanos }
    }
}

/// What is asked of a drive.
#[derive(Clone, Copy)]
pub struct Load {
    pub reads_percent: u64,
    pub bytes: u64,
    pub count: u32,
    pub seed: u64,
}

impl Load {
    /// A random command, aligned to its size.
    pub fn draw(&self, size: u64, rng: &mut Rng) -> Command {
        let offset = rng.below(size / self.bytes) * self.bytes;
        if rng.chance(self.reads_percent, 100) {
            Command::Read { offset, len: self.bytes }
        } else {
            write(offset, self.bytes)
        }
    }
}

pub fn write(offset: u64, len: u64) -> Command {
    Command::Write { offset, len, durability: io::Durability::Cached }
}

/// Commands arrive at random, whatever the drive does (Poisson).
pub fn open_loop(ssd: &mut Ssd, now: Nanos, load: Load, per_second: f64) -> Outcome {
    let size = ssd.geometry().size;
    let mut rng = Rng::new(load.seed);
    let mut bench = Bench::new(ssd, now);
    let mut arrival = now.0 as f64;
    for _ in 0..load.count {
        let share = (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        arrival -= (1.0 - share).ln() * 1e9 / per_second;
        let arrival = Nanos(arrival as u64);
        while bench.now < arrival {
            bench.advance(arrival);
        }
        let command = load.draw(size, &mut rng);
        bench.submit(command);
    }
    bench.finish()
}

/// Always `depth` commands at a time.
pub fn closed_loop(ssd: &mut Ssd, now: Nanos, load: Load, depth: u32) -> Outcome {
    let size = ssd.geometry().size;
    let mut rng = Rng::new(load.seed);
    closed_loop_of(ssd, now, load.count, depth, |_| load.draw(size, &mut rng))
}

/// Always `depth` of the commands that `next` gives for their numbers.
pub fn closed_loop_of(
    ssd: &mut Ssd,
    now: Nanos,
    count: u32,
    depth: u32,
    mut next: impl FnMut(u32) -> Command,
) -> Outcome {
    let mut bench = Bench::new(ssd, now);
    let mut submitted = 0;
    while submitted < depth.min(count) {
        bench.submit(next(submitted));
        submitted += 1;
    }
    while bench.ssd.in_flight() > 0 {
        bench.ssd.next_event().expect("commands wait and nothing will happen");
        for _ in 0..bench.advance(Nanos(u64::MAX)) {
            if submitted < count {
                bench.submit(next(submitted));
                submitted += 1;
            }
        }
    }
    bench.finish()
}

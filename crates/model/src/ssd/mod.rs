//! A solid-state drive: flash translation layer, dies and channels, write buffer, garbage
//! collection, host interface.
//!
//! ```text
//!  submit ─> host ─┬─ read ───────────────> flash ─────────────┬─> host ─> advance
//!                  └─ write ─> buffer ─> ftl ─> flash          │
//!                         └────────────────────────────────────┘
//!                              collect: ftl ─> flash ─> ftl
//! ```
//! `ftl`, `flash` and `buffer` don't know each other; `host`, `reads`, `writes` and `collect`
//! are the sequences over them. Everything happens in `advance`, event by event.

mod age;
mod bits;
mod buffer;
mod check;
mod collect;
mod config;
mod events;
mod flash;
mod ftl;
mod host;
mod reads;
mod shape;
mod victim;
mod writes;

#[cfg(test)]
mod tests;

use io::model::{Command, Completion, Model, ModelCounters, Tag};
use io::rng::Rng;
use io::{Geometry, Nanos};

pub use age::Snapshot;
pub use check::ConfigError;
pub use config::{
    Allocation, Buffer, Collection, Config, Destage, Fill, Host, MapLog, Mode, Timing, Victims,
};

use bits::Bits;
use buffer::WriteBuffer;
use collect::Collector;
use events::{Event, Events};
use flash::{Flash, Work};
use ftl::Ftl;
use host::Interface;
use shape::Shape;
use writes::{Log, WaitingWrites};

/// One modelled SSD. A clone goes on from the same moment, in its own way.
#[derive(Clone, Debug)]
pub struct Ssd {
    config: Config,
    shape: Shape,
    rng: Rng,
    events: Events,
    host: Interface,
    buffer: Option<WriteBuffer>,
    waiting: WaitingWrites,
    ftl: Ftl,
    /// Programs on their way to the flash, by their number: what they hold is read from memory.
    programming: Bits,
    flash: Flash,
    /// One for each pool.
    collectors: Vec<Collector>,
    log: Option<Log>,
    counters: ModelCounters,
    /// Start of the timer that drains the buffer, modulo its period.
    drain_phase: u64,
    drain_timer: bool,
    /// The number of the last entry of the buffer that must be durable before the host goes on.
    burst_upto: Option<u64>,
    done: Vec<Completion>,
}

/// How often blocks were erased.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wear {
    pub min: u32,
    pub mean: f64,
    pub max: u32,
}

impl Ssd {
    /// A drive filled as `config.fill` says. The same configuration and seed make the same
    /// drive. For many aged drives, see [`Snapshot`].
    pub fn new(config: Config, seed: u64) -> Result<Ssd, ConfigError> {
        config.check()?;
        let mut rng = Rng::new(seed);
        let ftl = age::filled(&config, &mut rng);
        Ok(Ssd::with_ftl(config, rng, ftl))
    }

    /// A drive aged as the snapshot is, with other addresses and at another moment.
    pub fn from_snapshot(snapshot: &Snapshot, seed: u64) -> Ssd {
        let mut rng = Rng::new(seed);
        let ftl = snapshot.relabelled(&mut rng);
        Ssd::with_ftl(snapshot.config().clone(), rng, ftl)
    }

    fn with_ftl(config: Config, mut rng: Rng, ftl: Ftl) -> Ssd {
        let shape = ftl.shape;
        let programs = shape.units() / shape.units_per_program;
        let mut buffer = config.buffer.map(|buffer| WriteBuffer::new(buffer, &shape));
        if let Some(buffer) = buffer.as_mut().filter(|buffer| buffer.bursts()) {
            // The first burst comes anywhere in the cycle.
            let cycle = u64::from(buffer.threshold());
            buffer.set_threshold(1 + rng.below(cycle) as u32);
        }
        let drain_phase = rng.next_u64();
        Ssd {
            shape,
            events: Events::default(),
            host: Interface::new(&config.host),
            buffer,
            waiting: WaitingWrites::new(shape.pools),
            programming: Bits::new(programs),
            flash: Flash::new(&config, shape),
            collectors: (0..shape.pools).map(|_| Collector::default()).collect(),
            log: config.map_log.map(|log| Log::new(log, &mut rng)),
            counters: ModelCounters::default(),
            drain_phase,
            drain_timer: false,
            burst_upto: None,
            done: Vec::new(),
            rng,
            ftl,
            config,
        }
    }

    pub fn config(&self) -> &Config {
        &self.config
    }

    pub fn wear(&self) -> Wear {
        let blocks = self.ftl.all_blocks();
        let erases = || blocks.iter().map(|block| block.erases);
        Wear {
            min: erases().min().unwrap_or(0),
            mean: erases().map(f64::from).sum::<f64>() / blocks.len() as f64,
            max: erases().max().unwrap_or(0),
        }
    }

    /// Share of valid units in each block (superblock, if striped) that is full.
    pub fn valid_shares(&self) -> impl Iterator<Item = f64> {
        let full = |block: &&ftl::Block| block.state == ftl::State::Full;
        let units = f64::from(self.shape.units_per_block);
        self.ftl.all_blocks().iter().filter(full).map(move |block| f64::from(block.valid) / units)
    }

    /// Checks every count against the map. Slow; for tests.
    pub fn verify(&self) {
        self.ftl.verify();
        let counters = &self.counters;
        assert_eq!(counters.submitted, counters.completed + self.in_flight() as u64);
    }

    fn happen(&mut self, now: Nanos, event: Event) {
        match event {
            Event::Fetched(slot) => self.fetched(now, slot),
            Event::Arrived(slot) => self.ready(now, slot),
            Event::Finished(slot) => self.finished(now, slot),
            Event::Sensed { die, turn } => {
                self.flash.sensed(now, die, turn, &mut self.events);
            }
            Event::DieDone { die, turn } => {
                if let Some(done) = self.flash.done(now, die, turn, &mut self.events) {
                    self.worked(now, done.work);
                }
            }
            Event::Drain => self.drain_timer(now),
            Event::Silent { count } => self.silent(now, count),
        }
    }

    /// A die has done something.
    fn worked(&mut self, now: Nanos, work: Work) {
        match work {
            Work::HostRead { slot } => self.read_part(now, slot),
            Work::HostProgram { slot, place } => self.unbuffered_programmed(now, slot, place),
            Work::BufferProgram { record, place } => self.buffer_programmed(now, record, place),
            Work::CopyRead { pool, place } => self.copy_read(now, pool, place),
            Work::CopyProgram { pool, place, parts } => {
                self.copy_programmed(now, pool, place, parts);
            }
            Work::Erase { block } => self.die_erased(now, block),
            Work::LogProgram => self.log_programmed(now),
        }
    }
}

impl Model for Ssd {
    fn geometry(&self) -> Geometry {
        let align = self.config.align;
        Geometry { size: self.shape.size(), align, atomic: 512, rotational: false }
    }

    fn submit(&mut self, now: Nanos, tag: Tag, command: Command) {
        self.take(now, tag, command);
    }

    fn next_event(&self) -> Option<Nanos> {
        self.events.next_time()
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        while let Some((time, event)) = self.events.pop_until(now) {
            self.happen(time, event);
        }
        done.append(&mut self.done);
        assert_eq!(
            self.counters.submitted,
            self.counters.completed + self.in_flight() as u64,
            "a command was lost"
        );
    }

    fn in_flight(&self) -> usize {
        self.host.in_flight()
    }

    fn power_cycle(&mut self, now: Nanos) {
        self.counters.completed += self.in_flight() as u64;
        self.events.clear();
        self.done.clear();
        self.host.power_cut(now);
        self.flash.power_cut();
        self.ftl.power_cut();
        self.programming.clear();
        self.waiting.power_cut();
        self.collectors.iter_mut().for_each(|collector| *collector = Collector::default());
        if let Some(log) = &mut self.log {
            log.power_cut();
        }
        self.power_up(now);
    }

    fn counters(&self) -> ModelCounters {
        ModelCounters {
            flash_write_bytes: self.flash.bytes_programmed,
            flash_read_bytes: self.flash.bytes_read,
            ..self.counters
        }
    }

    fn is_collecting(&self) -> bool {
        (0..self.shape.pools).any(|pool| self.works_now(pool))
    }

    fn force_collection(&mut self, now: Nanos, on: bool) {
        for pool in 0..self.shape.pools {
            self.force(now, pool, on);
        }
    }
}

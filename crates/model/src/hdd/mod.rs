//! A hard disk with its write cache off: arm, platters and a queue.
//!
//! ```text
//!  submit ─ overhead, link ─> waiting ─ schedule ─> arm: seek, rotation, transfer ─> completion
//!                                │                   └─ idle: reads ahead into the buffer
//!                                └── read of what is in the buffer ─ link ─> completion
//! ```
//!
//! One arm, one command at a time. A command that continues where the last one ended streams:
//! it costs neither seek nor rotation (see [`Config::stream_window`]).

mod config;
mod disc;
mod seek;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use io::drive::Geometry;
use io::env::Nanos;
use io::model::{Command, Completion, Model, ModelCounters, Tag};

use config::SECTOR;
pub use config::{Config, ConfigError, Schedule, SeekTimes};
use disc::Disc;
use seek::SeekCurve;

#[derive(Clone, Copy, Debug)]
struct Waiting {
    tag: Tag,
    first: u64,
    last: u64,
    write: bool,
    arrived: Nanos,
    /// Decoded, and for a write the data is here.
    ready: Nanos,
}

#[derive(Clone, Copy, Debug)]
struct Active {
    tag: Tag,
    done: Nanos,
}

/// Where the head is.
#[derive(Clone, Copy, Debug)]
struct Arm {
    /// The last sector it served, and when it passed; none at first.
    last: Option<(u64, Nanos)>,
    track: u64,
}

/// Sectors in the buffer: those read last, and those that pass while nobody moves the arm.
#[derive(Clone, Copy, Debug)]
struct ReadAhead {
    first: u64,
    /// The read that began it ended with this sector at this time.
    sector: u64,
    at: Nanos,
    /// The end of what was asked for; the drive goes on for one buffer beyond.
    wanted: u64,
    /// When the arm left.
    stopped: Option<Nanos>,
}

#[derive(Clone)]
pub struct Hdd {
    config: Config,
    disc: Disc,
    seek: SeekCurve,
    /// The platters' angle when time began, from the seed: drives don't turn in step.
    phase: u64,
    waiting: VecDeque<Waiting>,
    active: Option<Active>,
    /// What needs no arm, by time and order of submission.
    electronic: BinaryHeap<Reverse<(Nanos, u64, Tag)>>,
    arm: Arm,
    ahead: Option<ReadAhead>,
    counters: ModelCounters,
}

impl Hdd {
    pub fn new(config: Config, seed: u64) -> Result<Hdd, ConfigError> {
        config.validate()?;
        let disc = Disc::new(&config);
        // An odd multiplier spreads neighbouring seeds over the turn.
        let phase = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) % config.revolution().0;
        Ok(Hdd {
            seek: SeekCurve::new(config.seek, disc.cylinders()),
            disc,
            phase,
            waiting: VecDeque::new(),
            active: None,
            electronic: BinaryHeap::new(),
            arm: Arm { last: None, track: 0 },
            ahead: None,
            counters: ModelCounters::default(),
            config,
        })
    }

    fn link_time(&self, bytes: u64) -> Nanos {
        Nanos(bytes * 1_000_000 / (self.config.link_bytes_per_second / 1_000).max(1))
    }

    /// Seek and rotation if the arm starts for `command` at `start`; none when it streams.
    fn positioning(&self, start: Nanos, command: &Waiting) -> u64 {
        if self.streams(command) {
            return 0;
        }
        let track = self.disc.track(command.first);
        let (from, to) = (self.disc.cylinder(self.arm.track), self.disc.cylinder(track));
        let seek = match from.abs_diff(to) {
            0 if track == self.arm.track => 0,
            0 => self.config.track_switch.0,
            distance => self.seek.time(distance, command.write).0,
        };
        seek + self.disc.rotation(start.0 + seek + self.phase, command.first)
    }

    fn cost(&self, now: Nanos, command: &Waiting) -> u64 {
        match self.buffered(command) {
            Some(passed) if !command.write => passed.saturating_sub(now).0,
            _ => self.positioning(now, command),
        }
    }

    fn streams(&self, command: &Waiting) -> bool {
        self.arm.last.is_some_and(|(sector, at)| {
            command.first == sector + 1 && command.ready <= at + self.config.stream_window
        })
    }

    /// Index of the command to serve at `now`, among those ready.
    fn choose(&self, now: Nanos) -> Option<usize> {
        let Schedule::ShortestPositioning { depth, patience } = self.config.schedule else {
            return self.waiting.front().filter(|command| command.ready <= now).map(|_| 0);
        };
        let ready = || {
            let seen = self.waiting.iter().take(depth).enumerate();
            seen.filter(|(_, command)| command.ready <= now)
        };
        let old = ready().find(|(_, command)| command.arrived + patience <= now);
        let best = || ready().min_by_key(|(_, command)| self.cost(now, command));
        old.or_else(best).map(|(index, _)| index)
    }

    /// Takes the next command; false if none is ready.
    fn start(&mut self, now: Nanos) -> bool {
        let Some(command) = self.choose(now).and_then(|index| self.waiting.remove(index)) else {
            return false;
        };
        if !command.write && self.read_from_buffer(now, &command) {
            return true;
        }
        let passing = self.disc.end(command.last) - self.disc.begin(command.first);
        let begin = match self.arm.last {
            // The next track may still be on its way.
            Some((sector, at)) if self.streams(&command) => {
                let gap = self.disc.begin(command.first) - self.disc.end(sector);
                command.ready.max(Nanos(at.0 + gap))
            }
            _ => Nanos(now.0 + self.positioning(now, &command)),
        };
        let done = Nanos(begin.0 + passing).max(now);
        self.move_arm(now, &command, done);
        self.active = Some(Active { tag: command.tag, done });
        true
    }

    fn move_arm(&mut self, now: Nanos, command: &Waiting, done: Nanos) {
        self.arm = Arm { last: Some((command.last, done)), track: self.disc.track(command.last) };
        if command.write {
            let covered = |ahead: &ReadAhead| {
                ahead.first <= command.last && command.first <= self.furthest(ahead)
            };
            self.ahead = self.ahead.filter(|ahead| !covered(ahead));
            if let Some(ahead) = &mut self.ahead {
                ahead.stopped.get_or_insert(now);
            }
            return;
        }
        self.ahead = Some(ReadAhead {
            first: command.first,
            sector: command.last,
            at: done,
            wanted: command.last,
            stopped: None,
        });
    }

    /// When the range is wholly in the buffer, if reading ahead gets there undisturbed. A reader
    /// slower than the platters is taken to find it there always: the buffer hides the pauses.
    fn buffered(&self, command: &Waiting) -> Option<Nanos> {
        let ahead = self.ahead?;
        if command.first < ahead.first || command.last > self.furthest(&ahead) {
            return None;
        }
        let behind = self.disc.end(ahead.sector);
        let passed = ahead.at + Nanos(self.disc.end(command.last).saturating_sub(behind));
        let reached = ahead.stopped.is_none_or(|stopped| passed <= stopped);
        reached.then_some(passed)
    }

    /// Serves a read from the buffer, or by letting the arm go on to its end.
    fn read_from_buffer(&mut self, now: Nanos, command: &Waiting) -> bool {
        let (Some(mut ahead), Some(passed)) = (self.ahead, self.buffered(command)) else {
            return false;
        };
        let kept = self.config.read_buffer / SECTOR;
        ahead.wanted = ahead.wanted.max(command.last);
        ahead.first = ahead.first.max((ahead.wanted + 1).saturating_sub(kept));
        if passed > now {
            self.active = Some(Active { tag: command.tag, done: passed });
            self.arm =
                Arm { last: Some((command.last, passed)), track: self.disc.track(command.last) };
        } else {
            let len = (command.last + 1 - command.first) * SECTOR;
            let done = now + self.link_time(len);
            self.without_arm(command.tag, done);
        }
        self.ahead = Some(ahead);
        true
    }

    /// The last sector that reading ahead would reach.
    fn furthest(&self, ahead: &ReadAhead) -> u64 {
        ahead.wanted + self.config.read_buffer / SECTOR
    }

    /// Lets what is due at `now` happen.
    fn step(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        while let Some(Reverse((at, _, tag))) = self.electronic.peek().copied() {
            if at > now {
                break;
            }
            self.electronic.pop();
            self.complete(tag, at, done);
        }
        if let Some(active) = self.active.filter(|active| active.done <= now) {
            self.active = None;
            self.complete(active.tag, active.done, done);
        }
        // A read from the buffer leaves the arm free for the next.
        while self.active.is_none() && self.start(now) {}
    }

    fn without_arm(&mut self, tag: Tag, at: Nanos) {
        self.electronic.push(Reverse((at, self.counters.submitted, tag)));
    }

    fn complete(&mut self, tag: Tag, at: Nanos, done: &mut Vec<Completion>) {
        self.counters.completed += 1;
        done.push(Completion::new(tag, at));
    }
}

impl Model for Hdd {
    fn geometry(&self) -> Geometry {
        Geometry {
            size: self.config.size,
            align: SECTOR as u32,
            atomic: SECTOR as u32,
            rotational: true,
        }
    }

    fn submit(&mut self, now: Nanos, tag: Tag, command: Command) {
        self.counters.submitted += 1;
        let decoded = now + self.config.overhead;
        let (offset, len, write) = match command {
            Command::Read { offset, len } => (offset, len, false),
            // Durable or not: with the cache off a write is done when the platter has it.
            Command::Write { offset, len, .. } => (offset, len, true),
            // Nothing to flush, and no need to tell platters what is garbage.
            Command::Flush => return self.without_arm(tag, decoded),
            Command::Discard { len, .. } => {
                self.counters.trimmed_bytes += len;
                return self.without_arm(tag, decoded);
            }
        };
        assert!(len > 0 && offset + len <= self.config.size, "{command:?} is not on the disk");
        assert!(offset % SECTOR == 0 && len % SECTOR == 0, "{command:?} is not aligned");
        let ready = if write { decoded + self.link_time(len) } else { decoded };
        match write {
            true => self.counters.host_write_bytes += len,
            false => self.counters.host_read_bytes += len,
        }
        let (first, last) = (offset / SECTOR, (offset + len) / SECTOR - 1);
        self.waiting.push_back(Waiting { tag, first, last, write, arrived: now, ready });
    }

    fn next_event(&self) -> Option<Nanos> {
        let electronic = self.electronic.peek().map(|Reverse((at, ..))| *at);
        let arm = match (self.active, self.config.schedule) {
            (Some(active), _) => Some(active.done),
            (None, Schedule::Fifo) => self.waiting.front().map(|command| command.ready),
            (None, Schedule::ShortestPositioning { depth, .. }) => {
                self.waiting.iter().take(depth).map(|command| command.ready).min()
            }
        };
        electronic.into_iter().chain(arm).min()
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        while let Some(at) = self.next_event().filter(|at| *at <= now) {
            self.step(at, done);
        }
        let counters = self.counters;
        assert_eq!(counters.submitted, counters.completed + self.in_flight() as u64);
    }

    fn in_flight(&self) -> usize {
        self.waiting.len() + self.electronic.len() + usize::from(self.active.is_some())
    }

    fn power_cycle(&mut self, _now: Nanos) {
        self.counters.completed += self.in_flight() as u64;
        self.waiting.clear();
        self.electronic.clear();
        self.active = None;
        self.ahead = None;
        self.arm.last = None;
    }

    fn counters(&self) -> ModelCounters {
        self.counters
    }
}

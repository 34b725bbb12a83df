//! A hard disk behind a controller with a protected write cache: what LDM's test bed may have had
//! (LDM §4.1 names the controller, not whether its cache was on).
//!
//! ```text
//!  write ─ link ─> cache ─> answered       read ─ what the cache holds ─ link ─> answered
//!                    └────> disk, in time        └ anything else ─> disk
//! ```
//! A write waits for the disk only while the cache is full. What the disk has is not kept, and
//! flushing is nothing: a power cut leaves the cache as it is.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use io::model::{Command, Completion, Model, ModelCounters, Tag};
use io::{Durability, Geometry, Nanos};
use model::hdd::{Config, ConfigError, Hdd};

/// What the disk is doing, by the tag that it knows.
#[derive(Clone, Copy, Debug)]
enum Task {
    /// Of the client, with its own tag.
    Asked(Tag),
    /// A range that the cache holds until the disk has it: offset, bytes.
    Held(u64, u64),
}

#[derive(Clone)]
pub struct Cached {
    disk: Hdd,
    overhead: Nanos,
    link_bytes_per_second: u64,
    capacity: u64,
    /// Bytes of [`Task::Held`].
    held: u64,
    tasks: BTreeMap<Tag, Task>,
    next: u64,
    /// Writes that found no room: tag, offset, bytes.
    waiting: VecDeque<(Tag, u64, u64)>,
    /// What needs no disk, by time and order.
    answers: BinaryHeap<Reverse<(Nanos, u64, Tag)>>,
    submitted: u64,
    completed: u64,
}

impl Cached {
    /// With a cache of `capacity` bytes, as far from its clients as the disk alone would be.
    pub fn new(config: Config, capacity: u64, seed: u64) -> Result<Cached, ConfigError> {
        let (overhead, link_bytes_per_second) = (config.overhead, config.link_bytes_per_second);
        Ok(Cached {
            disk: Hdd::new(config, seed)?,
            overhead,
            link_bytes_per_second,
            capacity,
            held: 0,
            tasks: BTreeMap::new(),
            next: 0,
            waiting: VecDeque::new(),
            answers: BinaryHeap::new(),
            submitted: 0,
            completed: 0,
        })
    }

    fn answer(&mut self, now: Nanos, tag: Tag, bytes: u64) {
        let link = Nanos(bytes * 1_000_000_000 / self.link_bytes_per_second.max(1));
        self.next += 1;
        self.answers.push(Reverse((now + self.overhead + link, self.next, tag)));
    }

    fn ask(&mut self, now: Nanos, task: Task, command: Command) {
        self.next += 1;
        self.tasks.insert(Tag(self.next), task);
        self.disk.submit(now, Tag(self.next), command);
    }

    /// Takes the writes that there is room for. One that is larger than the cache has it alone.
    fn admit(&mut self, now: Nanos) {
        while let Some(&(tag, offset, len)) = self.waiting.front() {
            if self.held > 0 && self.held + len > self.capacity {
                return;
            }
            self.waiting.pop_front();
            self.held += len;
            self.answer(now, tag, len);
            self.destage(now, offset, len);
        }
    }

    fn destage(&mut self, now: Nanos, offset: u64, len: u64) {
        let durability = Durability::Durable;
        let command = Command::Write { offset, len, durability };
        self.ask(now, Task::Held(offset, len), command);
    }

    fn holds(&self, offset: u64, len: u64) -> bool {
        self.tasks.values().any(|task| match *task {
            Task::Held(at, bytes) => at <= offset && offset + len <= at + bytes,
            Task::Asked(_) => false,
        })
    }

    fn complete(&mut self, tag: Tag, at: Nanos, done: &mut Vec<Completion>) {
        self.completed += 1;
        done.push(Completion::new(tag, at));
    }
}

impl Model for Cached {
    fn geometry(&self) -> Geometry {
        self.disk.geometry()
    }

    fn submit(&mut self, now: Nanos, tag: Tag, command: Command) {
        self.submitted += 1;
        match command {
            Command::Write { offset, len, .. } => {
                self.waiting.push_back((tag, offset, len));
                self.admit(now);
            }
            Command::Read { offset, len } if self.holds(offset, len) => self.answer(now, tag, len),
            Command::Flush => self.answer(now, tag, 0),
            command => self.ask(now, Task::Asked(tag), command),
        }
    }

    fn next_event(&self) -> Option<Nanos> {
        let answer = self.answers.peek().map(|Reverse((at, ..))| *at);
        answer.into_iter().chain(self.disk.next_event()).min()
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        let mut of_disk = Vec::new();
        while let Some(at) = self.next_event().filter(|at| *at <= now) {
            self.disk.advance(at, &mut of_disk);
            for Completion { tag, at, .. } in of_disk.drain(..) {
                match self.tasks.remove(&tag).expect("the disk was asked for it") {
                    Task::Asked(tag) => self.complete(tag, at, done),
                    Task::Held(_, len) => self.held -= len,
                }
            }
            self.admit(at);
            while let Some(&Reverse((due, _, tag))) =
                self.answers.peek().filter(|due| due.0.0 <= at)
            {
                self.answers.pop();
                self.complete(tag, due, done);
            }
        }
    }

    /// Without what the disk is still to be given.
    fn in_flight(&self) -> usize {
        (self.submitted - self.completed) as usize
    }

    fn power_cycle(&mut self, now: Nanos) {
        self.completed = self.submitted;
        self.waiting.clear();
        self.answers.clear();
        self.disk.power_cycle(now);
        for task in std::mem::take(&mut self.tasks).into_values() {
            if let Task::Held(offset, len) = task {
                self.destage(now, offset, len);
            }
        }
    }

    /// Bytes are those of the disk.
    fn counters(&self) -> ModelCounters {
        let (submitted, completed) = (self.submitted, self.completed);
        ModelCounters { submitted, completed, ..self.disk.counters() }
    }
}

#[cfg(test)]
mod tests {
    use io::rng::Rng;
    use model::presets::Preset;
    use proptest::prelude::*;

    use super::*;

    const SIZE: u64 = 1 << 30;
    const PAGE: u64 = 4096;

    fn cached(capacity: u64) -> Cached {
        let config = Preset::Hdd10k.hdd_config(SIZE).expect("a disk");
        Cached::new(config, capacity, 1).expect("it can be")
    }

    fn write(page: u64, pages: u64) -> Command {
        let (offset, len) = (page * PAGE, pages * PAGE);
        Command::Write { offset, len, durability: Durability::Durable }
    }

    fn read(page: u64, pages: u64) -> Command {
        Command::Read { offset: page * PAGE, len: pages * PAGE }
    }

    /// Submits it at this time; when it completes.
    fn took(cached: &mut Cached, now: Nanos, command: Command) -> Nanos {
        const ONE: Tag = Tag(77);
        let mut done = Vec::new();
        cached.advance(now, &mut done);
        cached.submit(now, ONE, command);
        loop {
            let next = cached.next_event().expect("it is under way");
            cached.advance(next, &mut done);
            if let Some(one) = done.iter().find(|done| done.tag == ONE) {
                return one.at.saturating_sub(now);
            }
        }
    }

    #[test]
    fn a_write_waits_for_the_disk_only_if_the_cache_is_full() {
        let quick = Nanos::from_micros(100);
        let mut cached = cached(2 * PAGE);
        assert!(took(&mut cached, Nanos::ZERO, write(9000, 1)) < quick);
        assert!(took(&mut cached, Nanos::ZERO, read(9000, 1)) < quick, "the cache has it");
        assert!(took(&mut cached, Nanos::ZERO, write(100, 1)) < quick);
        let third = took(&mut cached, Nanos::from_micros(100), write(50_000, 1));
        assert!(third > Nanos::from_micros(500), "{third:?}");
        let later = Nanos::from_secs(1);
        assert!(took(&mut cached, later, read(9000, 1)) > quick, "it is not kept");
        assert!(took(&mut cached, later + later, write(3, 1)) < quick, "there is room again");
        let larger = took(&mut cached, later + later + later, write(4, 64));
        assert!(larger < Nanos::from_millis(2), "larger than the cache: {larger:?}");
    }

    #[test]
    fn a_power_cut_leaves_what_the_cache_holds() {
        let mut cached = cached(1 << 20);
        cached.submit(Nanos::ZERO, Tag(1), write(500, 4));
        cached.submit(Nanos::ZERO, Tag(2), read(70_000, 1));
        cached.power_cycle(Nanos::from_micros(10));
        assert_eq!((cached.in_flight(), cached.held), (0, 4 * PAGE));
        let mut done = Vec::new();
        cached.advance(Nanos::from_secs(1), &mut done);
        assert_eq!((done.len(), cached.held, cached.tasks.len()), (0, 0, 0));
    }

    proptest! {
        /// Whatever is asked ends once, in the order of time; the cache never holds more than it
        /// can, and nothing in the end.
        #[test]
        fn everything_ends_once(seed: u64, pages in 1u64..64, count in 1u64..200) {
            let mut cached = cached(pages * PAGE);
            let (mut rng, mut done, mut now) = (Rng::new(seed), Vec::new(), Nanos::ZERO);
            for tag in 0..count {
                now = now + Nanos::from_micros(rng.below(3_000));
                cached.advance(now, &mut done);
                let (page, len) = (rng.below(1_000), 1 + rng.below(pages));
                let command = match rng.below(4) {
                    0 => Command::Flush,
                    1 => read(page, len),
                    _ => write(page, len),
                };
                cached.submit(now, Tag(tag), command);
                prop_assert!(cached.held <= cached.capacity);
                let counters = cached.counters();
                prop_assert_eq!(counters.submitted - counters.completed, cached.in_flight() as u64);
            }
            while let Some(next) = cached.next_event() {
                cached.advance(next, &mut done);
                prop_assert!(cached.held <= cached.capacity);
            }
            prop_assert_eq!((cached.in_flight(), cached.held, cached.tasks.len()), (0, 0, 0));
            prop_assert!(done.is_sorted_by_key(|done| done.at));
            let mut tags: Vec<u64> = done.iter().map(|done| done.tag.0).collect();
            tags.sort_unstable();
            prop_assert!(tags.into_iter().eq(0..count));
        }
    }
}

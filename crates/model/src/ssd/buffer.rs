//! The write buffer: which units are in it, in which order they leave, and up to where they are
//! durable. It knows no time.
//!
//! ```text
//!  write ──> dirty, in the queue ──pop──> in a program ──end of it──> out
//!            number `pushed`              number `popped`             all before `durable()`
//! ```

use std::collections::VecDeque;

use super::bits::Bits;
use super::config;
use super::shape::Shape;

/// One program on its way to the flash.
#[derive(Clone, Copy, Debug)]
struct Record {
    /// The number of the first entry of the queue that it holds.
    start: u64,
    units: u32,
    done: bool,
}

#[derive(Clone, Debug)]
pub struct WriteBuffer {
    pub config: config::Buffer,
    capacity: u32,
    /// Units that are dirty or in a program.
    used: u32,
    /// Dirty units.
    dirty: u32,
    is_dirty: Bits,
    /// Also those that were trimmed since: each unit is in the queue once at most.
    is_queued: Bits,
    queue: VecDeque<u32>,
    pushed: u64,
    popped: u64,
    /// In the order of their making.
    records: VecDeque<Record>,
    first_record: u64,
    /// Entries before this one leave even if they don't fill a program.
    drain_to: u64,
    /// Commands that wait until everything before a number is durable.
    waiters: VecDeque<(u64, u32)>,
    /// Dirty units that begin a burst.
    threshold: u32,
}

impl WriteBuffer {
    pub fn new(config: config::Buffer, shape: &Shape) -> WriteBuffer {
        let units = |bytes: u64| (bytes / u64::from(shape.unit_bytes)) as u32;
        let threshold = match config.destage {
            config::Destage::Continuous => shape.units_per_program,
            config::Destage::Threshold { bytes } => units(bytes),
        };
        WriteBuffer {
            config,
            capacity: units(config.bytes),
            used: 0,
            dirty: 0,
            is_dirty: Bits::new(shape.logical_units),
            is_queued: Bits::new(shape.logical_units),
            queue: VecDeque::new(),
            pushed: 0,
            popped: 0,
            records: VecDeque::new(),
            first_record: 0,
            drain_to: 0,
            waiters: VecDeque::new(),
            threshold,
        }
    }

    /// Whether data leaves at a threshold, all at once.
    pub fn bursts(&self) -> bool {
        matches!(self.config.destage, config::Destage::Threshold { .. })
    }

    pub fn threshold(&self) -> u32 {
        self.threshold
    }

    pub fn set_threshold(&mut self, units: u32) {
        self.threshold = units;
    }

    pub fn holds(&self, unit: u32) -> bool {
        self.is_dirty.has(unit)
    }

    pub fn dirty(&self) -> u32 {
        self.dirty
    }

    /// Takes the unit unless the buffer is full. What is dirty already is overwritten in place.
    pub fn enter(&mut self, unit: u32) -> bool {
        if self.is_dirty.has(unit) {
            return true;
        }
        if self.used == self.capacity {
            return false;
        }
        self.is_dirty.insert(unit);
        self.used += 1;
        self.dirty += 1;
        if self.is_queued.insert(unit) {
            self.queue.push_back(unit);
            self.pushed += 1;
        }
        true
    }

    pub fn trim(&mut self, unit: u32) {
        if self.is_dirty.remove(unit) {
            self.used -= 1;
            self.dirty -= 1;
        }
    }

    /// What leaves next.
    pub fn front(&mut self) -> Option<u32> {
        while let Some(&unit) = self.queue.front() {
            if self.is_dirty.has(unit) {
                return Some(unit);
            }
            self.pop_entry();
        }
        None
    }

    fn pop_entry(&mut self) {
        let unit = self.queue.pop_front().expect("looked at before");
        self.popped += 1;
        self.is_queued.remove(unit);
    }

    /// Makes one program of up to `max` dirty units, which are put into `units`; its number.
    pub fn leave(&mut self, max: u32, units: &mut Vec<u32>) -> u64 {
        let start = self.popped;
        while (units.len() as u32) < max
            && let Some(unit) = self.front()
        {
            self.pop_entry();
            self.is_dirty.remove(unit);
            self.dirty -= 1;
            units.push(unit);
        }
        self.records.push_back(Record { start, units: units.len() as u32, done: false });
        self.first_record + self.records.len() as u64 - 1
    }

    /// The program is in the flash: its units are out.
    pub fn programmed(&mut self, record: u64) {
        let record = &mut self.records[(record - self.first_record) as usize];
        assert!(!record.done, "a program ends once");
        record.done = true;
        self.used -= record.units;
        while self.records.front().is_some_and(|record| record.done) {
            self.records.pop_front();
            self.first_record += 1;
        }
    }

    pub fn programs(&self) -> u32 {
        self.records.len() as u32
    }

    pub fn pushed(&self) -> u64 {
        self.pushed
    }

    /// All entries before this number are in the flash, or trimmed.
    pub fn durable(&self) -> u64 {
        self.records.front().map_or(self.popped, |record| record.start)
    }

    /// Everything that is in the buffer now leaves soon.
    pub fn drain(&mut self) {
        self.drain_to = self.pushed;
    }

    pub fn draining(&self) -> bool {
        self.popped < self.drain_to
    }

    pub fn wait(&mut self, slot: u32) {
        self.waiters.push_back((self.pushed, slot));
    }

    /// A command whose wait is over.
    pub fn durable_waiter(&mut self) -> Option<u32> {
        let &(upto, slot) = self.waiters.front()?;
        if upto > self.durable() {
            return None;
        }
        self.waiters.pop_front();
        Some(slot)
    }

    /// Nobody waits any more, no program is on its way.
    pub fn power_cut(&mut self) {
        self.waiters.clear();
        self.first_record += self.records.len() as u64;
        self.records.clear();
        self.used = self.dirty;
    }

    /// Everything in it is gone.
    pub fn lose(&mut self) {
        self.is_dirty.clear();
        self.is_queued.clear();
        self.queue.clear();
        (self.used, self.dirty) = (0, 0);
        self.popped = self.pushed;
    }
}

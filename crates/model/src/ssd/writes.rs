//! Writes, FLUSH and TRIM; what leaves the buffer; the log of the map.

use std::collections::VecDeque;
use std::ops::Range;

use io::model::{Command, Phase};
use io::rng::Rng;
use io::{Durability, Nanos};

use super::Ssd;
use super::buffer::WriteBuffer;
use super::config::{self, Destage};
use super::flash::{Class, Operation, Work};
use super::ftl::Stream;
use super::host::Hold;

/// Programs of the host that a die has at a time: one to do and one to go on with. More would
/// only wait there, in front of what the collection wants to do.
const PROGRAMS_PER_DIE: u32 = 2;

/// Writes that wait: for a place in the flash if there is no buffer, for room in it if there is.
#[derive(Clone, Debug)]
pub struct WaitingWrites {
    /// By pool: parts of writes (slot, first unit, units) that need a place. Bounded by the
    /// commands in flight.
    pending: Vec<VecDeque<(u32, u32, u32)>>,
    /// By pool: programs of such parts on their way.
    programs: Vec<u32>,
    /// Commands that wait for room in the buffer, in order.
    stalled: VecDeque<u32>,
    /// Reused list of units.
    units: Vec<u32>,
}

impl WaitingWrites {
    pub fn new(pools: u32) -> WaitingWrites {
        WaitingWrites {
            pending: (0..pools).map(|_| VecDeque::new()).collect(),
            programs: vec![0; pools as usize],
            stalled: VecDeque::new(),
            units: Vec::new(),
        }
    }

    pub fn power_cut(&mut self) {
        self.pending.iter_mut().for_each(VecDeque::clear);
        self.programs.fill(0);
        self.stalled.clear();
    }
}

/// The log of changes of the map.
#[derive(Clone, Debug)]
pub struct Log {
    config: config::MapLog,
    entries: u32,
    /// Where a write would continue the last entry.
    expected: u64,
    /// Programs on their way.
    programs: u32,
    next_die: u32,
}

impl Log {
    pub fn new(config: config::MapLog, rng: &mut Rng) -> Log {
        // Its phase: it may be nearly full.
        let entries = rng.below(u64::from(config.entries)) as u32;
        Log { config, entries, expected: 0, programs: 0, next_die: 0 }
    }

    pub fn power_cut(&mut self) {
        (self.entries, self.programs) = (0, 0);
    }
}

impl Ssd {
    pub(super) fn write(&mut self, now: Nanos, slot: u32, offset: u64, len: u64) {
        self.counters.host_write_bytes += len;
        self.log_write(now, offset, len);
        let units = self.units_touched(offset, len);
        let unit_bytes = u64::from(self.shape.unit_bytes);
        let cut = |at: u64| !at.is_multiple_of(unit_bytes);
        self.host.slot(slot).cursor = units.start;
        let (head, tail) = (cut(offset), cut(offset + len));
        let mut rest = [head.then_some(units.start), tail.then_some(units.end - 1)];
        if rest[0] == rest[1] {
            rest[1] = None;
        }
        let mut parts = 0;
        for unit in rest.into_iter().flatten() {
            if let Some(program) = self.program_to_sense(unit) {
                self.sense(now, slot, program, self.shape.unit_bytes);
                parts += 1;
            }
        }
        self.host.slot(slot).parts = parts;
        if parts == 0 {
            self.write_complete_units(now, slot, offset, len);
        }
    }

    fn units_touched(&self, offset: u64, len: u64) -> Range<u32> {
        let unit = u64::from(self.shape.unit_bytes);
        (offset / unit) as u32..(offset + len).div_ceil(unit) as u32
    }

    /// The write's units are whole: they go to the buffer, or to the flash.
    pub(super) fn write_complete_units(&mut self, now: Nanos, slot: u32, offset: u64, len: u64) {
        if self.buffer.is_some() {
            self.waiting.stalled.push_back(slot);
            self.let_stalled_enter(now);
            return;
        }
        let units = self.units_touched(offset, len);
        if self.shape.static_places {
            // Map entries are pages, and neighbours are on different planes.
            self.host.slot(slot).parts = units.end - units.start;
            for unit in units {
                let pool = self.shape.pool_of(unit);
                self.waiting.pending[pool as usize].push_back((slot, unit, 1));
                self.place_pending(now, pool);
            }
        } else {
            let step = self.shape.units_per_program;
            self.host.slot(slot).parts = (units.end - units.start).div_ceil(step);
            for first in units.clone().step_by(step as usize) {
                let count = step.min(units.end - first);
                self.waiting.pending[0].push_back((slot, first, count));
            }
            self.place_pending(now, 0);
        }
    }

    /// WaitingWrites writes of the pool go to the flash, as far as there is room.
    pub(super) fn place_pending(&mut self, now: Nanos, pool: u32) {
        if self.host_writes_blocked() {
            return;
        }
        let most = self.shape.dies_per_pool() * PROGRAMS_PER_DIE;
        while self.waiting.programs[pool as usize] < most
            && !self.slows_host(pool)
            && let Some(&(slot, first, count)) = self.waiting.pending[pool as usize].front()
        {
            let Some(place) = self.host_place(now, pool) else { return };
            self.waiting.pending[pool as usize].pop_front();
            self.waiting.programs[pool as usize] += 1;
            for index in 0..count {
                self.ftl.put(first + index, place + index);
            }
            self.program(now, place, Class::Normal, Work::HostProgram { slot, place });
            self.written(now, pool, place, count);
        }
    }

    /// The place of the host's next program in a pool; `None` while only the collection may
    /// take blocks.
    fn host_place(&mut self, now: Nanos, pool: u32) -> Option<u32> {
        if !self.ftl.can_take(pool, Stream::Host) {
            self.starve(now, pool);
            return None;
        }
        Some(self.ftl.take(pool, Stream::Host, self.shape.units_per_program))
    }

    /// The host's units are in a program at `place`.
    fn written(&mut self, now: Nanos, pool: u32, place: u32, units: u32) {
        if place.is_multiple_of(self.shape.units_per_block) {
            // It took a new block.
            self.start_collection_if_low(now, pool);
        }
        self.earn(now, pool, units);
    }

    pub(super) fn program(&mut self, now: Nanos, place: u32, class: Class, work: Work) {
        let program = place / self.shape.units_per_program;
        self.programming.insert(program);
        self.ftl.program_issued(place);
        let bytes = self.shape.program_bytes() as u32;
        let die = self.shape.die_of(program);
        self.flash.enqueue(now, die, class, Operation { work, bytes }, &mut self.events);
    }

    pub(super) fn program_ended(&mut self, place: u32) {
        self.programming.remove(place / self.shape.units_per_program);
        self.ftl.program_ended(place);
    }

    pub(super) fn unbuffered_programmed(&mut self, now: Nanos, slot: u32, place: u32) {
        self.program_ended(place);
        let state = self.host.slot(slot);
        state.parts -= 1;
        if state.parts == 0 {
            state.spend(Phase::Program, now);
            self.respond(now, slot);
        }
        let pool = self.shape.pool_of_block(place / self.shape.units_per_block);
        self.waiting.programs[pool as usize] -= 1;
        self.place_pending(now, pool);
        self.collect_on(now, place);
    }

    /// Writes that wait for room enter the buffer, in order, as far as there is any.
    pub(super) fn let_stalled_enter(&mut self, now: Nanos) {
        while !self.host.held()
            && let Some(&slot) = self.waiting.stalled.front()
        {
            let Command::Write { offset, len, durability } = self.host.slot(slot).command else {
                unreachable!("only writes enter the buffer")
            };
            let end = self.units_touched(offset, len).end;
            let buffer = self.buffer.as_mut().expect("stalled for it");
            let cursor = &mut self.host.slot(slot).cursor;
            while *cursor < end && buffer.enter(*cursor) {
                *cursor += 1;
            }
            let entered = *cursor == end;
            let protected = buffer.config.power_loss_protected;
            if entered {
                self.waiting.stalled.pop_front();
                self.spend_stalled(now, slot);
                let buffer = self.buffer.as_mut().expect("stalled for it");
                if durability == Durability::Cached || protected {
                    self.respond(now, slot);
                } else {
                    buffer.drain();
                    buffer.wait(slot);
                }
            }
            self.watch_buffer(now);
            self.settle(now);
            if !entered {
                return;
            }
        }
    }

    /// The write has room in the buffer now, if it had to wait for that.
    fn spend_stalled(&mut self, now: Nanos, slot: u32) {
        if self.host.slot(slot).is_told(now) {
            return;
        }
        let collecting = (0..self.shape.pools).any(|pool| self.works_now(pool));
        let full = if collecting { Phase::BufferCollecting } else { Phase::BufferFull };
        self.host.slot(slot).spend(full, now);
    }

    /// Starts a burst at the threshold, and the timer.
    fn watch_buffer(&mut self, now: Nanos) {
        let Some(buffer) = &self.buffer else { return };
        if buffer.bursts() && !buffer.draining() && buffer.dirty() >= buffer.threshold() {
            self.drain();
        }
        let Some(buffer) = &self.buffer else { return };
        if let Some(period) = buffer.config.period
            && !self.drain_timer
            && buffer.dirty() > 0
        {
            let phase = self.drain_phase % period.0;
            let rounds = (now.0 + period.0 - phase) / period.0;
            self.drain_timer = true;
            self.events.at(Nanos(rounds * period.0 + phase), super::Event::Drain);
        }
    }

    pub(super) fn drain_timer(&mut self, now: Nanos) {
        self.drain_timer = false;
        if self.buffer.as_ref().is_some_and(|buffer| buffer.dirty() > 0) {
            self.drain();
            self.settle(now);
        }
    }

    /// Empties the buffer because of its threshold or its timer.
    fn drain(&mut self) {
        let Some(buffer) = &mut self.buffer else { return };
        buffer.drain();
        self.counters.buffer_flushes += 1;
        if let Destage::Threshold { bytes } = buffer.config.destage {
            buffer.set_threshold((bytes / u64::from(self.shape.unit_bytes)) as u32);
        }
        if buffer.config.drain_blocks_host {
            self.burst_upto = Some(buffer.pushed());
            self.host.hold(Hold::Burst);
        }
    }

    /// After any change of the buffer: lets data leave, and ends waits.
    pub(super) fn settle(&mut self, now: Nanos) {
        self.destage(now);
        while let Some(slot) = self.buffer.as_mut().and_then(WriteBuffer::durable_waiter) {
            self.host.slot(slot).spend(Phase::Drain, now);
            self.respond(now, slot);
        }
        let durable = self.buffer.as_ref().map_or(0, WriteBuffer::durable);
        if self.burst_upto.is_some_and(|upto| durable >= upto) {
            self.burst_upto = None;
            self.release(now, Hold::Burst);
        }
    }

    /// Programs what may leave the buffer, as far as dies and blocks allow.
    pub(super) fn destage(&mut self, now: Nanos) {
        while let Some(pool) = self.next_to_leave() {
            let Some(place) = self.host_place(now, pool) else { return };
            let max = self.shape.units_per_program;
            let mut units = std::mem::take(&mut self.waiting.units);
            let record = self.buffer.as_mut().expect("asked before").leave(max, &mut units);
            for (index, &unit) in units.iter().enumerate() {
                self.ftl.put(unit, place + index as u32);
            }
            let count = units.len() as u32;
            units.clear();
            self.waiting.units = units;
            self.program(now, place, Class::Normal, Work::BufferProgram { record, place });
            self.written(now, pool, place, count);
        }
    }

    /// The pool of the next program from the buffer, if there shall be one.
    fn next_to_leave(&mut self) -> Option<u32> {
        if self.host_writes_blocked() {
            return None;
        }
        let buffer = self.buffer.as_mut()?;
        let enough = match buffer.config.destage {
            Destage::Continuous => buffer.dirty() >= self.shape.units_per_program,
            Destage::Threshold { .. } => false,
        };
        if !(enough || buffer.draining()) || buffer.programs() >= self.shape.dies * PROGRAMS_PER_DIE
        {
            return None;
        }
        let unit = buffer.front()?;
        let pool = self.shape.pool_of(unit);
        (!self.slows_host(pool)).then_some(pool)
    }

    pub(super) fn buffer_programmed(&mut self, now: Nanos, record: u64, place: u32) {
        self.program_ended(place);
        let buffer = self.buffer.as_mut().expect("it programmed");
        buffer.programmed(record);
        self.settle(now);
        self.let_stalled_enter(now);
        self.collect_on(now, place);
    }

    pub(super) fn flush(&mut self, now: Nanos, slot: u32) {
        match &mut self.buffer {
            Some(buffer) if !buffer.config.power_loss_protected => {
                self.counters.buffer_flushes += u64::from(buffer.dirty() > 0);
                buffer.drain();
                buffer.wait(slot);
                self.settle(now);
            }
            _ => self.respond(now, slot),
        }
    }

    /// Forgets the units that lie wholly in the range.
    pub(super) fn discard(&mut self, now: Nanos, slot: u32, offset: u64, len: u64) {
        self.counters.trimmed_bytes += len;
        let unit_bytes = u64::from(self.shape.unit_bytes);
        let first = offset.div_ceil(unit_bytes) as u32;
        for unit in first..((offset + len) / unit_bytes) as u32 {
            self.ftl.forget(unit);
            if let Some(buffer) = &mut self.buffer {
                buffer.trim(unit);
            }
        }
        self.respond(now, slot);
        self.settle(now);
        self.let_stalled_enter(now);
    }

    fn log_write(&mut self, now: Nanos, offset: u64, len: u64) {
        let Some(log) = &mut self.log else { return };
        if offset != log.expected {
            log.entries += 1;
        }
        log.expected = offset + len;
        if log.entries < log.config.entries || log.programs > 0 {
            return;
        }
        log.entries = 0;
        log.programs = log.config.programs;
        let first = log.next_die;
        let count = log.config.programs;
        log.next_die = (first + count) % self.shape.dies;
        self.host.hold(Hold::Log);
        let bytes = self.shape.program_bytes() as u32;
        for index in 0..count {
            let die = (first + index) % self.shape.dies;
            let operation = Operation { work: Work::LogProgram, bytes };
            self.flash.enqueue(now, die, Class::Normal, operation, &mut self.events);
        }
    }

    pub(super) fn log_programmed(&mut self, now: Nanos) {
        let log = self.log.as_mut().expect("it programmed");
        log.programs -= 1;
        if log.programs == 0 {
            self.release(now, Hold::Log);
        }
    }
}

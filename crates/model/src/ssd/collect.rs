//! Garbage collection as a sequence over flash and map, and when it may go on.
//!
//! ```text
//!              low, silence, forced            high, or no garbage, and nothing under way
//!   at rest ────────────────────────> running ──────────────────────────────────> at rest
//!
//!   victim:  chosen ─> valid units read ─> staged ─> programmed elsewhere ─> erased ─> free
//! ```
//! Two victims at most are open: the second is begun while the first one's last copies are on
//! their way. What is left of a victim and doesn't fill a program waits for the next victim's
//! units if there is one; so a collection of nearly full blocks wins space too.

use std::collections::VecDeque;

use io::Nanos;

use super::Ssd;
use super::config::{Allocation, Mode};
use super::flash::{Class, Operation, Work};
use super::ftl::{NONE, State, Stream};
use super::host::Hold;
use super::victim;

#[derive(Clone, Copy, Debug)]
struct Victim {
    block: u32,
    /// The next unit of the block to look at.
    next: u32,
    /// Reads, and units staged or being programmed.
    pending: u32,
    /// When it was chosen.
    valid: u32,
}

#[derive(Clone, Debug, Default)]
pub struct Collector {
    running: bool,
    /// Must go on until `high`.
    pressed: bool,
    forced: bool,
    /// The host waits for a block.
    starved: bool,
    /// There will be garbage when programs that wait for the die have ended.
    awaits_programs: bool,
    /// The host's I/O is held off (blocking), or goes last (starved).
    grip: bool,
    victims: [Option<Victim>; 2],
    /// Of `victims`, the one being read.
    current: usize,
    /// Places of units that are in memory; those overwritten since don't count.
    staged: VecDeque<u32>,
    reads: u32,
    programs: u32,
    /// Blocks being erased, and how many dies still are at it.
    erasing: Vec<(u32, u32)>,
    /// Units that may be copied, in 1/1024. Paced only.
    credit: i64,
    /// The host waits until the collection has copied what is paid.
    slowed: bool,
    /// Units copied for each one won back, in 1/1024, of the last victim.
    price: u64,
}

const ONE: u64 = 1024;

impl Ssd {
    fn collector(&mut self, pool: u32) -> &mut Collector {
        &mut self.collectors[pool as usize]
    }

    pub(super) fn start_collection_if_low(&mut self, now: Nanos, pool: u32) {
        if self.ftl.free_blocks(pool) <= self.config.collection.low {
            self.press(now, pool);
        }
    }

    fn press(&mut self, now: Nanos, pool: u32) {
        if !self.collector(pool).pressed {
            self.collector(pool).pressed = true;
            self.collect(now, pool);
        }
    }

    /// The host can't go on before a block is free.
    pub(super) fn starve(&mut self, now: Nanos, pool: u32) {
        if !self.collector(pool).starved {
            self.collector(pool).starved = true;
            self.collector(pool).pressed = true;
            self.collect(now, pool);
        }
    }

    pub(super) fn force(&mut self, now: Nanos, pool: u32, on: bool) {
        let free = self.ftl.free_blocks(pool);
        let collection = &self.config.collection;
        let (low, high) = (collection.low, collection.high);
        let collector = &mut self.collectors[pool as usize];
        if on && free < high {
            (collector.forced, collector.pressed) = (true, true);
        } else if !on && collector.forced {
            collector.forced = false;
            collector.pressed = collector.starved || free <= low;
        }
        self.collect(now, pool);
    }

    /// The host wrote so many units: paced collection may copy some.
    pub(super) fn earn(&mut self, now: Nanos, pool: u32, units: u32) {
        let collection = &self.config.collection;
        let Mode::Paced { gain_percent } = collection.mode else { return };
        if !self.collectors[pool as usize].pressed {
            return;
        }
        let block = u64::from(self.shape.units_per_block);
        let top = u64::from(collection.high) * block;
        let missing = top.saturating_sub(u64::from(self.ftl.free_units(pool)));
        let depth = missing * ONE / (u64::from(collection.high - collection.hard) * block);
        let collector = &mut self.collectors[pool as usize];
        let price = collector.price * 2 * u64::from(gain_percent) / 100 * depth.min(ONE) / ONE;
        // A block's worth is all that it may save up.
        let most = (block * ONE) as i64;
        collector.credit = (collector.credit + (u64::from(units) * price) as i64).min(most);
        if collector.credit > 0 {
            self.collect(now, pool);
        }
    }

    /// Whether the host must let a paced collection catch up with what it has paid for.
    pub(super) fn slows_host(&mut self, pool: u32) -> bool {
        let slack = self.config.collection.copies_in_flight * self.shape.units_per_program;
        let collector = &mut self.collectors[pool as usize];
        // What isn't pressed (any more) copies nothing, and the credit would stay.
        collector.slowed = collector.pressed && collector.credit > i64::from(slack) * ONE as i64;
        collector.slowed
    }

    fn let_slowed_go_on(&mut self, now: Nanos, pool: u32) {
        if self.collectors[pool as usize].slowed && !self.slows_host(pool) {
            self.place_pending(now, pool);
            self.settle(now);
        }
    }

    /// Whether data may be moved in the pool now.
    fn may_copy(&self, pool: u32) -> bool {
        let collector = &self.collectors[pool as usize];
        let paid = match self.config.collection.mode {
            Mode::Paced { .. } => collector.credit > 0,
            _ => true,
        };
        collector.starved || collector.forced || self.host.silent || (collector.pressed && paid)
    }

    /// Whether it is being moved, or dies are still at what the collection gave them: who waits
    /// for an erase waits for the collection.
    pub(super) fn works_now(&self, pool: u32) -> bool {
        let collector = &self.collectors[pool as usize];
        let given = collector.reads + collector.programs > 0 || !collector.erasing.is_empty();
        collector.running && (given || self.may_copy(pool))
    }

    /// Host programs must wait for the end of the collection.
    pub(super) fn host_writes_blocked(&self) -> bool {
        !self.shape.static_places && self.collectors[0].grip && self.blocks_host()
    }

    fn blocks_host(&self) -> bool {
        matches!(self.config.collection.mode, Mode::Blocking | Mode::Idle)
    }

    /// A program in the block of `place` ended: what waited for that goes on.
    pub(super) fn collect_on(&mut self, now: Nanos, place: u32) {
        let pool = self.shape.pool_of_block(place / self.shape.units_per_block);
        if self.collectors[pool as usize].pressed || self.collectors[pool as usize].running {
            self.collect(now, pool);
        }
    }

    /// Does what can be done in the pool now. Called after anything that may allow more.
    pub(super) fn collect(&mut self, now: Nanos, pool: u32) {
        let program = self.shape.units_per_program as usize;
        loop {
            let collector = &self.collectors[pool as usize];
            let busy = collector.reads + collector.programs;
            let full = busy >= self.config.collection.copies_in_flight;
            if self.current_is_read(pool) && self.wants_victim(pool) && self.begin_victim(pool) {
                continue;
            }
            if full || !self.may_copy(pool) {
                break;
            }
            if self.staged(pool) >= program && self.copy(now, pool, false) {
                continue;
            }
            if self.staged(pool) < 2 * program && self.read_victim(now, pool) {
                continue;
            }
            if !(self.may_pad(pool) && self.copy(now, pool, true)) {
                break;
            }
        }
        self.erase_victims(now, pool);
        self.finish(now, pool);
        self.regulate(now, pool);
        self.let_slowed_go_on(now, pool);
    }

    fn staged(&self, pool: u32) -> usize {
        self.collectors[pool as usize].staged.len()
    }

    fn current_is_read(&self, pool: u32) -> bool {
        let collector = &self.collectors[pool as usize];
        collector.victims[collector.current]
            .is_none_or(|victim| victim.next == self.shape.units_per_block)
    }

    /// Whether the blocks that are free, or will be without another victim, are too few.
    fn wants_victim(&self, pool: u32) -> bool {
        let collector = &self.collectors[pool as usize];
        if !(collector.pressed || self.host.silent) {
            return false;
        }
        // A rest that doesn't fill a program may be padded, unless that eats up the gain.
        let wins = |victim: &Victim| {
            collector.staged.is_empty()
                || victim.valid + self.shape.units_per_program <= self.shape.units_per_block
        };
        let coming = collector.victims.iter().flatten().filter(|victim| wins(victim)).count();
        let coming = (coming + collector.erasing.len()) as u32;
        self.ftl.free_blocks(pool) + coming < self.config.collection.high
    }

    /// Whether a rest that doesn't fill a program should go now: nothing will be added to it.
    fn may_pad(&self, pool: u32) -> bool {
        let collector = &self.collectors[pool as usize];
        let rest = collector.reads == 0 && !collector.staged.is_empty();
        let both = collector.victims.iter().all(Option::is_some);
        rest && self.current_is_read(pool)
            && (both || !self.wants_victim(pool) || !self.awaits_programs(pool))
    }

    /// Opens another victim if there is room and garbage.
    fn begin_victim(&mut self, pool: u32) -> bool {
        let Some(index) = self.collector(pool).victims.iter().position(Option::is_none) else {
            return false;
        };
        let victims = self.config.collection.victims;
        let Some(block) = victim::choose(&self.ftl, pool, victims, &mut self.rng) else {
            return false;
        };
        let valid = self.ftl.block(block).valid;
        let won = self.shape.units_per_block - valid;
        self.ftl.collect(block);
        // Nothing to read, nothing to pay.
        let next = if valid == 0 { self.shape.units_per_block } else { 0 };
        let collector = self.collector(pool);
        collector.victims[index] = Some(Victim { block, next, pending: 0, valid });
        collector.current = index;
        collector.awaits_programs = false;
        collector.price = u64::from(valid) * ONE / u64::from(won);
        if !collector.running {
            collector.running = true;
            self.counters.collections += 1;
        }
        true
    }

    /// Reads the next program of the current victim that holds something valid.
    fn read_victim(&mut self, now: Nanos, pool: u32) -> bool {
        let collector = &mut self.collectors[pool as usize];
        let Some(victim) = &mut collector.victims[collector.current] else { return false };
        let first = victim.block * self.shape.units_per_block;
        while victim.next < self.shape.units_per_block {
            let place = first + victim.next;
            victim.next += self.shape.units_per_program;
            let range = place..place + self.shape.units_per_program;
            let valid = range.filter(|&place| self.ftl.owner(place) != NONE).count() as u32;
            if valid == 0 {
                continue;
            }
            victim.pending += 1;
            collector.reads += 1;
            collector.credit -= i64::from(valid) * ONE as i64;
            let die = self.shape.die_of(place / self.shape.units_per_program);
            let bytes = valid * self.shape.unit_bytes;
            let operation = Operation { work: Work::CopyRead { pool, place }, bytes };
            let class = self.collection_class();
            self.flash.enqueue(now, die, class, operation, &mut self.events);
            return true;
        }
        false
    }

    fn collection_class(&self) -> Class {
        match self.config.collection.mode {
            Mode::Paced { .. } => Class::Normal,
            _ => Class::Background,
        }
    }

    pub(super) fn copy_read(&mut self, now: Nanos, pool: u32, place: u32) {
        let index = self.victim_of(pool, place);
        let collector = &mut self.collectors[pool as usize];
        collector.reads -= 1;
        let victim = collector.victims[index].as_mut().expect("it was read");
        victim.pending -= 1;
        for place in place..place + self.shape.units_per_program {
            if self.ftl.owner(place) != NONE {
                collector.staged.push_back(place);
                victim.pending += 1;
            }
        }
        self.collect(now, pool);
    }

    /// Which of the two victims the place is in.
    fn victim_of(&self, pool: u32, place: u32) -> usize {
        let block = place / self.shape.units_per_block;
        let first = self.collectors[pool as usize].victims[0];
        usize::from(first.is_none_or(|victim| victim.block != block))
    }

    /// Programs staged units; less than a program of them only if `padded`. False if there was
    /// nothing to program, or no place.
    fn copy(&mut self, now: Nanos, pool: u32, padded: bool) -> bool {
        let most = self.shape.units_per_program as usize;
        self.drop_overwritten(pool, most);
        let staged = self.collectors[pool as usize].staged.len().min(most);
        if staged == 0 || (staged < most && !padded) || !self.ftl.can_take(pool, Stream::Moved) {
            return false;
        }
        let place = self.ftl.take(pool, Stream::Moved, self.shape.units_per_program);
        let mut parts = [0; 2];
        for index in 0..staged as u32 {
            let old = self.collector(pool).staged.pop_front().expect("counted");
            parts[self.victim_of(pool, old)] += 1;
            self.ftl.relocate(old, place + index);
        }
        self.counters.moved_bytes += staged as u64 * u64::from(self.shape.unit_bytes);
        self.collector(pool).programs += 1;
        let work = Work::CopyProgram { pool, place, parts };
        self.program(now, place, self.collection_class(), work);
        true
    }

    /// Of the first `count` staged units, those overwritten meanwhile need no copy.
    fn drop_overwritten(&mut self, pool: u32, count: usize) {
        let mut index = 0;
        while index < count.min(self.collectors[pool as usize].staged.len()) {
            let place = self.collectors[pool as usize].staged[index];
            if self.ftl.owner(place) != NONE {
                index += 1;
                continue;
            }
            let victim = self.victim_of(pool, place);
            let collector = self.collector(pool);
            collector.staged.remove(index);
            collector.victims[victim].as_mut().expect("it has units staged").pending -= 1;
        }
    }

    pub(super) fn copy_programmed(&mut self, now: Nanos, pool: u32, place: u32, parts: [u16; 2]) {
        self.program_ended(place);
        let collector = self.collector(pool);
        collector.programs -= 1;
        for (victim, part) in collector.victims.iter_mut().zip(parts) {
            if part > 0 {
                victim.as_mut().expect("its units were being programmed").pending -=
                    u32::from(part);
            }
        }
        self.collect(now, pool);
    }

    /// Erases the victims that nothing valid is left of, with all copies in the flash.
    fn erase_victims(&mut self, now: Nanos, pool: u32) {
        for index in 0..2 {
            let Some(victim) = self.collectors[pool as usize].victims[index] else { continue };
            if victim.next < self.shape.units_per_block || victim.pending > 0 {
                continue;
            }
            self.collector(pool).victims[index] = None;
            self.ftl.erase_started(victim.block);
            let first = victim.block * self.shape.units_per_block / self.shape.units_per_program;
            let dies = self.shape.dies_per_pool();
            self.collector(pool).erasing.push((victim.block, dies));
            for die in 0..dies {
                let die = self.shape.die_of(first + die);
                let operation = Operation { work: Work::Erase { block: victim.block }, bytes: 0 };
                let class = self.collection_class();
                self.flash.enqueue(now, die, class, operation, &mut self.events);
            }
        }
    }

    pub(super) fn die_erased(&mut self, now: Nanos, block: u32) {
        let pool = self.shape.pool_of_block(block);
        let erasing = &mut self.collector(pool).erasing;
        let index = erasing.iter().position(|entry| entry.0 == block).expect("being erased");
        erasing[index].1 -= 1;
        if erasing[index].1 > 0 {
            return;
        }
        erasing.swap_remove(index);
        self.ftl.erased(block);
        self.counters.erases += u64::from(self.shape.erases_per_block);
        if self.ftl.can_take(pool, Stream::Host) && self.collector(pool).starved {
            self.collector(pool).starved = false;
            self.regulate(now, pool);
            self.place_pending(now, pool);
            self.settle(now);
        }
        self.collect(now, pool);
    }

    /// Ends a collection that has reached its aim, or found no garbage.
    fn finish(&mut self, now: Nanos, pool: u32) {
        let free = self.ftl.free_blocks(pool);
        let high = self.config.collection.high;
        let collector = &self.collectors[pool as usize];
        let moving = collector.victims.iter().any(Option::is_some) || !collector.erasing.is_empty();
        if moving {
            return;
        }
        let aimed = collector.pressed || collector.running;
        if free < high && collector.pressed && self.awaits_programs(pool) {
            self.collector(pool).awaits_programs = true;
            return;
        }
        if aimed {
            assert!(
                free >= high || !collector.starved,
                "SSD at {now:?}: the host waits for a block, and there is no garbage"
            );
            let collector = self.collector(pool);
            (collector.pressed, collector.forced, collector.running) = (false, false, false);
            (collector.awaits_programs, collector.credit) = (false, 0);
        }
    }

    /// Whether there will be garbage to collect when programs on their way have ended.
    fn awaits_programs(&self, pool: u32) -> bool {
        self.ftl.blocks_of(pool).iter().any(|block| {
            let garbage = block.valid < self.shape.units_per_block;
            block.state == State::Full && block.programs > 0 && garbage
        })
    }

    /// Holds the host off, or lets it go on, as the mode and the state of the pool demand.
    fn regulate(&mut self, now: Nanos, pool: u32) {
        let collector = &self.collectors[pool as usize];
        // Programs that it awaits must not be locked out.
        let locks_out = self.shape.static_places && collector.awaits_programs;
        let blocking = self.blocks_host() && collector.pressed && !locks_out;
        let pushing = self.config.collection.mode == Mode::Preemptible && collector.starved;
        let grip = blocking || pushing;
        if grip == collector.grip {
            return;
        }
        self.collector(pool).grip = grip;
        let striped = self.config.allocation == Allocation::Striped;
        let dies = if striped { 0..self.shape.dies } else { self.die_range(pool) };
        for die in dies {
            match (self.blocks_host() && !striped, grip) {
                (false, _) => self.flash.set_urgent(die, grip),
                (true, true) => self.flash.lock(die),
                (true, false) => self.flash.unlock(now, die, &mut self.events),
            }
        }
        if striped && self.blocks_host() {
            if grip {
                self.host.hold(Hold::Collection);
            } else {
                self.release(now, Hold::Collection);
                self.place_pending(now, pool);
                self.settle(now);
            }
        }
    }

    fn die_range(&self, pool: u32) -> std::ops::Range<u32> {
        let die = pool % self.shape.dies;
        die..die + 1
    }
}

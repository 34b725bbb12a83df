//! The host interface: device queue, firmware, link, and the reasons to keep the host waiting.
//!
//! ```text
//!  submit ─> waiting ─> slot ─firmware─> fetched ─link in─> ready ─> execute ... respond
//!          (no slot free)                          (held: parked)            └link out─> finished
//! ```

use std::collections::VecDeque;

use io::Nanos;
use io::model::{Command, Completion, Phase, Phases, Tag};

use super::Ssd;
use super::config;
use super::events::Event;
use super::flash::Waited;

/// A command that the drive has taken.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    pub tag: Tag,
    pub command: Command,
    /// Operations of the flash that it waits for.
    pub parts: u32,
    /// The next unit that enters the buffer.
    pub cursor: u32,
    phases: Phases,
    /// Where its time went is known up to here.
    told: Nanos,
}

impl Slot {
    /// Where its time went is known.
    pub fn is_told(&self, now: Nanos) -> bool {
        self.told == now
    }

    /// Since it was last told its time went into this.
    pub fn spend(&mut self, phase: Phase, now: Nanos) {
        self.phases.add(phase, now.saturating_sub(self.told));
        self.told = now;
    }

    /// The same, but for what it waited for first.
    pub fn spend_after(&mut self, waited: &Waited, phase: Phase, now: Nanos) {
        waited.add_to(&mut self.phases);
        self.told = self.told + waited.total();
        self.spend(phase, now);
    }
}

/// Why the host waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    Collection = 1,
    Burst = 2,
    Log = 4,
}

#[derive(Clone, Debug)]
pub struct Interface {
    config: config::Host,
    slots: Vec<Slot>,
    free: Vec<u32>,
    taken: u32,
    /// In front of the drive, and since when; as many as the host submits.
    waiting: VecDeque<(Tag, Command, Nanos)>,
    firmware_free: Nanos,
    /// To the drive, from the drive; the same one twice if the link isn't duplex.
    link_free: [Nanos; 2],
    /// When the next write may have arrived, at the rate the drive takes them.
    write_free: Nanos,
    holds: u32,
    /// Commands that the drive holds; at most as many as it has slots.
    parked: VecDeque<u32>,
    /// Nothing was submitted since the last timer of silence.
    pub silent: bool,
    submissions: u32,
}

impl Interface {
    pub fn new(config: &config::Host) -> Interface {
        Interface {
            config: *config,
            slots: Vec::new(),
            free: Vec::new(),
            taken: 0,
            waiting: VecDeque::new(),
            firmware_free: Nanos::ZERO,
            link_free: [Nanos::ZERO; 2],
            write_free: Nanos::ZERO,
            holds: 0,
            parked: VecDeque::new(),
            silent: false,
            submissions: 0,
        }
    }

    pub fn slot(&mut self, slot: u32) -> &mut Slot {
        &mut self.slots[slot as usize]
    }

    pub fn in_flight(&self) -> usize {
        self.taken as usize + self.waiting.len()
    }

    pub fn held(&self) -> bool {
        self.holds != 0
    }

    pub fn hold(&mut self, why: Hold) {
        self.holds |= why as u32;
    }

    pub fn power_cut(&mut self, now: Nanos) {
        *self =
            Interface { firmware_free: now, link_free: [now; 2], ..Interface::new(&self.config) };
    }

    /// When the link has moved the bytes.
    fn transfer(&mut self, now: Nanos, from_drive: bool, bytes: u64) -> Nanos {
        let link = &mut self.link_free[usize::from(from_drive && self.config.link_duplex)];
        let nanos = bytes * 1_000_000_000 / self.config.link_bytes_per_sec;
        *link = (*link).max(now) + Nanos(nanos);
        *link
    }

    /// When a transfer that is wanted `now` begins.
    fn link_from(&self, now: Nanos, from_drive: bool) -> Nanos {
        self.link_free[usize::from(from_drive && self.config.link_duplex)].max(now)
    }

    /// When a write whose bytes come from the link is taken.
    fn receive(&mut self, now: Nanos, bytes: u64) -> Nanos {
        let arrival = self.transfer(now, false, bytes);
        if let Some(rate) = self.config.write_bytes_per_sec {
            self.write_free = self.write_free.max(now) + Nanos(bytes * 1_000_000_000 / rate);
        }
        arrival.max(self.write_free)
    }

    fn store(&mut self, tag: Tag, command: Command, since: Nanos) -> u32 {
        let phases = Phases::default();
        let slot = Slot { tag, command, parts: 0, cursor: 0, phases, told: since };
        self.taken += 1;
        if let Some(index) = self.free.pop() {
            self.slots[index as usize] = slot;
            return index;
        }
        self.slots.push(slot);
        self.slots.len() as u32 - 1
    }
}

impl Ssd {
    pub(super) fn take(&mut self, now: Nanos, tag: Tag, command: Command) {
        self.counters.submitted += 1;
        self.host.silent = false;
        self.host.submissions = self.host.submissions.wrapping_add(1);
        if self.host.taken < self.config.host.queue_depth {
            self.admit(now, tag, command, now);
        } else {
            self.host.waiting.push_back((tag, command, now));
        }
    }

    fn admit(&mut self, now: Nanos, tag: Tag, command: Command, since: Nanos) {
        let slot = self.host.store(tag, command, since);
        let host = &mut self.host;
        host.slot(slot).spend(Phase::Queue, now);
        host.firmware_free = host.firmware_free.max(now) + self.config.host.command;
        self.events.at(host.firmware_free, Event::Fetched(slot));
    }

    pub(super) fn fetched(&mut self, now: Nanos, slot: u32) {
        if let Command::Write { len, .. } = self.host.slot(slot).command {
            let from = self.host.link_from(now, false).max(self.host.write_free);
            let arrival = self.host.receive(now, len);
            let state = self.host.slot(slot);
            state.spend(Phase::Service, now);
            state.spend(Phase::Link, from.min(arrival));
            self.events.at(arrival, Event::Arrived(slot));
        } else {
            self.ready(now, slot);
        }
    }

    pub(super) fn ready(&mut self, now: Nanos, slot: u32) {
        self.host.slot(slot).spend(Phase::Service, now);
        if self.host.held() {
            self.host.parked.push_back(slot);
        } else {
            self.execute(now, slot);
        }
    }

    fn execute(&mut self, now: Nanos, slot: u32) {
        match self.host.slot(slot).command {
            Command::Read { offset, len } => self.read(now, slot, offset, len),
            Command::Write { offset, len, .. } => self.write(now, slot, offset, len),
            Command::Flush => self.flush(now, slot),
            Command::Discard { offset, len } => self.discard(now, slot, offset, len),
        }
    }

    /// The command is done; the host will know soon.
    pub(super) fn respond(&mut self, now: Nanos, slot: u32) {
        let finished = match self.host.slot(slot).command {
            Command::Read { len, .. } => {
                let from = self.host.link_from(now, true);
                let state = self.host.slot(slot);
                state.spend(Phase::Service, now);
                state.spend(Phase::Link, from);
                self.host.transfer(now, true, len) + self.config.host.read_overhead
            }
            _ => now + self.config.host.write_overhead,
        };
        self.events.at(finished, Event::Finished(slot));
    }

    pub(super) fn finished(&mut self, now: Nanos, slot: u32) {
        let state = self.host.slot(slot);
        state.spend(Phase::Service, now);
        let Slot { tag, phases, .. } = *state;
        self.done.push(Completion { tag, at: now, phases });
        self.counters.completed += 1;
        self.host.free.push(slot);
        self.host.taken -= 1;
        if let Some((tag, command, since)) = self.host.waiting.pop_front() {
            self.admit(now, tag, command, since);
        }
        if self.host.taken == 0 {
            self.start_silence(now);
        }
    }

    fn start_silence(&mut self, now: Nanos) {
        if let Some(after) = self.config.collection.idle_after {
            let high = self.config.collection.high;
            if (0..self.shape.pools).any(|pool| self.ftl.free_blocks(pool) < high) {
                let count = self.host.submissions;
                self.events.at(now + after, Event::Silent { count });
            }
        }
    }

    pub(super) fn silent(&mut self, now: Nanos, count: u32) {
        if count == self.host.submissions {
            self.host.silent = true;
            for pool in 0..self.shape.pools {
                self.collect(now, pool);
            }
        }
    }

    /// One reason to wait is over. If it was the last, what was parked goes on, all at once.
    pub(super) fn release(&mut self, now: Nanos, why: Hold) {
        self.host.holds &= !(why as u32);
        while !self.host.held()
            && let Some(slot) = self.host.parked.pop_front()
        {
            self.host.slot(slot).spend(Phase::Held, now);
            self.execute(now, slot);
        }
        self.let_stalled_enter(now);
    }

    /// After a power cut: what can go on without the host does.
    pub(super) fn power_up(&mut self, now: Nanos) {
        self.burst_upto = None;
        self.drain_timer = false;
        if let Some(buffer) = &mut self.buffer {
            buffer.power_cut();
            if !buffer.config.power_loss_protected {
                buffer.lose();
            }
        }
        self.start_silence(now);
        self.destage(now);
        for pool in 0..self.shape.pools {
            self.start_collection_if_low(now, pool);
        }
    }
}

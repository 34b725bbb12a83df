//! Reads: from the buffer, from programs on their way, from the flash.

use io::Nanos;
use io::model::{Command, Phase};

use super::Ssd;
use super::flash::{Class, Operation, Work};
use super::ftl::NONE;

impl Ssd {
    pub(super) fn read(&mut self, now: Nanos, slot: u32, offset: u64, len: u64) {
        self.counters.host_read_bytes += len;
        let unit_bytes = u64::from(self.shape.unit_bytes);
        let end = offset + len;
        // Neighbours in one program are sensed and transferred together.
        let (mut together, mut bytes, mut parts) = (NONE, 0, 0);
        let mut from = offset;
        while from < end {
            let unit = (from / unit_bytes) as u32;
            let to = end.min((u64::from(unit) + 1) * unit_bytes);
            if let Some(program) = self.program_to_sense(unit) {
                if program != together && together != NONE {
                    self.sense(now, slot, together, bytes);
                    (bytes, parts) = (0, parts + 1);
                }
                together = program;
                bytes += (to - from) as u32;
            }
            from = to;
        }
        if together != NONE {
            self.sense(now, slot, together, bytes);
            parts += 1;
        }
        self.host.slot(slot).parts = parts;
        if parts == 0 {
            self.respond(now, slot);
        }
    }

    /// The program that holds the unit; `None` if it is in memory, or nowhere.
    pub(super) fn program_to_sense(&self, unit: u32) -> Option<u32> {
        let place = self.ftl.place(unit);
        if place == NONE || self.buffer.as_ref().is_some_and(|buffer| buffer.holds(unit)) {
            return None;
        }
        let program = place / self.shape.units_per_program;
        (!self.programming.has(program)).then_some(program)
    }

    pub(super) fn sense(&mut self, now: Nanos, slot: u32, program: u32, bytes: u32) {
        let class = if self.config.timing.reads_first { Class::First } else { Class::Normal };
        let operation = Operation { work: Work::HostRead { slot }, bytes };
        let die = self.shape.die_of(program);
        self.flash.enqueue(now, die, class, operation, &mut self.events);
    }

    /// A part is there; it had waited for its die. The last one says where the time went.
    pub(super) fn read_part(&mut self, now: Nanos, slot: u32) {
        let state = self.host.slot(slot);
        state.parts -= 1;
        if state.parts > 0 {
            return;
        }
        state.spend_after(&self.flash.waited, Phase::Service, now);
        if let Command::Write { offset, len, .. } = state.command {
            self.write_complete_units(now, slot, offset, len);
        } else {
            self.respond(now, slot);
        }
    }
}

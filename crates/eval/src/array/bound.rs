//! The clairvoyant bound: how long requests take if nothing is ever in their way.
//!
//! Every request has all drives of the array to itself, idle ones that never collect, and lies on
//! them as well as can be: it is cut over all of them, each does one command.
//!
//! * *Write.* Once it is acknowledged any p of the n drives may die (p = 1: what every array with
//!   redundancy here bears), so any n - p of them hold all of it: on one drive at least a part of
//!   1 / (n - p) arrives. No sooner than that drive takes one command of so many bytes is it done.
//! * *Read.* One drive at least gives a part of 1 / n. The bytes take as long over its link as
//!   those that it has in memory; of data that nothing wrote during the run a page has to be looked
//!   up in flash before that.
//! * *Bytes.* Whatever n - p drives hold is the data: n / (n - p) times as much on all of them, on
//!   drives, in flash and for good. Blocks are erased for what is written to flash, not more often.
//!
//! So no array of these drives answers a request sooner, whatever it knows of the future, but one
//! without redundancy (`raid0`), or one that answers from a memory of its own (`nv-raid`,
//! `alternate`). There is no queue in it, not even behind other clients' requests: it can't be
//! reached under load. Data that an array moves by itself shortly before it is read is found in a
//! drive's memory, too; a few MiB a drive are too little to show in a percentile.

use std::cell::RefCell;
use std::collections::BTreeMap;

use io::model::{Command, Model, Tag};
use io::{Durability, Nanos};
use model::presets::Preset;
use model::ssd::{Config, Fill, Ssd};

use super::load::{Load, Span};
use super::tally::Tally;

/// Drives that may die at once.
const LOSSES: u64 = 1;
const GIB: f64 = (1 << 30) as f64;

pub struct Bound {
    drives: u64,
    /// A drive on which nothing was written; for each command a copy of it.
    fresh: Ssd,
    /// Bytes that commands are multiples of.
    unit: u64,
    /// How much longer a unit takes that lies in flash than one in memory.
    look_up: Nanos,
    known: RefCell<BTreeMap<(bool, u64), Nanos>>,
}

/// What a run would cost at least.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Least {
    /// Bytes on drives, and in flash, for each of the user's.
    pub bytes: f64,
    /// Blocks erased in the long run for each GiB of the user's.
    pub erases: f64,
}

impl Bound {
    /// Of an array of so many drives, 2 at least. Times don't depend on the size of a drive.
    pub fn new(preset: Preset, drives: usize) -> Result<Bound, String> {
        if drives as u64 <= LOSSES {
            return Err(format!("{drives} drives: none is left once one is lost"));
        }
        let config = preset.ssd_config(preset.sizes().0).ok_or("the bound is of SSDs")?;
        let drive = |fill| {
            let config = Config { fill, ..config.clone() };
            Ssd::new(config, 1).map_err(|error| error.to_string())
        };
        let (fresh, written) = (drive(Fill::Fresh)?, drive(Fill::Written)?);
        let unit = u64::from(config.align);
        let read = Command::Read { offset: 0, len: unit };
        let look_up = took(&written, read).saturating_sub(took(&fresh, read));
        let drives = drives as u64;
        Ok(Bound { drives, fresh, unit, look_up, known: RefCell::default() })
    }

    /// Of a write of so many bytes.
    pub fn write(&self, len: u64) -> Nanos {
        self.alone(false, self.part(len, self.drives - LOSSES))
    }

    /// Of a read; what the run wrote itself may be in memory still.
    pub fn read(&self, len: u64, is_cold: bool) -> Nanos {
        let moved = self.alone(true, self.part(len, self.drives));
        if is_cold { moved + self.look_up } else { moved }
    }

    /// Bytes on the drive that has most of it.
    fn part(&self, len: u64, drives: u64) -> u64 {
        len.div_ceil(self.unit).div_ceil(drives) * self.unit
    }

    fn alone(&self, read: bool, len: u64) -> Nanos {
        let mut known = self.known.borrow_mut();
        *known.entry((read, len)).or_insert_with(|| {
            let durability = Durability::Cached;
            let write = Command::Write { offset: 0, len, durability };
            took(&self.fresh, if read { Command::Read { offset: 0, len } } else { write })
        })
    }

    /// The latencies of one load on an array of so many bytes.
    pub fn play(&self, load: &impl Load, span: Span, size: u64) -> Tally {
        let mut written = vec![false; size.div_ceil(self.unit) as usize];
        let mut tally = Tally::default();
        let end = span.warmup + span.measured;
        for request in load.requests().take_while(|request| request.at < end) {
            let last = (request.offset + request.len).div_ceil(self.unit);
            let units = (request.offset / self.unit) as usize..last as usize;
            let latency = match request.read {
                true => self.read(request.len, !written[units.clone()].contains(&true)),
                false => self.write(request.len),
            };
            if !request.read {
                written[units].fill(true);
            }
            if request.at >= span.warmup {
                let own = if request.read { &mut tally.reads } else { &mut tally.writes };
                own.saturating_record(latency.0);
            }
        }
        tally
    }

    pub fn least(&self) -> Least {
        let bytes = self.drives as f64 / (self.drives - LOSSES) as f64;
        let config = self.fresh.config();
        let block = f64::from(config.pages_per_block) * f64::from(config.page_bytes);
        Least { bytes, erases: bytes * GIB / block }
    }
}

/// How long a copy of this drive takes for a command.
fn took(drive: &Ssd, command: Command) -> Nanos {
    let mut drive = drive.clone();
    drive.submit(Nanos::ZERO, Tag(0), command);
    let mut done = Vec::new();
    while done.is_empty() {
        let next = drive.next_event().expect("a command is under way");
        drive.advance(next, &mut done);
    }
    done[0].at
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;

    #[test]
    fn more_bytes_take_longer_and_more_drives_less() {
        let of = |drives| Bound::new(Preset::DcSata, drives).expect("a drive");
        let (five, many) = (of(5), of(29));
        assert_eq!(five.write(4 * KIB), many.write(4 * KIB));
        assert!(five.write(512 * KIB) > many.write(512 * KIB));
        assert!(five.read(512 * KIB, true) > five.read(4 * KIB, true));
        assert!(five.read(4 * KIB, true) > five.read(4 * KIB, false));
        // Whole units.
        assert_eq!((five.part(16 * KIB, 4), five.part(17 * KIB, 4)), (4 * KIB, 8 * KIB));
        assert_eq!(five.least().bytes, 1.25);
        assert!(Bound::new(Preset::DcSata, 1).is_err());
        assert!(Bound::new(Preset::Hdd10k, 5).is_err());
    }
}

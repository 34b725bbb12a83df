//! The volatile cache in front of a platter: what reads see, what a power cut leaves.
//!
//! No time here and no errors: the rules of the [`Drive`](crate::Drive) contract, nothing else.

use std::collections::BTreeMap;

use super::platter::{
    PAGE, Page, Platter, Rule, SECTOR, Version, by_page, pages_memory, remove_range,
};
use crate::buf::{Buf, BufMut};
use crate::drive::Durability;
use crate::rng::{Rng, mix};

/// A cache holds no more than this; beyond, the oldest writes become durable by themselves,
/// as in a real drive. Large enough that no test's flush interval reaches it.
const CACHE_BYTES_MAX: u64 = 256 << 20;

/// What a power cut does to writes that aren't durable, in flight or completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CutMode {
    /// All are lost.
    DropAll,
    /// All are kept, in the order of completion, then those in flight.
    KeepAll,
    /// Each is kept, lost, or torn between units, whatever happened to the others.
    Random,
}

#[derive(Clone)]
struct Write {
    offset: u64,
    data: Buf,
}

#[derive(Clone)]
struct Flight {
    write: Write,
    /// Nobody will ever complete it: its machine crashed or its drive failed.
    orphan: bool,
}

#[derive(Clone)]
pub(super) struct Cache {
    /// What survives.
    durable: Platter,
    /// Pages as reads see them, where that may differ from `durable`.
    newest: BTreeMap<u64, Page>,
    /// Completed and not durable, in the order of completion.
    completed: BTreeMap<Version, Write>,
    completed_bytes: u64,
    /// Submitted and not completed, in the order of submission.
    in_flight: BTreeMap<u64, Flight>,
    last_version: Version,
    last_flight: u64,
    /// Completed writes survive a power cut.
    protected: bool,
    /// Bytes that are never torn.
    unit: u64,
}

impl Cache {
    pub(super) fn new(seed: u64, unit: u64) -> Cache {
        Cache {
            durable: Platter::new(seed),
            newest: BTreeMap::new(),
            completed: BTreeMap::new(),
            completed_bytes: 0,
            in_flight: BTreeMap::new(),
            last_version: 0,
            last_flight: 0,
            protected: false,
            unit,
        }
    }

    pub(super) fn tear_at(&mut self, unit: u64) {
        self.unit = unit;
    }

    pub(super) fn protect(&mut self) {
        self.protected = true;
    }

    /// Pages of zeroes take no memory. Whether a sector of a page that isn't there is newer
    /// than a write still in the cache, nobody could say, so no completed write stays there.
    pub(super) fn drop_zeroes(&mut self) {
        self.flush(self.last_version);
        self.durable.drop_zeroes();
    }

    /// The same content, in which nobody will complete what is in flight.
    pub(super) fn fork(&self) -> Cache {
        let mut fork = self.clone();
        fork.in_flight.values_mut().for_each(|flight| flight.orphan = true);
        fork
    }

    /// Takes a write over; names it for [`Cache::complete`].
    pub(super) fn submit(&mut self, offset: u64, data: Buf) -> u64 {
        self.last_flight += 1;
        let flight = Flight { write: Write { offset, data }, orphan: false };
        self.in_flight.insert(self.last_flight, flight);
        self.last_flight
    }

    pub(super) fn complete(&mut self, flight: u64, durability: Durability) {
        let flight = self.in_flight.remove(&flight).expect("a write completes once");
        self.last_version += 1;
        match durability {
            Durability::Cached => self.keep(flight.write),
            Durability::Durable => self.harden(self.last_version, &flight.write),
        }
    }

    /// Makes a write visible as the newest, not durable.
    fn keep(&mut self, write: Write) {
        if self.durable.drops_zeroes() {
            return self.harden(self.last_version, &write);
        }
        let rule = Rule::Newest(self.last_version);
        for part in by_page(write.offset, write.data.len() as u64) {
            let page = self.newest.entry(part.page).or_insert_with(|| self.durable.load(part.page));
            page.store(part.start, &write.data[part.range()], rule);
        }
        self.completed_bytes += write.data.len() as u64;
        self.completed.insert(self.last_version, write);
        while self.completed_bytes > CACHE_BYTES_MAX {
            self.harden_oldest();
        }
    }

    /// Makes a write durable, and visible unless there is something newer.
    fn harden(&mut self, version: Version, write: &Write) {
        let rule = Rule::Newest(version);
        self.durable.store(write.offset, &write.data, rule);
        for part in by_page(write.offset, write.data.len() as u64) {
            let Some(newest) = self.newest.get_mut(&part.page) else { continue };
            newest.store(part.start, &write.data[part.range()], rule);
            let durable = self.durable.get(part.page).expect("just stored");
            if newest.is_covered_by(durable) {
                self.newest.remove(&part.page);
            }
        }
    }

    fn harden_oldest(&mut self) {
        let (version, write) = self.completed.pop_first().expect("the cache isn't empty");
        self.completed_bytes -= write.data.len() as u64;
        self.harden(version, &write);
    }

    /// What a flush that starts now will make durable.
    pub(super) fn version(&self) -> Version {
        self.last_version
    }

    /// Makes every write durable that had completed at `version`.
    pub(super) fn flush(&mut self, version: Version) {
        while self.completed.first_key_value().is_some_and(|(&first, _)| first <= version) {
            self.harden_oldest();
        }
    }

    pub(super) fn read(&self, offset: u64, target: &mut [u8]) {
        for part in by_page(offset, target.len() as u64) {
            let target = &mut target[part.range()];
            match self.newest.get(&part.page) {
                Some(page) => target.copy_from_slice(&page.bytes[part.start..part.end]),
                None => self.durable.read(part, target),
            }
        }
    }

    pub(super) fn read_durable(&self, offset: u64, target: &mut [u8]) {
        for part in by_page(offset, target.len() as u64) {
            self.durable.read(part, &mut target[part.range()]);
        }
    }

    /// Whole pages become garbage by being forgotten, the edges by being corrupted.
    pub(super) fn discard(&mut self, offset: u64, len: u64) {
        let end = offset + len;
        let (first_page, end_page) = (offset.div_ceil(PAGE), end / PAGE);
        if first_page >= end_page {
            return self.corrupt(offset, len, 0);
        }
        self.corrupt(offset, first_page * PAGE - offset, 0);
        self.corrupt(end_page * PAGE, end - end_page * PAGE, 0);
        self.last_version += 1;
        self.durable.discard(first_page, end_page, self.last_version);
        remove_range(&mut self.newest, first_page, end_page);
    }

    /// Changes every byte of the range, for those who read now and after a power cut. The
    /// sectors around them become durable, or a later flush would undo it.
    pub(super) fn corrupt(&mut self, offset: u64, len: u64, seed: u64) {
        for part in by_page(offset, len) {
            let start = part.start as u64 / SECTOR * SECTOR;
            let end = (part.end as u64).next_multiple_of(SECTOR);
            let mut data = BufMut::with_len((end - start) as usize);
            let offset = part.page * PAGE + start;
            self.read(offset, &mut data);
            let range = part.start - start as usize..part.end - start as usize;
            let mut noise = [0; PAGE as usize];
            Rng::new(mix(seed) ^ part.page).fill(&mut noise);
            for (byte, noise) in data[range].iter_mut().zip(noise) {
                *byte ^= noise.max(1);
            }
            self.put(offset, data.freeze());
        }
    }

    /// Whole sectors become these, for those who read now and after a power cut.
    pub(super) fn put(&mut self, offset: u64, data: Buf) {
        self.last_version += 1;
        self.harden(self.last_version, &Write { offset, data });
    }

    /// Says that a write in flight will not be completed by anybody.
    pub(super) fn abandon(&mut self, flight: u64) {
        if let Some(flight) = self.in_flight.get_mut(&flight) {
            flight.orphan = true;
        }
    }

    /// Decides abandoned writes while the power is on: each has been done, wholly, in part,
    /// or not at all, and can't change any more what is written from now on.
    pub(super) fn settle(&mut self, rng: &mut Rng) {
        let orphans = self.in_flight.iter().filter(|(_, flight)| flight.orphan);
        for id in orphans.map(|(&id, _)| id).collect::<Vec<u64>>() {
            let flight = self.in_flight.remove(&id).expect("just seen");
            for piece in survivors(flight.write, self.unit, rng.below(101), rng) {
                self.last_version += 1;
                self.keep(piece);
            }
        }
    }

    /// Number of writes whose fate a power cut would decide.
    pub(super) fn undecided(&self) -> usize {
        self.completed.len() + self.in_flight.len()
    }

    pub(super) fn stored_bytes(&self) -> u64 {
        (self.durable.page_count() + self.newest.len()) as u64 * PAGE
    }

    /// Memory that pages take, and what is known of those that are not there, about.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.durable.memory_bytes() + pages_memory(self.newest.len()) + self.completed_bytes
    }

    pub(super) fn power_cut(&mut self, rng: &mut Rng, mode: CutMode) {
        if self.protected {
            self.flush(self.last_version);
        }
        let completed = std::mem::take(&mut self.completed).into_iter();
        // A write in flight may come after everything that has completed.
        let in_flight = std::mem::take(&mut self.in_flight).into_values();
        let in_flight = in_flight.map(|flight| (Version::MAX, flight.write));
        let undecided = completed.chain(in_flight);
        let kept: Vec<_> = match mode {
            CutMode::DropAll => Vec::new(),
            CutMode::KeepAll => undecided.collect(),
            CutMode::Random => survive_at_random(undecided, self.unit, rng),
        };
        for (version, write) in kept {
            self.durable.store(write.offset, &write.data, Rule::Unordered(version));
        }
        self.newest.clear();
        self.completed_bytes = 0;
    }
}

/// Some cuts lose nearly everything, some nearly nothing: the chance is drawn for each cut.
fn survive_at_random(
    undecided: impl Iterator<Item = (Version, Write)>,
    unit: u64,
    rng: &mut Rng,
) -> Vec<(Version, Write)> {
    let percent_kept = rng.below(101);
    let mut kept = Vec::new();
    for (version, write) in undecided {
        let pieces = survivors(write, unit, percent_kept, rng);
        kept.extend(pieces.into_iter().map(|piece| (version, piece)));
    }
    rng.shuffle(&mut kept);
    kept
}

/// What is left of one undecided write: all of it, nothing, a prefix, or any units.
fn survivors(write: Write, unit: u64, percent_kept: u64, rng: &mut Rng) -> Vec<Write> {
    if rng.chance(percent_kept, 100) {
        return vec![write];
    }
    let units = write.data.len() as u64 / unit;
    let part = |first: u64, end: u64| Write {
        offset: write.offset + first * unit,
        data: write.data.slice((first * unit) as usize..(end * unit) as usize),
    };
    match rng.below(4) {
        0 => vec![part(0, rng.below(units + 1))],
        1 => {
            let kept = (0..units).filter(|_| rng.chance(1, 2));
            kept.map(|at| part(at, at + 1)).collect()
        }
        _ => Vec::new(),
    }
}

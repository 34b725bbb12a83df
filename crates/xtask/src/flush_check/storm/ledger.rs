//! What the clients of one volume sent, and what they were promised.
//!
//! Clients write anywhere in the volume, so that they meet in stripes; two requests that are
//! under way never overlap, so the order of writes to a sector is that of their sequence numbers.
//! A flush covers what was answered before it was sent. What a client was answered is exactly
//! what it reads, until a crash: then [`Ledger::fold`] tells the [`Model`], which knows what is
//! allowed after one.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::super::history::{Event, History};
use super::super::model::{Kind, Model, Version, Wrong};
use super::super::pattern::{self, Found, SECTOR, SECTORS_PER_PAGE, Stamp};

/// A write that was sent in this life of the server.
struct Sent {
    stamp: Stamp,
    zero: bool,
    fua: bool,
    connection: usize,
    answer: Answer,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Answer {
    None,
    /// When.
    Done(u64),
    /// It may be there or not, as if it had not been answered.
    Error,
}

/// What a read must return now.
#[derive(Clone, Copy)]
enum Latest {
    /// What the model allows.
    Model,
    Version(Version),
    /// A write failed: it may be there or not.
    Either,
}

/// Why a sector of a write that a crash cut short may be neither old nor new.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Excuse {
    /// A drive was lost in the same moment.
    LostWithCrash,
    /// A drive had rotten before, and nobody had put that right yet.
    RottenBefore,
    /// Copies of what no flush covered differ, and rot does, too: no read gives it.
    Undecided,
}

/// When a flush was sent.
#[derive(Clone, Copy)]
pub struct Moment(u64);

pub struct Ledger {
    pub model: Model,
    pub sectors: u64,
    next_sequence: u64,
    clock: u64,
    sent: Vec<Sent>,
    /// When the newest flush of each connection that was answered had been sent.
    flushed: Vec<u64>,
    latest: Vec<Latest>,
    busy: Vec<Range<u64>>,
    excused: BTreeMap<u64, Excuse>,
    /// Pages that may not be readable.
    undecided: BTreeSet<u64>,
    /// Flushes cover the writes of all connections.
    pub shared_flush: bool,
}

/// Chunks lie on different drives.
const CHUNK_SECTORS: u64 = 128;

/// Sequence numbers differ between volumes, so that one's data is garbage in another.
pub const VOLUMES_MAX: u64 = 8;

impl Ledger {
    pub fn new(sectors: u64, volume: u64, connections: usize) -> Ledger {
        assert!(volume < VOLUMES_MAX);
        Ledger {
            model: Model::new(1, sectors),
            sectors,
            next_sequence: VOLUMES_MAX + volume,
            clock: 0,
            sent: Vec::new(),
            flushed: vec![0; connections],
            latest: vec![Latest::Model; index(sectors)],
            busy: Vec::new(),
            excused: BTreeMap::new(),
            undecided: BTreeSet::new(),
            shared_flush: true,
        }
    }

    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// Takes a range for a request, unless another one has a part of it.
    pub fn claim(&mut self, range: Range<u64>) -> bool {
        let overlaps = |other: &Range<u64>| other.start < range.end && range.start < other.end;
        if range.end > self.sectors || self.busy.iter().any(overlaps) {
            return false;
        }
        self.busy.push(range);
        true
    }

    pub fn release(&mut self, range: &Range<u64>) {
        let position = self.busy.iter().position(|other| other == range);
        self.busy.swap_remove(position.expect("it was claimed"));
    }

    /// A write of a claimed range, noted before it is sent: it may be there after a crash even
    /// if it is never answered. Returns its place in the ledger as well.
    pub fn write(
        &mut self,
        range: &Range<u64>,
        connection: usize,
        zero: bool,
        fua: bool,
    ) -> (usize, Stamp) {
        let sequence = self.next_sequence;
        self.next_sequence += VOLUMES_MAX;
        let stamp = Stamp { sequence, first: range.start, count: range.end - range.start };
        self.sent.push(Sent { stamp, zero, fua, connection, answer: Answer::None });
        (self.sent.len() - 1, stamp)
    }

    /// Writes since the model was told.
    #[cfg(test)]
    pub fn sent(&self) -> usize {
        self.sent.len()
    }

    /// True: it may have failed.
    pub fn answered(&mut self, place: usize, error: u32) -> bool {
        let now = self.tick();
        let sent = &mut self.sent[place];
        let (range, version) = (sent.stamp.sectors(), version_of(sent));
        let latest = match error {
            0 => Latest::Version(version),
            _ => Latest::Either,
        };
        sent.answer = if error == 0 { Answer::Done(now) } else { Answer::Error };
        for sector in range.clone() {
            self.latest[index(sector)] = latest;
        }
        self.release(&range);
        self.may_fail(&range)
    }

    pub fn flush_sent(&mut self) -> Moment {
        Moment(self.tick())
    }

    pub fn flush_answered(&mut self, connection: usize, sent: Moment) {
        let newest = &mut self.flushed[connection];
        *newest = (*newest).max(sent.0);
    }

    /// What was read where `first` is: as it was answered, or allowed?
    pub fn check_read(&self, first: u64, bytes: &[u8]) -> Result<(), Wrong> {
        for (sector, bytes) in (first..).zip(bytes.chunks(SECTOR)) {
            let found = pattern::read(bytes, sector);
            match self.check_sector(sector, found) {
                Err(wrong) if !self.excused.contains_key(&sector) => return Err(wrong),
                _ => {}
            }
        }
        Ok(())
    }

    fn check_sector(&self, sector: u64, found: Found) -> Result<(), Wrong> {
        match self.latest[index(sector)] {
            Latest::Model => self.model.check_sector(sector, found).map(drop),
            Latest::Either if matches!(found, Found::Zero | Found::Written(_)) => Ok(()),
            Latest::Version(version) if version.shows_as(found) => Ok(()),
            Latest::Version(version) => {
                let kind = match found {
                    Found::Zero | Found::Written(_) => Kind::Misread,
                    Found::Elsewhere(..) | Found::Garbage => Kind::Garbage,
                };
                let text = format!("{found} was read, after {version} was answered");
                Err(Wrong { sector, kind, text })
            }
            Latest::Either => {
                let text = format!("{found} was read after a write that failed");
                Err(Wrong { sector, kind: Kind::Garbage, text })
            }
        }
    }

    fn is_durable(&self, sent: &Sent) -> bool {
        let Answer::Done(when) = sent.answer else { return false };
        let covers = |connection: usize, flush: u64| {
            when < flush && (self.shared_flush || connection == sent.connection)
        };
        sent.fua || self.flushed.iter().enumerate().any(|(at, flush)| covers(at, *flush))
    }

    /// Tells the model what was sent so far. Returns the writes that were not answered.
    pub fn fold(&mut self) -> Vec<Stamp> {
        let mut history =
            History { connections: 1, region_sectors: self.sectors, events: Vec::new() };
        let mut under_way = Vec::new();
        for sent in &self.sent {
            let Sent { stamp, zero, .. } = *sent;
            history.events.push((0, Event::Write { stamp, zero }));
            if self.is_durable(sent) {
                history.events.push((0, Event::Durable { sequence: stamp.sequence }));
                for sector in stamp.sectors() {
                    self.excused.remove(&sector);
                }
                for page in whole_pages(&stamp.sectors()) {
                    self.undecided.remove(&page);
                }
            }
            if sent.answer == Answer::None {
                under_way.push(stamp);
            }
        }
        self.model.apply(&history);
        self.sent.clear();
        self.busy.clear();
        self.latest.fill(Latest::Model);
        under_way
    }

    /// What these writes left in the sectors of more than one chunk may be anything, until it is
    /// durably written again. Of one chunk either the old or the new bytes follow from the rest.
    pub fn excuse(&mut self, cut_short: &[Stamp], excuse: Excuse) {
        let chunks = |stamp: &&Stamp| {
            let last = stamp.first + stamp.count - 1;
            stamp.first / CHUNK_SECTORS != last / CHUNK_SECTORS
        };
        for sector in cut_short.iter().filter(chunks).flat_map(Stamp::sectors) {
            self.excused.insert(sector, excuse);
        }
    }

    /// Pages with anything that no flush covers may not be readable, until they are durably written
    /// again.
    pub fn leave_undecided(&mut self) {
        let open = (0..self.sectors).filter(|sector| self.model.is_open(*sector));
        self.undecided.extend(open.map(|sector| sector / SECTORS_PER_PAGE));
    }

    /// A request of this range may fail: a write of a part of a page reads the rest.
    pub fn may_fail(&self, range: &Range<u64>) -> bool {
        let pages = range.start / SECTORS_PER_PAGE..range.end.div_ceil(SECTORS_PER_PAGE);
        self.undecided.range(pages).next().is_some()
    }

    pub fn excused(&self, sector: u64) -> Option<Excuse> {
        self.excused.get(&sector).copied()
    }

    /// What was found is what is there, and nothing is excused any more.
    pub fn settle(&mut self, found: &[Option<Version>]) {
        assert!(self.sent.is_empty(), "the model was told");
        self.model.settle_found(0, found);
        self.excused.clear();
        self.undecided.clear();
    }
}

fn whole_pages(sectors: &Range<u64>) -> Range<u64> {
    sectors.start.div_ceil(SECTORS_PER_PAGE)..sectors.end / SECTORS_PER_PAGE
}

fn version_of(sent: &Sent) -> Version {
    Version { sequence: sent.stamp.sequence, zero: sent.zero }
}

fn index(sector: u64) -> usize {
    usize::try_from(sector).expect("volumes fit memory")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The stamp of a write that was sent, and its place in the ledger.
    fn send(ledger: &mut Ledger, range: Range<u64>, connection: usize) -> (usize, Stamp) {
        assert!(ledger.claim(range.clone()));
        ledger.write(&range, connection, false, false)
    }

    fn flush(ledger: &mut Ledger, connection: usize) {
        let moment = ledger.flush_sent();
        ledger.flush_answered(connection, moment);
    }

    #[test]
    fn requests_under_way_never_overlap() {
        let mut ledger = Ledger::new(64, 0, 1);
        let (place, _) = send(&mut ledger, 8..16, 0);
        assert!(!ledger.claim(15..17) && !ledger.claim(0..9) && !ledger.claim(60..65));
        assert!(ledger.claim(16..20));
        ledger.answered(place, 0);
        assert!(ledger.claim(8..16));
    }

    #[test]
    fn a_flush_covers_what_was_answered_before_it_was_sent() {
        for shared in [true, false] {
            let mut ledger = Ledger::new(64, 0, 2);
            ledger.shared_flush = shared;
            let places = [0, 1, 2].map(|at| send(&mut ledger, at * 8..at * 8 + 8, 1).0);
            ledger.answered(places[0], 0);
            ledger.answered(places[1], 5);
            flush(&mut ledger, 0);
            ledger.answered(places[2], 0);
            ledger.fold();
            let flushed = [0, 8, 16].map(|sector| ledger.model.is_flushed(sector));
            assert_eq!(flushed, [shared, false, false], "of another connection: {shared}");
        }
    }

    #[test]
    fn what_was_not_answered_is_cut_short() {
        let mut ledger = Ledger::new(64, 3, 1);
        let answered = send(&mut ledger, 0..8, 0).0;
        let failed = send(&mut ledger, 8..16, 0).0;
        let (_, unanswered) = send(&mut ledger, 16..24, 0);
        ledger.answered(answered, 0);
        ledger.answered(failed, 28);
        assert_eq!(ledger.fold(), [unanswered]);
        assert!(ledger.fold().is_empty(), "the model was told once");
        assert_eq!(unanswered.sequence % VOLUMES_MAX, 3, "other volumes have other numbers");
    }

    #[test]
    fn writes_of_one_chunk_are_not_excused() {
        let mut ledger = Ledger::new(512, 0, 1);
        let stamp = |first, count| Stamp { sequence: 8, first, count };
        ledger.excuse(&[stamp(0, 128), stamp(250, 7)], Excuse::LostWithCrash);
        let excused = |sector| ledger.excused(sector).is_some();
        assert!(!excused(0) && !excused(127) && excused(250) && excused(256) && !excused(257));
    }

    #[test]
    fn pages_that_no_flush_covers_may_be_undecided_until_they_are_written_whole() {
        let mut ledger = Ledger::new(64, 0, 1);
        for range in [0..16, 20..21] {
            let (place, _) = send(&mut ledger, range, 0);
            ledger.answered(place, 0);
        }
        flush(&mut ledger, 0);
        let (place, _) = send(&mut ledger, 15..22, 0);
        ledger.answered(place, 0);
        ledger.fold();
        ledger.leave_undecided();
        let pages =
            |ledger: &Ledger| [0..8, 8..9, 23..24, 24..32].map(|range| ledger.may_fail(&range));
        assert_eq!(pages(&ledger), [false, true, true, false]);
        for range in [8..20, 20..24] {
            let (place, _) = send(&mut ledger, range, 0);
            ledger.answered(place, 0);
        }
        flush(&mut ledger, 0);
        ledger.fold();
        assert_eq!(pages(&ledger), [false, false, true, false], "no write had all of the second");
        ledger.settle(&[None; 64]);
        assert!(!ledger.may_fail(&(0..64)));
    }
}

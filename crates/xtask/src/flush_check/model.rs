//! For every sector: what it may hold after a crash.
//!
//! A write that a flush (or its own FUA) covers is a floor: the sector holds it or a later one.
//! Without a floor the contents from before the session may be there still. After a crash the
//! choice is made once: [`Model::settle`] remembers it, and another crash must not change it.

use std::collections::BTreeSet;
use std::fmt;

use super::history::{Event, History};
use super::pattern::{Found, SECTORS_PER_PAGE};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    pub sequence: u64,
    pub zero: bool,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.zero { "zeroes" } else { "write" };
        write!(f, "{what} {}", self.sequence)
    }
}

impl Version {
    /// A volume that was never written reads as zeroes.
    const EMPTY: Version = Version { sequence: 0, zero: true };

    pub fn shows_as(&self, found: Found) -> bool {
        match found {
            Found::Zero => self.zero,
            Found::Written(stamp) => !self.zero && stamp.sequence == self.sequence,
            Found::Elsewhere(..) | Found::Garbage => false,
        }
    }
}

/// What is wrong with a sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Older than what a client was told is durable.
    Lost,
    /// Older than what was read there after a crash, before anybody wrote.
    WentBack,
    /// A write that was not there after the crash that cut it short, and is now.
    CameBack,
    /// Bytes that were never written there, or parts of several versions.
    Garbage,
    /// Another version than the one that was answered, without a crash in between.
    Misread,
    /// A page that is neither old nor new.
    Torn,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    pub sector: u64,
    pub kind: Kind,
    pub text: String,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sector {}: {}", self.sector, self.text)
    }
}

#[derive(Clone, Debug)]
struct Sector {
    settled: Version,
    /// The newest write that a flush or FUA ever covered: tells what kind of wrong it is.
    promised: u64,
    /// Writes since then, oldest first.
    later: Vec<Version>,
}

/// What one connection writes, alone.
struct Region {
    sectors: Vec<Sector>,
    /// Every write up to this sequence number is durable.
    flushed: u64,
    /// Writes that are durable by themselves.
    durable: BTreeSet<u64>,
}

impl Region {
    fn floor(&self, sector: &Sector) -> Option<Version> {
        let durable =
            |v: &&Version| v.sequence <= self.flushed || self.durable.contains(&v.sequence);
        sector.later.iter().rev().find(durable).copied()
    }

    /// Makes what was found, or else the floor, what the sector holds now.
    fn settle(&mut self, at: usize, found: Option<Version>) {
        let floor = self.floor(&self.sectors[at]);
        let sector = &mut self.sectors[at];
        sector.promised = sector.promised.max(floor.map_or(0, |version| version.sequence));
        if let Some(version) = found {
            sector.settled = version;
            sector.later.clear();
        } else if let Some(version) = floor {
            sector.settled = version;
            sector.later.retain(|later| later.sequence > version.sequence);
        }
    }

    /// All versions that `sector` may show, newest first.
    fn allowed(&self, sector: &Sector) -> impl Iterator<Item = Version> {
        let floor = self.floor(sector).unwrap_or(sector.settled);
        let later = sector.later.iter().rev().filter(move |v| v.sequence > floor.sequence);
        later.copied().chain([floor])
    }
}

pub struct Model {
    regions: Vec<Region>,
    region_sectors: u64,
}

impl Model {
    pub fn new(connections: usize, region_sectors: u64) -> Model {
        assert_eq!(region_sectors % SECTORS_PER_PAGE, 0, "a region is whole pages");
        let sector = Sector { settled: Version::EMPTY, promised: 0, later: Vec::new() };
        let sectors = vec![sector; usize::try_from(region_sectors).expect("fits memory")];
        let region = || Region { sectors: sectors.clone(), flushed: 0, durable: BTreeSet::new() };
        Model { regions: (0..connections).map(|_| region()).collect(), region_sectors }
    }

    pub fn connections(&self) -> usize {
        self.regions.len()
    }

    pub fn region(&self, connection: usize) -> std::ops::Range<u64> {
        let first = connection as u64 * self.region_sectors;
        first..first + self.region_sectors
    }

    pub fn apply(&mut self, history: &History) {
        for (connection, event) in &history.events {
            let first = self.region(*connection).start;
            let region = &mut self.regions[*connection];
            match event {
                Event::Write { stamp, zero } => {
                    for sector in stamp.sectors() {
                        let version = Version { sequence: stamp.sequence, zero: *zero };
                        region.sectors[index(sector - first)].later.push(version);
                    }
                }
                Event::Durable { sequence } => drop(region.durable.insert(*sequence)),
                Event::Flushed { upto } => region.flushed = region.flushed.max(*upto),
            }
        }
    }

    fn sector(&self, sector: u64) -> (&Region, &Sector) {
        let region = &self.regions[index(sector / self.region_sectors)];
        (region, &region.sectors[index(sector % self.region_sectors)])
    }

    /// The version that a sector has for a client that waits for its answers.
    pub fn settled(&self, sector: u64) -> Version {
        self.sector(sector).1.settled
    }

    /// The newest version that a sector may hold.
    pub fn newest(&self, sector: u64) -> Version {
        let (region, sector) = self.sector(sector);
        region.allowed(sector).next().expect("there is a floor")
    }

    /// Was there a flushed write to this sector since the last crash?
    pub fn is_flushed(&self, sector: u64) -> bool {
        let (region, sector) = self.sector(sector);
        region.floor(sector).is_some()
    }

    /// Is one of the writes since the last crash still open: may it be there or not?
    pub fn is_open(&self, sector: u64) -> bool {
        let (region, sector) = self.sector(sector);
        region.allowed(sector).count() > 1
    }

    /// Checks the sectors of one page, beginning with sector `first`. Returns what each sector
    /// holds, or what is wrong with it.
    pub fn check(&self, first: u64, page: &[Found]) -> Result<Vec<Version>, Wrong> {
        let mut versions = Vec::with_capacity(page.len());
        for (sector, found) in (first..).zip(page) {
            versions.push(self.check_sector(sector, *found)?);
        }
        check_atomic(first, page, &versions)?;
        Ok(versions)
    }

    /// The version that a sector holds, or what is wrong with it.
    pub fn check_sector(&self, sector: u64, found: Found) -> Result<Version, Wrong> {
        let (region, state) = self.sector(sector);
        if let Some(version) = region.allowed(state).find(|version| version.shows_as(found)) {
            return Ok(version);
        }
        let allowed: Vec<String> = region.allowed(state).map(|v| v.to_string()).collect();
        let floor = region.floor(state);
        let why = match floor {
            Some(version) => format!("{version} was flushed"),
            None => "nothing was flushed".to_owned(),
        };
        let promised = floor.map_or(state.promised, |version| version.sequence);
        let kind = match found {
            Found::Elsewhere(..) | Found::Garbage => Kind::Garbage,
            Found::Zero if promised > 0 => Kind::Lost,
            Found::Zero => Kind::WentBack,
            Found::Written(stamp) if stamp.sequence < promised => Kind::Lost,
            Found::Written(stamp) if stamp.sequence < state.settled.sequence => Kind::WentBack,
            Found::Written(_) => Kind::CameBack,
        };
        let text = format!("{found}, but {why}; allowed: {}", allowed.join(", "));
        Err(Wrong { sector, kind, text })
    }

    /// The crash is over: what was found is what is there.
    pub fn settle(&mut self, connection: usize, versions: &[Version]) {
        let found: Vec<_> = versions.iter().copied().map(Some).collect();
        self.settle_found(connection, &found);
    }

    /// The same where not every sector could be read: the others may hold what they might before.
    pub fn settle_found(&mut self, connection: usize, versions: &[Option<Version>]) {
        let region = &mut self.regions[connection];
        assert_eq!(versions.len(), region.sectors.len());
        for (at, found) in versions.iter().enumerate() {
            region.settle(at, *found);
        }
        region.durable.clear();
    }
}

fn index(sector: u64) -> usize {
    usize::try_from(sector).expect("regions fit memory")
}

/// A page is old or new, never a mixture: where one sector of a write shows, the write's other
/// sectors in that page are as new.
fn check_atomic(first: u64, page: &[Found], versions: &[Version]) -> Result<(), Wrong> {
    for found in page {
        let Found::Written(stamp) = found else { continue };
        for (sector, version) in (first..).zip(versions) {
            if stamp.sectors().contains(&sector) && version.sequence < stamp.sequence {
                let text = format!("torn page: {version} beside write {}", stamp.sequence);
                return Err(Wrong { sector, kind: Kind::Torn, text });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::pattern::Stamp;
    use super::*;

    fn stamp(sequence: u64) -> Stamp {
        Stamp { sequence, first: 0, count: 8 }
    }

    fn write(sequence: u64) -> Event {
        Event::Write { stamp: stamp(sequence), zero: false }
    }

    /// One region of one page, after these events.
    fn model(events: &[Event]) -> Model {
        let events = events.iter().map(|event| (0, *event)).collect();
        History { connections: 1, region_sectors: 8, events }.model()
    }

    fn holds(model: &Model, sequence: u64) -> bool {
        let found = match sequence {
            0 => Found::Zero,
            sequence => Found::Written(stamp(sequence)),
        };
        model.check(0, &[found; 8]).is_ok()
    }

    #[test]
    fn unflushed_writes_are_there_or_not() {
        let model = model(&[write(1), write(2)]);
        assert!(holds(&model, 0) && holds(&model, 1) && holds(&model, 2));
        assert!(!holds(&model, 3), "nobody wrote 3");
        assert!(model.is_open(0) && !model.is_flushed(0));
    }

    #[test]
    fn a_flushed_write_or_a_later_one_is_there() {
        let model = model(&[write(1), write(2), Event::Flushed { upto: 2 }, write(3)]);
        assert!(!holds(&model, 0), "lost a flushed write");
        assert!(!holds(&model, 1), "older than the flushed one");
        assert!(holds(&model, 2) && holds(&model, 3));
    }

    #[test]
    fn fua_makes_its_own_write_durable_only() {
        let other = Event::Write { stamp: Stamp { sequence: 1, first: 0, count: 1 }, zero: false };
        let second = Event::Write { stamp: Stamp { sequence: 2, first: 1, count: 7 }, zero: false };
        let model = model(&[other, second, Event::Durable { sequence: 2 }]);
        let mut page = [Found::Written(Stamp { sequence: 2, first: 1, count: 7 }); 8];
        page[0] = Found::Zero;
        assert!(model.check(0, &page).is_ok());
        page[1] = Found::Zero;
        assert!(model.check(0, &page).is_err());
    }

    #[test]
    fn zeroes_count_as_a_write() {
        let zero = Event::Write { stamp: stamp(2), zero: true };
        let model = model(&[write(1), zero, Event::Flushed { upto: 2 }]);
        assert!(holds(&model, 0) && !holds(&model, 1));
    }

    #[test]
    fn garbage_is_never_right() {
        assert!(model(&[write(1)]).check(0, &[Found::Garbage; 8]).is_err());
    }

    #[test]
    fn a_torn_page_is_found() {
        let model = model(&[write(1), Event::Flushed { upto: 1 }, write(2)]);
        let mut page = [Found::Written(stamp(2)); 8];
        page[5] = Found::Written(stamp(1));
        let torn = model.check(0, &page).expect_err("half of write 2");
        assert_eq!(torn.kind, Kind::Torn);
        // Each sector for itself is right: the storm asks for no more.
        assert!(model.check_sector(5, page[5]).is_ok());
    }

    #[test]
    fn what_was_found_after_a_crash_stays() {
        let mut model = model(&[write(1), Event::Flushed { upto: 1 }, write(2)]);
        let versions = model.check(0, &[Found::Written(stamp(2)); 8]).expect("may be there");
        model.settle(0, &versions);
        assert!(!holds(&model, 1), "the second crash undoes what the first one kept");
        assert!(holds(&model, 2));
    }

    fn kind(model: &Model, found: Found) -> Kind {
        model.check_sector(0, found).expect_err("not allowed").kind
    }

    /// Flushed 2, then 3 and 4, of which the crash kept 3.
    #[test]
    fn each_kind_of_wrong_is_told_apart() {
        let flushed = Event::Flushed { upto: 2 };
        let mut model = model(&[write(1), write(2), flushed, write(3), write(4)]);
        let found = |sequence| Found::Written(stamp(sequence));
        assert_eq!(kind(&model, found(1)), Kind::Lost);
        let versions = model.check(0, &[found(3); 8]).expect("may be there");
        model.settle(0, &versions);
        assert_eq!(kind(&model, found(1)), Kind::Lost);
        assert_eq!(kind(&model, Found::Zero), Kind::Lost);
        assert_eq!(kind(&model, found(2)), Kind::WentBack);
        assert_eq!(kind(&model, found(4)), Kind::CameBack);
        assert_eq!(kind(&model, Found::Garbage), Kind::Garbage);
    }

    #[test]
    fn what_could_not_be_read_may_be_what_it_might_before() {
        let mut model = model(&[write(1), write(2), Event::Durable { sequence: 2 }, write(3)]);
        let read = [Some(Version { sequence: 3, zero: false }), None];
        model.settle_found(0, &[read[0], read[1], None, None, None, None, None, None]);
        let holds =
            |sector, sequence| model.check_sector(sector, Found::Written(stamp(sequence))).is_ok();
        assert!(holds(0, 3) && !holds(0, 2));
        assert!(holds(1, 3) && holds(1, 2) && !holds(1, 1));
    }
}

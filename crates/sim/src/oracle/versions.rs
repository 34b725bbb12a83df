//! One volume of the model: which write may be seen in which sector.

use std::collections::{BTreeMap, BTreeSet};

use smallvec::{SmallVec, smallvec};

use crate::content::{Found, SECTOR, Stamp};
use crate::failure::{Check, Failure};

/// Names a write of one volume; 0 is the zeroes that were there before all of them.
pub type WriteId = u32;
/// Writes that may be seen in a sector.
pub type Versions = SmallVec<[WriteId; 2]>;

const PAGE_SECTORS: usize = 8;
const RUNNING: u64 = u64::MAX;

#[derive(Clone, Debug)]
struct Write {
    issued: u64,
    /// `RUNNING` until it was answered, or the machine died.
    ended: u64,
    /// Answered without error.
    ok: bool,
    durable: bool,
    zeroes: bool,
    first: u64,
    count: u64,
}

impl Write {
    /// True if `self` is certainly older than `other`.
    fn is_before(&self, other: &Write) -> bool {
        self.ended < other.issued
    }

    fn describe(&self, id: WriteId) -> String {
        let kind = if self.zeroes { "zeroes" } else { "data" };
        let state = match (self.ended == RUNNING, self.ok, self.durable) {
            (true, ..) => "running",
            (_, false, _) => "failed or cut short",
            (_, true, false) => "answered, not flushed",
            (_, true, true) => "durable",
        };
        let Write { issued, ended, first, count, .. } = self;
        let ended = if *ended == RUNNING { "..".to_owned() } else { ended.to_string() };
        format!("w{id} ({kind} in {first}+{count}, t{issued}..{ended}, {state})")
    }
}

/// All writes of a volume, by id. Of those before `first` only some are left.
#[derive(Clone)]
struct Writes {
    first: WriteId,
    old: BTreeMap<WriteId, Write>,
    recent: Vec<Write>,
}

impl Writes {
    fn next(&self) -> WriteId {
        self.first + self.recent.len() as WriteId
    }

    fn get(&self, id: WriteId) -> Option<&Write> {
        match id.checked_sub(self.first) {
            Some(at) => self.recent.get(at as usize),
            None => self.old.get(&id),
        }
    }

    fn get_mut(&mut self, id: WriteId) -> Option<&mut Write> {
        match id.checked_sub(self.first) {
            Some(at) => self.recent.get_mut(at as usize),
            None => self.old.get_mut(&id),
        }
    }

    /// Keeps those that are in `seen`, and forgets all others.
    fn retain(&mut self, seen: &BTreeSet<WriteId>) {
        self.old.retain(|id, _| seen.contains(id));
        let recent = (self.first..).zip(self.recent.drain(..));
        self.old.extend(recent.filter(|(id, _)| seen.contains(id)));
        self.recent.shrink_to_fit();
    }

    fn is_before(&self, one: WriteId, other: &Write) -> bool {
        self.get(one).is_some_and(|one| one.is_before(other))
    }
}

/// The model of one volume.
#[derive(Clone)]
pub struct VolumeModel {
    name: String,
    number: u32,
    sectors: Vec<Versions>,
    /// Those it surely has; more if it is growing.
    sure: u64,
    writes: Writes,
    /// Answered and not durable.
    unflushed: BTreeSet<WriteId>,
    running: BTreeSet<WriteId>,
}

impl VolumeModel {
    pub fn new(name: &str, number: u32, sectors: u64) -> VolumeModel {
        let born = Write {
            issued: 0,
            ended: 0,
            ok: true,
            durable: true,
            zeroes: true,
            first: 0,
            count: sectors,
        };
        VolumeModel {
            name: name.to_owned(),
            number,
            sectors: vec![smallvec![0]; sectors as usize],
            sure: sectors,
            writes: Writes { first: 0, old: BTreeMap::new(), recent: vec![born] },
            unflushed: BTreeSet::new(),
            running: BTreeSet::new(),
        }
    }

    pub fn bytes(&self) -> u64 {
        (self.sectors.len() * SECTOR) as u64
    }

    pub(super) fn grow(&mut self, sectors: u64) {
        assert!(sectors as usize >= self.sectors.len(), "it grows");
        self.sectors.resize(sectors as usize, smallvec![0]);
    }

    pub(super) fn has_grown(&mut self) {
        self.sure = self.sectors.len() as u64;
    }

    /// Whether it may have so many sectors after a crash; it has them from now on.
    pub(super) fn found_size(&mut self, sectors: u64) -> bool {
        let good = sectors == self.sure || sectors == self.sectors.len() as u64;
        if good {
            self.sectors.truncate(sectors as usize);
            self.sure = sectors;
        }
        good
    }

    fn write(&self, id: WriteId) -> &Write {
        self.writes.get(id).expect("what may be seen is not forgotten")
    }

    fn write_mut(&mut self, id: WriteId) -> &mut Write {
        self.writes.get_mut(id).expect("what may be seen is not forgotten")
    }

    pub(super) fn shrunk(&mut self, sectors: u64) {
        assert!(sectors <= self.sure, "it shrinks");
        // These could be told to be durable in sectors that are gone, or new ones by then.
        assert!(self.running.is_empty() && self.unflushed.is_empty(), "all is durable");
        self.sectors.truncate(sectors as usize);
        self.sectors.shrink_to_fit();
        self.sure = sectors;
    }

    pub(super) fn forget_hidden(&mut self) {
        assert!(self.running.is_empty(), "what is on its way may be seen yet");
        let mut seen: BTreeSet<WriteId> = self.sectors.iter().flatten().copied().collect();
        seen.extend(&self.unflushed);
        // What a volume that grows holds at first.
        seen.insert(0);
        let next = self.writes.next();
        self.writes.retain(&seen);
        self.writes.first = next;
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        let writes = self.writes.recent.capacity() * size_of::<Write>();
        // A tree's nodes are two thirds full.
        let old = self.writes.old.len() * (size_of::<Write>() + size_of::<WriteId>()) * 3 / 2;
        (self.sectors.capacity() * size_of::<Versions>() + writes + old) as u64
    }

    pub(super) fn begin(&mut self, now: u64, first: u64, count: u64, zeroes: bool) -> WriteId {
        let id = self.writes.next();
        let (issued, ended) = (now, RUNNING);
        self.writes.recent.push(Write {
            issued,
            ended,
            ok: false,
            durable: false,
            zeroes,
            first,
            count,
        });
        for sector in &mut self.sectors[first as usize..(first + count) as usize] {
            sector.push(id);
        }
        self.running.insert(id);
        id
    }

    pub(super) fn bytes_of(&self, id: WriteId) -> Vec<u8> {
        let write = self.write(id);
        let mut bytes = vec![0; write.count as usize * SECTOR];
        if !write.zeroes {
            for (at, out) in bytes.chunks_exact_mut(SECTOR).enumerate() {
                let sector = write.first + at as u64;
                Stamp { volume: self.number, version: id, sector }.store(out);
            }
        }
        bytes
    }

    pub(super) fn end(&mut self, now: u64, id: WriteId, ok: bool, durable: bool) {
        self.running.remove(&id);
        let write = self.write_mut(id);
        (write.ended, write.ok) = (now, ok);
        if durable {
            self.harden(id);
        } else if ok {
            self.unflushed.insert(id);
        }
    }

    pub(super) fn flushed(&mut self, issued: u64) {
        let covered = |id: &&WriteId| self.write(**id).ended < issued;
        let covered: Vec<WriteId> = self.unflushed.iter().filter(covered).copied().collect();
        for id in covered {
            self.unflushed.remove(&id);
            self.harden(id);
        }
    }

    /// The write can't be lost any more, so what it superseded can't come back.
    fn harden(&mut self, id: WriteId) {
        self.write_mut(id).durable = true;
        let writes = &self.writes;
        let durable = writes.get(id).expect("just marked");
        let range = durable.first as usize..(durable.first + durable.count) as usize;
        for sector in &mut self.sectors[range] {
            sector.retain(|other| !writes.is_before(*other, durable));
        }
    }

    pub(super) fn crashed(&mut self, now: u64) {
        for id in std::mem::take(&mut self.running) {
            self.write_mut(id).ended = now;
        }
        self.unflushed.clear();
    }

    pub(super) fn allowed(&self, first: u64, count: u64) -> Vec<Versions> {
        self.sectors[first as usize..(first + count) as usize].to_vec()
    }

    fn matches(&self, sector: u64, id: WriteId, found: Found) -> bool {
        match found {
            Found::Zeroes => self.write(id).zeroes,
            Found::Data(Stamp { volume, version, sector: own }) => {
                volume == self.number && version == id && own == sector
            }
            Found::Damaged(_) | Found::Garbage(_) => false,
        }
    }

    fn complaint(&self, sector: u64, found: Found, allowed: &[WriteId], what: &str) -> Failure {
        let found_write = match found {
            Found::Data(stamp) if stamp.volume == self.number && stamp.version > 0 => {
                let write = self.writes.get(stamp.version);
                write.map_or(String::new(), |write| format!(" = {}", write.describe(stamp.version)))
            }
            _ => String::new(),
        };
        let list: Vec<String> = allowed.iter().map(|&id| self.write(id).describe(id)).collect();
        let what = format!(
            "{what}: volume {} (#{}), sector {sector} (byte {}): found {found}{found_write}; \
             allowed: {}",
            self.name,
            self.number,
            sector * SECTOR as u64,
            list.join(", ")
        );
        let live = what.starts_with("read");
        let check = if live { Check::Read } else { Check::Recovery };
        Failure::new(check, what).at(&self.name, sector)
    }

    /// Checks one sector of a read that was issued at `issued`.
    pub(super) fn check_live(
        &self,
        sector: u64,
        found: Found,
        allowed: &[WriteId],
        issued: u64,
    ) -> Result<(), Failure> {
        let hidden = |id: WriteId| {
            let write = self.write(id);
            allowed.iter().any(|&other| {
                let other = self.write(other);
                other.ok && other.ended < issued && write.is_before(other)
            })
        };
        let mut fitting = allowed.iter().filter(|&&id| self.matches(sector, id, found));
        let good = fitting.any(|&id| !hidden(id));
        if good {
            return Ok(());
        }
        let visible: Versions = allowed.iter().copied().filter(|&id| !hidden(id)).collect();
        Err(self.complaint(sector, found, &visible, "read"))
    }

    /// Checks and adopts what recovery left in the sectors from `first` on.
    pub(super) fn recovered(&mut self, first: u64, found: &[Found]) -> Result<(), Failure> {
        assert!((first as usize).is_multiple_of(PAGE_SECTORS), "pages are checked whole");
        for (page, found) in found.chunks(PAGE_SECTORS).enumerate() {
            let first = first + (page * PAGE_SECTORS) as u64;
            let mut seen: SmallVec<[Versions; PAGE_SECTORS]> = SmallVec::new();
            for (at, &found) in found.iter().enumerate() {
                let sector = first + at as u64;
                let allowed = &self.sectors[sector as usize];
                let fits = |id: &WriteId| self.matches(sector, *id, found);
                let fitting: Versions = allowed.iter().copied().filter(fits).collect();
                if fitting.is_empty() {
                    return Err(self.complaint(sector, found, allowed, "after recovery"));
                }
                seen.push(fitting);
            }
            self.check_whole(first, found, &seen)?;
            self.adopt(first, &seen);
        }
        Ok(())
    }

    /// Of each write a page shows all or nothing: where one of its sectors is seen, the others
    /// hold nothing older.
    fn check_whole(&self, first: u64, found: &[Found], seen: &[Versions]) -> Result<(), Failure> {
        for (at, versions) in seen.iter().enumerate() {
            let [id] = versions[..] else { continue };
            let write = self.write(id);
            if write.zeroes {
                continue;
            }
            for (other, versions) in seen.iter().enumerate() {
                let sector = first + other as u64;
                let covered = (write.first..write.first + write.count).contains(&sector);
                let older = |&version: &WriteId| self.write(version).is_before(write);
                if covered && versions.iter().all(older) {
                    let what = format!(
                        "after recovery: torn page, sector {} shows {} but",
                        first + at as u64,
                        write.describe(id)
                    );
                    return Err(self.complaint(
                        sector,
                        found[other],
                        &self.sectors[sector as usize],
                        &what,
                    ));
                }
            }
        }
        Ok(())
    }

    fn adopt(&mut self, first: u64, seen: &[Versions]) {
        for (at, versions) in seen.iter().enumerate() {
            // Zeroes are zeroes, whoever wrote them. The one that ended last is
            // older than the least of what is around it, so it explains the most.
            let last = versions.iter().copied().max_by_key(|&id| self.write(id).ended);
            let id = last.expect("something fitted");
            let write = self.write_mut(id);
            (write.ok, write.durable) = (true, true);
            self.sectors[first as usize + at] = smallvec![id];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A long trim outlived a short one and the write after that, and won. Taking the zeroes
    /// for those of the short one made the page look torn at the next opening (seed 10047).
    #[test]
    fn zeroes_are_those_of_the_trim_that_ended_last() {
        let mut volume = VolumeModel::new("v", 1, 8);
        let long = volume.begin(1, 4, 4, true);
        let short = volume.begin(2, 0, 8, true);
        volume.end(3, short, true, true);
        let write = volume.begin(4, 0, 8, false);
        volume.end(5, write, true, true);
        volume.end(6, long, true, true);
        volume.crashed(7);
        let data = |sector| Found::Data(Stamp { volume: 1, version: write, sector });
        let found: Vec<Found> =
            (0..8).map(|at| if at < 4 { data(at) } else { Found::Zeroes }).collect();
        assert_eq!(volume.recovered(0, &found), Ok(()));
        assert_eq!(volume.recovered(0, &found), Ok(()), "as it was");
    }

    #[test]
    fn what_nobody_can_see_is_forgotten_and_the_rest_is_checked_as_before() {
        let mut volume = VolumeModel::new("v", 1, 16);
        let mut now = 0;
        let mut write = |volume: &mut VolumeModel, first, durable| {
            let id = volume.begin(now + 1, first, 8, false);
            now += 2;
            volume.end(now, id, true, durable);
            id
        };
        let hidden = write(&mut volume, 0, true);
        let (below, above) = (write(&mut volume, 0, true), write(&mut volume, 8, false));
        volume.forget_hidden();
        assert!(volume.writes.get(hidden).is_none());
        assert!([0, below, above].iter().all(|&id| volume.writes.get(id).is_some()));
        let newest = write(&mut volume, 8, true);
        assert_eq!(volume.allowed(8, 1)[0][..], [newest]);
        let data = |version| move |sector| Found::Data(Stamp { volume: 1, version, sector });
        let old: Vec<Found> = (0..8).map(data(hidden)).collect();
        assert!(volume.recovered(0, &old).is_err(), "superseded, though nobody knows by whom");
        let new: Vec<Found> = (0..8).map(data(below)).chain((8..16).map(data(newest))).collect();
        assert_eq!(volume.recovered(0, &new), Ok(()));
        volume.flushed(now + 1);
        volume.shrunk(8);
        volume.grow(16);
        volume.has_grown();
        assert_eq!(volume.recovered(8, &[Found::Zeroes; 8]), Ok(()));
    }

    #[test]
    fn half_of_a_write_is_a_torn_page() {
        let mut volume = VolumeModel::new("v", 1, 8);
        let write = volume.begin(1, 0, 8, false);
        volume.crashed(2);
        let data = |sector| Found::Data(Stamp { volume: 1, version: write, sector });
        let found: Vec<Found> =
            (0..8).map(|at| if at < 4 { data(at) } else { Found::Zeroes }).collect();
        let failure = volume.recovered(0, &found).expect_err("torn");
        assert_eq!(failure.check, Check::Recovery);
        assert!(failure.what.contains("torn page"), "{failure}");
    }
}

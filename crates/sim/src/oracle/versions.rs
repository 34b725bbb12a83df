//! One volume of the model: which write may be seen in which sector.

use std::collections::BTreeSet;

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

/// The model of one volume.
#[derive(Clone)]
pub struct VolumeModel {
    name: String,
    number: u32,
    sectors: Vec<Versions>,
    /// Those it surely has; more if it is growing.
    sure: u64,
    writes: Vec<Write>,
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
            writes: vec![born],
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
        &self.writes[id as usize]
    }

    pub(super) fn begin(&mut self, now: u64, first: u64, count: u64, zeroes: bool) -> WriteId {
        let id = self.writes.len() as WriteId;
        let (issued, ended) = (now, RUNNING);
        self.writes.push(Write { issued, ended, ok: false, durable: false, zeroes, first, count });
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
        let write = &mut self.writes[id as usize];
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
        self.writes[id as usize].durable = true;
        let writes = &self.writes;
        let durable = &writes[id as usize];
        let range = durable.first as usize..(durable.first + durable.count) as usize;
        for sector in &mut self.sectors[range] {
            sector.retain(|other| !writes[*other as usize].is_before(durable));
        }
    }

    pub(super) fn crashed(&mut self, now: u64) {
        for id in std::mem::take(&mut self.running) {
            self.writes[id as usize].ended = now;
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
                let write = self.writes.get(stamp.version as usize);
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
            let write = &mut self.writes[id as usize];
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

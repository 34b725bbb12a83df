//! Drive lists: which drives a zone lies on.
//!
//! ```text
//!            zone  0    1    2    3    4    5
//!   drive 0       [#]  [#]  [#]                  round 0, three zones
//!   drives 1..5   [#]  [#]  [#]  [#]  [#]  [#]   round 0, six zones
//!   drive 6       [#]  [#]  [#]  [#]  [#]  [#]   round 1: joined later
//!
//!   of round 0:    0..5 lie on zones 0 to 2, 1..5 on zones 3 to 5
//!   of round 1:    0..6 on zones 0 to 2, 1..6 on zones 3 to 5
//! ```
//! A zone has the list of the *round* in which it was given to its class, and keeps it until it is
//! given back; one that belongs to nobody has the newest. What lies where follows from members,
//! zone and round alone. Drives that are lost stay in the lists: others take their places.

use std::cell::Cell;
use std::fmt;

use layout::DriveIndex;

/// When a drive joined, and zones that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    pub round: u16,
    pub zones: u32,
}

/// A drive list, by its number in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListId(u16);

impl ListId {
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// Zones below `end`, from the end of the entry before on, have this list.
struct Stretch {
    end: u32,
    list: ListId,
}

pub struct DriveLists {
    members: Vec<Reach>,
    /// Each list once.
    lists: Vec<Box<[DriveIndex]>>,
    /// Of each round, in order of zones.
    rounds: Vec<Vec<Stretch>>,
    /// Of each zone now.
    now: Vec<Cell<ListId>>,
    /// Zones that have each list now.
    zones: Vec<Cell<u32>>,
}

impl DriveLists {
    /// All zones on all drives.
    #[cfg(test)]
    pub fn uniform(drives: usize, zones: u32) -> DriveLists {
        DriveLists::new(vec![Reach { round: 0, zones }; drives], zones)
    }

    pub fn new(members: Vec<Reach>, zone_count: u32) -> DriveLists {
        let newest = members.iter().map(|member| member.round).max().unwrap_or(0);
        let mut lists = DriveLists {
            members,
            lists: Vec::new(),
            rounds: Vec::new(),
            now: Vec::new(),
            zones: Vec::new(),
        };
        lists.rounds = (0..=newest).map(|round| lists.stretches(round, zone_count)).collect();
        lists.zones = lists.lists.iter().map(|_| Cell::new(0)).collect();
        let first = |zone| Cell::new(lists.list_at(newest, zone));
        lists.now = (0..zone_count).map(first).collect();
        lists.now.iter().for_each(|list| lists.count(list.get(), 1));
        lists
    }

    fn stretches(&mut self, round: u16, zone_count: u32) -> Vec<Stretch> {
        let mut ends: Vec<u32> = self.members.iter().map(|member| member.zones).collect();
        ends.push(zone_count);
        ends.retain(|&end| end > 0 && end <= zone_count);
        ends.sort_unstable();
        ends.dedup();
        let stretch = |end| Stretch { end, list: self.number(round, end - 1) };
        ends.into_iter().map(stretch).collect()
    }

    /// The list of a zone, entered in the table if it is new.
    fn number(&mut self, round: u16, zone: u32) -> ListId {
        let here = |member: &Reach| member.round <= round && member.zones > zone;
        let numbered = (0u16..).map(DriveIndex).zip(&self.members);
        let list: Box<[DriveIndex]> =
            numbered.filter(|(_, member)| here(member)).map(|(index, _)| index).collect();
        let known = self.lists.iter().position(|other| *other == list);
        let at = known.unwrap_or_else(|| {
            self.lists.push(list);
            self.lists.len() - 1
        });
        ListId(at as u16)
    }

    fn count(&self, list: ListId, change: i32) {
        let zones = &self.zones[list.index()];
        zones.set(zones.get().checked_add_signed(change).expect("zones are counted"));
    }

    /// Drives that the pool was made of: the metadata lies on these.
    pub fn founders(&self) -> usize {
        self.members.iter().filter(|member| member.round == 0).count()
    }

    pub fn newest_round(&self) -> u16 {
        (self.rounds.len() - 1) as u16
    }

    /// Zones that a drive has.
    pub fn zones_of(&self, drive: DriveIndex) -> u32 {
        self.members[drive.index()].zones
    }

    /// The list that a zone has in a round.
    pub fn list_at(&self, round: u16, zone: u32) -> ListId {
        let stretches = &self.rounds[usize::from(round)];
        stretches[stretches.partition_point(|stretch| stretch.end <= zone)].list
    }

    /// The list that a zone gets when it is given to a class next.
    pub fn newest(&self, zone: u32) -> ListId {
        self.list_at(self.newest_round(), zone)
    }

    /// The list that a zone has.
    #[inline]
    pub fn of(&self, zone: u32) -> ListId {
        self.now[zone as usize].get()
    }

    #[inline]
    pub fn drives(&self, list: ListId) -> &[DriveIndex] {
        &self.lists[list.index()]
    }

    pub fn is_known(&self, round: u16) -> bool {
        round <= self.newest_round()
    }

    /// A zone is a class's from now on, as it was given in a round.
    pub fn set(&self, zone: u32, round: u16) {
        let list = self.list_at(round, zone);
        self.count(self.now[zone as usize].replace(list), -1);
        self.count(list, 1);
    }

    /// A zone belongs to nobody.
    pub fn reset(&self, zone: u32) {
        self.set(zone, self.newest_round());
    }

    /// Every list, and how many zones have it.
    pub fn all(&self) -> impl Iterator<Item = (ListId, &[DriveIndex], u32)> {
        let numbered = (0u16..).map(ListId).zip(&self.lists).zip(&self.zones);
        numbered.map(|((id, drives), zones)| (id, &drives[..], zones.get()))
    }

    /// Drives of the longest list that zones get now.
    pub fn longest(&self) -> usize {
        let stretches = self.rounds.last().expect("there is a round");
        let lengths = stretches.iter().map(|stretch| self.drives(stretch.list).len());
        lengths.max().unwrap_or(0)
    }
}

impl fmt::Debug for DriveLists {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DriveLists({} of {} drives)", self.lists.len(), self.members.len())
    }
}

#[cfg(test)]
mod tests;

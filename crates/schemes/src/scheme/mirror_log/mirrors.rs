//! Places for segments on the drives of a group, two for each on different drives.
//!
//! ```text
//!   drive   [ place 0 | place 1 | ... ]     number of a place: drive × places of a drive + place
//!   segment 0 = d0 place 0 and d1 place 0: both hold the same bytes, and both numbers in the head
//! ```

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use classical::member::Member;
use classical::{ArrayError, Mending, Unread};
use format::{MemberState, Uuid};
use io::sync::Turn;
use io::{Buf, Drive, DriveError, Durability, join_all};

use super::pairs;
use crate::losses::Losses;
use crate::part::Part;
use crate::segments::bytes::{BLOCKS_MAX, Head, NO_MATE, PAGE};
use crate::segments::medium::{Copied, Found, Medium};
use crate::segments::size::{RESERVE, Shape, TARGET};
use crate::store::StoreError;

/// Heads of segments that are read at once when the log is opened. The places of a drive are used
/// the lowest first, and a crash takes fewer heads than this: after as many without one none was
/// ever used.
const HEADS_AT_ONCE: usize = 512;
/// Drives of a group that may be lost.
pub const TOLERANCE: usize = 1;

#[derive(Default)]
struct State {
    /// Of each drive.
    free: Vec<BTreeSet<u32>>,
    /// Of each segment the numbers of its places.
    copies: BTreeMap<u32, Vec<u32>>,
    /// Places that have nothing and are the number of a segment that lies elsewhere only: until
    /// that is given back they are nobody's.
    orphans: BTreeSet<u32>,
    cursor: usize,
}

pub struct Mirrors<D> {
    drives: Vec<Member<Part>>,
    /// Of the group in the set.
    first: usize,
    losses: Rc<Losses<D>>,
    pub(super) shape: Shape,
    /// Places of a drive.
    places: u32,
    state: RefCell<State>,
    /// New drives that do not have all that they should.
    filling: RefCell<BTreeSet<usize>>,
    turn: Cell<usize>,
    mending: Mending,
    /// Who puts pages right.
    pub(super) heal_turn: Turn,
}

/// A copy of a segment that a drive still has which comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    pub number: u32,
    pub place: u32,
}

pub(super) fn places_of(head: &Head) -> impl Iterator<Item = u32> {
    [head.number, head.mate].into_iter().filter(|at| *at != NO_MATE)
}

/// Who claimed each place last.
pub(super) fn owners(heads: &BTreeMap<u32, Head>) -> BTreeMap<u32, Head> {
    let mut owners: BTreeMap<u32, Head> = BTreeMap::new();
    for head in heads.values() {
        for place in places_of(head) {
            let owner = owners.entry(place).or_insert(*head);
            if owner.born < head.born {
                *owner = *head;
            }
        }
    }
    owners
}

impl<D: Drive> Mirrors<D> {
    /// Of these drives, which begin at place `first` of the set.
    pub fn new(
        drives: Vec<Option<Part>>,
        first: usize,
        losses: Rc<Losses<D>>,
        shape: Shape,
        places: u32,
    ) -> Mirrors<D> {
        let state = State { free: vec![(0..places).collect(); drives.len()], ..State::default() };
        let drives: Vec<Member<Part>> = drives.into_iter().map(Member::new).collect();
        let (state, turn, filling) = (RefCell::new(state), Cell::new(0), RefCell::default());
        let (mending, heal_turn) = Default::default();
        Mirrors { drives, first, losses, shape, places, state, filling, turn, mending, heal_turn }
    }

    /// Its place in the set of the first drive.
    pub fn first(&self) -> usize {
        self.first
    }

    pub fn segment_bytes(&self) -> u64 {
        u64::from(self.shape.pages) * PAGE
    }

    /// Also those that are being filled.
    pub fn lost(&self) -> Vec<usize> {
        (0..self.drives.len()).filter(|drive| self.is_lost(*drive)).collect()
    }

    fn is_lost(&self, drive: usize) -> bool {
        self.drives[drive].is_lost() || self.filling.borrow().contains(&drive)
    }

    /// Drives that are lost, and others have not as many copies of everything without them.
    pub fn missed(&self) -> Vec<usize> {
        let missed = |at: &usize| self.losses.state(self.first + at) != MemberState::Missing;
        self.lost().into_iter().filter(missed).collect()
    }

    /// New drives that are being filled.
    pub fn filling(&self) -> Vec<usize> {
        let filling = self.filling.borrow();
        filling.iter().copied().filter(|drive| !self.drives[*drive].is_lost()).collect()
    }

    /// Drives that can be written to.
    pub fn there(&self) -> usize {
        self.drives.iter().filter(|member| !member.is_lost()).count()
    }

    /// A drive is not used any more, whether it works or not.
    pub fn lose(&self, drive: usize) {
        self.drives[drive].lose();
    }

    /// No place of a drive that is to be new here says anything of this pool, but copies that it
    /// still has: what one that comes back has may never have been answered, and be newer than what
    /// is.
    pub async fn blank(&self, pool: &Uuid, part: &Part, kept: &[Kept]) -> Result<(), DriveError> {
        let kept: BTreeSet<u32> = kept.iter().map(|own| own.place % self.places).collect();
        let places: Vec<u32> = (0..self.places).filter(|at| !kept.contains(at)).collect();
        for some in places.chunks(HEADS_AT_ONCE) {
            let blank = some.iter().map(async |place| {
                let at = u64::from(*place) * self.segment_bytes();
                match Head::decode(pool, &part.read(at, PAGE as usize).await?) {
                    Some(_) => {
                        part.write(at, Buf::zeroed(PAGE as usize), Durability::Durable).await
                    }
                    None => Ok(()),
                }
            });
            join_all(blank).await.into_iter().collect::<Result<(), _>>()?;
        }
        Ok(())
    }

    /// A new drive has the place of a lost one: nothing is on it but these copies. `filling`: it
    /// counts as lost until everything has two copies.
    pub fn replace(&self, drive: usize, part: Part, kept: &[Kept], filling: bool) {
        let own = |place: &u32| (*place / self.places) as usize == drive;
        let mut state = self.state.borrow_mut();
        let State { free, copies, orphans, .. } = &mut *state;
        for (number, places) in copies.iter_mut() {
            places.retain(|place| !own(place));
            orphans.extend(Some(*number).filter(own));
        }
        let base = drive as u32 * self.places;
        free[drive] = (0..self.places).filter(|at| !orphans.contains(&(base + at))).collect();
        for Kept { number, place } in kept {
            copies.get_mut(number).expect("it stays meanwhile").push(*place);
            orphans.remove(place);
            free[drive].remove(&(place - base));
        }
        self.drives[drive].lose();
        self.drives[drive].replace(part);
        self.drives[drive].set_whole();
        if filling {
            self.filling.borrow_mut().insert(drive);
        }
    }

    pub fn sit_out(&self, drive: usize, out: bool) {
        self.drives[drive].sit_out(out);
    }

    pub async fn tell_state(&self, drive: usize, state: MemberState) {
        self.losses.tell_state(self.first + drive, state).await;
    }

    /// A new drive has all that it should.
    pub fn set_whole(&self, drive: usize) {
        self.filling.borrow_mut().remove(&drive);
    }

    pub fn width(&self) -> usize {
        self.drives.len()
    }

    /// Nothing that a lost drive missed is answered before the others say that it must not be
    /// trusted any more. With too many lost nothing is answered nor recorded: the drives may come
    /// back.
    pub async fn record_losses(&self) -> Result<(), StoreError> {
        self.check()?;
        self.losses.tell(&self.lost_places()).await;
        self.check()
    }

    fn lost_places(&self) -> Vec<usize> {
        self.lost().into_iter().map(|drive| self.first + drive).collect()
    }

    /// Refuses if something may have no copy.
    pub fn check(&self) -> Result<(), StoreError> {
        let places = self.lost_places();
        match self.missed().len() > TOLERANCE || self.there() == 0 {
            true => Err(ArrayError::TooManyLost {
                lost: places.len(),
                width: self.drives.len(),
                tolerance: TOLERANCE,
                what: format!("numbers {places:?}"),
            }
            .into()),
            false => Ok(()),
        }
    }

    pub(super) fn drive(&self, place: u32) -> usize {
        (place / self.places) as usize
    }

    pub(super) fn address(&self, place: u32, at: u64) -> (&Member<Part>, u64) {
        let begin = u64::from(place % self.places) * self.segment_bytes();
        (&self.drives[self.drive(place)], begin + at)
    }

    fn free(&self) -> Vec<Option<u32>> {
        let state = self.state.borrow();
        let count = |(member, free): (&Member<_>, &BTreeSet<u32>)| {
            (!member.is_lost()).then_some(free.len() as u32)
        };
        self.drives.iter().zip(&state.free).map(count).collect()
    }

    /// Those whose drives have least to do first.
    pub(super) fn by_load(&self, number: u32) -> Vec<u32> {
        let mut copies = self.copies(number);
        let turn = self.turn.replace(self.turn.get() ^ 1);
        if !copies.is_empty() {
            let first = turn % copies.len();
            copies.rotate_left(first);
        }
        copies.sort_by_key(|place| {
            let drive = &self.drives[self.drive(*place)];
            (drive.sits_out(), drive.in_flight())
        });
        copies
    }

    pub(super) fn mending(&self) -> &Mending {
        &self.mending
    }

    /// The places of a segment on drives that are there.
    pub(super) fn copies(&self, number: u32) -> Vec<u32> {
        let state = self.state.borrow();
        let all = state.copies.get(&number).into_iter().flatten().copied();
        all.filter(|place| !self.drives[self.drive(*place)].is_lost()).collect()
    }

    fn claim(&self, place: u32) {
        let (drive, own) = (self.drive(place), place % self.places);
        let claimed = self.state.borrow_mut().free[drive].remove(&own);
        assert!(claimed, "a place is one segment's");
    }

    fn release(&self, place: u32) {
        let (drive, own) = (self.drive(place), place % self.places);
        let mut state = self.state.borrow_mut();
        if state.copies.contains_key(&place) {
            state.orphans.insert(place);
            return;
        }
        let is_new = state.free[drive].insert(own);
        assert!(is_new, "a place is given back once");
    }

    /// What each place of the drives that are there begins with.
    async fn heads(&self, pool: &Uuid) -> BTreeMap<u32, Head> {
        let mut heads = BTreeMap::new();
        let total = self.drives.len() as u32 * self.places;
        for first in (0..total).step_by(self.places as usize) {
            let numbers: Vec<u32> = (first..first + self.places).collect();
            for some in numbers.chunks(HEADS_AT_ONCE) {
                let reads = some.iter().map(|&place| {
                    let (member, at) = self.address(place, 0);
                    member.read(at, PAGE)
                });
                let read = join_all(reads).await;
                let unread = read.iter().any(Result::is_err);
                let own = some
                    .iter()
                    .zip(read)
                    .filter_map(|(place, read)| Some((*place, Head::decode(pool, &read.ok()?)?)));
                let before = heads.len();
                heads.extend(own.filter(|(place, head)| self.is_sound(*place, head)));
                if heads.len() == before && !unread {
                    break;
                }
            }
        }
        heads
    }

    /// Whether a head can be at this place.
    fn is_sound(&self, place: u32, head: &Head) -> bool {
        let total = self.drives.len() as u32 * self.places;
        let Head { number, mate, .. } = *head;
        let two = mate == NO_MATE || (mate < total && self.drive(number) != self.drive(mate));
        number < total && two && (place == number || place == mate)
    }

    /// The segments that heads tell of. Who claimed a place last has it: the place was free then,
    /// so what was there before is newer elsewhere. A place without the head is no copy: before the
    /// first record both have it, and a drive that was replaced may have records of the segment
    /// that opening dropped while it was not there.
    fn found(&self, heads: &BTreeMap<u32, Head>) -> Vec<Found> {
        let owners = owners(heads);
        let mut newest: BTreeMap<u32, Head> = BTreeMap::new();
        for (place, head) in heads {
            let rival = newest.get(&head.number).is_some_and(|other| other.born > head.born);
            if owners.get(place) == Some(head) && !rival {
                newest.insert(head.number, *head);
            }
        }
        for (number, head) in &newest {
            let owned = |place: &u32| {
                owners.get(place) == Some(head) && !self.drives[self.drive(*place)].is_lost()
            };
            let sure = places_of(head).filter(owned).filter(|place| heads.get(place) == Some(head));
            let sure: Vec<u32> = sure.collect();
            sure.iter().for_each(|place| self.claim(*place));
            if owned(number) && !sure.contains(number) {
                self.claim(*number);
                self.state.borrow_mut().orphans.insert(*number);
            }
            self.state.borrow_mut().copies.insert(*number, sure);
        }
        newest.into_values().map(|head| Found { head }).collect()
    }
}

impl<D: Drive> Medium for Mirrors<D> {
    fn numbers(&self) -> u32 {
        self.drives.len() as u32 * self.places
    }

    fn heads(&self) -> usize {
        self.drives.len()
    }

    fn record_blocks(&self) -> usize {
        BLOCKS_MAX
    }

    async fn scan(&self, pool: &Uuid) -> Result<Vec<Found>, StoreError> {
        let mut heads = self.heads(pool).await;
        self.restore_heads(pool, &mut heads).await;
        Ok(self.found(&heads))
    }

    fn take(&self, cleaner: bool) -> Option<(u32, u32)> {
        let keep = if cleaner { 0 } else { RESERVE };
        let cursor = self.state.borrow().cursor;
        let drives = pairs::choose(&self.free(), keep, cursor)?;
        let mut state = self.state.borrow_mut();
        let last = *drives.last()?;
        state.cursor = (last + 1) % self.drives.len();
        let mut place = |drive: usize| {
            let own = state.free[drive].pop_first().expect("it has some");
            drive as u32 * self.places + own
        };
        let own: Vec<u32> = drives.iter().map(|drive| place(*drive)).collect();
        let (number, mate) = (own[0], own.get(1).copied().unwrap_or(NO_MATE));
        let before = state.copies.insert(number, own);
        assert!(before.is_none(), "its place was free");
        Some((number, mate))
    }

    fn give_back(&self, number: u32) {
        let (copies, orphan) = {
            let mut state = self.state.borrow_mut();
            (state.copies.remove(&number), state.orphans.take(&number))
        };
        let copies = copies.expect("it was taken").into_iter().chain(orphan);
        copies.for_each(|place| self.release(place));
    }

    fn room(&self) -> u32 {
        pairs::room(&self.free(), RESERVE)
    }

    fn gain(&self, number: u32) -> u32 {
        let drives = self.copies(number).into_iter().map(|place| self.drive(place));
        pairs::gain(&self.free(), TARGET, drives)
    }

    fn cost(&self) -> u32 {
        pairs::cost(&self.free(), TARGET)
    }

    fn is_whole(&self, number: u32) -> bool {
        self.copies(number).len() >= pairs::copies(&self.free())
    }

    async fn write(
        &self,
        number: u32,
        at: u64,
        data: Buf,
        through: bool,
    ) -> Result<(), StoreError> {
        let how = if through { Durability::Durable } else { Durability::Cached };
        let copies = self.copies(number);
        let writes = copies.iter().map(|&place| {
            let (member, at) = self.address(place, at);
            member.write(at, data.clone(), how)
        });
        let written = join_all(writes).await;
        if written.iter().any(Result::is_err) || copies.is_empty() {
            self.record_losses().await?;
        }
        match written.iter().any(Result::is_ok) {
            true => Ok(()),
            false => Err(StoreError::Damaged(format!("both copies of segment {number}"))),
        }
    }

    async fn read(
        &self,
        number: u32,
        at: u64,
        len: u64,
        wanted: &[u32],
    ) -> Result<Buf, StoreError> {
        self.read_right(number, at, len, wanted).await
    }

    async fn read_copies(&self, number: u32, at: u64, len: u64) -> Result<Vec<Buf>, StoreError> {
        let copies = self.copies(number);
        let reads = copies.iter().map(|&place| {
            let (member, at) = self.address(place, at);
            member.read(at, len)
        });
        let read: Vec<Buf> = join_all(reads).await.into_iter().flatten().collect();
        match read.is_empty() {
            false => Ok(read),
            true => Err(StoreError::Damaged(format!("all copies of segment {number}"))),
        }
    }

    async fn flush(&self) -> Result<(), StoreError> {
        let there = self.drives.iter().filter(|member| !member.is_lost());
        join_all(there.map(Member::flush)).await;
        self.record_losses().await
    }
}

impl<D: Drive> Copied for Mirrors<D> {
    fn copies(&self, number: u32) -> Vec<u32> {
        Mirrors::copies(self, number)
    }

    async fn read_copy(
        &self,
        place: u32,
        at: u64,
        len: u64,
        wanted: &[u32],
    ) -> Result<Buf, Unread> {
        self.see(place, at, len, wanted).await
    }

    async fn rewrite(&self, number: u32, place: u32, at: u64, page: Buf, unread: Unread) {
        Mirrors::rewrite(self, number, place, at, page, unread).await;
    }

    fn tell_lost(&self, place: u32, at: u64, sum: u32, unread: Unread) {
        Mirrors::tell_lost(self, place, at, sum, unread);
    }

    fn mending(&self) -> &Mending {
        &self.mending
    }
}

//! Kept marks: what drives that are lost miss, so that one that comes back is given no more.
//!
//! ```text
//!   a drive is lost ── its last page of intents is noted; what is marked is kept, and whatever is
//!        │             marked from now on
//!        ├── the first record, durable before the labels say that the drive is lost
//!        ├── a mark is taken back ── first a record that keeps it
//!   it comes back ── its newest page of intents is the one noted ── rows of kept regions, only
//!
//!  record, on every drive, at two places in turn in the first label area:
//!    0  magic "STDYKEPT" | crc32c of the rest (4) | 0 (4) | pool uuid (16)
//!   32  sequence (8) | opening (8) | the opening before it (8) | 0 (8)
//!   64  a bit for each region
//! 4096  per drive: opening (8), page of intents, the first (8), the last (8) that it may have
//! ```
//! A page of intents is known by its opening, a number drawn at random, and its sequence: so a copy
//! of a drive, or one that was used without the others, is not taken for the one that was lost.
//! The page says how old a record may be: older ones, and those of software that kept none, count
//! no more. Without a record that counts a drive is filled from its beginning.
//!
//! A lost drive's bytes may be elsewhere, whole again, before it comes back: to the array it is not
//! lost then, but `away`, and marks are kept for it as before.

use std::cell::{Cell, RefCell};
use std::ops::Range;

use format::drive::MAX_MEMBERS;
use format::{MemberState, Uuid};
use io::sync::Turn;
use io::{Buf, Drive, Durability, Env, join_all};

use crate::array::{Array, Inner};
use crate::grid::Grid;
use crate::intents::{self, Intents, Page};
use crate::label;
use crate::limits::PAGE;
use crate::member::Member;

const MAGIC: &[u8; 8] = b"STDYKEPT";
const AT_CRC: usize = 8;
const HEADER: usize = 64;
const GONE: usize = 24;
/// Bytes of a record.
pub const LEN: usize = (3 * PAGE) as usize;
const _: () = assert!(PAGE as usize + MAX_MEMBERS * GONE <= LEN);

/// Where the record of a sequence lies: between the first two labels.
pub fn place(sequence: u64) -> u64 {
    (128 << 10) + sequence % 2 * (64 << 10)
}

/// Which page of intents is the newest on a drive that was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone {
    pub opening: u64,
    pub first: u64,
    pub last: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub sequence: u64,
    /// Who wrote it; 0 is nobody.
    pub opening: u64,
    /// Whose pages of intents were the newest then.
    pub before: u64,
    pub bits: Vec<bool>,
    pub gone: Vec<Option<Gone>>,
}

pub fn encode(pool: &Uuid, record: &Record) -> Vec<u8> {
    let mut bytes = vec![0; LEN];
    bytes[..8].copy_from_slice(MAGIC);
    bytes[16..32].copy_from_slice(&pool.0);
    let mut put = |at: usize, value: u64| bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
    put(32, record.sequence);
    put(40, record.opening);
    put(48, record.before);
    for (at, gone) in record.gone.iter().enumerate() {
        let Some(gone) = gone else { continue };
        let at = PAGE as usize + at * GONE;
        put(at, gone.opening);
        put(at + 8, gone.first);
        put(at + 16, gone.last);
    }
    for (at, _) in record.bits.iter().enumerate().filter(|(_, bit)| **bit) {
        bytes[HEADER + at / 8] |= 1 << (at % 8);
    }
    let crc = crc32c::crc32c(&bytes[AT_CRC + 4..]);
    bytes[AT_CRC..AT_CRC + 4].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// The record, if it is whole and of this pool.
pub fn decode(pool: &Uuid, bytes: &[u8], regions: usize, drives: usize) -> Option<Record> {
    if bytes.len() != LEN || !bytes.starts_with(MAGIC) || bytes[16..32] != pool.0 {
        return None;
    }
    let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
    let crc = u32::from_le_bytes(bytes[AT_CRC..AT_CRC + 4].try_into().expect("4 bytes"));
    // There is always a newer one.
    if crc32c::crc32c(&bytes[AT_CRC + 4..]) != crc || u64_at(32) == u64::MAX {
        return None;
    }
    let bit = |at: usize| bytes[HEADER + at / 8] >> (at % 8) & 1 == 1;
    let gone = |at: usize| {
        let at = PAGE as usize + at * GONE;
        let gone = Gone { opening: u64_at(at), first: u64_at(at + 8), last: u64_at(at + 16) };
        (gone.opening != 0).then_some(gone)
    };
    Some(Record {
        sequence: u64_at(32),
        opening: u64_at(40),
        before: u64_at(48),
        bits: (0..regions).map(bit).collect(),
        gone: (0..drives).map(gone).collect(),
    })
}

/// What a drive lacks that is to have a lost one's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lacks {
    All,
    /// What was written while it was away: it is the one that was lost.
    Kept,
}

#[derive(Clone, Copy, Default)]
struct Place {
    /// Its loss was noticed.
    lost: bool,
    /// What is in this place is not the drive that was lost, nor one that is to be it.
    away: bool,
    /// `None`: nobody can have its place again without being filled from the beginning.
    gone: Option<Gone>,
}

/// A drive that is lost or away when an array is opened.
#[derive(Clone, Copy)]
struct Absent {
    place: usize,
    lost: bool,
    away: bool,
    /// The labels have what is in its place active.
    active: bool,
}

pub struct Kept {
    /// This one's number, and that of the one before it.
    pub opening: Cell<u64>,
    before: Cell<u64>,
    places: RefCell<Vec<Place>>,
    regions: RefCell<Vec<bool>>,
    /// What the newest record keeps.
    stored: RefCell<Vec<bool>>,
    /// Of records; the next one's.
    sequence: Cell<u64>,
    /// Older records count no more.
    pub least: Cell<u64>,
    /// Losses that were noticed, and of these those that a record tells of.
    losses: Cell<u64>,
    told: Cell<u64>,
    turn: Turn,
}

impl Kept {
    pub fn new(regions: usize, drives: usize) -> Kept {
        Kept {
            opening: Cell::new(0),
            before: Cell::new(0),
            places: RefCell::new(vec![Place::default(); drives]),
            regions: RefCell::new(vec![false; regions]),
            stored: RefCell::new(vec![false; regions]),
            sequence: Cell::new(1),
            least: Cell::new(0),
            losses: Cell::new(0),
            told: Cell::new(0),
            turn: Turn::new(),
        }
    }

    /// Some drive is lost or away, or does not have everything yet.
    pub fn is_on(&self) -> bool {
        self.places.borrow().iter().any(|place| place.lost || place.away)
    }

    /// A write of the region begins.
    pub fn touch(&self, region: usize) {
        if self.is_on() {
            self.regions.borrow_mut()[region] = true;
        }
    }

    /// Which drives are lost now. Of those that were not the last page of intents is one of these,
    /// and what they miss is, as yet, within these regions.
    fn note(&self, lost: &[bool], marked: impl FnOnce() -> (Option<Gone>, Vec<bool>)) {
        let was_on = self.is_on();
        let mut places = self.places.borrow_mut();
        let pairs = || places.iter().zip(lost);
        if pairs().all(|(place, lost)| place.lost == *lost) {
            return;
        }
        if pairs().any(|(place, lost)| !place.lost && *lost) {
            let (now, bits) = marked();
            let news = places.iter_mut().zip(lost).filter(|(place, lost)| !place.lost && **lost);
            news.for_each(|(place, _)| {
                // The drive itself went earlier.
                let gone = if place.away { place.gone } else { now };
                *place = Place { lost: true, gone, ..*place };
            });
            self.losses.set(self.losses.get() + 1);
            let mut regions = self.regions.borrow_mut();
            regions.iter_mut().zip(bits).for_each(|(kept, bit)| *kept |= bit);
        }
        let back = places.iter_mut().zip(lost).filter(|(place, lost)| place.lost && !**lost);
        back.for_each(|(place, _)| match place.away {
            true => place.lost = false,
            false => *place = Place::default(),
        });
        drop(places);
        self.end(was_on);
    }

    /// Nothing is kept for nobody.
    fn end(&self, was_on: bool) {
        if was_on && !self.is_on() {
            self.regions.borrow_mut().fill(false);
            self.stored.borrow_mut().fill(false);
            self.least.set(self.sequence.get());
        }
    }

    /// The newest drive in a place has been given it: what was noted of the one before counts no
    /// more. True: something was.
    pub fn take(&self, place: usize) -> bool {
        let place = &mut self.places.borrow_mut()[place];
        place.away = false;
        place.gone.take().is_some()
    }

    /// What has this place from now on is not the drive that was lost.
    pub fn set_away(&self, place: usize) {
        self.places.borrow_mut()[place].away = true;
    }

    /// A drive has the place again that holds all that it should.
    pub fn set_home(&self, place: usize) {
        let was_on = self.is_on();
        {
            let place = &mut self.places.borrow_mut()[place];
            *place = Place { lost: place.lost, ..Place::default() };
        }
        self.end(was_on);
    }

    /// A mark of this region may be taken back: it is kept, or need not be.
    pub fn may_clear(&self, region: u64) -> bool {
        !self.is_on() || self.stored.borrow()[region as usize]
    }

    fn is_told(&self) -> bool {
        !self.is_on() || self.told.get() == self.losses.get()
    }

    /// The first kept region from this one on.
    pub fn next_kept(&self, region: u64) -> Option<u64> {
        let regions = self.regions.borrow();
        let at = regions.iter().skip(region as usize).position(|kept| *kept)?;
        Some(region + at as u64)
    }

    fn next(&self) -> Option<(Record, u64)> {
        let record = Record {
            sequence: self.sequence.get(),
            opening: self.opening.get(),
            before: self.before.get(),
            bits: self.regions.borrow().clone(),
            gone: self.places.borrow().iter().map(|place| place.gone).collect(),
        };
        self.is_on().then(|| {
            self.sequence.set(record.sequence + 1);
            (record, self.losses.get())
        })
    }

    fn written(&self, record: Record, losses: u64) {
        if self.is_on() {
            self.least.set(self.least.get().max(record.sequence));
            *self.stored.borrow_mut() = record.bits;
            self.told.set(losses);
        }
    }

    /// What the drives of an array that is opened tell: the newest page of intents and the newest
    /// record.
    fn found(&self, page: &Page, record: Option<Record>, absent: &[Absent]) {
        self.before.set(page.opening);
        let newest = record.as_ref().map_or(0, |record| record.sequence + 1);
        self.sequence.set(newest.max(page.kept).max(1));
        self.least.set(self.sequence.get());
        let counts = |record: &Record| {
            let its = record.opening == page.opening || record.before == page.opening;
            page.opening != 0 && its && record.sequence >= page.kept
        };
        let record = record.filter(counts);
        let mut places = self.places.borrow_mut();
        for &Absent { place, lost, away, active } in absent {
            let last = Gone { opening: page.opening, first: page.sequence, last: page.sequence };
            let told = record.as_ref().and_then(|record| record.gone[place]);
            let was_last = active && !away;
            let gone = if was_last { Some(last).filter(|_| page.opening != 0) } else { told };
            places[place] = Place { lost, away, gone };
        }
        self.losses.set(absent.len() as u64);
        if absent.is_empty() {
            return;
        }
        let mut regions = self.regions.borrow_mut();
        regions.copy_from_slice(&page.bits);
        let bits = record.iter().flat_map(|record| &record.bits);
        regions.iter_mut().zip(bits).for_each(|(kept, bit)| *kept |= bit);
    }
}

impl<E: Env> Inner<E> {
    /// Notices who is lost by now, or is not any more. Comes before whatever takes marks back or
    /// says on the drives that one is lost.
    pub fn note_losses(&self) {
        let lost: Vec<bool> = self.members.iter().map(Member::is_lost).collect();
        let opening = self.kept.opening.get();
        self.kept.note(&lost, || {
            let (pages, bits) = self.intents.marked();
            let gone = pages.map(|(first, last)| Gone { opening, first, last });
            (gone, bits)
        });
    }

    /// The drives know of all losses that were noticed, and what is kept.
    pub async fn tell_losses(&self) {
        self.note_losses();
        while !self.kept.is_told() {
            self.write_kept().await;
            self.note_losses();
        }
    }

    pub async fn write_kept(&self) {
        let _turn = self.kept.turn.lock().await;
        self.note_losses();
        let Some((record, losses)) = self.kept.next() else { return };
        let pool = self.label.borrow().pool;
        let (at, bytes) = (place(record.sequence), Buf::from_slice(&encode(&pool, &record)));
        let there = self.members.iter().filter(|m| !m.is_lost() || m.rebuilt().is_some());
        join_all(there.map(|m| m.write(at, bytes.clone(), Durability::Durable))).await;
        self.kept.written(record, losses);
    }

    /// When the array is opened, from the newest page of intents.
    pub async fn load_kept(&self, page: &Page) {
        let (pool, epoch) = (self.label.borrow().pool, self.label.borrow().epoch);
        let id = self.env.unique_id();
        let drawn = u64::from_le_bytes(id[..8].try_into().expect("8 bytes"));
        self.kept.opening.set((drawn ^ epoch.rotate_left(40)).max(1));
        let mut newest: Option<Record> = None;
        for member in self.members.iter().filter(|member| !member.is_lost()) {
            for at in [0, 1].map(place) {
                let Ok(bytes) = member.read(at, LEN as u64).await else { continue };
                let found = decode(&pool, &bytes, page.bits.len(), self.members.len());
                let old = newest.as_ref().map_or(0, |newest| newest.sequence);
                newest = found.filter(|found| found.sequence >= old).or(newest);
            }
        }
        let label = self.label.borrow();
        let all = self.members.iter().zip(&label.members).enumerate();
        let absent = all.map(|(place, (member, listed))| {
            let (lost, away) = (member.is_lost(), self.away == Some(place));
            Absent { place, lost, away, active: listed.state == MemberState::Active }
        });
        let absent: Vec<Absent> = absent.filter(|absent| absent.lost || absent.away).collect();
        self.kept.found(page, newest, &absent);
    }
}

impl<E: Env> Array<E> {
    /// What a drive lacks that is to have the place of one that is lost or away. Comes before it is
    /// made [blank](Array::blank).
    pub async fn lacks<D: Drive>(&self, place: usize, new: &D) -> Lacks {
        let inner = &self.inner;
        inner.note_losses();
        let Place { away, gone, .. } = inner.kept.places.borrow()[place];
        let Some(gone) = gone else { return Lacks::All };
        let Some(own) = label::read(new).await else { return Lacks::All };
        let at = {
            let label = inner.label.borrow();
            let listed = label.members[place];
            // What has its place has a name of its own, and its page of intents tells it apart.
            let listed_so =
                away || own.drive == listed.drive && listed.state != MemberState::Restoring;
            let is_it = own.pool == label.pool
                && listed_so
                && usize::from(own.index) == place
                && own.generation <= label.generation
                && new.geometry().size >= listed.size;
            let same =
                (own.journal, own.meta, own.zones) == (label.journal, label.meta, label.zones);
            let was = own.members.get(place).map(|own| own.state);
            let whole = was == Some(MemberState::Active);
            if !is_it || !same || !whole {
                return Lacks::All;
            }
            label.meta.offset
        };
        let stripes = inner.grid.stripes();
        let regions = stripes.div_ceil(intents::region_stripes(stripes)) as usize;
        let mut newest: Option<Page> = None;
        for side in [0, 1].map(Intents::place) {
            let Ok(bytes) = new.read(at + side, PAGE as usize).await else { return Lacks::All };
            let Some(page) = intents::decode(&own.pool, &bytes, regions) else { continue };
            if newest.as_ref().is_none_or(|newest| newest.sequence < page.sequence) {
                newest = Some(page);
            }
        }
        let is_last = |page: &Page| {
            page.opening == gone.opening && (gone.first..=gone.last).contains(&page.sequence)
        };
        if newest.as_ref().is_some_and(is_last) { Lacks::Kept } else { Lacks::All }
    }

    /// A drive that is lost or away misses these of its bytes, too, whatever the array knows:
    /// somebody held them for it. The other drives know that when this returns.
    pub async fn keep(&self, place: usize, bytes: &[Range<u64>]) {
        let inner = &self.inner;
        inner.note_losses();
        let Grid { rows, chunk, .. } = inner.grid;
        let data = inner.label.borrow().zones.offset;
        for Range { start, end } in bytes {
            // What is not of its rows is given to every drive that comes.
            let first = start.saturating_sub(data) / chunk;
            let end = end.saturating_sub(data).div_ceil(chunk).min(rows);
            for row in first..end {
                inner.kept.touch(inner.intents.region(inner.stripe_of(place, row)));
            }
        }
        if !bytes.is_empty() {
            inner.write_kept().await;
        }
    }

    /// A drive that is lost is not to be believed if it comes back: nobody knows what it misses.
    /// The other drives know that when this returns.
    pub async fn disown(&self, place: usize) {
        self.inner.note_losses();
        if self.inner.kept.take(place) {
            self.inner.write_kept().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POOL: Uuid = Uuid([7; 16]);

    fn record(sequence: u64, opening: u64, before: u64) -> Record {
        let gone = Some(Gone { opening: 0x0a, first: 0x0b, last: 0x0c });
        let bits = vec![false, true, false, false];
        Record { sequence, opening, before, bits, gone: vec![None, gone, None] }
    }

    #[test]
    fn a_record_is_these_bytes_and_none_may_change() {
        let told = record(0x0102, 0x03, 0x04);
        let bytes = encode(&POOL, &told);
        assert_eq!(decode(&POOL, &bytes, 4, 3), Some(told));
        assert_eq!(decode(&Uuid([8; 16]), &bytes, 4, 3), None);
        let number = |n: u16| [n.to_le_bytes(), [0; 2], [0; 2], [0; 2]].concat();
        let header = [
            b"STDYKEPT".to_vec(),
            crc32c::crc32c(&bytes[12..]).to_le_bytes().to_vec(),
            vec![0; 4],
            vec![7; 16],
            [number(0x0102), number(3), number(4), number(0)].concat(),
            vec![2, 0],
        ];
        assert_eq!(bytes[..66], header.concat());
        assert_eq!(bytes[4096..4120], [0; 24]);
        assert_eq!(bytes[4120..4144], [number(10), number(11), number(12)].concat());
        assert_eq!(bytes.len(), 12288);
        for at in (0..bytes.len()).filter(|at| at % 61 == 0 || *at < 66 || at / 64 == 64) {
            let mut bad = bytes.clone();
            bad[at] ^= 1 << (at % 8);
            assert_eq!(decode(&POOL, &bad, 4, 3), None, "byte {at}");
        }
        for len in [0, 7, 63, 4096, 12287] {
            assert_eq!(decode(&POOL, &bytes[..len], 4, 3), None);
        }
        let places = [0, 1, 2].map(place);
        assert_eq!(places, [128 << 10, 192 << 10, 128 << 10]);
        let labels = format::label_offsets(8 << 20);
        let ends = labels[0] + format::LABEL_LEN as u64 <= places[0];
        assert!(ends && places[1] + LEN as u64 <= labels[1], "between the labels");
    }

    /// Which records count when an array is opened whose newest page of intents is this one.
    #[test]
    fn a_record_counts_with_the_pages_of_its_opening_only() {
        let page = |opening, kept| Page::new(40, opening, kept, vec![true; 1]);
        let lost = |place, active| Absent { place, lost: true, away: false, active };
        let found = |opening, kept, record: Record| {
            let own = Kept::new(4, 3);
            let bits = vec![true, false, false, false];
            let absent = [lost(1, false), lost(2, true)];
            own.found(&Page { bits, ..page(opening, kept) }, Some(record), &absent);
            let gone: Vec<_> = own.places.borrow().iter().map(|place| place.gone).collect();
            (own.regions.borrow().clone(), gone)
        };
        let last = Gone { opening: 3, first: 40, last: 40 };
        let told = record(9, 3, 2);
        let all = (vec![true, true, false, false], vec![None, told.gone[1], Some(last)]);
        assert_eq!(found(3, 9, told.clone()), all, "of this opening");
        assert_eq!(found(3, 9, record(9, 5, 3)), all, "of one that was cut short");
        let none = (vec![true, false, false, false], vec![None, None, Some(last)]);
        assert_eq!(found(3, 10, told.clone()), none, "a mark was taken back since");
        assert_eq!(found(3, 9, record(9, 2, 1)), none, "of an opening before");
        // Software that keeps no marks had it, whatever it left.
        let old = (none.0.clone(), vec![None, None, None]);
        assert_eq!(found(0, 0, told), old);
        assert_eq!(found(0, 0, record(9, 0, 0)), old);
    }

    #[test]
    fn marks_are_kept_from_the_first_loss_until_none_is_lost() {
        let kept = Kept::new(4, 3);
        kept.found(&Page::new(1, 1, 0, vec![true; 4]), None, &[]);
        assert_eq!(kept.next_kept(0), None);
        kept.opening.set(2);
        kept.touch(3);
        assert!(kept.may_clear(3) && kept.next().is_none(), "nobody is lost");
        let gone = Gone { opening: 2, first: 4, last: 5 };
        let marks = |at: usize| (Some(gone), (0..4).map(|region| region == at).collect());
        kept.note(&[false, true, false], || marks(1));
        assert!(!kept.is_told() && !kept.may_clear(1) && !kept.may_clear(2));
        let (record, losses) = kept.next().expect("one is lost");
        assert_eq!((record.bits[1], record.bits[3], record.gone[1]), (true, false, Some(gone)));
        // Another one while the record is on its way: it tells nothing of that.
        kept.note(&[true, true, false], || marks(2));
        kept.touch(0);
        kept.written(record, losses);
        assert!(!kept.is_told() && kept.may_clear(1) && !kept.may_clear(2) && !kept.may_clear(0));
        let (record, losses) = kept.next().expect("both are lost");
        kept.written(record, losses);
        assert!(kept.is_told() && kept.may_clear(2) && kept.may_clear(0) && !kept.may_clear(3));
        assert!(kept.take(1) && !kept.take(1), "it has been given away");
        kept.note(&[true, false, false], || unreachable!("none is new"));
        assert_eq!(kept.next_kept(1), Some(1), "one is lost still");
        kept.note(&[false; 3], || unreachable!("none is new"));
        assert_eq!((kept.next_kept(0), kept.may_clear(3)), (None, true));
        assert_eq!(kept.least.get(), kept.sequence.get(), "what was written counts no more");
    }

    #[test]
    fn marks_are_kept_for_a_drive_that_is_away_until_one_is_home() {
        let kept = Kept::new(4, 3);
        kept.opening.set(2);
        let gone = |last| Gone { opening: 2, first: last, last };
        let marks = |last, at: usize| (Some(gone(last)), (0..4).map(|own| own == at).collect());
        kept.note(&[false, true, false], || marks(5, 1));
        kept.set_away(1);
        kept.note(&[false; 3], || unreachable!("none is new"));
        kept.touch(3);
        assert_eq!((kept.next_kept(0), kept.next_kept(2)), (Some(1), Some(3)));
        // What has its place is lost: the drive itself went before that.
        kept.note(&[false, true, false], || marks(8, 2));
        assert_eq!(kept.next().expect("one is lost").0.gone[1], Some(gone(5)));
        kept.note(&[false; 3], || unreachable!("none is new"));
        let (record, _) = kept.next().expect("one is away");
        // Opened anew: without a record nobody is believed, but what was lost before it is away.
        for (record, told) in [(Some(record), true), (None, false)] {
            let again = Kept::new(4, 3);
            let page = Page::new(9, 2, 0, vec![false; 4]);
            let absent = [Absent { place: 1, lost: false, away: true, active: true }];
            again.found(&page, record, &absent);
            let (next, _) = again.next().expect("one is away");
            assert_eq!(next.gone[1], Some(gone(5)).filter(|_| told));
            assert_eq!(again.next_kept(0), Some(1).filter(|_| told));
        }
        kept.set_home(1);
        assert_eq!((kept.next_kept(0), kept.may_clear(3), kept.is_on()), (None, true, false));
    }
}

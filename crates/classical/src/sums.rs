//! Sums of pages: what every page of every drive's chunks should read as, kept on other drives.
//!
//! ```text
//!  page of a sum area, at two places in turn, on the drives after its own (p + 1, at least two):
//!    0  magic "STDYSUMP" | crc32c of the rest (4) | drive (4) | pool uuid (16)
//!   32  epoch (8) | sequence (8) | number (8) | 0 (8)
//!   64  1008 sums: CRC32C of a page; 0 not known, 1 lost, 2 lost and zeroes for the parity
//! ```
//! Parity and copies have sums as data has. In memory they are complete, and set before the pages
//! are written. A FLUSH or FUA makes them durable in the checksum log (`checksum_log`); the area
//! follows later, when the log's tail has to move, and before the mark of a region is taken back.
//! That a page is lost, and that it is not any more, is durable at once.
//!
//! The newest whole page counts: of the highest epoch, then sequence. A torn one leaves the one
//! at the other place. An array of one drive writes both, one after the other: no other drive has
//! the newest if it rots.

use std::cell::{Cell, RefCell};
use std::ops::Range;

use format::Uuid;
use io::crc::crc32c;

use crate::checksum_log::ChecksumLog;
use crate::checksum_log::ring::Ring;
use crate::grid::Grid;
use crate::limits::PAGE;

const MAGIC: &[u8; 8] = b"STDYSUMP";
const AT_CRC: usize = 8;
const HEADER: usize = 64;
/// Sums in a page of them.
pub const PER_PAGE: u64 = (PAGE - HEADER as u64) / 4;

/// Nobody has looked yet, or a crash made it doubtful: whatever is there counts.
pub const UNKNOWN: u32 = 0;
/// What the page should hold nobody knows any more: nothing passes for it until it is written.
pub const LOST: u32 = 1;
/// The same, of data whose row was written since: its parity counts on zeroes there, so that others
/// of the row follow.
pub const VOID: u32 = 2;
/// A crash found the page to be neither what it was nor what it should be, and nothing gave it
/// again: whatever is there counts, unless somebody has it elsewhere.
pub const UNVOUCHED: u32 = u32::MAX;

/// What a page's sum is: none of those above.
pub fn sum_of(page: &[u8]) -> u32 {
    sum_of_crc(crc32c(page))
}

/// The same of a page of that CRC32C.
pub fn sum_of_crc(crc: u32) -> u32 {
    match crc {
        crc @ 0..3 => crc + 3,
        UNVOUCHED => UNVOUCHED - 1,
        crc => crc,
    }
}

/// It tells that a page is lost.
pub fn is_lost(sum: u32) -> bool {
    sum == LOST || sum == VOID
}

/// It tells what a page should be.
pub fn is_known(sum: u32) -> bool {
    sum > VOID && sum != UNVOUCHED
}

/// Whatever the page holds counts.
pub fn is_unsure(sum: u32) -> bool {
    sum == UNKNOWN || sum == UNVOUCHED
}

/// Whether a page may be what its sum tells of.
pub fn passes(sum: u32, page: &[u8]) -> bool {
    is_unsure(sum) || sum == sum_of(page)
}

/// Whether a page is what its sum tells of, and that is known.
pub fn vouches(sum: u32, page: &[u8]) -> bool {
    is_known(sum) && passes(sum, page)
}

/// How many sums there are, and where their pages lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Area {
    width: usize,
    pub drives: usize,
    /// On so many drives are the sums of one.
    pub copies: usize,
    /// Pages of a drive's chunks.
    pub pages: u64,
    /// Pages of sums of a drive.
    pub numbers: u64,
}

impl Area {
    pub fn of(grid: &Grid) -> Area {
        let pages = grid.rows * (grid.chunk / PAGE);
        let copies = (grid.tolerance() + 1).max(2).min(grid.width);
        let numbers = pages.div_ceil(PER_PAGE);
        Area { width: grid.width, drives: grid.drives, copies, pages, numbers }
    }

    /// Bytes of each drive.
    pub fn bytes(&self) -> u64 {
        self.copies as u64 * self.numbers * 2 * PAGE
    }

    /// The drive that has the copy of a drive's sums: one after it in its group, at last itself.
    pub fn host(&self, drive: usize, copy: usize) -> usize {
        let first = drive / self.width * self.width;
        first + (drive - first + 1 + copy) % self.width
    }

    /// Whose sums a host has as this copy.
    pub fn hosted(&self, host: usize, copy: usize) -> usize {
        let first = host / self.width * self.width;
        first + (host - first + 2 * self.width - 1 - copy) % self.width
    }

    /// Where in the area a page of sums lies, at one of its two places.
    pub fn place(&self, copy: usize, number: u64, side: usize) -> u64 {
        ((copy as u64 * self.numbers + number) * 2 + side as u64) * PAGE
    }

    /// The pages of sums over a range of a drive's pages.
    pub fn over(&self, pages: Range<u64>) -> Range<u64> {
        pages.start / PER_PAGE..pages.end.div_ceil(PER_PAGE)
    }

    fn sums_of(&self, number: u64) -> Range<usize> {
        let end = self.pages.min((number + 1) * PER_PAGE);
        (number * PER_PAGE) as usize..end as usize
    }
}

/// Which sums that only another array knows count.
#[derive(Clone, Copy, Debug)]
pub struct Missed {
    /// No drive of this array is lost or was found wrong: the page of sums that was found is the
    /// newest there was, and what it knows nothing of was never written here.
    pub sure: bool,
    /// Not those of pages that are blank.
    pub written: bool,
}

/// What a page of sums says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub drive: usize,
    pub number: u64,
    /// The newer is the greater.
    pub age: (u64, u64),
}

pub fn encode(pool: &Uuid, header: &Header, sums: &[u32]) -> Vec<u8> {
    assert!(sums.len() as u64 <= PER_PAGE, "a page holds them");
    let mut page = vec![0; PAGE as usize];
    page[..8].copy_from_slice(MAGIC);
    page[12..16].copy_from_slice(&(header.drive as u32).to_le_bytes());
    page[16..32].copy_from_slice(&pool.0);
    page[32..40].copy_from_slice(&header.age.0.to_le_bytes());
    page[40..48].copy_from_slice(&header.age.1.to_le_bytes());
    page[48..56].copy_from_slice(&header.number.to_le_bytes());
    for (to, sum) in page[HEADER..].chunks_exact_mut(4).zip(sums) {
        to.copy_from_slice(&sum.to_le_bytes());
    }
    let crc = crc32c(&page[AT_CRC + 4..]);
    page[AT_CRC..AT_CRC + 4].copy_from_slice(&crc.to_le_bytes());
    page
}

/// The header, if this is a whole page of this pool.
pub fn decode(pool: &Uuid, page: &[u8]) -> Option<Header> {
    let u64_at = |at: usize| Some(u64::from_le_bytes(page.get(at..at + 8)?.try_into().ok()?));
    let u32_at = |at: usize| Some(u32::from_le_bytes(page.get(at..at + 4)?.try_into().ok()?));
    let whole = page.len() == PAGE as usize && page.starts_with(MAGIC);
    if !whole || page[16..32] != pool.0 || u32_at(AT_CRC)? != crc32c(&page[AT_CRC + 4..]) {
        return None;
    }
    let age = (u64_at(32)?, u64_at(40)?);
    // There is always a newer one.
    if age.1 == u64::MAX {
        return None;
    }
    Some(Header { drive: u32_at(12)? as usize, number: u64_at(48)?, age })
}

/// The sums of a page that was decoded.
pub fn sums_in(page: &[u8]) -> impl Iterator<Item = u32> + '_ {
    let each = page[HEADER..].chunks_exact(4);
    each.map(|bytes| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
}

/// What the drives have of a page of sums.
#[derive(Clone, Copy, Default)]
struct Stored {
    /// Not what memory has.
    dirty: bool,
    /// On its way.
    busy: bool,
    /// It was found when the array was opened.
    loaded: bool,
    /// Some of it is known, or was; some is [`UNVOUCHED`], or was.
    known: bool,
    unvouched: bool,
    /// A bit for each copy: at which place the newest is.
    sides: u64,
}

/// Sums of all drives of an array.
pub struct Sums {
    pub area: Area,
    pub log: ChecksumLog,
    sums: RefCell<Vec<Vec<u32>>>,
    stored: RefCell<Vec<Vec<Stored>>>,
    sequence: Cell<u64>,
    /// Something is known.
    any: Cell<bool>,
}

impl Sums {
    /// None known.
    pub fn new(grid: &Grid, ring: Ring) -> Sums {
        let area = Area::of(grid);
        let each = |_| vec![UNKNOWN; area.pages as usize];
        let stored = |_| vec![Stored::default(); area.numbers as usize];
        Sums {
            area,
            log: ChecksumLog::new(ring),
            sums: RefCell::new((0..area.drives).map(each).collect()),
            stored: RefCell::new((0..area.drives).map(stored).collect()),
            sequence: Cell::new(1),
            any: Cell::new(false),
        }
    }

    /// Bytes of memory.
    pub fn memory(&self) -> u64 {
        let stored = size_of::<Stored>() as u64;
        self.area.drives as u64 * (self.area.pages * 4 + self.area.numbers * stored)
    }

    pub fn get(&self, drive: usize, page: u64) -> u32 {
        self.sums.borrow()[drive][page as usize]
    }

    /// Pages of a drive from one on have these sums from now on; before and after of each.
    pub fn replace(&self, drive: usize, first: u64, news: &[u32]) -> Vec<(u32, u32)> {
        let mut sums = self.sums.borrow_mut();
        let own = &mut sums[drive][first as usize..first as usize + news.len()];
        let pairs: Vec<(u32, u32)> = own.iter().copied().zip(news.iter().copied()).collect();
        own.copy_from_slice(news);
        for (page, _) in (first..).zip(&pairs).filter(|(_, (old, new))| old != new) {
            self.any.set(true);
            let stored = &mut self.stored.borrow_mut()[drive][(page / PER_PAGE) as usize];
            (stored.dirty, stored.known) = (true, true);
            stored.unvouched |= news[(page - first) as usize] == UNVOUCHED;
        }
        pairs
    }

    /// Nothing was ever known.
    pub fn is_blank(&self) -> bool {
        !self.any.get()
    }

    /// Whether all these pages are what they should be.
    pub fn all_pass(&self, drive: usize, first: u64, pages: &[u8]) -> bool {
        let sums = self.sums.borrow();
        let sums = sums[drive][first as usize..].iter();
        let mut each = sums.zip(pages.chunks_exact(PAGE as usize));
        each.all(|(sum, page)| passes(*sum, page))
    }

    // ---- on the drives

    /// What a page of sums on a drive says, found when the array is opened.
    pub fn load(&self, header: &Header, page: &[u8]) {
        self.any.set(true);
        {
            let stored = &mut self.stored.borrow_mut()[header.drive][header.number as usize];
            (stored.loaded, stored.known) = (true, true);
            stored.unvouched |= sums_in(page).any(|sum| sum == UNVOUCHED);
        }
        // Written again before the epoch is raised, it must be newer.
        self.sequence.set(self.sequence.get().max(header.age.1 + 1));
        let range = self.area.sums_of(header.number);
        let mut sums = self.sums.borrow_mut();
        let own = &mut sums[header.drive][range];
        own.iter_mut().zip(sums_in(page)).for_each(|(own, sum)| *own = sum);
    }

    /// Pages of a drive whose sums another array of the same shape knows, while here nothing
    /// vouches for them, or the page of the sums was not found. `sure`: one that was found is the
    /// newest. `written`: but where all that it would tell is that pages are blank.
    pub fn known_only_to(
        &self,
        other: &Sums,
        drive: usize,
        Missed { sure, written }: Missed,
    ) -> Vec<u64> {
        let (stored, others) = (self.stored.borrow(), other.stored.borrow());
        let numbers = stored[drive].iter().zip(&others[drive]).enumerate();
        let is_missed = |(own, other): (&Stored, &Stored)| {
            other.known && (own.unvouched || !sure || !own.loaded)
        };
        let (sums, theirs) = (self.sums.borrow(), other.sums.borrow());
        let lacks = |page: &usize| {
            let number = page / PER_PAGE as usize;
            let own = sums[drive][*page];
            let is_newest = sure && stored[drive][number].loaded;
            let missed = own == UNVOUCHED || own == UNKNOWN && !is_newest;
            // Of larger drives they have more, or fewer.
            missed && theirs[drive].get(*page).copied().is_some_and(is_known)
        };
        let zeroes = sum_of(&[0; PAGE as usize]);
        let is_blank = |page: usize| sums[drive][page] == UNKNOWN && theirs[drive][page] == zeroes;
        let missed = numbers.filter(|(_, pair)| is_missed(*pair)).map(|(number, _)| {
            let lacking: Vec<usize> = self.area.sums_of(number as u64).filter(lacks).collect();
            // Nothing was ever written to any of them, and there they were looked at.
            let blank = written && lacking.iter().all(|page| is_blank(*page));
            if blank { Vec::new() } else { lacking }
        });
        missed.flatten().map(|page| page as u64).collect()
    }

    pub fn set_side(&self, drive: usize, number: u64, copy: usize, side: usize) {
        let stored = &mut self.stored.borrow_mut()[drive][number as usize];
        stored.sides = stored.sides & !(1 << copy) | (side as u64) << copy;
    }

    /// Where the newest of a copy is.
    pub fn side(&self, drive: usize, number: u64, copy: usize) -> usize {
        (self.stored.borrow()[drive][number as usize].sides >> copy & 1) as usize
    }

    pub fn set_dirty(&self, drive: usize, number: u64) {
        self.stored.borrow_mut()[drive][number as usize].dirty = true;
    }

    /// All that a drive has of others' sums.
    pub fn set_hosted_dirty(&self, host: usize) {
        for copy in 0..self.area.copies {
            let drive = self.area.hosted(host, copy);
            self.stored.borrow_mut()[drive].iter_mut().for_each(|stored| stored.dirty = true);
        }
    }

    pub fn is_stored(&self, drive: usize, mut numbers: Range<u64>) -> bool {
        let stored = self.stored.borrow();
        numbers.all(|number| {
            let Stored { dirty, busy, .. } = stored[drive][number as usize];
            !dirty && !busy
        })
    }

    /// All pages of sums that the drives don't have.
    pub fn dirty(&self) -> Vec<(usize, u64)> {
        let stored = self.stored.borrow();
        let of = |(drive, stored): (usize, &Vec<Stored>)| {
            let dirty = stored.iter().enumerate().filter(|(_, stored)| stored.dirty);
            dirty.map(move |(number, _)| (drive, number as u64)).collect::<Vec<_>>()
        };
        stored.iter().enumerate().flat_map(of).collect()
    }

    /// Those of a drive's pages.
    pub fn dirty_over(&self, drive: usize, pages: Range<u64>) -> Vec<(usize, u64)> {
        let stored = self.stored.borrow();
        let numbers = self.area.over(pages);
        let dirty = numbers.filter(|number| stored[drive][*number as usize].dirty);
        dirty.map(|number| (drive, number)).collect()
    }

    /// The page to be written now, its settled sums; to be told to [`Sums::written`] afterwards.
    pub fn begin(&self, pool: &Uuid, epoch: u64, drive: usize, number: u64) -> Vec<u8> {
        let sequence = self.sequence.replace(self.sequence.get() + 1);
        let mut log = self.log.state.borrow_mut();
        {
            let stored = &mut self.stored.borrow_mut()[drive][number as usize];
            (stored.dirty, stored.busy) = (log.has_unsettled((drive, number)), true);
        }
        log.store_begins((drive, number));
        let header = Header { drive, number, age: (epoch, sequence) };
        let mut sums = self.sums.borrow()[drive][self.area.sums_of(number)].to_vec();
        let first = number * PER_PAGE;
        for (page, settled) in log.settled_in((drive, number)) {
            sums[(page - first) as usize] = settled;
        }
        encode(pool, &header, &sums)
    }

    pub fn written(&self, drive: usize, number: u64) {
        self.stored.borrow_mut()[drive][number as usize].busy = false;
        self.log.state.borrow_mut().store_ended((drive, number));
    }

    /// A page of sums tells of something.
    pub fn is_known(&self, drive: usize, number: u64) -> bool {
        self.sums.borrow()[drive][self.area.sums_of(number)].iter().any(|sum| *sum != UNKNOWN)
    }

    /// Whether a page of sums says what memory has; what is on its way may be either.
    pub fn agrees(&self, drive: usize, number: u64, page: &[u8]) -> bool {
        let Stored { dirty, busy, .. } = self.stored.borrow()[drive][number as usize];
        let sums = self.sums.borrow();
        let own = sums[drive][self.area.sums_of(number)].iter();
        dirty || busy || own.zip(sums_in(page)).all(|(own, sum)| *own == sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grid::Redundancy;

    const POOL: Uuid = Uuid([7; 16]);

    fn grid(redundancy: Redundancy, drives: usize, width: usize) -> Grid {
        Grid { redundancy, drives, width, chunk: 65536, rows: 100 }
    }

    fn sample() -> (Header, Vec<u8>) {
        let header = Header { drive: 3, number: 1, age: (0x0102, 0x0304_0506) };
        let sums: Vec<u32> = (0..592u32).map(|at| at.wrapping_mul(0x0101_0101)).collect();
        let page = encode(&POOL, &header, &sums);
        assert_eq!(sums_in(&page).take(592).collect::<Vec<_>>(), sums);
        (header, page)
    }

    #[test]
    fn a_page_of_sums_is_these_bytes() {
        let (header, page) = sample();
        assert_eq!(decode(&POOL, &page), Some(header));
        assert_eq!(decode(&Uuid([8; 16]), &page), None);
        let fixed: Vec<u8> = [
            &b"STDYSUMP"[..],
            &crc32c(&page[12..]).to_le_bytes(),
            &[3, 0, 0, 0],
            &[7; 16],
            &[2, 1, 0, 0, 0, 0, 0, 0],
            &[6, 5, 4, 3, 0, 0, 0, 0],
            &[1, 0, 0, 0, 0, 0, 0, 0],
            &[0; 8],
            &[0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2],
        ]
        .concat();
        assert_eq!(page[..fixed.len()], fixed);
        assert_eq!(page[64 + 592 * 4..], [0; 4096 - 64 - 592 * 4]);
    }

    #[test]
    fn no_byte_of_a_page_of_sums_may_change() {
        let (_, page) = sample();
        for at in 0..page.len() {
            let mut bad = page.clone();
            bad[at] ^= 1 << (at % 8);
            assert_eq!(decode(&POOL, &bad), None, "byte {at}");
        }
        for len in [0, 7, 63, 64, 4095] {
            assert_eq!(decode(&POOL, &page[..len]), None);
        }
        assert_eq!(decode(&POOL, &[&page[..], &[0]].concat()), None);
    }

    #[test]
    fn sums_lie_on_as_many_other_drives_as_can_be_lost_and_one_more() {
        for (redundancy, drives, width, copies) in [
            (Redundancy::Parity(0), 1, 1, 1),
            (Redundancy::Parity(0), 3, 3, 2),
            (Redundancy::Mirror, 4, 2, 2),
            (Redundancy::Mirror, 3, 3, 3),
            (Redundancy::Parity(1), 8, 4, 2),
            (Redundancy::Parity(2), 5, 5, 3),
        ] {
            let area = Area::of(&grid(redundancy, drives, width));
            assert_eq!((area.copies, area.pages, area.numbers), (copies, 1600, 2));
            for drive in 0..drives {
                let hosts: Vec<usize> = (0..copies).map(|copy| area.host(drive, copy)).collect();
                let mut different = hosts.clone();
                different.sort_unstable();
                different.dedup();
                assert_eq!(different.len(), copies);
                assert!(hosts.iter().all(|host| host / width == drive / width));
                assert_eq!(hosts.contains(&drive), copies == width, "on itself if need be");
                for (copy, host) in hosts.into_iter().enumerate() {
                    assert_eq!(area.hosted(host, copy), drive);
                }
            }
            let places = (0..copies).flat_map(|copy| (0..2).map(move |number| (copy, number)));
            let places = places.flat_map(|(copy, number)| [0, 1].map(|side| (copy, number, side)));
            let mut at: Vec<u64> = places.map(|(c, n, side)| area.place(c, n, side)).collect();
            at.sort_unstable();
            let all: Vec<u64> = (0..area.bytes() / PAGE).map(|page| page * PAGE).collect();
            assert_eq!(at, all, "every page of the area is one place");
        }
    }

    #[test]
    fn what_changes_is_dirty_until_it_is_written() {
        let grid = grid(Redundancy::Parity(1), 4, 4);
        let ring = Ring::new(&grid, 2, 0, 64 * PAGE).expect("there is room");
        let sums = Sums::new(&grid, ring);
        let set = |page, news: &[u32]| {
            let pairs = sums.replace(2, page, news);
            (sums.log.state.borrow_mut().append(2, page, &pairs), pairs)
        };
        let settle = |run| {
            let mut state = sums.log.state.borrow_mut();
            state.durable(&run);
            while state.has_more() {
                let (header, _) = state.take_page(0);
                state.page_written(&header);
            }
        };
        assert_eq!(sums.dirty(), []);
        let one = sum_of(&[1; PAGE as usize]);
        let (run, pairs) = set(1007, &[one, one]);
        assert_eq!(pairs, [(UNKNOWN, one); 2]);
        settle(run);
        assert_eq!(sums.dirty(), [(2, 0), (2, 1)]);
        assert_eq!(sums.dirty_over(2, 0..1008), [(2, 0)]);
        let page = sums.begin(&POOL, 1, 2, 0);
        assert!(!sums.is_stored(2, 0..1), "it is on its way");
        let (run, _) = set(0, &[77]);
        sums.written(2, 0);
        assert!(!sums.is_stored(2, 0..1) && sums.agrees(2, 0, &page), "it is newer in memory");
        let old = sums.begin(&POOL, 1, 2, 0);
        sums.written(2, 0);
        assert_eq!(sums_in(&old).next(), Some(UNKNOWN), "what is on its way is not stored");
        assert!(!sums.is_stored(2, 0..1), "and has to be, some time");
        settle(run);
        let new = sums.begin(&POOL, 1, 2, 0);
        sums.written(2, 0);
        assert_eq!(sums_in(&new).next(), Some(77));
        assert!(sums.is_stored(2, 0..1) && !sums.agrees(2, 0, &page));
        assert!(sums.all_pass(2, 1007, &[1; 8192]) && !sums.all_pass(2, 1007, &[2; 4096]));
        set(5, &[LOST]);
        assert!(!sums.all_pass(2, 5, &[0; 4096]));
        // A page whose CRC is one of those that mean something else.
        assert!((0..3).all(|crc| sum_of(&page_of_crc(crc)) == crc + 3));
    }

    /// CRC32C is a bijection of the last four bytes: found by going back from the wanted CRC.
    fn page_of_crc(wanted: u32) -> Vec<u8> {
        let mut page = vec![0; PAGE as usize];
        // Linear: the bits of the last four bytes that make the difference.
        let base = crc32c(&page);
        let mut rows: Vec<(u32, u32)> = (0..32)
            .map(|bit| {
                let mut one = page.clone();
                one[4092..].copy_from_slice(&(1u32 << bit).to_le_bytes());
                (crc32c(&one) ^ base, 1 << bit)
            })
            .collect();
        let (mut left, mut bits) = (wanted ^ base, 0);
        for bit in 0..32 {
            let at = rows.iter().position(|row| row.0 >> bit & 1 == 1).expect("a bijection");
            let pivot = rows.swap_remove(at);
            for row in rows.iter_mut().filter(|row| row.0 >> bit & 1 == 1) {
                *row = (row.0 ^ pivot.0, row.1 ^ pivot.1);
            }
            if left >> bit & 1 == 1 {
                (left, bits) = (left ^ pivot.0, bits ^ pivot.1);
            }
        }
        page[4092..].copy_from_slice(&bits.to_le_bytes());
        assert_eq!(crc32c(&page), wanted);
        page
    }
}

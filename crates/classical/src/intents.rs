//! Write intents: which regions of the array may differ between their drives after a crash.
//!
//! ```text
//!  page, on every drive, at two places in turn:
//!    0  magic "STDYINTN" | crc32c of the rest (4) | 0 (4) | pool uuid (16) | sequence (8)
//!   40  opening (8) | least sequence of records of kept marks (8) (`kept`) | doubted drives (8)
//!   64  a bit for each region
//! ```
//! A bit is durable on all drives before the first write of its region begins and is taken back
//! some time after the last was made durable, or when nothing is written anywhere. A crash then
//! costs a look at the regions that are marked, not at the whole array.
//!
//! Doubted drives had rotted or were out of date when the array was opened, or lacked records, and
//! regions still need a resync since. Whoever opens the array next must not see in them what this
//! opening has written there. Of each kind a bit for each drive; of more than 32 one for all with
//! the same remainder.

use std::cell::{Cell, RefCell};

use format::Uuid;
use io::Nanos;
use io::sync::Turn;

use crate::limits::{INTENT_IDLE, INTENT_REST, PAGE, REGION_STRIPES_MIN, REGIONS_MAX};

const MAGIC: &[u8; 8] = b"STDYINTN";
const HEADER: usize = 64;
const AT_CRC: usize = 8;

/// Bytes of a drive that intents take.
pub const BYTES: u64 = 2 * PAGE;

/// What a page says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    pub sequence: u64,
    /// Who wrote it; 0: software that keeps no marks, or `create`.
    pub opening: u64,
    /// Older records of kept marks count no more.
    pub kept: u64,
    pub doubted: Doubted,
    pub bits: Vec<bool>,
}

/// Bits of drives that are not believed, or of whose partial-parity log records may be missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Doubted {
    pub suspect: u32,
    pub unrecorded: u32,
}

impl Page {
    /// One that doubts nobody.
    pub fn new(sequence: u64, opening: u64, kept: u64, bits: Vec<bool>) -> Page {
        Page { sequence, opening, kept, doubted: Doubted::default(), bits }
    }
}

pub fn bits_of<'a>(drives: impl IntoIterator<Item = &'a usize>) -> u32 {
    drives.into_iter().fold(0, |bits, drive| bits | 1 << (drive % 32))
}

/// Those of so many drives that have their bit.
pub fn drives_of(bits: u32, drives: usize) -> impl Iterator<Item = usize> {
    (0..drives).filter(move |drive| bits >> (drive % 32) & 1 == 1)
}

pub fn encode(pool: &Uuid, told: &Page) -> Vec<u8> {
    let mut page = vec![0; PAGE as usize];
    page[..8].copy_from_slice(MAGIC);
    page[16..32].copy_from_slice(&pool.0);
    page[32..40].copy_from_slice(&told.sequence.to_le_bytes());
    page[40..48].copy_from_slice(&told.opening.to_le_bytes());
    page[48..56].copy_from_slice(&told.kept.to_le_bytes());
    page[56..60].copy_from_slice(&told.doubted.suspect.to_le_bytes());
    page[60..64].copy_from_slice(&told.doubted.unrecorded.to_le_bytes());
    for (at, _) in told.bits.iter().enumerate().filter(|(_, bit)| **bit) {
        page[HEADER + at / 8] |= 1 << (at % 8);
    }
    let crc = crc32c::crc32c(&page[AT_CRC + 4..]);
    page[AT_CRC..AT_CRC + 4].copy_from_slice(&crc.to_le_bytes());
    page
}

/// What it says, if this is a whole page of this pool.
pub fn decode(pool: &Uuid, page: &[u8], regions: usize) -> Option<Page> {
    let crc = u32::from_le_bytes(page.get(AT_CRC..AT_CRC + 4)?.try_into().ok()?);
    let whole = page.len() == PAGE as usize && page.starts_with(MAGIC);
    if !whole || crc32c::crc32c(&page[AT_CRC + 4..]) != crc || page[16..32] != pool.0 {
        return None;
    }
    let u64_at = |at: usize| u64::from_le_bytes(page[at..at + 8].try_into().expect("8 bytes"));
    let bit = |at: usize| page[HEADER + at / 8] >> (at % 8) & 1 == 1;
    let bits = (0..regions).map(bit).collect();
    let (sequence, opening, kept, both) = (u64_at(32), u64_at(40), u64_at(48), u64_at(56));
    let doubted = Doubted { suspect: both as u32, unrecorded: (both >> 32) as u32 };
    Some(Page { sequence, opening, kept, doubted, bits })
}

/// Stripes of a region.
pub fn region_stripes(stripes: u64) -> u64 {
    stripes.div_ceil(REGIONS_MAX).max(REGION_STRIPES_MIN)
}

#[derive(Clone, Copy, Default)]
struct Region {
    /// Writes on their way.
    writes: u32,
    /// Written since this many flushes had begun.
    dirtied: Option<u64>,
    /// When it was found clean.
    clean_since: Option<Nanos>,
    /// The drives say that it may differ.
    marked: bool,
    /// It does differ, perhaps, since a crash: the mark stays.
    owed: bool,
}

pub struct Intents {
    regions: RefCell<Vec<Region>>,
    region_stripes: u64,
    /// Of pages; the next one's.
    pub sequence: Cell<u64>,
    /// As the next page tells it, and as the newest one does.
    pub doubted: Cell<Doubted>,
    told: Cell<Doubted>,
    /// Pages since the array was opened; the last is not on all drives yet; its bits, and those of
    /// the one before it.
    pages: Cell<u64>,
    under_way: Cell<bool>,
    recent: RefCell<[Vec<bool>; 2]>,
    /// Flushes begun, to tell what each has made durable.
    flushes: Cell<u64>,
    /// Writes on their way, and when the last one ended.
    writes: Cell<u64>,
    last_end: Cell<Nanos>,
    /// No mark is taken back.
    pub held: Cell<bool>,
    pub turn: Turn,
}

impl Intents {
    /// After recovery: nothing differs.
    pub fn new(stripes: u64, sequence: u64) -> Intents {
        let region_stripes = region_stripes(stripes);
        let count = stripes.div_ceil(region_stripes) as usize;
        Intents {
            regions: RefCell::new(vec![Region::default(); count]),
            region_stripes,
            sequence: Cell::new(sequence),
            doubted: Cell::default(),
            told: Cell::default(),
            pages: Cell::new(0),
            under_way: Cell::new(false),
            recent: RefCell::new([vec![false; count], vec![false; count]]),
            flushes: Cell::new(0),
            writes: Cell::new(0),
            last_end: Cell::new(Nanos::ZERO),
            held: Cell::new(false),
            turn: Turn::new(),
        }
    }

    pub fn region(&self, stripe: u64) -> usize {
        (stripe / self.region_stripes) as usize
    }

    /// A write of the stripe begins. True: the drives know already that it may differ; until they
    /// do, nothing may be written.
    pub fn begin(&self, stripe: u64) -> bool {
        self.writes.set(self.writes.get() + 1);
        let region = &mut self.regions.borrow_mut()[self.region(stripe)];
        region.writes += 1;
        region.clean_since = None;
        region.marked
    }

    pub fn is_marked(&self, stripe: u64) -> bool {
        self.regions.borrow()[self.region(stripe)].marked
    }

    /// Marked on the drives when the array was opened, and not looked at yet.
    pub fn owe(&self, region: u64) {
        let region = &mut self.regions.borrow_mut()[region as usize];
        (region.marked, region.owed) = (true, true);
    }

    /// All stripes of the region of this one agree.
    pub fn paid(&self, stripe: u64) {
        let region = &mut self.regions.borrow_mut()[self.region(stripe)];
        region.owed = false;
        region.dirtied = Some(self.flushes.get());
    }

    pub fn end(&self, stripe: u64, now: Nanos) {
        self.writes.set(self.writes.get() - 1);
        self.last_end.set(now);
        let region = &mut self.regions.borrow_mut()[self.region(stripe)];
        region.writes -= 1;
        region.dirtied = Some(self.flushes.get());
    }

    /// A flush begins; to be told to [`Intents::flushed`] when it is over.
    pub fn flush_begun(&self) -> u64 {
        self.flushes.set(self.flushes.get() + 1);
        self.flushes.get()
    }

    /// What was written before that flush began is durable.
    pub fn flushed(&self, number: u64, now: Nanos) {
        for region in self.regions.borrow_mut().iter_mut() {
            if region.writes == 0 && !region.owed && region.dirtied.is_some_and(|at| at < number) {
                region.dirtied = None;
                region.clean_since = Some(now);
            }
        }
    }

    /// Nothing has been written for a while.
    pub fn is_idle(&self, now: Nanos) -> bool {
        self.writes.get() == 0 && self.last_end.get() + INTENT_IDLE <= now
    }

    /// Something was written that no flush has begun after.
    pub fn is_dirty(&self) -> bool {
        self.regions.borrow().iter().any(|region| region.dirtied.is_some() && !region.owed)
    }

    /// Regions that the drives call marked.
    pub fn marks(&self) -> u64 {
        self.regions.borrow().iter().filter(|region| region.marked).count() as u64
    }

    /// Clean for so long that its mark is not worth keeping, or since everything is at rest.
    fn is_rested(&self, region: &Region, now: Nanos) -> bool {
        let rest = if self.is_idle(now) { Nanos::ZERO } else { INTENT_REST };
        !self.held.get() && region.clean_since.is_some_and(|since| since + rest <= now)
    }

    /// There are marks that could be taken back.
    pub fn is_stale(&self, now: Nanos) -> bool {
        let regions = self.regions.borrow();
        regions.iter().any(|region| region.marked && self.is_rested(region, now))
    }

    /// The newest page doubts drives that hold what they should since: whoever opens the array next
    /// would rather believe nothing of theirs.
    pub fn doubts_too_much(&self) -> bool {
        self.told.get() != self.doubted.get()
    }

    /// Regions whose marks could be taken back.
    pub fn rested(&self, now: Nanos) -> Vec<u64> {
        let regions = self.regions.borrow();
        let rested = |(_, region): &(usize, &Region)| region.marked && self.is_rested(region, now);
        regions.iter().enumerate().filter(rested).map(|(at, _)| at as u64).collect()
    }

    /// What a drive misses that was lost just now: which pages it may have as its newest, and the
    /// regions that these and memory mark. No pages: none was written since the array was opened.
    pub fn marked(&self) -> (Option<(u64, u64)>, Vec<bool>) {
        let most = if self.under_way.get() { 2 } else { 1 };
        let (pages, end) = (self.pages.get().min(most), self.sequence.get());
        let (regions, recent) = (self.regions.borrow(), self.recent.borrow());
        let own = |(at, region): (usize, &Region)| {
            let told = recent[..most as usize].iter().any(|bits| bits[at]);
            region.marked || region.writes > 0 || region.owed || told
        };
        let marked = regions.iter().enumerate().map(own).collect();
        ((pages > 0).then(|| (end - pages, end - 1)), marked)
    }

    /// The bits of the next page. What it takes back counts as taken back from now on: a write that
    /// comes while the page is on its way must wait for the page after it. A mark that `may` not be
    /// taken back stays.
    pub fn next_page(
        &self,
        pool: &Uuid,
        (opening, kept): (u64, u64),
        now: Nanos,
        may: impl Fn(u64) -> bool,
    ) -> (Vec<u8>, Vec<bool>) {
        let bits: Vec<bool> = self
            .regions
            .borrow_mut()
            .iter_mut()
            .enumerate()
            .map(|(at, region)| {
                let stays = region.marked && !(self.is_rested(region, now) && may(at as u64));
                let wanted = region.writes > 0 || region.owed || stays;
                region.marked &= wanted;
                wanted
            })
            .collect();
        let sequence = self.sequence.replace(self.sequence.get() + 1);
        self.pages.set(self.pages.get() + 1);
        self.under_way.set(true);
        let mut recent = self.recent.borrow_mut();
        recent.swap(0, 1);
        recent[0].clone_from(&bits);
        let doubted = self.doubted.get();
        self.told.set(doubted);
        (encode(pool, &Page { sequence, opening, kept, doubted, bits: bits.clone() }), bits)
    }

    /// The page is on all drives, and it was noticed which were lost meanwhile.
    pub fn written(&self, bits: &[bool]) {
        self.under_way.set(false);
        for (region, bit) in self.regions.borrow_mut().iter_mut().zip(bits) {
            region.marked |= *bit;
        }
    }

    /// Where in the two places the page of a sequence goes.
    pub fn place(sequence: u64) -> u64 {
        sequence % 2 * PAGE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POOL: Uuid = Uuid([7; 16]);

    #[test]
    fn pages_are_read_back_and_damage_is_noticed() {
        let bits: Vec<bool> = (0..REGIONS_MAX).map(|at| at % 7 == 3).collect();
        let (opening, kept, doubted) = (0x0102, 0x0304, Doubted { suspect: 0x0506, unrecorded: 0 });
        let told = Page { sequence: 9, opening, kept, doubted, bits: bits.clone() };
        let mut page = encode(&POOL, &told);
        assert_eq!(
            page[32..64],
            [[9, 0], [2, 1], [4, 3], [6, 5]].map(|n| [n[0], n[1], 0, 0, 0, 0, 0, 0]).concat()
        );
        assert_eq!(decode(&POOL, &page, bits.len()), Some(told));
        assert_eq!(decode(&Uuid([8; 16]), &page, bits.len()), None);
        page[4095] ^= 1;
        assert_eq!(decode(&POOL, &page, bits.len()), None);
        assert_eq!(decode(&POOL, &page[..100], bits.len()), None);
    }

    #[test]
    fn what_is_owed_stays_marked_until_it_is_paid_and_flushed() {
        let intents = Intents::new(1000, 1);
        intents.owe(1);
        assert!(intents.is_marked(20) && !intents.is_marked(0));
        let late = Nanos(1) + INTENT_REST;
        let flush = |now| intents.flushed(intents.flush_begun(), now);
        flush(Nanos(0));
        assert!(intents.next_page(&POOL, (1, 0), late, |_| true).1[1], "it is owed still");
        intents.paid(20);
        assert!(intents.next_page(&POOL, (1, 0), late, |_| true).1[1], "no flush since");
        flush(Nanos(1));
        assert!(!intents.next_page(&POOL, (1, 0), late, |_| true).1[1]);
    }

    #[test]
    fn a_mark_is_taken_back_when_all_is_durable_and_rested() {
        let intents = Intents::new(1000, 1);
        // Something goes on elsewhere: the array is not idle.
        intents.begin(900);
        assert!(!intents.begin(5), "nothing is marked at first");
        let (_, bits) = intents.next_page(&POOL, (1, 0), Nanos(0), |_| true);
        assert!(bits[0] && !bits[1]);
        intents.written(&bits);
        assert!(intents.begin(6), "the same region");
        intents.end(5, Nanos(5));
        let first = intents.flush_begun();
        intents.end(6, Nanos(5));
        intents.flushed(first, Nanos(10));
        assert!(!intents.is_stale(Nanos(10) + INTENT_REST), "one ended after the flush began");
        let second = intents.flush_begun();
        intents.flushed(second, Nanos(20));
        assert!(!intents.is_stale(Nanos(19) + INTENT_REST));
        assert!(intents.is_stale(Nanos(20) + INTENT_REST));
        intents.held.set(true);
        assert!(!intents.is_stale(Nanos(20) + INTENT_REST), "others lack what was written");
        assert!(intents.next_page(&POOL, (1, 0), Nanos(20) + INTENT_REST, |_| true).1[0]);
        intents.held.set(false);
        let (_, bits) = intents.next_page(&POOL, (1, 0), Nanos(20) + INTENT_REST, |_| true);
        assert!(!bits[0]);
        // Before that page is on the drives: the mark there does not count any more.
        assert!(!intents.begin(5));
    }

    #[test]
    fn all_marks_are_taken_back_soon_when_nothing_is_written() {
        let intents = Intents::new(1000, 1);
        intents.begin(5);
        let (_, bits) = intents.next_page(&POOL, (1, 0), Nanos(0), |_| true);
        intents.written(&bits);
        assert!(!intents.is_idle(Nanos(0) + INTENT_IDLE), "a write is on its way");
        intents.end(5, Nanos(7));
        assert!(intents.is_dirty() && !intents.is_stale(Nanos(7) + INTENT_IDLE), "no flush since");
        intents.flushed(intents.flush_begun(), Nanos(8));
        assert!(!intents.is_dirty() && !intents.is_stale(Nanos(6) + INTENT_IDLE));
        assert!(intents.is_stale(Nanos(7) + INTENT_IDLE));
        assert_eq!(intents.marks(), 1);
        let now = Nanos(7) + INTENT_IDLE;
        assert!(!intents.next_page(&POOL, (1, 0), now, |_| true).1[0]);
        assert_eq!(intents.marks(), 0);
    }
}

//! A table of 4-byte entries that outlives crashes, kept in a region of an array.
//!
//! ```text
//!   page 0            page 1            page 2
//!   ┌───────┬───────┐ ┌───────┬───────┐ ┌───
//!   │ even  │ odd   │ │ even  │ odd   │ │        the slot of a page's next version is that
//!   └───────┴───────┘ └───────┴───────┘ └───     which does not hold the newest
//! ```
//! A version that a crash tears is told by its checksum, and the one before it lies untouched
//! beside it. So is one that the crash left on one drive while the other's copy has rotted: the
//! array knows no checksum of it yet, and calls the page lost; its own says that it is whole.
//!
//! What may be in a version (nothing that speaks of bytes which are not durable) and when it is
//! written is for the owner to say; the entries themselves are the owner's, too.
//!
//! ```text
//!    0  magic    8   STDYMAP1        32  sequence  8   even: first slot, odd: second
//!    8  crc      4   of all after it 40  entries   4   that the page holds
//!   12  page     4                   44  zero
//!   16  pool    16                   64  entries   4 each
//! ```

use std::cell::{Cell, RefCell};

use classical::{Array, ArrayError};
use format::Uuid;
use io::sync::Turn;
use io::{Buf, BufMut, Env, join_all};

use crate::store::StoreError;

const MAGIC: &[u8; 8] = b"STDYMAP1";
const PAGE: usize = 4096;
const HEADER: usize = 64;
const AT_CRC: usize = 8;
/// Entries of a page.
pub const ENTRIES: usize = (PAGE - HEADER) / 4;
/// Bytes of a page and of its other version.
const PAIR: u64 = 2 * PAGE as u64;
/// Pages read or made together, 1 MiB: enough to keep the drives busy, little to hold.
const PAGES_AT_ONCE: u32 = 128;
/// Pages whose new version is held in memory at once, 1 MiB; the others wait.
pub const SNAPSHOT_PAGES: usize = 256;

/// Bytes of the region for so many entries.
pub fn region_bytes(entries: u64) -> u64 {
    entries.div_ceil(ENTRIES as u64) * PAIR
}

pub(crate) fn encode(pool: &Uuid, number: u32, sequence: u64, entries: &[u32]) -> [u8; PAGE] {
    let mut page = [0; PAGE];
    page[..8].copy_from_slice(MAGIC);
    page[12..16].copy_from_slice(&number.to_le_bytes());
    page[16..32].copy_from_slice(&pool.0);
    page[32..40].copy_from_slice(&sequence.to_le_bytes());
    page[40..44].copy_from_slice(&(entries.len() as u32).to_le_bytes());
    for (place, entry) in page[HEADER..].chunks_exact_mut(4).zip(entries) {
        place.copy_from_slice(&entry.to_le_bytes());
    }
    let crc = crc32c::crc32c(&page[AT_CRC + 4..]);
    page[AT_CRC..AT_CRC + 4].copy_from_slice(&crc.to_le_bytes());
    page
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}

/// Sequence and entries, if this is a whole version of that page.
pub(crate) fn decode(
    pool: &Uuid,
    number: u32,
    count: usize,
    page: &[u8],
) -> Option<(u64, Vec<u32>)> {
    let ours = page.len() == PAGE && page.starts_with(MAGIC) && page[16..32] == pool.0;
    let whole = ours && word(page, AT_CRC) == crc32c::crc32c(&page[AT_CRC + 4..]);
    if !whole || word(page, 12) != number || word(page, 40) as usize != count {
        return None;
    }
    let sequence = u64::from_le_bytes(page[32..40].try_into().ok()?);
    Some((sequence, (0..count).map(|at| word(page, HEADER + 4 * at)).collect()))
}

/// The newer of the versions of a page that are whole.
fn newest(pool: &Uuid, number: u32, count: usize, pair: &[u8]) -> Option<(u64, Vec<u32>)> {
    let versions = pair.chunks(PAGE).filter_map(|page| decode(pool, number, count, page));
    versions.max_by_key(|(sequence, _)| *sequence)
}

#[derive(Clone, Copy)]
struct Page {
    /// Of the version on the drives.
    sequence: u64,
    dirty: bool,
    on_its_way: bool,
}

/// The state of the region; a version of a page that is to be written is a [`Taken`].
pub struct PageMap<E: Env> {
    array: Array<E>,
    base: u64,
    pool: Uuid,
    entries: usize,
    pages: RefCell<Vec<Page>>,
    written: Cell<u64>,
    commit_turn: Turn,
    /// Commits that began, and the last of them that succeeded.
    begun: Cell<u64>,
    done: Cell<u64>,
}

/// A new version of a page.
pub struct Taken {
    number: u32,
    sequence: u64,
    bytes: Buf,
}

fn entries_of(number: u32, entries: usize) -> std::ops::Range<usize> {
    let first = number as usize * ENTRIES;
    first..entries.min(first + ENTRIES)
}

/// Writes a region of entries that are all zero.
pub async fn create<E: Env>(
    array: &Array<E>,
    base: u64,
    pool: &Uuid,
    entries: usize,
) -> Result<(), StoreError> {
    let pages = entries.div_ceil(ENTRIES) as u32;
    for first in (0..pages).step_by(PAGES_AT_ONCE as usize) {
        let some = first..pages.min(first + PAGES_AT_ONCE);
        let mut bytes = BufMut::zeroed(some.len() * PAIR as usize);
        for (pair, number) in bytes.chunks_exact_mut(PAIR as usize).zip(some) {
            let zeroes = vec![0; entries_of(number, entries).len()];
            pair[..PAGE].copy_from_slice(&encode(pool, number, 0, &zeroes));
        }
        array.write(base + u64::from(first) * PAIR, bytes.freeze(), true).await?;
    }
    Ok(())
}

/// Which page.
#[derive(Clone, Copy)]
struct Own<'a> {
    pool: &'a Uuid,
    number: u32,
    count: usize,
}

/// A page and its other version, one of which may be lost: what was being written, if a drive has
/// it whole.
async fn read_pair<E: Env>(array: &Array<E>, at: u64, own: Own<'_>) -> Result<Buf, StoreError> {
    let behind = at + PAGE as u64;
    let even = array.read(at, PAGE as u64).await;
    let (even, odd) = match (even, array.read(behind, PAGE as u64).await) {
        (Ok(even), Ok(odd)) => (even, odd),
        (Ok(even), Err(lost)) => {
            let odd = being_written(array, behind, (own, &even), lost).await?;
            (even, odd)
        }
        (Err(lost), Ok(odd)) => (being_written(array, at, (own, &odd), lost).await?, odd),
        (Err(lost), Err(_)) => return Err(lost.into()),
    };
    Ok(Buf::from_slice(&[&even[..], &odd[..]].concat()))
}

/// The version after the one beside a lost page, if all that a drive has whole of it is the same.
/// What is older than that is no proof that there was none.
async fn being_written<E: Env>(
    array: &Array<E>,
    at: u64,
    (own, beside): (Own<'_>, &[u8]),
    lost: ArrayError,
) -> Result<Buf, StoreError> {
    let sequence = |page: &[u8]| Some(decode(own.pool, own.number, own.count, page)?.0);
    let next = sequence(beside).map(|beside| beside + 1);
    let copies = array.copies(at, PAGE as u64).await?;
    let mut whole = copies.into_iter().filter(|copy| next.is_some() && sequence(copy) == next);
    let Some(first) = whole.next().filter(|first| whole.all(|other| *other == **first)) else {
        return Err(lost.into());
    };
    array.write(at, first.clone(), true).await?;
    Ok(first)
}

impl<E: Env> PageMap<E> {
    /// Reads the region. The entries are given to the caller.
    pub async fn open(
        array: &Array<E>,
        base: u64,
        pool: &Uuid,
        entries: usize,
    ) -> Result<(PageMap<E>, Vec<u32>), StoreError> {
        let count = entries.div_ceil(ENTRIES) as u32;
        let (mut pages, mut all) = (Vec::new(), Vec::with_capacity(entries));
        for first in (0..count).step_by(PAGES_AT_ONCE as usize) {
            let some = first..count.min(first + PAGES_AT_ONCE);
            let (at, len) = (base + u64::from(first) * PAIR, some.len() as u64 * PAIR);
            let together = match array.read(at, len).await {
                Ok(bytes) => Some(bytes),
                Err(ArrayError::PageLost { .. }) => None,
                Err(error) => return Err(error.into()),
            };
            for (at, number) in (at..).step_by(PAIR as usize).zip(some.clone()) {
                let own = Own { pool, number, count: entries_of(number, entries).len() };
                let from = (PAIR * u64::from(number - some.start)) as usize;
                let pair = match &together {
                    Some(bytes) => bytes.slice(from..from + PAIR as usize),
                    None => read_pair(array, at, own).await?,
                };
                let Some((sequence, page)) = newest(pool, number, own.count, &pair) else {
                    return Err(StoreError::Damaged(format!("page {number} of the map")));
                };
                all.extend(page);
                pages.push(Page { sequence, dirty: false, on_its_way: false });
            }
        }
        let map = PageMap {
            array: array.clone(),
            base,
            pool: *pool,
            entries,
            pages: RefCell::new(pages),
            written: Cell::new(0),
            commit_turn: Turn::new(),
            begun: Cell::new(0),
            done: Cell::new(0),
        };
        Ok((map, all))
    }

    /// The entry has changed.
    pub fn touch(&self, entry: usize) {
        self.pages.borrow_mut()[entry / ENTRIES].dirty = true;
    }

    /// Whether the drives know the entry as it is now.
    pub fn is_durable(&self, entry: usize) -> bool {
        let page = self.pages.borrow()[entry / ENTRIES];
        !page.dirty && !page.on_its_way
    }

    /// Pages that the drives do not know as they are now.
    pub fn dirty(&self) -> Vec<u32> {
        let pages = self.pages.borrow();
        (0..).zip(pages.iter()).filter(|(_, page)| page.dirty).map(|(number, _)| number).collect()
    }

    /// New versions of pages as they are at this moment.
    pub fn take(&self, numbers: &[u32], entries: &[u32]) -> Vec<Taken> {
        assert!(numbers.len() <= SNAPSHOT_PAGES && entries.len() == self.entries);
        let mut pages = self.pages.borrow_mut();
        let take = |&number: &u32| {
            let page = &mut pages[number as usize];
            assert!(!page.on_its_way, "one version of a page at a time");
            (page.dirty, page.on_its_way) = (false, true);
            let own = &entries[entries_of(number, self.entries)];
            let sequence = page.sequence + 1;
            let bytes = Buf::from_slice(&encode(&self.pool, number, sequence, own));
            Taken { number, sequence, bytes }
        };
        numbers.iter().map(take).collect()
    }

    /// Versions that are not to be written after all.
    pub fn put_back(&self, taken: &[Taken]) {
        for Taken { number, .. } in taken {
            let page = &mut self.pages.borrow_mut()[*number as usize];
            (page.dirty, page.on_its_way) = (true, false);
        }
    }

    /// The versions are durable when this returns.
    pub async fn write(&self, taken: Vec<Taken>) -> Result<(), StoreError> {
        let writes = taken.iter().map(|Taken { number, sequence, bytes }| {
            let at = self.base + u64::from(*number) * PAIR + sequence % 2 * PAGE as u64;
            self.array.write(at, bytes.clone(), true)
        });
        let done: Result<Vec<()>, _> = join_all(writes).await.into_iter().collect();
        if let Err(error) = done {
            // The next try goes to the same slots: what they hold may be torn.
            self.put_back(&taken);
            return Err(error.into());
        }
        let mut pages = self.pages.borrow_mut();
        for Taken { number, sequence, .. } in &taken {
            let page = &mut pages[*number as usize];
            (page.sequence, page.on_its_way) = (*sequence, false);
        }
        self.written.set(self.written.get() + taken.len() as u64);
        Ok(())
    }

    /// Makes the table durable as it is now or later, and before it, by `flush`, the bytes that it
    /// speaks of. `mark` is taken as it begins; `None`: another one that began after the call did
    /// it. Pages are taken before the flush begins, so none tells of what it may have missed.
    pub async fn commit<M>(
        &self,
        mark: impl FnOnce() -> M,
        take: impl Fn(&[u32]) -> Vec<Taken>,
        flush: impl AsyncFn() -> Result<(), StoreError>,
    ) -> Result<Option<M>, StoreError> {
        let asked = self.begun.get();
        let _turn = self.commit_turn.lock().await;
        if self.done.get() > asked {
            return Ok(None);
        }
        let number = self.begun.get() + 1;
        self.begun.set(number);
        let mark = mark();
        let pages = self.dirty();
        for some in pages.chunks(SNAPSHOT_PAGES) {
            let taken = take(some);
            if let Err(error) = flush().await {
                self.put_back(&taken);
                return Err(error);
            }
            self.write(taken).await?;
        }
        if pages.is_empty() {
            flush().await?;
        }
        self.done.set(number);
        Ok(Some(mark))
    }

    /// Pages written since it was opened.
    pub fn written(&self) -> u64 {
        self.written.get()
    }

    /// Entries that the drives know otherwise than these, of pages that are not waiting to be
    /// written. For tests.
    pub async fn differing(&self, entries: &[u32]) -> Result<Vec<usize>, StoreError> {
        let (_, there) = PageMap::open(&self.array, self.base, &self.pool, self.entries).await?;
        let same = |at: &usize| !self.is_durable(*at) || there[*at] == entries[*at];
        Ok((0..self.entries).filter(|at| !same(at)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POOL: Uuid = Uuid([7; 16]);

    #[test]
    fn pages_are_read_back_and_damage_is_noticed() {
        let entries: Vec<u32> = (0..ENTRIES as u32).map(|at| at * 77).collect();
        let page = encode(&POOL, 5, 9, &entries);
        assert_eq!(decode(&POOL, 5, ENTRIES, &page), Some((9, entries.clone())));
        assert_eq!(decode(&POOL, 6, ENTRIES, &page), None);
        assert_eq!(decode(&POOL, 5, ENTRIES - 1, &page), None);
        assert_eq!(decode(&Uuid([8; 16]), 5, ENTRIES, &page), None);
        for sector in 0..PAGE / 512 {
            let mut torn = page;
            torn[sector * 512..][..512].fill(0xA5);
            assert_eq!(decode(&POOL, 5, ENTRIES, &torn), None);
        }
    }

    #[test]
    fn a_torn_version_leaves_the_one_before() {
        let (old, new) = (encode(&POOL, 0, 8, &[1, 2]), encode(&POOL, 0, 9, &[3, 4]));
        let mut pair = [old, new].concat();
        assert_eq!(newest(&POOL, 0, 2, &pair), Some((9, vec![3, 4])));
        pair[PAGE + 512..PAGE + 1024].fill(1);
        assert_eq!(newest(&POOL, 0, 2, &pair), Some((8, vec![1, 2])));
        pair[0] = 0;
        assert_eq!(newest(&POOL, 0, 2, &pair), None);
    }

    #[test]
    fn the_region_holds_all_pages_twice() {
        assert_eq!(ENTRIES, 1008);
        assert_eq!(region_bytes(1), 8192);
        assert_eq!(region_bytes(1008), 8192);
        assert_eq!(region_bytes(1009), 16384);
    }
}

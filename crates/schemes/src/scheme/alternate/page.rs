//! The page at the end of each replica that says which replicas can be trusted.
//!
//! ```text
//!    0  magic "STDYALTR" | crc32c of the rest of the page (4) | version (4)
//!   16  pool uuid (16)
//!   32  sequence (8) | window (8) | replay (8) | bytes of the cache (8)
//!   64  which replicas are current, one bit each (8) | generation (8) | lead (8) | flags (8)
//!   96  bytes of data (8)
//!  104  per replica: the highest sequence of its page known to this one (8 each)
//!  136  number of the record of what the lost ones miss (8) | 1: there is room for one (8)
//!  152  session (8)
//! ```
//! Two places, written in turn; of the two the one with the higher sequence counts. The generation
//! rises whenever a replica is lost or whole again: see [`current`]. `window`: the last one in
//! which this replica was written to. `replay`: data in its log before this position is in place.
//! `lead`: of the replicas that are current the one with the highest has all that was flushed, if
//! flag 0 says that one log is enough. Flag 1: this replica is being filled. `session`: counts
//! openings; what logs tell of earlier ones is in place everywhere. What comes from 104 on is zeros
//! in pools of older software (`kept.rs`).

use format::Uuid;

use super::roles::{Each, REPLICAS_MAX};
use crate::log::record::PAGE;

const MAGIC: &[u8; 8] = b"STDYALTR";
const VERSION: u32 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    pub sequence: u64,
    pub window: u64,
    pub replay: u64,
    pub cache: u64,
    pub current: Each<bool>,
    pub generation: u64,
    pub lead: u64,
    pub size: u64,
    /// Flushed data is in the log of one replica only.
    pub one_log: bool,
    pub filling: bool,
    pub seen: Each<u64>,
    /// 0: no record counts.
    pub kept: u64,
    /// Before the data there is room for the records.
    pub keeps: bool,
    pub session: u64,
}

/// A bit for each replica.
pub fn bits_of(sides: &Each<bool>) -> u64 {
    let bits = sides.iter().enumerate();
    bits.fold(0, |bits, (at, own)| bits | u64::from(*own) << at)
}

/// `None`: there are not so many replicas.
pub fn sides_of(bits: u64) -> Option<Each<bool>> {
    let sides = std::array::from_fn(|at| bits >> at & 1 != 0);
    (bits >> REPLICAS_MAX == 0).then_some(sides)
}

/// Which replicas can be trusted: those that all pages of the highest generation call current, and
/// whose own page is none from before one that another knew: that is an image of a drive from
/// before. There may be several that do not agree: a crash can come while they are written, or one
/// replica was away when the other's was. Pages go with the replica that has them.
/// `whole`: whose two places both hold a page; of one that has rotted nobody knows how new it was.
pub fn current(pages: &[(usize, Page)], whole: &Each<bool>) -> Each<bool> {
    let newest = pages.iter().map(|(_, page)| page.generation).max();
    let newest =
        || pages.iter().map(|(_, page)| page).filter(|page| Some(page.generation) == newest);
    std::array::from_fn(|side| {
        let seen = newest().map(|page| page.seen[side]).max().unwrap_or(0);
        let own = pages.iter().find(|(own, _)| *own == side);
        let is_stale = whole[side] && own.is_some_and(|(_, page)| page.sequence < seen);
        !is_stale && newest().all(|page| page.current[side])
    })
}

impl Page {
    pub fn encode(&self, pool: &Uuid) -> [u8; PAGE as usize] {
        let mut bytes = [0; PAGE as usize];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0, MAGIC);
        put(12, &VERSION.to_le_bytes());
        put(16, &pool.0);
        put(32, &self.sequence.to_le_bytes());
        put(40, &self.window.to_le_bytes());
        put(48, &self.replay.to_le_bytes());
        put(56, &self.cache.to_le_bytes());
        put(64, &bits_of(&self.current).to_le_bytes());
        put(72, &self.generation.to_le_bytes());
        put(80, &self.lead.to_le_bytes());
        let flags = u64::from(self.one_log) | u64::from(self.filling) << 1;
        put(88, &flags.to_le_bytes());
        put(96, &self.size.to_le_bytes());
        for (at, seen) in (104..).step_by(8).zip(&self.seen) {
            put(at, &seen.to_le_bytes());
        }
        put(136, &self.kept.to_le_bytes());
        put(144, &u64::from(self.keeps).to_le_bytes());
        put(152, &self.session.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[12..]);
        bytes[8..12].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// The page, if it is whole, of this pool and makes sense.
    pub fn decode(pool: &Uuid, bytes: &[u8]) -> Option<Page> {
        let bytes = bytes.get(..PAGE as usize)?;
        let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
        let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        let sealed = bytes.starts_with(MAGIC) && u32_at(8) == crc32c::crc32c(&bytes[12..]);
        let (current, flags) = (sides_of(u64_at(64))?, u64_at(88));
        let strange = flags >> 2 > 0 || u64_at(144) > 1;
        if !sealed || u32_at(12) != VERSION || bytes[16..32] != pool.0 || strange {
            return None;
        }
        Some(Page {
            sequence: u64_at(32),
            window: u64_at(40),
            replay: u64_at(48),
            cache: u64_at(56),
            current,
            generation: u64_at(72),
            lead: u64_at(80),
            size: u64_at(96),
            one_log: flags & 1 != 0,
            filling: flags & 2 != 0,
            seen: std::array::from_fn(|side| u64_at(104 + side * 8)),
            kept: u64_at(136),
            keeps: u64_at(144) == 1,
            session: u64_at(152),
        })
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub const PAGE_OF_ONE: Page = Page {
        sequence: 1,
        window: 2,
        replay: 3,
        cache: 4,
        current: [true, false, true, false],
        generation: 5,
        lead: 6,
        size: 7,
        one_log: true,
        filling: false,
        seen: [8, 9, 10, 11],
        kept: 12,
        keeps: true,
        session: 13,
    };

    #[test]
    fn a_page_is_what_it_was_and_any_byte_that_changes_is_noticed() {
        let pool = Uuid([7; 16]);
        for page in [PAGE_OF_ONE, Page { one_log: false, filling: true, ..PAGE_OF_ONE }] {
            let whole = page.encode(&pool);
            assert_eq!(Page::decode(&pool, &whole), Some(page));
            assert_eq!(Page::decode(&Uuid([8; 16]), &whole), None);
            for at in 0..whole.len() {
                let mut torn = whole;
                torn[at] ^= 1;
                assert_eq!(Page::decode(&pool, &torn), None, "byte {at}");
            }
        }
    }

    #[test]
    fn who_was_away_is_not_believed() {
        let of = |generation, sides: &[usize]| {
            let current = std::array::from_fn(|at| sides.contains(&at));
            Page { generation, current, seen: [0; 4], ..PAGE_OF_ONE }
        };
        let current = |pages: &[(usize, Page)]| super::current(pages, &[true; 4]);
        let both = [true, true, false, false];
        assert_eq!(current(&[(0, of(4, &[0, 1])), (1, of(4, &[0, 1]))]), both);
        // However many pages the other has written before.
        let long = Page { sequence: 99, ..of(4, &[0, 1]) };
        assert_eq!(current(&[(0, long), (1, of(5, &[1]))]), [false, true, false, false]);
        // A crash while it was noted that a third is whole again; then one of the two went alone.
        let third = [(0, of(5, &[0, 1, 2])), (1, of(5, &[1]))];
        assert_eq!(current(&third), [false, true, false, false]);
        // Each went on without the other: neither.
        assert_eq!(current(&[(0, of(5, &[0])), (1, of(5, &[1]))]), [false; 4]);
        // The first has an image from before a page of its own that the second knew.
        let knew = Page { seen: [PAGE_OF_ONE.sequence + 1, 0, 0, 0], ..of(4, &[0, 1]) };
        let old = [(0, of(4, &[0, 1])), (1, knew)];
        assert_eq!(current(&old), [false, true, false, false]);
        // Or its newest page has rotted.
        assert_eq!(super::current(&old, &[false, true, true, true]), both);
        // It is not there: it was current when it went.
        assert_eq!(current(&old[1..]), both);
    }
}

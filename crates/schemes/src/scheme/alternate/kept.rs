//! What replicas that are lost miss, so that one that comes back is given no more.
//!
//! ```text
//!   a replica is lost ── its page is noted; regions of all that is in the cache are kept, and of
//!        │               each batch from now on
//!        ├── the first record, on all that are whole, before their pages say that it is lost
//!        ├── a log is emptied ── first a record: until then the log tells what changed
//!   it comes back ── with the page that was noted ── kept regions; and if it was only missed when
//!                    the pool was opened, those that its log tells
//!
//!  record, in both of the last two pages before the data of each replica:
//!    0  magic "STDYALTK" | crc32c of the rest of the page (4) | version (4) | pool uuid (16)
//!   32  number (8) | sequence (8) | bytes of a region (8) | 0 (8)
//!   64  per replica: sequence of its page, at least (8) | its generation (8) | who is current (8)
//!                    | 1: its log has to tell (8)
//!  192  a bit for each region
//! ```
//! The number is drawn when the first replica is lost, and is in all pages written since: a record
//! counts only if the newest page names it, so that software that keeps none makes it void. A
//! replica is known by its page: one that was used without the others has a later generation, and
//! an older copy of it an earlier sequence. A log is freed when both places have the newest record:
//! a page that rots must not leave the word to an older one. One bitmap serves all that are lost:
//! each has missed no more than the first of them.

use std::ops::Range;

use format::Uuid;

use super::page::{Page, bits_of, sides_of};
use super::roles::{Each, REPLICAS_MAX};
use crate::log::record::PAGE;

const MAGIC: &[u8; 8] = b"STDYALTK";
const VERSION: u32 = 1;
const GONE_AT: usize = 64;
const GONE: usize = 32;
const BITS_AT: usize = GONE_AT + REPLICAS_MAX * GONE;
/// Most regions.
const REGIONS: u64 = (PAGE - BITS_AT as u64) * 8;
/// Smallest region: less is hardly faster to copy.
const REGION_MIN: u64 = 64 << 10;
/// Bytes of the records.
pub const BYTES: u64 = 2 * PAGE;

/// What is known of a replica that is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone {
    /// Of its page, at least.
    pub sequence: u64,
    pub generation: u64,
    pub current: Each<bool>,
    /// Nobody else knows what came to its place last.
    pub log_tells: bool,
}

impl Gone {
    pub fn of(page: &Page, log_tells: bool) -> Gone {
        let Page { sequence, generation, current, .. } = *page;
        Gone { sequence, generation, current, log_tells }
    }

    /// Whether a replica with this page is the one that was lost, as it was then.
    pub fn is(&self, page: &Page) -> bool {
        let same = (page.generation, page.current) == (self.generation, self.current);
        same && page.sequence >= self.sequence
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// 0: no replica is lost.
    number: u64,
    /// Of the newest record.
    sequence: u64,
    /// Bytes of data, and of a region.
    size: u64,
    region: u64,
    bits: Vec<bool>,
    /// `None`: there, or to be filled from the beginning.
    gone: Each<Option<Gone>>,
    /// All of this is in a record.
    saved: bool,
}

impl Kept {
    pub fn none(size: u64) -> Kept {
        let region = size.div_ceil(REGIONS).max(REGION_MIN).next_power_of_two();
        let bits = vec![false; size.div_ceil(region) as usize];
        Kept { number: 0, sequence: 0, size, region, bits, gone: [None; REPLICAS_MAX], saved: true }
    }

    pub fn number(&self) -> u64 {
        self.number
    }

    pub fn gone(&self, side: usize) -> Option<Gone> {
        self.gone[side]
    }

    pub fn is_saved(&self) -> bool {
        self.saved
    }

    /// The record is to be written again, whatever it says.
    pub fn renew(&mut self) {
        self.saved = false;
    }

    /// A replica is lost, with a page like this. `number` is a new one, if it is the first.
    pub fn lose(&mut self, side: usize, gone: Option<Gone>, number: u64) {
        if self.number == 0 {
            *self = Kept { number: number.max(1), ..Kept::none(self.size) };
        }
        self.gone[side] = gone;
        self.saved = false;
    }

    /// It is to be filled from the beginning, or is whole.
    pub fn forget(&mut self, side: usize) {
        if self.gone[side].take().is_some() {
            self.saved = false;
        }
    }

    /// No replica is lost any more.
    pub fn end(&mut self) {
        *self = Kept::none(self.size);
    }

    /// These change.
    pub fn mark(&mut self, ranges: impl IntoIterator<Item = (u64, u64)>) {
        if self.number == 0 {
            return;
        }
        for (start, len) in ranges.into_iter().filter(|(_, len)| *len > 0) {
            let last = (start + len - 1) / self.region;
            for bit in &mut self.bits[(start / self.region) as usize..=last as usize] {
                self.saved &= *bit;
                *bit = true;
            }
        }
    }

    /// The next that is kept from here on, no longer than this.
    pub fn next(&self, from: u64, most: u64) -> Option<Range<u64>> {
        let first = (from / self.region) as usize;
        let first = first + self.bits.iter().skip(first).position(|bit| *bit)?;
        let run = self.bits[first..].iter().take_while(|bit| **bit).count();
        let begin = from.max(first as u64 * self.region);
        let end = self.size.min((first + run) as u64 * self.region).min(begin + most);
        (begin < end).then_some(begin..end)
    }

    /// Bytes that are kept from here on.
    pub fn left(&self, from: u64) -> u64 {
        let regions = (0..).step_by(self.region as usize).zip(&self.bits);
        let kept = regions.filter(|(_, bit)| **bit);
        kept.map(|(at, _)| (at + self.region).min(self.size).saturating_sub(from.max(at))).sum()
    }

    /// As the next record is to be.
    pub fn save(&mut self) -> Kept {
        self.sequence += 1;
        self.saved = true;
        self.clone()
    }

    pub fn encode(&self, pool: &Uuid) -> [u8; PAGE as usize] {
        let mut bytes = [0; PAGE as usize];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0, MAGIC);
        put(12, &VERSION.to_le_bytes());
        put(16, &pool.0);
        put(32, &self.number.to_le_bytes());
        put(40, &self.sequence.to_le_bytes());
        put(48, &self.region.to_le_bytes());
        for (at, gone) in (GONE_AT..).step_by(GONE).zip(&self.gone) {
            let Some(gone) = gone else { continue };
            put(at, &gone.sequence.to_le_bytes());
            put(at + 8, &gone.generation.to_le_bytes());
            put(at + 16, &bits_of(&gone.current).to_le_bytes());
            put(at + 24, &u64::from(gone.log_tells).to_le_bytes());
        }
        for at in self.bits.iter().enumerate().filter_map(|(at, bit)| bit.then_some(at)) {
            bytes[BITS_AT + at / 8] |= 1 << (at % 8);
        }
        let crc = crc32c::crc32c(&bytes[12..]);
        bytes[8..12].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// The record, if it is whole, of this pool, and has this number.
    pub fn decode(pool: &Uuid, bytes: &[u8], number: u64, size: u64) -> Option<Kept> {
        let bytes = bytes.get(..PAGE as usize)?;
        let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
        let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        let sealed = bytes.starts_with(MAGIC) && u32_at(8) == crc32c::crc32c(&bytes[12..]);
        let none = Kept::none(size);
        let ours = u32_at(12) == VERSION && bytes[16..32] == pool.0 && u64_at(32) == number;
        let counts = u64_at(48) == none.region && u64_at(40) < u64::MAX && number > 0;
        if !sealed || !ours || !counts {
            return None;
        }
        let gone = |side: usize| {
            let at = GONE_AT + side * GONE;
            let current = sides_of(u64_at(at + 16))?;
            let (sequence, generation) = (u64_at(at), u64_at(at + 8));
            let gone = Gone { sequence, generation, current, log_tells: u64_at(at + 24) != 0 };
            (gone.generation > 0).then_some(gone)
        };
        let bit = |at: usize| bytes[BITS_AT + at / 8] >> (at % 8) & 1 == 1;
        Some(Kept {
            number,
            sequence: u64_at(40),
            bits: (0..none.bits.len()).map(bit).collect(),
            gone: std::array::from_fn(gone),
            ..none
        })
    }

    /// The newest of two records.
    pub fn newer(self, other: Kept) -> Kept {
        if other.sequence > self.sequence { other } else { self }
    }
}

#[cfg(test)]
mod tests {
    use io::rng::{Rng, mix};

    use super::super::page::tests::PAGE_OF_ONE;
    use super::*;

    const GONE_ONE: Gone =
        Gone { sequence: 7, generation: 3, current: [true, true, false, false], log_tells: true };

    #[test]
    fn a_record_is_what_it_was_and_any_byte_that_changes_is_noticed() {
        let pool = Uuid([7; 16]);
        let mut kept = Kept::none((5 << 20) + 512);
        kept.lose(2, Some(GONE_ONE), 11);
        kept.mark([(0, 512), (3 << 20, 70 << 10), (5 << 20, 512)]);
        let whole = kept.save().encode(&pool);
        assert!(kept.is_saved());
        assert_eq!(Kept::decode(&pool, &whole, 11, (5 << 20) + 512), Some(kept.clone()));
        assert_eq!(Kept::decode(&pool, &whole, 12, (5 << 20) + 512), None);
        assert_eq!(Kept::decode(&Uuid([8; 16]), &whole, 11, (5 << 20) + 512), None);
        for at in 0..whole.len() {
            let mut torn = whole;
            torn[at] ^= 1;
            assert_eq!(Kept::decode(&pool, &torn, 11, (5 << 20) + 512), None, "byte {at}");
        }
        // What changes nothing needs no record, what does needs one.
        kept.mark([(512, 4096)]);
        assert!(kept.is_saved());
        kept.mark([(1 << 20, 1)]);
        assert!(!kept.is_saved());
    }

    #[test]
    fn who_was_used_alone_and_older_copies_are_not_the_one_that_was_lost() {
        let page =
            |sequence, generation, current| Page { sequence, generation, current, ..PAGE_OF_ONE };
        let both = GONE_ONE.current;
        assert!(GONE_ONE.is(&page(7, 3, both)) && GONE_ONE.is(&page(8, 3, both)));
        assert!(!GONE_ONE.is(&page(6, 3, both)));
        assert!(!GONE_ONE.is(&page(9, 4, [true, false, false, false])));
        assert!(!GONE_ONE.is(&page(9, 3, [true, false, false, false])));
    }

    /// Against a list of bytes.
    #[test]
    fn what_is_marked_is_found_and_little_else() {
        for seed in 0..100 {
            let mut rng = Rng::new(mix(seed));
            let size = 512 * (1 + rng.below(4000));
            let mut kept = Kept::none(size);
            kept.mark([(0, size)]);
            assert_eq!(kept.next(0, size), None, "nobody is lost");
            kept.lose(0, None, 1);
            let mut told = vec![false; (size / 512) as usize];
            for _ in 0..rng.below(5) {
                let start = rng.below(size / 512);
                let len = rng.below((size / 512 - start).min(300) + 1);
                kept.mark([(start * 512, len * 512)]);
                told[start as usize..(start + len) as usize].fill(true);
            }
            let most = 512 * (1 + rng.below(600));
            let (mut at, mut found) = (0, vec![false; told.len()]);
            while let Some(Range { start, end }) = kept.next(at, most) {
                assert!(start >= at && end - start <= most && end <= size);
                assert_eq!(kept.left(at), kept.left(end) + end - start);
                found[(start / 512) as usize..(end / 512) as usize].fill(true);
                at = end;
            }
            assert_eq!(kept.left(at), 0);
            let region = (REGION_MIN / 512) as usize;
            for (told, found) in told.chunks(region).zip(found.chunks(region)) {
                let any = told.contains(&true);
                assert!(found.iter().all(|own| *own == any), "seed {seed}");
            }
        }
    }
}

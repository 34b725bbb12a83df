//! How the drives are divided: into two tiers, and the mirrors' tier into map and places.
//!
//! ```text
//!   mirrors ┌───────┬──────────────────────┬─────────┬─────────┬────
//!           │ plate │ map, pages twice     │ place 0 │ place 1 │ ...      a place is a stripe of
//!           └───────┴──────────────────────┴─────────┴─────────┴────      the RAID5 tier: k chunks
//!           0       4096                   next multiple of a chunk
//!   plate    0  magic  8  STDYHYB1     40  places of the mirrors  4   52  stripes of a batch  4
//!            8  crc    4  of the rest  44  places of RAID5        4   56  zero
//!           12  zero   4               48  online threshold       1
//!           16  pool  16               49  full mirrors, percent  1
//!           32  stripe 8  bytes        50  full RAID5, percent    1
//! ```

use classical::grid::WIDTH_MAX;
use format::Uuid;

use super::place::{PLACES_MAX, Tier};
use crate::page_map::region_bytes;
use crate::store::StoreError;

/// Drives of a mirror: the paper's RAID1 (1+1).
pub const MIRROR: usize = 2;
/// Drives of a RAID5 group that the paper advises for RAID50, 3+1: wide enough to be cheap, narrow
/// enough to lose two drives of one group rarely.
pub const PARITY_WIDTH: usize = 4;
/// Fewest drives of a RAID5 group.
const PARITY_MIN: usize = 3;
/// A proposal rather changes the share of the mirrors than make a group wider than this.
const PARITY_WIDE: usize = 8;
/// Stripes of a batch at most: they are kept in memory.
const BATCH_MAX: u32 = 1 << 12;

const MAGIC: &[u8; 8] = b"STDYHYB1";
const AT_CRC: usize = 8;
pub const PLATE: usize = 4096;
pub const MAP_AT: u64 = PLATE as u64;

/// When stripes move. Kept on the drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// Writes of a stripe in its tier before a write that suits the other one takes it there. The
    /// paper found 4 by experiment: fewer and stripes move in vain, more and they move too late.
    pub online_threshold: u8,
    /// A tier is emptied in the background when so much of it is used. The paper has both
    /// thresholds and gives no values; ours leave a tenth for the mirrors, where new small writes
    /// go, and a twentieth for the larger RAID5.
    pub full_mirrors_percent: u8,
    pub full_parity_percent: u8,
    /// Stripes that leave a full tier before it is looked at again (no value in the paper).
    pub offline_batch: u32,
}

impl Default for Tuning {
    fn default() -> Tuning {
        Tuning {
            online_threshold: 4,
            full_mirrors_percent: 90,
            full_parity_percent: 95,
            offline_batch: 64,
        }
    }
}

/// What an array is to be like.
#[derive(Clone, Debug)]
pub struct Spec {
    pub name: String,
    /// Drives of the mirrors: the first of those given, so these should be the fast and lasting
    /// ones. The others are for RAID5.
    pub split: usize,
    /// Drives of a RAID5 group.
    pub parity_width: usize,
    /// Bytes of a chunk. The paper's is 4096, and a stripe k of them; larger ones make the map
    /// smaller and moves dearer.
    pub chunk: u64,
    pub tuning: Tuning,
    /// Every page has a checksum on other drives.
    pub checksums: bool,
}

fn wrong(what: String, hint: &'static str) -> StoreError {
    StoreError::Shape { what, hint }
}

/// How many drives are for mirrors, and how wide a RAID5 group is (paper, section 4.6).
///
/// Small writes are about 30 % of real workloads, so 30 % of the drives take them, rounded to
/// whole mirrors of two: 2 of 5, 4 of 12. The others become RAID5 groups as near to 3+1 as divides
/// them. If they divide into none of 3 to 8 drives, two more or two fewer are for mirrors instead,
/// if that helps: 6 of 15 and three groups of 3, not 4 and one group of 11.
pub fn propose(drives: usize) -> Result<(usize, usize), StoreError> {
    // 0.3 · drives, in mirrors of two, rounded.
    let nearest = ((3 * drives + 10) / 20 * MIRROR).max(MIRROR);
    let splits = [nearest, nearest + MIRROR, nearest.saturating_sub(MIRROR)];
    let possible = splits.into_iter().filter(|&split| split > 0 && split + PARITY_MIN <= drives);
    let proposals = possible.filter_map(|split| Some((split, width(drives - split)?)));
    let proposals: Vec<(usize, usize)> = proposals.collect();
    let narrow = proposals.iter().find(|(_, width)| *width <= PARITY_WIDE);
    narrow.or(proposals.first()).copied().ok_or_else(|| {
        wrong(
            format!("{drives} drives do not divide into mirrors and RAID5"),
            "give at least 5: 2 for mirrors, 3 for RAID5",
        )
    })
}

/// The group nearest to 3+1 that divides these drives; the narrower of two as near.
fn width(drives: usize) -> Option<usize> {
    let divides = |width: &usize| drives.is_multiple_of(*width);
    (PARITY_MIN..=drives.min(WIDTH_MAX))
        .filter(divides)
        .min_by_key(|width| (width.abs_diff(PARITY_WIDTH), *width))
}

impl Spec {
    /// As the paper would divide so many drives.
    pub fn proposed(name: &str, drives: usize, chunk: u64) -> Result<Spec, StoreError> {
        let (split, parity_width) = propose(drives)?;
        let tuning = Tuning::default();
        Ok(Spec { name: name.to_owned(), split, parity_width, chunk, tuning, checksums: true })
    }

    /// Chunk and name are checked by the arrays.
    pub fn check(&self, drives: usize) -> Result<(), StoreError> {
        let Spec { split, parity_width, .. } = *self;
        if split < MIRROR || !split.is_multiple_of(MIRROR) {
            return Err(wrong(
                format!("{split} drives for the mirrors"),
                "give an even number, at least 2",
            ));
        }
        let rest = drives.saturating_sub(split);
        let fits = (PARITY_MIN..=WIDTH_MAX).contains(&parity_width);
        if !fits || rest == 0 || !rest.is_multiple_of(parity_width) {
            return Err(wrong(
                format!("{rest} drives left for RAID5 groups of {parity_width}"),
                "a group has 3 to 64 drives, and the groups must use up all",
            ));
        }
        self.tuning.check()
    }
}

impl Tuning {
    pub fn check(&self) -> Result<(), StoreError> {
        if self.online_threshold == 0 {
            return Err(wrong("an online threshold of 0".into(), "give 1 to 255; 4 is usual"));
        }
        let percents = [self.full_mirrors_percent, self.full_parity_percent];
        if let Some(percent) = percents.iter().find(|percent| !(1..=100).contains(*percent)) {
            return Err(wrong(format!("a tier is full at {percent} %"), "give 1 to 100"));
        }
        if !(1..=BATCH_MAX).contains(&self.offline_batch) {
            return Err(wrong(
                format!("batches of {} stripes", self.offline_batch),
                "give 1 to 4096",
            ));
        }
        Ok(())
    }
}

/// Where everything is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Bytes of a stripe.
    pub stripe: u64,
    /// The byte of the mirrors where place 0 begins.
    pub first_place: u64,
    /// Places of the mirrors and of RAID5. There are as many stripes as places: the two tiers
    /// together are the space of the user.
    pub places: [u32; 2],
}

/// A part of a request in one stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    pub stripe: u32,
    /// The first byte within the stripe.
    pub start: u64,
    pub len: u64,
    /// The byte of the request that it is.
    pub at: u64,
}

impl Shape {
    pub fn of(mirrors: u64, parity_stripes: u64, stripe: u64, chunk: u64) -> Option<Shape> {
        // The map has room for a few stripes more than there are: those that would lie where it is.
        let most = mirrors / stripe + parity_stripes;
        let first_place = (MAP_AT + region_bytes(most)).next_multiple_of(chunk);
        let in_mirrors = mirrors.checked_sub(first_place)? / stripe;
        let fits = in_mirrors > 0 && parity_stripes > 0 && most < PLACES_MAX;
        let places = [in_mirrors as u32, parity_stripes as u32];
        fits.then_some(Shape { stripe, first_place, places })
    }

    /// The byte of a tier's array where its places begin.
    pub fn first(&self, tier: Tier) -> u64 {
        match tier {
            Tier::Mirrors => self.first_place,
            Tier::Parity => 0,
        }
    }

    pub fn stripes(&self) -> usize {
        self.places.iter().map(|places| *places as usize).sum()
    }

    pub fn size(&self) -> u64 {
        self.stripes() as u64 * self.stripe
    }

    /// A request, stripe by stripe.
    pub fn split(&self, offset: u64, len: u64) -> Vec<Share> {
        let (mut shares, mut at) = (Vec::new(), 0);
        while at < len {
            let (stripe, start) = ((offset + at) / self.stripe, (offset + at) % self.stripe);
            let own = (self.stripe - start).min(len - at);
            shares.push(Share { stripe: stripe as u32, start, len: own, at });
            at += own;
        }
        shares
    }

    pub fn plate(&self, pool: &Uuid, tuning: &Tuning) -> [u8; PLATE] {
        let mut plate = [0; PLATE];
        plate[..8].copy_from_slice(MAGIC);
        plate[16..32].copy_from_slice(&pool.0);
        plate[32..40].copy_from_slice(&self.stripe.to_le_bytes());
        plate[40..44].copy_from_slice(&self.places[0].to_le_bytes());
        plate[44..48].copy_from_slice(&self.places[1].to_le_bytes());
        plate[48] = tuning.online_threshold;
        plate[49] = tuning.full_mirrors_percent;
        plate[50] = tuning.full_parity_percent;
        plate[52..56].copy_from_slice(&tuning.offline_batch.to_le_bytes());
        let crc = crc32c::crc32c(&plate[AT_CRC + 4..]);
        plate[AT_CRC..AT_CRC + 4].copy_from_slice(&crc.to_le_bytes());
        plate
    }

    /// How it is tuned, if this plate is whole and says what is the case.
    pub fn read_plate(&self, pool: &Uuid, plate: &[u8]) -> Option<Tuning> {
        let word = |at: usize| Some(u32::from_le_bytes(plate.get(at..at + 4)?.try_into().ok()?));
        let tuning = Tuning {
            online_threshold: *plate.get(48)?,
            full_mirrors_percent: *plate.get(49)?,
            full_parity_percent: *plate.get(50)?,
            offline_batch: word(52)?,
        };
        let same = self.plate(pool, &tuning) == plate;
        (same && tuning.check().is_ok()).then_some(tuning)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_paper_s_examples_of_a_split() {
        assert_eq!(propose(5).expect("3+2 of section 4.1"), (2, 3));
        assert_eq!(propose(12).expect("section 4.6"), (4, 4));
        assert_eq!(propose(15).expect("no group of 11"), (6, 3));
    }

    #[test]
    fn every_proposal_is_valid_and_near_30_percent() {
        assert!((0..5).all(|drives| propose(drives).is_err()));
        for drives in 5..=256 {
            let spec = Spec::proposed("tank", drives, 4096).expect("it divides");
            spec.check(drives).unwrap_or_else(|error| panic!("{drives}: {error}"));
            let tenths = 10 * spec.split;
            assert!(tenths.abs_diff(3 * drives) <= 30, "{drives}: {}", spec.split);
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let spec = Spec::proposed("tank", 12, 4096).expect("it divides");
        let with = |split, parity_width| Spec { split, parity_width, ..spec.clone() };
        for (split, width) in [(0, 4), (3, 3), (12, 4), (14, 4), (4, 3), (4, 2), (4, 0)] {
            assert!(with(split, width).check(12).is_err(), "{split} {width}");
        }
        let tuned = |tuning| Spec { tuning, ..spec.clone() };
        let tuning = Tuning::default();
        assert!(tuned(Tuning { online_threshold: 0, ..tuning }).check(12).is_err());
        assert!(tuned(Tuning { full_mirrors_percent: 0, ..tuning }).check(12).is_err());
        assert!(tuned(Tuning { full_parity_percent: 101, ..tuning }).check(12).is_err());
        assert!(tuned(Tuning { offline_batch: 0, ..tuning }).check(12).is_err());
        assert!(with(4, 8).check(12).is_ok());
    }

    #[test]
    fn the_space_is_that_of_both_tiers_but_for_the_map() {
        let (mirrors, stripe) = (64 << 20, 3 * 65536);
        let shape = Shape::of(mirrors, 1000, stripe, 65536).expect("it fits");
        assert_eq!(shape.first_place, 65536, "1341 entries in two pages of two versions");
        assert_eq!(shape.places, [341, 1000]);
        assert_eq!(shape.size(), 1341 * stripe);
        assert!(Shape::of(65536, 1000, stripe, 65536).is_none());
    }

    #[test]
    fn requests_are_split_at_stripes() {
        let shape = Shape { stripe: 16384, first_place: 0, places: [9, 9] };
        let shares = shape.split(16384 - 512, 1024 + 16384);
        let told: Vec<_> = shares.iter().map(|s| (s.stripe, s.start, s.len, s.at)).collect();
        assert_eq!(told, [(0, 15872, 512, 0), (1, 0, 16384, 512), (2, 0, 512, 16896)]);
    }

    #[test]
    fn plates_are_read_back_and_damage_is_noticed() {
        let shape = Shape { stripe: 16384, first_place: 65536, places: [9, 90] };
        let tuning = Tuning { offline_batch: 7, ..Tuning::default() };
        let mut plate = shape.plate(&Uuid([3; 16]), &tuning);
        assert_eq!(shape.read_plate(&Uuid([3; 16]), &plate), Some(tuning));
        assert_eq!(shape.read_plate(&Uuid([4; 16]), &plate), None);
        let other = Shape { places: [9, 91], ..shape };
        assert_eq!(other.read_plate(&Uuid([3; 16]), &plate), None);
        plate[48] ^= 1;
        assert_eq!(shape.read_plate(&Uuid([3; 16]), &plate), None);
        assert_eq!(shape.read_plate(&Uuid([3; 16]), &plate[..40]), None);
    }
}

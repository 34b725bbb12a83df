//! Where a stripe lies, and the 4 bytes that say so.

/// A tier; the number is that of its tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// RAID1 or RAID10, the fast drives.
    Mirrors = 0,
    /// RAID5 or RAID50.
    Parity = 1,
}

pub const TIERS: [Tier; 2] = [Tier::Mirrors, Tier::Parity];

impl Tier {
    pub fn other(self) -> Tier {
        match self {
            Tier::Mirrors => Tier::Parity,
            Tier::Parity => Tier::Mirrors,
        }
    }
}

/// Room for one stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub tier: Tier,
    pub number: u32,
}

/// Of an entry: the tier is RAID5.
const PARITY: u32 = 1 << 31;
/// Places of a tier at most: their numbers plus one fit 31 bits.
pub const PLACES_MAX: u64 = PARITY as u64 - 1;

/// Zero: the stripe was never written. Else bit 31 is the tier, the others the place plus one.
pub fn encode(place: Option<Place>) -> u32 {
    place.map_or(0, |Place { tier, number }| {
        assert!(u64::from(number) < PLACES_MAX, "a tier has no such place");
        (number + 1) | if tier == Tier::Parity { PARITY } else { 0 }
    })
}

/// `None`: no entry has this value.
pub fn decode(entry: u32) -> Option<Option<Place>> {
    let tier = if entry & PARITY == 0 { Tier::Mirrors } else { Tier::Parity };
    match (entry, entry & !PARITY) {
        (0, _) => Some(None),
        (_, 0) => None,
        (_, number) => Some(Some(Place { tier, number: number - 1 })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_read_back() {
        assert_eq!(encode(None), 0);
        assert_eq!(decode(0), Some(None));
        assert_eq!(decode(PARITY), None);
        for tier in TIERS {
            for number in [0, 1, 77, PLACES_MAX as u32 - 1] {
                let place = Some(Place { tier, number });
                assert_eq!(decode(encode(place)), Some(place));
            }
        }
    }
}

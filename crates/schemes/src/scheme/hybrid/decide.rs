//! Algorithm 1 and the state diagram of figure 8: to which tier a write of a stripe goes.
//!
//! ```text
//!   tier now   write      accesses   becomes
//!   none       full          -       RAID5, 1 access
//!   none       partial       -       RAID1, 1 access
//!   RAID5      partial    ≥ limit    RAID1, 1 access; the rest of the stripe is carried over
//!   RAID1      full       ≥ limit    RAID5, 1 access; nothing to carry
//!   otherwise                        stays, one access more
//! ```
//! Accesses are the writes of the stripe since it came to its tier, those of both sizes. The paper
//! tells a full stripe by the sum of its first and last unit; for three data drives a write of the
//! middle unit alone has the same sum, so we ask for both ends.

use super::place::Tier;

/// How much of a stripe a write covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cover {
    Full,
    /// Small and partial writes alike.
    Partial,
}

/// What becomes of a stripe with a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Its first write: it gets a place in this tier.
    First(Tier),
    /// It is written where it is.
    Stay,
    /// It moves to this tier. What the write leaves alone is carried along; nothing, if it is full.
    Move(Tier),
}

/// `now`: its tier and the accesses counted there.
pub fn decide(now: Option<(Tier, u8)>, cover: Cover, online_threshold: u8) -> Decision {
    let best = match cover {
        Cover::Full => Tier::Parity,
        Cover::Partial => Tier::Mirrors,
    };
    match now {
        None => Decision::First(best),
        Some((tier, accesses)) if tier != best && accesses >= online_threshold => {
            Decision::Move(best)
        }
        Some(_) => Decision::Stay,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THRESHOLD: u8 = 4;

    fn decided(now: Option<(Tier, u8)>, cover: Cover) -> Decision {
        decide(now, cover, THRESHOLD)
    }

    #[test]
    fn figure_8_first_writes() {
        assert_eq!(decided(None, Cover::Full), Decision::First(Tier::Parity));
        assert_eq!(decided(None, Cover::Partial), Decision::First(Tier::Mirrors));
    }

    #[test]
    fn figure_8_loops_at_raid1() {
        for accesses in 0..=u8::MAX {
            let now = Some((Tier::Mirrors, accesses));
            assert_eq!(decided(now, Cover::Partial), Decision::Stay);
        }
        for accesses in 0..THRESHOLD {
            assert_eq!(decided(Some((Tier::Mirrors, accesses)), Cover::Full), Decision::Stay);
        }
    }

    #[test]
    fn figure_8_loops_at_raid5() {
        for accesses in 0..=u8::MAX {
            assert_eq!(decided(Some((Tier::Parity, accesses)), Cover::Full), Decision::Stay);
        }
        for accesses in 0..THRESHOLD {
            assert_eq!(decided(Some((Tier::Parity, accesses)), Cover::Partial), Decision::Stay);
        }
    }

    #[test]
    fn figure_8_migrations() {
        for accesses in THRESHOLD..=u8::MAX {
            let (parity, mirrors) = ((Tier::Parity, accesses), (Tier::Mirrors, accesses));
            let (up, down) = (Decision::Move(Tier::Mirrors), Decision::Move(Tier::Parity));
            assert_eq!(decided(Some(parity), Cover::Partial), up);
            assert_eq!(decided(Some(mirrors), Cover::Full), down);
        }
    }
}

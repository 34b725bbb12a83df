//! Which replica is filled from the others, before those that are left agree on who is right.
//!
//! ```text
//!   its checksums are lost     ── and another has its own ─────────────────────► filled
//!   others know many pages     ── and one that knows them has no less flushed ─► filled
//!   others know a few pages    ── they may have come to those first ──────────► stays, has them
//! ```
//! Pages that were on their way to all are in the cache until all have them. So a replica that is
//! whole lacks no more of what others know than the cache held, whatever their logs have lost.

use crate::log::record::PAGE;

/// Bytes of the least write: a page is written for each.
const WRITE_MIN: u64 = 512;

/// A replica that lacks more than this of what others know has lost checksums.
pub fn lacking_max(cache: u64) -> u64 {
    cache.saturating_mul(PAGE / WRITE_MIN)
}

/// What is known of a replica when its log was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The others did not go on without it.
    pub trusted: bool,
    /// The log of its checksums is lost.
    pub lost: bool,
    /// It lacks some of what others know, and more than [`lacking_max`].
    pub lacks: bool,
    pub lacks_much: bool,
    /// Up to which entry it has everything, as its log says.
    pub says: u64,
}

/// Whether this one of those that are there is filled.
pub fn is_filled(all: &[Standing], at: usize) -> bool {
    let own = all[at];
    let mut others = all.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, own)| own);
    let is_sure = |other: &Standing| other.trusted && !other.lost;
    let has_it_all =
        |other: &Standing| is_sure(other) && !other.lacks_much && other.says >= own.says;
    match own {
        Standing { trusted: false, .. } => true,
        Standing { lost: true, .. } => others.any(is_sure),
        Standing { lacks_much: true, .. } => others.any(has_it_all),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: Standing =
        Standing { trusted: true, lost: false, lacks: false, lacks_much: false, says: 7 };

    fn filled(all: &[Standing]) -> Vec<bool> {
        (0..all.len()).map(|at| is_filled(all, at)).collect()
    }

    #[test]
    fn who_lost_checksums_is_filled_if_another_has_its_own() {
        let lost = Standing { lost: true, ..WHOLE };
        assert_eq!(filled(&[lost, WHOLE]), [true, false]);
        assert_eq!(filled(&[lost, lost]), [false, false]);
        // Whatever the log says: it is of before the checksums were lost.
        assert_eq!(filled(&[Standing { says: 9, ..lost }, WHOLE]), [true, false]);
    }

    #[test]
    fn who_lacks_much_is_filled_but_not_from_who_has_less_of_what_was_flushed() {
        let lacks = Standing { lacks: true, lacks_much: true, ..WHOLE };
        assert_eq!(filled(&[WHOLE, lacks, WHOLE]), [false, true, false]);
        let less = Standing { says: 6, ..WHOLE };
        assert_eq!(filled(&[less, lacks, less]), [false, false, false]);
        assert_eq!(filled(&[lacks, lacks]), [false, false]);
    }

    #[test]
    fn who_lacks_a_page_is_not_filled() {
        let lacks = Standing { lacks: true, ..WHOLE };
        let less = Standing { says: 6, ..WHOLE };
        assert_eq!(filled(&[WHOLE, lacks, WHOLE]), [false, false, false]);
        assert_eq!(filled(&[less, lacks, less]), [false, false, false]);
        // Nor of two, or if the third one is not there (a storm of three, seed 911003).
        assert_eq!(filled(&[WHOLE, lacks]), [false, false]);
        assert_eq!(filled(&[less, lacks]), [false, false]);
    }

    #[test]
    fn who_was_left_is_filled_and_fills_nobody() {
        let left = Standing { trusted: false, says: 9, ..WHOLE };
        let lost = Standing { lost: true, ..WHOLE };
        assert_eq!(filled(&[left, lost]), [true, false]);
    }

    #[test]
    fn as_many_pages_as_the_cache_holds_writes_may_be_on_their_way() {
        assert_eq!(lacking_max(1 << 20), 2048 * PAGE);
    }
}

//! Which background work comes next, and how much foreground writes must wait for it.
//!
//! ```text
//! free stripes   0 ── reserve ────── low/2 ──────────── low ───────────────────────── all
//! background       everything │ all of the time │ rising share │ what the area's size demands
//! need             1000       │ 1000            │ 1000 ─── 0   │ 0
//! foreground       waits      │ slowed, squared │ runs free    │ runs free
//! ```
//! First background work gives all it has ([`crate::pace`]), then requests pay, each part
//! beginning at nothing where the one before is at its full: no cliff from plenty to the end.

/// Facts about one class of stripes.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// Stripes the class can still be given (unassigned zones included), and all it could have.
    pub free: u64,
    pub total: u64,
    /// Stripes that are dead but wait for a flush.
    pub limbo: u64,
    /// Stripes of the replicated area, and the share of `total` it may have, in percent.
    pub replicated: u64,
    pub replicated_percent: u8,
    /// Convert as soon as a tuple is full.
    pub eager: bool,
    /// Stripes only background work may take.
    pub reserve: u64,
    /// Somebody waits for space, whatever the number of free stripes: those that are left may not
    /// match each other.
    pub starved: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Nothing to do.
    Rest,
    /// Make limbo stripes free by flushing.
    Flush,
    /// Turn tuples into RAID stripes.
    Convert,
    /// Move live data out of the emptiest stripes.
    Compact,
}

/// Free stripes below which background work makes room.
pub fn low(facts: &Facts) -> u64 {
    (facts.total / 16).max(facts.reserve * 4)
}

/// Free stripes below which writes are slowed; background work has all of the time from here on.
pub fn slow_from(facts: &Facts) -> u64 {
    (low(facts) / 2).max(facts.reserve + 1)
}

fn is_short(facts: &Facts) -> bool {
    facts.starved || facts.free < low(facts)
}

/// What the replicated area keeps of its size while stripes are short: its hottest quarter. What
/// is overwritten there was never worth its parity; all else is given up before data is moved, as
/// a tuple converted gains whole stripes for the parity of one, and compaction writes all that is
/// live in what it gains.
const AREA_WHEN_SHORT: u64 = 4;

/// Stripes the replicated area may have while there is room.
pub fn area_max(facts: &Facts) -> u64 {
    facts.total * u64::from(facts.replicated_percent) / 100
}

/// Stripes it may have now.
fn area_now(facts: &Facts) -> u64 {
    if is_short(facts) { area_max(facts) / AREA_WHEN_SHORT } else { area_max(facts) }
}

/// The next piece of work. `convertible`: there is a tuple to convert. `compactible`: there are
/// stripes with holes.
pub fn next_work(facts: &Facts, convertible: bool, compactible: bool) -> Work {
    let over = facts.replicated > area_now(facts);
    let short = is_short(facts);
    if short && facts.limbo > 0 && facts.free + facts.limbo >= low(facts) {
        return Work::Flush;
    }
    if convertible && (over || facts.eager) {
        return Work::Convert;
    }
    if short && compactible {
        return Work::Compact;
    }
    if short && convertible {
        return Work::Convert;
    }
    if short && facts.limbo > 0 {
        return Work::Flush;
    }
    Work::Rest
}

/// Longest delay of a write by [`write_delay`], nanoseconds. A few times what reclaim takes for
/// each write in a pool that is 95 % full with 32 requests under way: with less, the reserve is
/// reached and all writers stand still together (84 ms were seen with a quarter of it).
pub const WRITE_DELAY_MAX: u64 = 4_000_000;

/// Nanoseconds a foreground write that needs new space is delayed: nothing while there is
/// plenty, rising with the square of the shortage, so that the rate of writes settles at the
/// rate of reclaim before the reserve is reached. The wait at the reserve itself is what stops a
/// flood.
pub fn write_delay(facts: &Facts) -> u64 {
    let usable = facts.free.saturating_sub(facts.reserve);
    let span = slow_from(facts) - facts.reserve;
    if usable >= span {
        return 0;
    }
    let shortage = (span - usable) * 1000 / span;
    WRITE_DELAY_MAX * shortage * shortage / 1_000_000
}

/// Live sectors below which compacting a RAID stripe gains enough: at least an eighth of it is
/// dead. When space is desperately short, anything that gains at all.
pub fn worth_compacting(facts: &Facts, stripe_sectors: u64) -> u64 {
    if facts.free <= facts.reserve { stripe_sectors } else { stripe_sectors * 7 / 8 }
}

/// A tuple with less live data than this is emptied rather than converted: conversion keeps a
/// whole stripe for it.
pub fn worth_converting(stripe_sectors: u64) -> u64 {
    stripe_sectors / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLENTY: Facts = Facts {
        free: 900,
        total: 1000,
        limbo: 0,
        replicated: 50,
        replicated_percent: 10,
        eager: false,
        reserve: 12,
        starved: false,
    };

    #[test]
    fn with_plenty_of_space_hot_replicas_are_left_alone() {
        assert_eq!(next_work(&PLENTY, true, true), Work::Rest);
        assert_eq!(write_delay(&PLENTY), 0);
        assert_eq!(next_work(&Facts { eager: true, ..PLENTY }, true, true), Work::Convert);
        assert_eq!(next_work(&Facts { replicated: 101, ..PLENTY }, true, true), Work::Convert);
    }

    #[test]
    fn when_short_dead_stripes_are_flushed_before_anything_is_moved() {
        let short = Facts { free: 20, limbo: 100, ..PLENTY };
        assert_eq!(next_work(&short, true, true), Work::Flush);
        let nothing_dead = Facts { limbo: 0, replicated: 25, ..short };
        assert_eq!(next_work(&nothing_dead, true, true), Work::Compact);
        assert_eq!(next_work(&nothing_dead, true, false), Work::Convert);
        assert_eq!(next_work(&nothing_dead, false, false), Work::Rest);
    }

    #[test]
    fn when_short_replicas_are_given_up_before_data_is_moved_but_for_the_hottest() {
        let short = Facts { free: 20, replicated: 26, ..PLENTY };
        assert_eq!(next_work(&short, true, true), Work::Convert);
        assert_eq!(next_work(&short, false, true), Work::Compact);
        assert_eq!(next_work(&Facts { replicated: 25, ..short }, true, true), Work::Compact);
        let with_room = Facts { free: PLENTY.free, replicated: 100, ..PLENTY };
        assert_eq!(next_work(&with_room, true, true), Work::Rest);
    }

    #[test]
    fn who_waits_is_helped_however_much_is_free() {
        let starved = Facts { starved: true, limbo: 3, replicated: 25, ..PLENTY };
        assert_eq!(next_work(&starved, true, true), Work::Flush);
        assert_eq!(next_work(&Facts { limbo: 0, ..starved }, true, true), Work::Compact);
        assert_eq!(next_work(&Facts { limbo: 0, ..starved }, true, false), Work::Convert);
    }

    #[test]
    fn delay_rises_without_a_step_towards_the_reserve() {
        let delays: Vec<u64> =
            (12..=70).rev().map(|free| write_delay(&Facts { free, ..PLENTY })).collect();
        assert!(delays.windows(2).all(|pair| pair[0] <= pair[1]));
        assert!(delays.windows(2).all(|pair| pair[1] - pair[0] < WRITE_DELAY_MAX / 8));
        assert_eq!(delays.last(), Some(&WRITE_DELAY_MAX));
    }
}

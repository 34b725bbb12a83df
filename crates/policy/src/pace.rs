//! How much of the time background work may have, between groups of its operations.
//!
//! ```text
//! share = least + (1 - least) · (1 - (1 - ease) · (1 - need))      all of it: no pause at all
//!
//! need    0 ── low ─────── rising as space, journal or patches run short ─────── low/2 ── 1
//! ease    0 ── queues on the drives, requests hurt by us ── few, unhurt ── nobody there ── 1
//! ```
//! Need alone is enough for everything, and so is ease: whoever waits for space has it made at
//! full speed, an idle pool works off what it owes unhindered, and in between each input moves
//! the share a little for a little. There is no input for which it is zero, so nothing is stuck.
//! FusionRAID §5.4 only suspended conversion above 40 MB/s a drive: a step, and blind to harm.

use crate::background::{Facts, area_max, low, slow_from};

/// All of the time, in the unit of shares and pressures.
pub const FULL: u16 = 1000;
/// Share of a pool that is busy, hurt and in no need.
const SHARE_MIN: u64 = 20;
/// Share beside requests that it does not hurt: drives are left half of the time for what they
/// do behind our back.
const BESIDE_MAX: u64 = 500;
/// So long after the last request (nanoseconds) a pool counts as idle: clients that take turns
/// leave shorter gaps.
const IDLE_AFTER: u64 = 20_000_000;
/// Latency beside background work over latency without (permille): up to the first it is called
/// noise, from the second on harm.
const HARM: (u64, u64) = (1_100, 2_000);
/// Longest pause after one group (nanoseconds), however long the group took.
pub const PAUSE_MAX: u64 = 250_000_000;

/// What speaks for and against the next group.
#[derive(Clone, Copy, Debug, Default)]
pub struct Load {
    /// Need for what background work makes: 0 none, 1000 somebody waits for it.
    pub pressure: u16,
    /// Requests of clients on their way.
    pub in_flight: u32,
    /// Nanoseconds since there was one.
    pub idle_nanos: u64,
    /// Operations outstanding on the drives of the group, in thousandths of one a drive.
    pub queue: u32,
    /// High quantiles of request latency (nanoseconds): of those that met background work, and of
    /// those that did not. Zero: not known.
    pub beside: u64,
    pub alone: u64,
}

/// 0 up to `from`, 1000 from `to` on, in proportion between.
pub fn ramp(value: u64, from: u64, to: u64) -> u16 {
    let to = to.max(from + 1);
    let above = u128::from(value.clamp(from, to) - from);
    (above * u128::from(FULL) / u128::from(to - from)) as u16
}

/// Need for space: none at `low`, where making space begins, and everything where writes begin
/// to be slowed ([`crate::background::write_delay`]): background work gives all it can before a
/// request pays.
pub fn space_pressure(facts: &Facts) -> u16 {
    if facts.starved {
        return FULL;
    }
    FULL - ramp(facts.free, slow_from(facts), low(facts))
}

/// How little requests would notice.
fn ease(load: &Load) -> u64 {
    let idle = if load.in_flight == 0 { ramp(load.idle_nanos, 0, IDLE_AFTER) } else { 0 };
    let harm = match (load.beside, load.alone) {
        (0, _) | (_, 0) => 0,
        (beside, alone) => ramp(beside.saturating_mul(1000) / alone, HARM.0, HARM.1),
    };
    let free = 1_000_000 / (1000 + u64::from(load.queue));
    let beside = BESIDE_MAX * free * u64::from(FULL - harm) / 1_000_000;
    beside.max(u64::from(idle))
}

/// Share of the time (permille, never zero) that groups of background operations may take.
pub fn share(load: &Load) -> u16 {
    let full = u64::from(FULL);
    let need = u64::from(load.pressure).min(full);
    let either = full * full - (full - ease(load)) * (full - need);
    (SHARE_MIN + (full - SHARE_MIN) * either / (full * full)) as u16
}

/// Nanoseconds to wait after a group that took `took`, for it to have had `share` of the time.
pub fn pause(took: u64, share: u16) -> u64 {
    let share = u64::from(share.clamp(1, FULL));
    (took.saturating_mul(u64::from(FULL) - share) / share).min(PAUSE_MAX)
}

/// Tuples that have to be converted because the replicated area is larger than it may be, or
/// because all have to.
pub fn tuples_due(facts: &Facts, copies: u64, tuples: u64) -> u64 {
    if facts.eager {
        return tuples;
    }
    facts.replicated.saturating_sub(area_max(facts)).div_ceil(copies).min(tuples)
}

/// Marks of space pressure that are told of: (when it rises to, when it falls below). Far apart,
/// since making space goes in rounds.
const MARKS: [(u16, u16); 2] = [(300, 100), (900, 500)];

/// How many marks pressure is above, when it was above `before`.
pub fn marks_passed(before: usize, pressure: u16) -> usize {
    let risen = MARKS.iter().filter(|mark| pressure >= mark.0).count();
    let not_fallen = MARKS.iter().filter(|mark| pressure >= mark.1).count();
    before.clamp(risen, not_fallen)
}

#[cfg(test)]
mod tests;

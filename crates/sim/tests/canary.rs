//! Drives that break their contract must be noticed: a net without holes catches canaries.

use std::sync::OnceLock;

use sim::failure::Check;
use sim::run::Case;
use sim::world::{Canary, Fill, Plan};

/// Enough to see that the net holds; `steadyraid-sim world` runs as many as one likes.
const WORLDS: usize = 32;

/// Worlds that end well without a canary, found once for all tests.
fn good_worlds() -> &'static [u64] {
    static GOOD: OnceLock<Vec<u64>> = OnceLock::new();
    GOOD.get_or_init(|| {
        // Worlds in which the pool is not full: they are over soon.
        let calm = (10_000..).filter(|&seed| Plan::from_seed(seed).fill == Fill::Calm);
        let seeds: Vec<u64> = calm.take(WORLDS).collect();
        let ends_well = |&seed: &u64| Case::of(seed).run().is_ok();
        assert!(seeds.iter().all(ends_well), "without canaries all is well");
        seeds
    })
}

/// How many of those fail with the canary.
fn caught_with(canary: Canary) -> usize {
    good_worlds().iter().filter(|&&seed| notices(seed, canary)).count()
}

/// A check must say that bytes are wrong, or the engine that its metadata are. A panic proves
/// nothing: it could be our own.
fn notices(seed: u64, canary: Canary) -> bool {
    let case = Case { canary: Some(canary), ..Case::of(seed) };
    let wrong = [Check::Read, Check::Recovery, Check::Open, Check::Audit, Check::Hang];
    case.run().is_err_and(|failure| wrong.contains(&failure.check))
}

/// Not all worlds need to notice: in some nothing is flushed, or the power never goes.
fn is_caught(canary: Canary, least: usize) {
    let caught = caught_with(canary);
    assert!(caught >= least, "only {caught} of {WORLDS} worlds noticed {canary:?}");
}

#[test]
fn drives_that_lie_about_flushes_are_caught() {
    is_caught(Canary::AllLie, 23);
}

#[test]
fn one_drive_that_lies_is_caught() {
    is_caught(Canary::OneLies, 20);
}

#[test]
fn silent_changes_are_caught() {
    is_caught(Canary::Rot, 22);
}

#[test]
fn lost_writes_are_caught() {
    is_caught(Canary::Lost, 20);
}

#[test]
fn torn_writes_are_caught() {
    is_caught(Canary::Torn, 22);
}

#[test]
fn misdirected_writes_are_caught() {
    is_caught(Canary::Misdirected, 22);
}

#[test]
fn a_drive_that_answers_no_more_is_noticed() {
    is_caught(Canary::Hangs, 20);
}

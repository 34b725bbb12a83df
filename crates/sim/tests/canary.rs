//! Drives that break their contract must be noticed: a net without holes catches canaries.

use sim::run::caught;
use sim::world::{Canary, Plan, run_plan};

/// How many of the worlds that end well without the canary fail with it. Not all do: in some
/// nothing was flushed, or the power never went.
fn caught_with(canary: Canary) -> usize {
    let ends_well = |seed, canary| caught(|| run_plan(Plan::from_seed(seed), canary)).is_ok();
    let good: Vec<u64> = (0..24).filter(|&seed| ends_well(seed, None)).collect();
    assert_eq!(good.len(), 24, "without canaries all is well");
    good.into_iter().filter(|&seed| !ends_well(seed, Some(canary))).count()
}

#[test]
fn drives_that_lie_about_flushes_are_caught() {
    let caught = caught_with(Canary::AllLie);
    assert!(caught >= 12, "only {caught} of 24 worlds noticed");
}

#[test]
fn one_drive_that_lies_is_caught() {
    let caught = caught_with(Canary::OneLies);
    assert!(caught >= 8, "only {caught} of 24 worlds noticed");
}

#[test]
fn silent_changes_are_caught() {
    let caught = caught_with(Canary::Rot);
    assert!(caught >= 8, "only {caught} of 24 worlds noticed");
}

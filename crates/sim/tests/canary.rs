//! Drives that break their contract must be noticed: a net without holes catches canaries.

use std::sync::OnceLock;

use sim::run::caught;
use sim::world::{Canary, Plan, run_plan};

/// Worlds that end well without a canary, found once for all tests.
fn good_worlds() -> &'static [u64] {
    static GOOD: OnceLock<Vec<u64>> = OnceLock::new();
    GOOD.get_or_init(|| {
        let good: Vec<u64> = (0..WORLDS).filter(|&seed| ends_well(seed, None)).collect();
        assert_eq!(good.len() as u64, WORLDS, "without canaries all is well");
        good
    })
}

/// Enough to see that the net holds; `sim worlds` runs as many as one likes.
const WORLDS: u64 = 10;

fn ends_well(seed: u64, canary: Option<Canary>) -> bool {
    caught(|| run_plan(Plan::from_seed(seed), canary)).is_ok()
}

/// How many of those fail with the canary. Not all do: in some nothing was flushed, or the
/// power never went.
fn caught_with(canary: Canary) -> usize {
    good_worlds().iter().filter(|&&seed| !ends_well(seed, Some(canary))).count()
}

#[test]
fn drives_that_lie_about_flushes_are_caught() {
    let caught = caught_with(Canary::AllLie);
    assert!(caught >= 5, "only {caught} of {WORLDS} worlds noticed");
}

#[test]
fn one_drive_that_lies_is_caught() {
    let caught = caught_with(Canary::OneLies);
    assert!(caught >= 3, "only {caught} of {WORLDS} worlds noticed");
}

#[test]
fn silent_changes_are_caught() {
    let caught = caught_with(Canary::Rot);
    assert!(caught >= 3, "only {caught} of {WORLDS} worlds noticed");
}

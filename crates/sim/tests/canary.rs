//! Drives that break their contract must be noticed: a net without holes catches canaries.

use std::sync::OnceLock;

use sim::run::caught;
use sim::world::{Canary, Fill, Plan, run_plan};

/// Enough to see that the net holds; `sim worlds` runs as many as one likes.
const WORLDS: usize = 16;

/// Worlds that end well without a canary, found once for all tests.
fn good_worlds() -> &'static [Plan] {
    static GOOD: OnceLock<Vec<Plan>> = OnceLock::new();
    GOOD.get_or_init(|| {
        // Worlds in which the pool is not full: they are over soon.
        let calm = (0..).map(Plan::from_seed).filter(|plan| plan.fill == Fill::Calm);
        let plans: Vec<Plan> = calm.take(WORLDS).collect();
        let ends_well = |plan: &Plan| caught(|| run_plan(plan.clone(), None)).is_ok();
        assert!(plans.iter().all(ends_well), "without canaries all is well");
        plans
    })
}

/// How many of those fail with the canary. Not all need to: in some nothing is flushed, or the
/// power never goes.
fn caught_with(canary: Canary) -> usize {
    good_worlds().iter().filter(|plan| notices(plan, canary)).count()
}

/// A check must say that bytes are wrong, or the engine that its metadata are. A panic proves
/// nothing: it could be our own.
fn notices(plan: &Plan, canary: Canary) -> bool {
    let end = caught(|| run_plan(plan.clone(), Some(canary)));
    end.is_err_and(|what| {
        ["read:", "after recovery:", "open:"].iter().any(|&by| what.starts_with(by))
    })
}

#[test]
fn drives_that_lie_about_flushes_are_caught() {
    let caught = caught_with(Canary::AllLie);
    assert!(caught >= 14, "only {caught} of {WORLDS} worlds noticed");
}

#[test]
fn one_drive_that_lies_is_caught() {
    let caught = caught_with(Canary::OneLies);
    assert!(caught >= 14, "only {caught} of {WORLDS} worlds noticed");
}

#[test]
fn silent_changes_are_caught() {
    let caught = caught_with(Canary::Rot);
    assert!(caught >= 14, "only {caught} of {WORLDS} worlds noticed");
}

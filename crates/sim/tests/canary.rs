//! Drives that break their contract must be noticed: a net without holes catches canaries.

use sim::run::caught;
use sim::world::{Canary, Fill, Plan, run_plan};

const WORLDS: usize = 16;

/// How many of the worlds that end well without the canary fail with it. Not all do: in some
/// nothing was flushed, or the power never went.
fn caught_with(canary: Canary) -> usize {
    let ends_well = |plan: &Plan, canary| caught(|| run_plan(plan.clone(), canary)).is_ok();
    // Worlds in which the pool is not full: they are over soon.
    let plans = (0..).map(Plan::from_seed).filter(|plan| plan.fill == Fill::Calm);
    let plans: Vec<Plan> = plans.take(WORLDS).collect();
    assert!(plans.iter().all(|plan| ends_well(plan, None)), "without canaries all is well");
    plans.iter().filter(|plan| notices(plan, canary)).count()
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

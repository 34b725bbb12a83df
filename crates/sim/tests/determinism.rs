//! A seed means the same, always, and in every process.

use std::process::Command;

use sim::campaign::{self, Summary};
use sim::world::{Plan, run};

#[test]
fn the_same_seed_does_the_same_and_another_something_else() {
    let seeds = [3, 17, 10_001];
    let first = seeds.map(|seed| run(seed).expect("it passes"));
    let second = seeds.map(|seed| run(seed).expect("it passes"));
    assert_eq!(first, second, "drives saw the same at the same times, and the counters agree");
    assert_ne!(first[0].trace, first[1].trace);
    assert_ne!(first[1].trace, first[2].trace);
}

/// What the list of old failures stands for must not drift unnoticed.
#[test]
fn plans_of_old_seeds_stay_as_they_were() {
    assert_eq!(
        Plan::from_seed(61).describe(),
        "seed 61: Liveness, fusion, 3 drives of 27 MiB, 1+1 in 64 KiB blocks, Lazy, \
         area 10 %, Pressure, volumes [24052 KiB 1+1], 2 clients, sessions [1, 2] of \
         1341 requests, victims [2], 0 troubles"
    );
    assert_eq!(
        Plan::from_seed(1_006).describe(),
        "seed 1006: Liveness, fusion, 6 drives of 26 MiB, 3+2 in 16 KiB blocks, Lazy, \
         area 2 %, Pressure, volumes [34856 KiB 3+2, 34856 KiB 3+2], 1 clients, \
         sessions [1, 2, 3, 4, 5] of 814 requests, victims [4, 2], 0 troubles"
    );
}

#[test]
fn two_processes_tell_the_same_story() {
    for seed in ["15", "10002", "10003", "10010"] {
        let meta = Command::new(env!("CARGO_BIN_EXE_steadyraid-sim"))
            .args(["meta", seed])
            .output()
            .expect("it runs");
        let said = String::from_utf8_lossy(&meta.stdout);
        assert!(meta.status.success(), "{said}");
        assert!(said.contains(" lines are the same"), "{said}");
    }
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let of_jobs = |jobs| {
        let mut seeds = Vec::new();
        let push = |outcome: &campaign::Outcome, _: &Summary| seeds.push(outcome.seed);
        let summary = campaign::run(10_000, Some(10_005), jobs, || true, push);
        assert_eq!(seeds, Vec::from_iter(10_000..=10_005));
        summary
    };
    let alone = of_jobs(1);
    assert_eq!(alone.passed + alone.failed, 6);
    assert_eq!(alone, of_jobs(3));
}

#[test]
fn when_time_is_up_no_world_begins() {
    let summary = campaign::run(10_000, None, 2, || false, |_, _| {});
    assert_eq!(summary, Summary::default());
}

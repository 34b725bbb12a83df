//! Known answers, and that they are the same again.

use super::*;

fn of(name: &str, drives: usize) -> Score {
    let scene = SCENES.iter().find(|scene| scene.name == name).expect("a scene");
    let mut all = Score::default();
    (1..=3).for_each(|seed| all.add(&score(scene, drives, seed)));
    all
}

#[test]
fn a_drive_that_is_always_slow_is_found_in_seconds_and_nobody_else() {
    // Bursts take a quarter of the last half minute to tell from spikes.
    let soon = ["+300 ms", "+5 ms", "+300 ms, host stalls"].map(|name| (name, 10));
    for drives in POOLS {
        for (name, seconds) in soon.into_iter().chain([("bursts: 2 s of 4 s", 20)]) {
            let score = of(name, drives);
            assert_eq!((score.slow, score.found, score.wrong), (3, 3, 0), "{name}: {score:?}");
            let soon = |delay: &u64| *delay <= seconds * SECOND;
            assert!(score.delays.iter().all(soon), "{name}: {score:?}");
        }
    }
}

#[test]
fn nobody_is_blamed_for_what_slows_all_drives_or_for_what_it_is_asked() {
    for drives in POOLS {
        let lasts = |scene: &&Scene| matches!(scene.noise, Noise::Episodes | Noise::Pairs);
        let none = |scene: &&Scene| scene.slowness == Slowness::None && !lasts(scene);
        for scene in SCENES.iter().filter(none) {
            let score = of(scene.name, drives);
            assert_eq!((score.slow, score.wrong), (0, 0), "{}: {score:?}", scene.name);
        }
    }
}

/// What lasts for seconds can't always be told from a drive's own doing; an episode of three was
/// six periods of eight, and each was a verdict.
#[test]
fn neighbours_that_take_seconds_are_seldom_a_drives_fault() {
    for drives in POOLS {
        for name in ["none: episodes of 1 to 4 s", "none: pairs", "none: pairs, parity 2"] {
            let score = of(name, drives);
            assert!(score.wrong <= 4, "{name}: {score:?}");
        }
    }
}

#[test]
fn two_slow_drives_are_both_found_whatever_the_parity() {
    for drives in POOLS {
        for name in ["two +300 ms, parity 1", "two +300 ms, parity 2"] {
            let score = of(name, drives);
            assert_eq!((score.slow, score.found, score.wrong), (6, 6, 0), "{name}: {score:?}");
            assert!(score.delays.iter().all(|delay| *delay <= 10 * SECOND), "{name}: {score:?}");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_score() {
    assert_eq!(of("ramp to +50 ms", 7), of("ramp to +50 ms", 7));
}

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
        for scene in SCENES.iter().filter(|scene| scene.slowness == Slowness::None) {
            let score = of(scene.name, drives);
            assert_eq!((score.slow, score.wrong), (0, 0), "{}: {score:?}", scene.name);
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_score() {
    assert_eq!(of("ramp to +50 ms", 7), of("ramp to +50 ms", 7));
}

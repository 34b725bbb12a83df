//! What operators may type, ten thousand times: it is done or refused, and nothing panics.

use fuzz::verbs::{generate, run};

const INPUTS: u64 = 10_000;
/// At least so many of a hundred are taken, and refused: or a mistake here would hide all others.
const LEAST_PERCENT: u64 = 5;

/// Says what to repeat if what is under way panics.
struct UnderWay(u64);

impl Drop for UnderWay {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Self(seed) = self;
            eprintln!("seed {seed}, for cases/verbs:\n{}", generate(*seed));
        }
    }
}

#[test]
fn whatever_is_asked_for_is_done_or_refused() {
    let mut taken = 0;
    for seed in 0..INPUTS {
        let under_way = UnderWay(seed);
        taken += u64::from(run(generate(seed).as_bytes()));
        drop(under_way);
    }
    let least = INPUTS / 100 * LEAST_PERCENT;
    assert!((least..INPUTS - least).contains(&taken), "{taken} of {INPUTS} are taken");
}

//! `cuts`: the power goes after every write of the script.

use sim::cuts::{self, Scenario, Twist};
use sim::machine::Death;

#[derive(clap::Args)]
pub struct Words {
    /// Only after this write
    #[arg(long, value_name = "K")]
    only: Option<u64>,
}

/// One cut in every way; returns how many passed and failed.
fn cut_once(scenario: Scenario, cut: u64) -> (u64, u64) {
    let (mut passed, mut failed) = (0, 0);
    for death in Death::ALL {
        for twist in [Twist::NONE, Twist::for_cut(scenario, cut)] {
            match cuts::run(scenario, cut, death, twist) {
                Ok(_) => passed += 1,
                Err(what) => {
                    failed += 1;
                    println!("FAILED {what}");
                }
            }
        }
    }
    (passed, failed)
}

pub fn run(words: &Words) -> bool {
    let (mut passed, mut failed) = (0, 0);
    for scenario in Scenario::ALL {
        let writes = cuts::writes_of(scenario);
        println!("{scenario:?}: {writes} writes, {} ways to die", Death::ALL.len());
        for cut in (1..=writes).filter(|&cut| words.only.is_none_or(|only| only == cut)) {
            let (good, bad) = cut_once(scenario, cut);
            (passed, failed) = (passed + good, failed + bad);
            if cut.is_multiple_of(100) {
                println!("{scenario:?}: {cut} of {writes}, {failed} failed");
            }
        }
    }
    super::conclude(passed, failed)
}

//! `sim`: runs worlds, replays one, cuts the power everywhere.
//!
//! ```text
//! sim worlds --seeds N [--start S]   N worlds from seed S on
//! sim replay SEED                    one world, and what happened in it
//! sim cuts [--only K]                the power goes after every write of the script
//! sim meta SEED                      the same world in two processes: the same trace?
//! ```

use std::process::{Command, ExitCode};

use sim::cuts::{self, Scenario, Twist};
use sim::machine::Death;
use sim::run;

const USAGE: &str =
    "usage: sim worlds --seeds N [--start S] | replay SEED | cuts [--only K] | meta SEED";

fn option(args: &[String], name: &str) -> Option<u64> {
    let at = args.iter().position(|arg| arg == name)?;
    args.get(at + 1)?.parse().ok()
}

/// The verdict, in a form that scripts can look for.
fn conclude(passed: u64, failed: u64) -> ExitCode {
    println!("{passed} passed, {failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn worlds(args: &[String]) -> ExitCode {
    let start = option(args, "--start").unwrap_or(0);
    let count = option(args, "--seeds").unwrap_or(100);
    println!("worlds: {count} seeds from {start}");
    let mut failed = 0;
    for seed in start..start + count {
        if let Err(what) = run::seed(seed) {
            failed += 1;
            println!("FAILED seed {seed}: {what}");
        }
        let done = seed - start + 1;
        if done.is_multiple_of(50) {
            println!("{done} of {count} worlds, {failed} failed");
        }
    }
    conclude(count - failed, failed)
}

fn replay(seed: u64) -> ExitCode {
    println!("{}", sim::world::Plan::from_seed(seed).describe());
    match run::seed(seed) {
        Ok(report) => {
            println!("{report:#?}");
            conclude(1, 0)
        }
        Err(what) => {
            println!("FAILED seed {seed}: {what}");
            conclude(0, 1)
        }
    }
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

fn cut_everywhere(args: &[String]) -> ExitCode {
    let only = option(args, "--only");
    let (mut passed, mut failed) = (0, 0);
    for scenario in Scenario::ALL {
        let writes = cuts::writes_of(scenario);
        println!("{scenario:?}: {writes} writes, {} ways to die", Death::ALL.len());
        for cut in (1..=writes).filter(|&cut| only.is_none_or(|only| only == cut)) {
            let (good, bad) = cut_once(scenario, cut);
            (passed, failed) = (passed + good, failed + bad);
            if cut.is_multiple_of(100) {
                println!("{scenario:?}: {cut} of {writes}, {failed} failed");
            }
        }
    }
    conclude(passed, failed)
}

/// Two processes differ in what one process can't: addresses, and so the order of whatever
/// hangs on them.
fn meta(seed: &str) -> ExitCode {
    let run = || {
        let own = std::env::current_exe().expect("this program has a path");
        Command::new(own).args(["replay", seed]).output().expect("this program runs")
    };
    let (first, second) = (run(), run());
    let same = first.stdout == second.stdout && first.status.success();
    print!("{}", String::from_utf8_lossy(&first.stdout));
    if !same {
        println!("the second run said:\n{}", String::from_utf8_lossy(&second.stdout));
    }
    conclude(u64::from(same), u64::from(!same))
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["worlds", ..] => worlds(&args),
        ["replay", seed] if seed.parse::<u64>().is_ok() => replay(seed.parse().expect("checked")),
        ["cuts", ..] => cut_everywhere(&args),
        ["meta", seed] => meta(seed),
        _ => {
            eprintln!("{USAGE}");
            ExitCode::FAILURE
        }
    }
}

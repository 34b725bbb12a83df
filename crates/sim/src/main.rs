//! `steadyraid-sim`: runs worlds, replays and shrinks one, cuts the power everywhere.
//!
//! ```text
//! steadyraid-sim world --seed N | --seeds A..B [--minutes M] [--jobs J]
//! steadyraid-sim replay SEED     one world, and what happened in it
//! steadyraid-sim shrink SEED     the smallest world that fails as this one does
//! steadyraid-sim cuts            the power goes after every write of the script
//! steadyraid-sim day             a day of one pool in two minutes: all is there, memory is flat
//! steadyraid-sim meta SEED       the same world in two processes: the same trace?
//! steadyraid-sim drive PRESET    a modelled drive's latency over time, as a table and a picture
//! ```

mod commands;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Simulated worlds that try to break SteadyRAID
#[derive(Parser)]
#[command(name = "steadyraid-sim", version)]
struct Words {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Run worlds from seeds
    World(commands::world::Words),
    /// Run one world and tell what happened in it
    Replay(commands::replay::Words),
    /// Find a smaller world that fails in the same way
    Shrink(commands::shrink::Words),
    /// Cut the power after every write of a fixed script, in every way
    Cuts(commands::cuts::Words),
    /// Run a day of one pool, with all that operators and fate do to it
    Day(commands::day::Words),
    /// Run a world in two processes and compare everything that they tell
    Meta(commands::meta::Words),
    /// Show a modelled drive's latency over time, as a table and a picture
    Drive(sim::drive::DriveArgs),
}

fn main() -> ExitCode {
    let passed = match Words::parse().verb {
        Verb::World(words) => commands::world::run(&words),
        Verb::Replay(words) => commands::replay::run(&words),
        Verb::Shrink(words) => commands::shrink::run(&words),
        Verb::Cuts(words) => commands::cuts::run(&words),
        Verb::Day(words) => commands::day::run(&words),
        Verb::Meta(words) => commands::meta::run(&words),
        Verb::Drive(args) => sim::drive::run(&args)
            .inspect_err(|error| eprintln!("steadyraid-sim drive: {error}"))
            .is_ok(),
    };
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

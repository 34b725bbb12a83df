//! `steadyraid`: pools of drives, redundant volumes, served over NBD.

mod cli;
mod control;
mod drives;
mod error;
mod exit;
mod explain;
mod inspect;
mod pools;
mod render;
mod runtime_dir;
mod serve;
mod size;
mod wall_clock;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let exit = cli::Cli::parse().run().unwrap_or_else(|failure| {
        eprintln!("{failure}");
        failure.exit()
    });
    exit.into()
}

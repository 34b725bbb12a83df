//! `steadyraid`: pools of drives, redundant volumes, served over NBD.

#![cfg_attr(test, allow(dead_code))]

mod api;
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
mod top;
mod wall_clock;

#[cfg(not(test))]
use std::process::ExitCode;

#[cfg(not(test))]
use clap::Parser;

// Tests of small parts needn't wait until all of the product is compiled.
#[cfg(not(test))]
fn main() -> ExitCode {
    let exit = <cli::Cli>::parse().run().unwrap_or_else(|failure| {
        eprintln!("{failure}");
        failure.exit()
    });
    exit.into()
}

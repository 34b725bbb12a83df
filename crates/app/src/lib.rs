//! `steadyraid`: pools of drives, redundant volumes, served over NBD.

#![cfg_attr(any(test, fuzzing), allow(dead_code))]

mod api;
mod cli;
mod control;
mod drives;
mod error;
mod exit;
mod explain;
mod host;
pub mod hostile;
mod inspect;
mod pools;
mod render;
mod runtime_dir;
mod serve;
mod size;
mod top;
mod wall_clock;

#[cfg(not(any(test, fuzzing)))]
use std::io::Write;
#[cfg(not(any(test, fuzzing)))]
use std::process::ExitCode;

#[cfg(not(any(test, fuzzing)))]
use clap::Parser;

// Tests of small parts, and fuzzing, needn't wait until all of the product is compiled. A
// `pub async fn` that is no method always is, called or not: those of this crate are `pub(crate)`.
#[cfg(not(any(test, fuzzing)))]
pub fn main() -> ExitCode {
    let run = |verb: cli::Cli| {
        verb.run().unwrap_or_else(|failure| {
            // Nobody may listen any more, which is no reason for another exit code.
            let _ = writeln!(std::io::stderr(), "{failure}");
            failure.exit()
        })
    };
    let exit = match <cli::Cli>::try_parse() {
        Ok(verb) => run(verb),
        Err(refused) if refused.use_stderr() => refused.exit(),
        // Help, or the version: an answer as any other.
        Err(asked) => {
            render::note(asked.print());
            exit::Exit::Ok
        }
    };
    match render::all_printed() {
        true => exit.into(),
        false => exit.worst(exit::Exit::Failed).into(),
    }
}

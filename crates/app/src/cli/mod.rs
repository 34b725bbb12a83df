//! The command line. One file per verb: its arguments, then what it does.

pub mod create;
pub mod drive;
pub mod events;
pub mod generate;
pub mod inspect;
pub mod list;
pub mod reach;
pub mod rebalance;
pub mod rebuild;
pub mod schemes;
pub mod scrub;
pub mod serve;
pub mod status;
pub mod top;
pub mod volume;
pub mod wait;

use clap::{Parser, Subcommand};
use io::uring::UringEnv;

use crate::error::{Failure, Outcome};
use crate::exit::Exit;

const EXIT_CODES: &str = "\
Exit codes:
  0  done, all is well
  1  the answer is negative: a pool is degraded or failed, a drive is slow, nothing was found
  2  the command or configuration makes no sense; nothing was touched
  3  refused or failed

Sizes: K, M, G, T (also KiB, MiB, GiB, TiB) are powers of 1024.

Examples:
  steadyraid create tank /dev/nvme0n1 /dev/nvme1n1 /dev/nvme2n1 /dev/nvme3n1
  steadyraid volume create tank/vm1 500G --drives /dev/nvme?n1
  steadyraid serve /dev/nvme?n1
  steadyraid status";

/// A RAID engine in user space: pools of drives, redundant volumes, served as NBD.
#[derive(Parser, Debug)]
#[command(name = "steadyraid", version, max_term_width = 100, after_help = EXIT_CODES)]
pub struct Cli<V: Subcommand = Any> {
    #[command(subcommand)]
    verb: V,
}

/// What is understood: the verbs, and what only packaging asks for.
#[derive(Subcommand, Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one, for as long as the program runs")]
pub enum Any {
    #[command(flatten)]
    Verb(Verb),
    #[command(hide = true)]
    Generate(generate::Args),
}

#[derive(Subcommand, Debug)]
pub enum Verb {
    Create(create::Args),
    #[command(subcommand)]
    Volume(volume::Verb),
    Serve(serve::Args),
    Status(status::Args),
    Top(top::Args),
    Wait(wait::Args),
    #[command(subcommand)]
    Scrub(scrub::Verb),
    Rebalance(rebalance::Args),
    #[command(subcommand)]
    Rebuild(rebuild::Verb),
    Events(events::Args),
    #[command(subcommand)]
    Drive(drive::Verb),
    List(list::Args),
    Inspect(inspect::Args),
    Schemes(schemes::Args),
}

impl Cli {
    /// What it was told, to who does it otherwise.
    pub fn told(self) -> Option<Verb> {
        match self.verb {
            Any::Verb(verb) => Some(verb),
            Any::Generate(_) => None,
        }
    }

    pub fn run(self) -> Outcome<Exit> {
        match self.verb {
            Any::Verb(verb) => verb.run(),
            Any::Generate(args) => generate::run(&args),
        }
    }
}

impl Verb {
    fn run(self) -> Outcome<Exit> {
        match self {
            Verb::Create(args) => create::run(&args),
            Verb::Volume(verb) => volume::run(&verb),
            Verb::Serve(args) => serve::run(args),
            Verb::Status(args) => status::run(&args),
            Verb::Top(args) => top::run(&args),
            Verb::Wait(args) => wait::run(&args),
            Verb::Scrub(verb) => scrub::run(&verb),
            Verb::Rebalance(args) => rebalance::run(&args),
            Verb::Rebuild(verb) => rebuild::run(&verb),
            Verb::Events(args) => events::run(&args),
            Verb::Drive(verb) => drive::run(&verb),
            Verb::List(args) => list::run(&args),
            Verb::Inspect(args) => inspect::run(&args),
            Verb::Schemes(args) => schemes::run(&args),
        }
    }
}

/// The real world, for verbs that touch drives.
fn environment() -> Outcome<UringEnv> {
    UringEnv::new().map_err(|error| {
        Failure::new("io_uring", error).hint(
            "no drive can be used without it: allow it, in a container by its seccomp profile",
        )
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        <super::Cli>::command().debug_assert();
    }
}

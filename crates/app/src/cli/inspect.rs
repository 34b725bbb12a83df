//! `inspect`: what is on a drive.

use io::uring::Access;

use crate::drives;
use crate::drives::name::DriveName;
use crate::error::Outcome;
use crate::exit::Exit;
use crate::inspect::{self, Content, Depth, human};
use crate::render::{json, print};

/// Show what is on a drive: labels, and if asked for, journal and checkpoint
///
/// Only reads, and works on drives that are in use. Exit code 1 if it is not a drive of a
/// pool, or its labels can't be used.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  steadyraid inspect /dev/nvme0n1
  steadyraid inspect d0.img --journal --checkpoint --json")]
pub struct Args {
    /// A block device or file
    #[arg(value_parser = DriveName::parser())]
    drive: DriveName,
    /// Decode the journal: blocks and their records
    #[arg(long)]
    journal: bool,
    /// Decode the checkpoint area: slots and what is in them
    #[arg(long)]
    checkpoint: bool,
    /// A JSON document instead of text
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Outcome<Exit> {
    let env = super::environment()?;
    let depth = Depth { journal: args.journal, checkpoint: args.checkpoint };
    let report = env.block_on(async {
        let drive = drives::open(&env, args.drive.path(), Access::ReadOnly).await?;
        inspect::look(&drive, depth).await
    })?;
    let text = if args.json { json::document(&report) } else { human::report(&report) };
    print(&text);
    Ok(if report.content == Content::Steadyraid { Exit::Ok } else { Exit::Negative })
}

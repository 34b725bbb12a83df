//! `rebuild pause | resume`.

use clap::Subcommand;

use crate::control::{ControlArgs, Request};
use crate::error::Outcome;
use crate::exit::Exit;

/// Hold up, or go on with, what is moved because drives are lost, leave or come
///
/// Half a minute after a drive was lost the others begin to take over what it held, as far as there
/// is free space, beside requests. 'status' shows how far that is. In a pool of another scheme than
/// fusion a spare takes the lost drive's place ('drive add'), and what is held up is that, and the
/// filling of drives.
#[derive(Subcommand, Debug)]
#[command(after_help = "\
Examples:
  steadyraid rebuild pause tank
  steadyraid rebuild resume tank")]
pub enum Verb {
    /// Hold it up until 'rebuild resume', or the server is started again
    #[command(after_help = "Example:\n  steadyraid rebuild pause tank")]
    Pause(Args),
    /// Go on with what 'rebuild pause' holds up
    #[command(after_help = "Example:\n  steadyraid rebuild resume tank")]
    Resume(Args),
}

#[derive(clap::Args, Debug)]
pub struct Args {
    pool: String,
    #[command(flatten)]
    control: ControlArgs,
}

pub fn run(verb: &Verb) -> Outcome<Exit> {
    let (args, pause) = match verb {
        Verb::Pause(args) => (args, true),
        Verb::Resume(args) => (args, false),
    };
    let request = Request::Rebuild { pool: args.pool.clone(), pause };
    args.control.have_done(&request)
}

//! `rebalance`: what lies on fewer drives than it could moves.

use crate::control::{ControlArgs, Request};
use crate::error::Outcome;
use crate::exit::Exit;

/// Move what a pool holds to all of its drives
///
/// After 'drive add' only what is written anew lies on the new drives, too. The server empties
/// the zones that lie on fewer, one at a time and beside requests, and goes on when it is started
/// again.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  steadyraid rebalance tank
  steadyraid wait tank rebalance
  steadyraid rebalance tank --stop")]
pub struct Args {
    pool: String,
    /// Stop, after the zone that is being emptied now
    #[arg(long)]
    stop: bool,
    #[command(flatten)]
    control: ControlArgs,
}

pub fn run(args: &Args) -> Outcome<Exit> {
    let request = Request::Rebalance { pool: args.pool.clone(), stop: args.stop };
    args.control.have_done(&request)
}

//! `top`: pools as they are, again and again.

use std::io::IsTerminal;
use std::time::Duration;

use crate::control::ControlArgs;
use crate::error::{Failure, Outcome};
use crate::exit::Exit;
use crate::render::print;
use crate::top;

/// Watch pools: drives and their latency over time, volumes, background work
///
/// Keys: q quits, p pauses, Tab shows the next pool. What is not a terminal gets one look as text.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  steadyraid top
  steadyraid top --seconds 5
  steadyraid top --once")]
pub struct Args {
    #[command(flatten)]
    control: ControlArgs,
    /// Time between two looks
    #[arg(long, value_name = "SECONDS", default_value = "1")]
    seconds: f64,
    /// Look twice, print what happened in between, end
    #[arg(long)]
    once: bool,
}

pub fn run(args: &Args) -> Outcome<Exit> {
    let sensible = (0.1..=3600.0).contains(&args.seconds);
    let period = Duration::try_from_secs_f64(args.seconds).ok().filter(|_| sensible);
    let period = period.ok_or_else(|| {
        Failure::usage("--seconds", format!("{} is not from 0.1 to 3600", args.seconds))
    })?;
    if args.once || !std::io::stdout().is_terminal() {
        print(&top::once(&args.control, period)?);
        return Ok(Exit::Ok);
    }
    top::run(&args.control, period)
}

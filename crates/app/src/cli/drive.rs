//! `drive sit-out | trust | auto | fail`.

use clap::Subcommand;

use crate::control::{Answer, ControlArgs, Decision, Request};
use crate::error::{Failure, Outcome};
use crate::exit::Exit;
use crate::render::print;

/// Decide about drives that are slow, or leave it to the server
///
/// Asks the server, and takes effect at once. The server leads requests round drives in a
/// spike, avoids and then suspects those that stay slow, and fails those that hang; what is
/// said here comes before that, until 'auto' or the server ends.
#[derive(Subcommand, Debug)]
#[command(after_help = "\
Examples:
  steadyraid drive sit-out tank 3
  steadyraid drive trust tank /dev/nvme3n1
  steadyraid drive auto tank 3
  steadyraid drive fail tank 3 --force")]
pub enum Verb {
    /// Lead requests round a drive until told otherwise; it stays a member, and is kept whole
    #[command(after_help = "\
Example:
  steadyraid drive sit-out tank /dev/nvme3n1")]
    SitOut(Args),
    /// Use a drive whatever its latency: it is neither avoided nor failed for being slow
    #[command(after_help = "\
Example:
  steadyraid drive trust tank 3")]
    Trust(Args),
    /// Let the server decide again
    #[command(after_help = "\
Example:
  steadyraid drive auto tank 3")]
    Auto(Args),
    /// Take a drive out of the pool, for good: it misses every write from now on
    ///
    /// Refused if the pool could not do without the drive, and, unless --force is given, if
    /// nothing were left to make up for one more.
    #[command(after_help = "\
Example:
  steadyraid drive fail tank 3 --force")]
    Fail(FailArgs),
}

#[derive(clap::Args, Debug)]
pub struct Args {
    pool: String,
    /// Its number, UUID or name as 'status' shows it
    drive: String,
    #[command(flatten)]
    control: ControlArgs,
}

#[derive(clap::Args, Debug)]
pub struct FailArgs {
    #[command(flatten)]
    args: Args,
    /// Also if no redundancy is left afterwards
    #[arg(long)]
    force: bool,
}

pub fn run(verb: &Verb) -> Outcome<Exit> {
    match verb {
        Verb::SitOut(args) => decide(args, Decision::SitOut),
        Verb::Trust(args) => decide(args, Decision::Trust),
        Verb::Auto(args) => decide(args, Decision::Auto),
        Verb::Fail(FailArgs { args, force }) => {
            let (pool, drive) = (args.pool.clone(), args.drive.clone());
            ask(args, &Request::DriveFail { pool, drive, force: *force })
        }
    }
}

fn decide(args: &Args, decision: Decision) -> Outcome<Exit> {
    let (pool, drive) = (args.pool.clone(), args.drive.clone());
    ask(args, &Request::DriveDecide { pool, drive, decision })
}

fn ask(args: &Args, request: &Request) -> Outcome<Exit> {
    match args.control.connect()?.ask(request)? {
        Answer::Done(what) => print(&format!("{what}\n")),
        _ => return Err(Failure::new("server", "answered something else than it was asked")),
    }
    Ok(Exit::Ok)
}

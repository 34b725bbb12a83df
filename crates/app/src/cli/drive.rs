//! `drive sit-out | trust | auto | fail | offline | replace | online | add | remove`.

use clap::Subcommand;

use super::reach::Reach;
use crate::control::{Answer, ArrayShape, ControlArgs, Decision, Request};
use crate::drives::modelled::ModelSpec;
use crate::error::{Failure, Outcome};
use crate::exit::Exit;
use crate::pools::add;
use crate::render::print;

/// Decide about drives that are slow, replace drives, and take them back
///
/// Asks the server, and takes effect at once. The server leads requests round drives in a
/// spike, avoids and then suspects those that stay slow, and fails those that hang; what is
/// said here comes before that, until 'auto' or the server ends. In pools of other schemes than
/// fusion slow drives are told of and not avoided, drives that hang are failed after 30 s, if all
/// data is there without them, and a drive that sits out is read only for what no other drive can
/// answer.
#[derive(Subcommand, Debug)]
#[command(after_help = "\
Examples:
  steadyraid drive sit-out tank 3
  steadyraid drive trust tank /dev/nvme3n1
  steadyraid drive auto tank 3
  steadyraid drive fail tank 3 --force
  steadyraid drive replace tank 3 /dev/nvme9n1")]
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
    /// Take a drive out of use: it misses every write from now on
    ///
    /// Refused if the pool could not do without the drive, and, unless --force is given, if
    /// nothing were left to make up for one more.
    #[command(after_help = "\
Example:
  steadyraid drive fail tank 3 --force")]
    Fail(FailArgs),
    /// Take a drive out of use for a while: 'drive online' takes it back
    ///
    /// The same as 'fail', with the same conditions; the server lets go of the drive, so that it
    /// can be pulled. As long as the server runs no spare takes its place by itself.
    #[command(after_help = "\
Example:
  steadyraid drive offline tank 3 --force")]
    Offline(FailArgs),
    /// Put another drive in the place of one, lost or not
    ///
    /// In the place of a lost one, the drive is filled with what that should hold while the pool
    /// goes on being used; 'status' shows how far that is, and only then can the pool do without as
    /// many drives as before. A crash begins it anew. A drive that still works is copied and stays
    /// the member until the other holds everything, so that no redundancy is lost meanwhile; a
    /// crash leaves it the member. In a pool of another scheme than fusion one drive at a time is
    /// copied. Refused if the new drive holds something known, unless --force is given.
    #[command(after_help = "\
Examples:
  steadyraid drive replace tank 3 /dev/nvme9n1
  steadyraid drive replace test 1 d9.img:1G")]
    Replace(ReplaceArgs),
    /// Take a drive back that was lost, failed or taken offline, or sits out
    ///
    /// What it missed is written to it, as with 'replace'. One that sits out has missed nothing:
    /// it is used as before.
    #[command(after_help = "\
Examples:
  steadyraid drive online tank 3 /dev/nvme3n1
  steadyraid drive online tank 5")]
    Online(OnlineArgs),
    /// Move what a drive holds to the others, and let go of it
    ///
    /// The drive is used until nothing is on it any more, and the pool stays as redundant as it is.
    /// Refused if the others have no room for it, or would be fewer than a stripe is wide.
    /// In a pool of another scheme than fusion it is copied onto a spare, which then takes its
    /// place: refused without one that has room. If all of these are smaller than the drive, it is
    /// let go of at once, and until the spare is filled from the others the pool can do without one
    /// drive fewer. A spare itself is let go of, and its label wiped.
    #[command(after_help = "\
Examples:
  steadyraid drive remove tank 3
  steadyraid wait tank restore
  steadyraid drive remove tank 3 --stop")]
    Remove(RemoveArgs),
    /// Add drives to a pool
    ///
    /// While the pool is served, requests wait for some ten milliseconds until the drives are its
    /// own; if that fails, the pool is as it was. What is free lies on all drives from then on;
    /// 'rebalance' moves what is there. A larger drive is used as far as there are others of its
    /// size. Of a pool that is not being served, --drives has to name all drives.
    /// In a pool of another scheme than fusion they become spares: one takes the place of a drive
    /// that is lost for as long as 'serve --rebuild-after' says. The smallest that fits is taken.
    /// With --array they are a further array of the pool, of its scheme, block size and checksums:
    /// nothing that is there moves, and all volumes may use what comes. It can't be taken out
    /// again, and its stripes have to go with the first array's, as they do with as many drives as
    /// that has. All arrays are needed: with more drives of one lost than it bears no volume is
    /// whole.
    #[command(after_help = "\
Examples:
  steadyraid drive add tank /dev/nvme9n1
  steadyraid drive add test d9.img:1G d10.img:1G --drives .
  steadyraid drive add --array old /dev/nvme5n1 /dev/nvme6n1 /dev/nvme7n1")]
    Add(AddArgs),
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

#[derive(clap::Args, Debug)]
pub struct ReplaceArgs {
    #[command(flatten)]
    args: Args,
    /// The drive that takes its place; PATH:SIZE makes a file
    #[arg(value_name = "NEW")]
    new: String,
    /// Overwrite what is on it
    #[arg(long)]
    force: bool,
}

#[derive(clap::Args, Debug)]
pub struct OnlineArgs {
    #[command(flatten)]
    args: Args,
    /// Where it is now; of a drive that sits out nothing need be said
    #[arg(value_name = "PATH")]
    path: Option<String>,
}

#[derive(clap::Args, Debug)]
pub struct RemoveArgs {
    #[command(flatten)]
    args: Args,
    /// It stays after all, and gets back what was moved
    #[arg(long)]
    stop: bool,
}

#[derive(clap::Args, Debug)]
pub struct AddArgs {
    pool: String,
    /// Drives that hold nothing; PATH:SIZE makes a file
    #[arg(value_name = "NEW", required = true, num_args = 1..)]
    new: Vec<String>,
    /// Overwrite what is on the new ones
    #[arg(long)]
    force: bool,
    /// Of another scheme than fusion: a further array, not spares
    #[arg(long)]
    array: bool,
    #[command(flatten)]
    shape: ArrayShape,
    #[command(flatten)]
    reach: Reach,
}

impl AddArgs {
    /// With drives as they are named to whom it is asked.
    pub fn request(&self, new: Vec<String>) -> Request {
        let array = self.array.then(|| self.shape.clone());
        Request::DriveAdd { pool: self.pool.clone(), new, force: self.force, array }
    }

    pub fn names(&self) -> &[String] {
        &self.new
    }
}

fn add(args: &AddArgs) -> Outcome<Exit> {
    let AddArgs { pool, new, force, array, shape, reach } = args;
    let shape = array.then_some(shape);
    let done = if reach.unserved() {
        let env = super::environment()?;
        env.block_on(add::drives(&env, &reach.drives, pool, new, (shape, *force)))?
    } else {
        let new = new.iter().map(|path| seen_from_anywhere(path)).collect::<Outcome<_>>()?;
        match reach.control.ask(&args.request(new))? {
            Answer::Done(done) => done,
            _ => return Err(Failure::new("server", "answered something else than it was asked")),
        }
    };
    print(&format!("{done}\n"));
    Ok(Exit::Ok)
}

pub fn run(verb: &Verb) -> Outcome<Exit> {
    match verb {
        Verb::Add(args) => add(args),
        Verb::Remove(RemoveArgs { args, stop }) => {
            let (pool, drive) = (args.pool.clone(), args.drive.clone());
            args.control.have_done(&Request::DriveRemove { pool, drive, stop: *stop })
        }
        Verb::SitOut(args) => decide(args, Decision::SitOut),
        Verb::Trust(args) => decide(args, Decision::Trust),
        Verb::Auto(args) => decide(args, Decision::Auto),
        Verb::Fail(args) => fail(args, false),
        Verb::Offline(args) => fail(args, true),
        Verb::Replace(ReplaceArgs { args, new, force }) => replace(args, new, false, *force),
        Verb::Online(OnlineArgs { args, path: Some(path) }) => replace(args, path, true, false),
        Verb::Online(OnlineArgs { args, path: None }) => decide(args, Decision::Auto),
    }
}

fn fail(FailArgs { args, force }: &FailArgs, offline: bool) -> Outcome<Exit> {
    let (pool, drive) = (args.pool.clone(), args.drive.clone());
    args.control.have_done(&Request::DriveFail { pool, drive, force: *force, offline })
}

fn replace(args: &Args, path: &str, back: bool, force: bool) -> Outcome<Exit> {
    let (pool, drive) = (args.pool.clone(), args.drive.clone());
    let path = seen_from_anywhere(path)?;
    args.control.have_done(&Request::DriveReplace { pool, drive, path, back, force })
}

/// The server may run in another directory.
fn seen_from_anywhere(path: &str) -> Outcome<String> {
    if path.starts_with(ModelSpec::PREFIX) {
        return Ok(path.to_owned());
    }
    let full = std::path::absolute(path).map_err(|error| Failure::new(path, error))?;
    full.into_os_string()
        .into_string()
        .map_err(|_| Failure::usage(path, "is not UTF-8, and can't be sent to the server"))
}

fn decide(args: &Args, decision: Decision) -> Outcome<Exit> {
    let (pool, drive) = (args.pool.clone(), args.drive.clone());
    args.control.have_done(&Request::DriveDecide { pool, drive, decision })
}

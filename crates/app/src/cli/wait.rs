//! `wait`: until something that goes on in the background is over.

use std::io::IsTerminal;
use std::time::Duration;

use clap::ValueEnum;

use crate::control::{Answer, Connection, ControlArgs, Request, pause};
use crate::error::{Failure, Outcome};
use crate::exit::Exit;
use crate::render::table::printable;
use crate::render::view::{Health, Pool, Replacing, Restoring};

/// Between two looks: soon enough for people and scripts, and nothing for the server.
const LOOK: Duration = Duration::from_millis(200);

/// Wait until something that goes on in a pool is over
///
/// Ends at once if there is nothing to wait for. What is left is shown on standard error, if that
/// is a terminal.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  steadyraid wait tank restore
  steadyraid wait tank restore background --timeout 3600")]
pub struct Args {
    pool: String,
    /// What is to be over; if several, all of it
    #[arg(value_enum, required = true)]
    activity: Vec<Activity>,
    /// Give up after so many seconds, with exit code 1
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u64>,
    #[command(flatten)]
    control: ControlArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Activity {
    /// No drive is being restored, copied onto another, taken over by the others or emptied
    #[value(alias = "rebuild")]
    Restore,
    /// No scrub is running or paused
    Scrub,
    /// Nothing is being moved to drives that were added
    Rebalance,
    /// Nothing is waiting to be converted or freed, no stripe to be resynchronized
    Background,
    /// Nothing is missing or being restored: the pool is online
    Online,
}

impl Activity {
    /// What is left to be done, for people; `None` when it is over.
    fn left(self, pool: &Pool) -> Option<String> {
        match self {
            Activity::Restore => restoring(pool),
            Activity::Scrub => {
                let scrub = &pool.scrub;
                scrub.goes_on().then(|| format!("scrub {}, {} %", scrub.state, scrub.percent()))
            }
            Activity::Rebalance => {
                let rebalance = &pool.rebalance;
                let goes_on = matches!(rebalance.state.as_str(), "running" | "waiting");
                goes_on.then(|| format!("{} zones are to be moved", rebalance.zones_left))
            }
            Activity::Background => {
                let backlog = &pool.backlog;
                let left = backlog.tuples_due + backlog.limbo_stripes + pool.resync_stripes;
                (left > 0).then(|| format!("{left} stripes to convert, to free or to resync"))
            }
            Activity::Online => restoring(pool).or_else(|| {
                let why = || pool.reason.clone().unwrap_or_else(|| pool.state.name().to_owned());
                (pool.state != Health::Online).then(why)
            }),
        }
    }
}

fn restoring(pool: &Pool) -> Option<String> {
    let moved = pool.rebuild.drives.first();
    let moved = moved.map(|of| format!("drive {}: {}, {} %", of.drive, of.work, of.percent()));
    moved.or_else(|| filled(pool))
}

fn filled(pool: &Pool) -> Option<String> {
    pool.drives.iter().find_map(|drive| {
        let index = drive.index;
        let restored = |restoring: Restoring| {
            format!("drive {index} is restored to {} %", restoring.percent())
        };
        let copied =
            |replacing: &Replacing| format!("drive {index} is copied to {} %", replacing.percent());
        drive.restoring.map(restored).or_else(|| drive.replacing.as_ref().map(copied))
    })
}

pub fn run(args: &Args) -> Outcome<Exit> {
    // One server from beginning to end: a new one may know nothing of what was waited for.
    let server = args.control.connect()?;
    let show = std::io::stderr().is_terminal();
    let mut waited = Duration::ZERO;
    loop {
        let pool = look(&server, &args.pool)?;
        let left = args.activity.iter().find_map(|activity| activity.left(&pool));
        let Some(left) = left else {
            if show && !waited.is_zero() {
                eprintln!();
            }
            return Ok(Exit::Ok);
        };
        if args.timeout.is_some_and(|most| waited.as_secs() >= most) {
            eprintln!("pool {}: still waiting after {} s: {left}", pool.name, waited.as_secs());
            return Ok(Exit::Negative);
        }
        if show {
            eprint!("\r\x1b[K{}", printable(&left));
        }
        pause(LOOK);
        waited += LOOK;
    }
}

fn look(server: &Connection, pool: &str) -> Outcome<Pool> {
    let strange = || Failure::new("server", "answered something else than it was asked");
    match server.ask(&Request::Status { pool: Some(pool.to_owned()) })? {
        Answer::Pools(pools) => pools.into_iter().next().ok_or_else(strange),
        _ => Err(strange()),
    }
}

//! `list`: which pools there are.

use serde::Serialize;

use crate::control::{Answer, ControlArgs, Request};
use crate::drives::name::DriveName;
use crate::drives::scan;
use crate::error::{Failure, Outcome};
use crate::exit::Exit;
use crate::render::view::{Health, Listed};
use crate::render::{human, json, print, warn};

/// List pools: those being served, and those found on --drives
///
/// Exit code 1 if there are none, or one is degraded, failed or incomplete.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  steadyraid list
  steadyraid list --drives /dev --json")]
pub struct Args {
    #[command(flatten)]
    control: ControlArgs,
    /// Look on these drives too: block devices, files, or directories to search. Nothing is
    /// opened for writing
    #[arg(long, value_name = "DRIVE|DIR", num_args = 1.., value_parser = DriveName::parser())]
    drives: Vec<DriveName>,
    /// A JSON document instead of text
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    pools: Vec<Listed>,
}

pub fn run(args: &Args) -> Outcome<Exit> {
    let mut pools = served(args)?;
    if !args.drives.is_empty() {
        let env = super::environment()?;
        let found = env.block_on(scan::groups(&env, &args.drives, warn))?;
        let unserved: Vec<Listed> = found
            .iter()
            .map(Listed::from)
            .filter(|found| pools.iter().all(|pool| pool.uuid != found.uuid))
            .collect();
        pools.extend(unserved);
    }
    let fine = !pools.is_empty() && pools.iter().all(|pool| pool.state == Health::Online);
    if args.json {
        print(&json::document(&Report { pools }));
    } else {
        print(&human::list(&pools));
    }
    Ok(if fine { Exit::Ok } else { Exit::Negative })
}

/// Pools of the server; with `--drives` it needn't run.
fn served(args: &Args) -> Outcome<Vec<Listed>> {
    let request = Request::Status { pool: None };
    let answer = match args.drives.is_empty() {
        true => Some(args.control.ask(&request)?),
        false => args.control.look(&request)?,
    };
    match answer {
        None => Ok(Vec::new()),
        Some(Answer::Pools(pools)) => Ok(pools.iter().map(Listed::from).collect()),
        Some(_) => Err(Failure::new("server", "answered something else than it was asked")),
    }
}

//! `status`: how a pool is, why, and what to do about it.

use serde::Serialize;

use super::reach::Reach;
use crate::control::{Answer, Request};
use crate::error::{Failure, Outcome};
use crate::exit::Exit;
use crate::pools;
use crate::render::view::{Capacity, Health, Pool, Server};
use crate::render::{human, json, print};

/// Show how pools are: state, reason, action, space, drives, volumes, latency, counters
///
/// Asks the server; with --drives it opens a pool that is not being served, read-only.
/// Exit code 1 if a pool is degraded or failed, if a drive is slow or suspect, or if 90 % of the
/// space is used.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  steadyraid status
  steadyraid status tank -v
  steadyraid status tank --json
  steadyraid status --drives /dev/nvme?n1")]
pub struct Args {
    /// Only this pool
    pool: Option<String>,
    #[command(flatten)]
    reach: Reach,
    /// Also how long drives took, their stragglers, and what held the server's thread
    #[arg(short = 'v', long, visible_alias = "verbose", conflicts_with = "json")]
    latency: bool,
    /// A JSON document with everything, histograms included, instead of text
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    pools: Vec<Pool>,
    /// Of the one that was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<Server>,
}

pub fn run(args: &Args) -> Outcome<Exit> {
    let (pools, server) = find_whole(args.pool.as_deref(), &args.reach)?;
    // Writes that are slowed in a burst are no reason to wake anybody.
    let healthy = |pool: &Pool| {
        let whole = pool.state == Health::Online && pool.capacity < Capacity::Low;
        whole && !pool.has_slow_drives() && pool.lost_pages == 0
    };
    let healthy = pools.iter().all(healthy);
    if args.json {
        print(&json::document(&Report { pools, server }));
    } else {
        let reports = pools.iter().map(|pool| human::pool(pool, args.latency));
        let of_server = server.iter().filter_map(|server| human::server(server, args.latency));
        print(&reports.chain(of_server).collect::<Vec<_>>().join("\n"));
    }
    Ok(if healthy { Exit::Ok } else { Exit::Negative })
}

/// The pools asked for: at least one.
pub fn find(name: Option<&str>, reach: &Reach) -> Outcome<Vec<Pool>> {
    find_whole(name, reach).map(|(pools, _)| pools)
}

/// The same, with their server if they have one.
fn find_whole(name: Option<&str>, reach: &Reach) -> Outcome<(Vec<Pool>, Option<Server>)> {
    if reach.unserved() {
        let env = super::environment()?;
        let pools = env.block_on(pools::status_unserved(&env, &reach.drives, name))?;
        return Ok((pools, None));
    }
    let request = Request::Status { pool: name.map(str::to_owned) };
    match reach.control.ask_whole(&request)? {
        (Answer::Pools(pools), server) => Ok((pools, server)),
        _ => Err(Failure::new("server", "answered something else than it was asked")),
    }
}

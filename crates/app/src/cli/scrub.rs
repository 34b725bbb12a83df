//! `scrub start | pause | stop | status`.

use clap::Subcommand;
use serde::Serialize;

use crate::control::{Answer, ControlArgs, Request, ScrubAction};
use crate::error::{Failure, Outcome};
use crate::exit::Exit;
use crate::render::view::{Pool, Scrub};
use crate::render::{human, json, print};

/// Read everything that a pool holds, and put right what is wrong
///
/// Pages are compared with their checksums, copies with each other, parity with its data, metadata
/// with its own checksums. What is wrong, or can't be read, is written again from the rest. The
/// server does it beside requests, at the pace of background work.
#[derive(Subcommand, Debug)]
#[command(after_help = "\
Examples:
  steadyraid scrub start tank
  steadyraid wait tank scrub
  steadyraid scrub status tank")]
pub enum Verb {
    /// Begin, or go on with one that is paused
    #[command(after_help = "Example:\n  steadyraid scrub start tank")]
    Start(Args),
    /// Stand still until 'scrub start'
    #[command(after_help = "Example:\n  steadyraid scrub pause tank")]
    Pause(Args),
    /// End it; the next one begins anew
    #[command(after_help = "Example:\n  steadyraid scrub stop tank")]
    Stop(Args),
    /// Show how far it is, and what it has found; exit code 1 if pages are lost
    #[command(after_help = "Example:\n  steadyraid scrub status tank")]
    Status(StatusArgs),
}

#[derive(clap::Args, Debug)]
pub struct Args {
    pool: String,
    #[command(flatten)]
    control: ControlArgs,
}

#[derive(clap::Args, Debug)]
pub struct StatusArgs {
    #[command(flatten)]
    args: Args,
    /// A JSON document instead of text
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    pool: String,
    scrub: Scrub,
}

pub fn run(verb: &Verb) -> Outcome<Exit> {
    match verb {
        Verb::Start(args) => act(args, ScrubAction::Start),
        Verb::Pause(args) => act(args, ScrubAction::Pause),
        Verb::Stop(args) => act(args, ScrubAction::Stop),
        Verb::Status(args) => status(args),
    }
}

fn act(args: &Args, action: ScrubAction) -> Outcome<Exit> {
    let request = Request::Scrub { pool: args.pool.clone(), action };
    args.control.have_done(&request)
}

fn status(StatusArgs { args, json }: &StatusArgs) -> Outcome<Exit> {
    let request = Request::Status { pool: Some(args.pool.clone()) };
    let Answer::Pools(pools) = args.control.connect()?.ask(&request)? else {
        return Err(strange());
    };
    let Some(Pool { name: pool, scrub, .. }) = pools.into_iter().next() else {
        return Err(strange());
    };
    let exit = if scrub.lost_pages > 0 { Exit::Negative } else { Exit::Ok };
    if *json {
        print(&json::document(&Report { pool, scrub }));
    } else {
        print(&format!("pool {pool}: scrub {}\n", human::scrub(&scrub)));
    }
    Ok(exit)
}

fn strange() -> Failure {
    Failure::new("server", "answered something else than it was asked")
}

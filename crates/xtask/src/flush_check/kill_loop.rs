//! Start, write, SIGKILL, start, verify: as often as asked.
//!
//! A killed process loses its memory, not what the kernel has taken from it. This finds what was
//! answered but kept in the server, wrong recovery, and torn pages; lost device caches are the
//! simulator's business.

use std::fs;
use std::process::Command;
use std::time::Duration;

use super::load::{self, Plan, Totals};
use super::model::Model;
use super::options::Options;
use super::random::Random;
use super::server::{Opened, Server};
use super::verify::{self, Report};
use crate::clock::pause;

const PROGRESS_EVERY: u64 = 20;
/// A kill comes this long after the first write at the latest.
const LOAD_MILLIS_MAX: u64 = 800;
/// Some servers die again while they open; this long after their start at the latest.
const OPENING_MILLIS_MAX: u64 = 60;

#[derive(Default)]
struct Tally {
    kills_under_load: u64,
    kills_while_opening: u64,
    totals: Totals,
    flushed_sectors: u64,
    open_sectors: u64,
}

/// Right after the last one's death: waiting until the kernel has released its drives and
/// sockets is the server's business.
fn start_and_wait(command: &[String]) -> Result<Server, String> {
    let mut server = start(command)?;
    match server.opened(Server::PATIENCE)? {
        Opened::Ready => Ok(server),
        Opened::Ended(status) => Err(format!("the server ended before it was ready: {status}")),
        Opened::Hangs => Err("the server does not become ready".to_owned()),
    }
}

fn start(command: &[String]) -> Result<Server, String> {
    let (program, arguments) = command.split_first().ok_or("kill-loop needs -- SERVER")?;
    Server::start(Command::new(program).args(arguments))
}

pub fn run(options: &Options) -> Result<(), String> {
    let mut model = Model::new(options.connections, options.region_sectors());
    let mut tally = Tally::default();
    let mut random = Random::new(options.seed);
    println!("kill-loop: seed {}, {} cycles", options.seed, options.cycles);
    let mut server = start_and_wait(&options.server)?;
    check(options, &mut model, &mut tally)?;
    for cycle in 1..=options.cycles {
        let reproduce = |why| format!("cycle {cycle}, seed {}: {why}", options.seed);
        load_and_kill(options, server, &mut model, &mut random, &mut tally).map_err(reproduce)?;
        if cycle == options.cycles {
            lose_drives(options)?;
        } else {
            kill_while_opening(options, &mut random, &mut tally).map_err(reproduce)?;
        }
        server = start_and_wait(&options.server).map_err(reproduce)?;
        check(options, &mut model, &mut tally).map_err(reproduce)?;
        if cycle % PROGRESS_EVERY == 0 {
            println!("  {cycle} cycles: {}", tally.totals);
        }
    }
    server.kill()?;
    tally.conclude(options)
}

/// One load, ended by a kill at a random moment.
fn load_and_kill(
    options: &Options,
    server: Server,
    model: &mut Model,
    random: &mut Random,
    tally: &mut Tally,
) -> Result<(), String> {
    let duration = Duration::from_millis(20 + random.below(LOAD_MILLIS_MAX - 20));
    let plan = Plan {
        seed: random.next(),
        first_sequence: tally.totals.last_sequence + 1,
        ..Plan::from(options)
    };
    let mut killed = Ok(());
    let session = load::run_while(&plan, model, |_| {
        pause(duration);
        killed = server.kill();
    })?;
    killed?;
    model.apply(&session.history);
    tally.totals.add(&session.totals);
    tally.kills_under_load += 1;
    Ok(())
}

/// Every fifth time the next server dies before it serves: recovery must bear its own crash.
fn kill_while_opening(
    options: &Options,
    random: &mut Random,
    tally: &mut Tally,
) -> Result<(), String> {
    while random.percent(20) {
        let server = start(&options.server)?;
        pause(Duration::from_millis(random.below(OPENING_MILLIS_MAX)));
        server.kill()?;
        tally.kills_while_opening += 1;
    }
    Ok(())
}

fn lose_drives(options: &Options) -> Result<(), String> {
    for drive in &options.lose {
        println!("  taking away {}", drive.display());
        let aside = drive.with_extension("lost");
        fs::rename(drive, aside).map_err(|error| format!("{}: {error}", drive.display()))?;
    }
    Ok(())
}

fn check(options: &Options, model: &mut Model, tally: &mut Tally) -> Result<(), String> {
    let report = verify::run(&options.socket, &options.export, model)?;
    report.result()?;
    let Report { flushed_sectors, open_sectors, .. } = report;
    tally.flushed_sectors += flushed_sectors;
    tally.open_sectors += open_sectors;
    Ok(())
}

impl Tally {
    fn conclude(&self, options: &Options) -> Result<(), String> {
        println!(
            "{} kills under load, {} while opening; {}; {} flushed \
             sectors found, {} were free to be old or new",
            self.kills_under_load,
            self.kills_while_opening,
            self.totals,
            self.flushed_sectors,
            self.open_sectors
        );
        // A loop that never flushed, or was never interrupted, has shown nothing.
        let interrupted = self.totals.connections_lost > 0 && self.open_sectors > 0;
        if self.kills_under_load != options.cycles || self.flushed_sectors == 0 || !interrupted {
            return Err("too little happened: this run proves nothing".to_owned());
        }
        Ok(())
    }
}

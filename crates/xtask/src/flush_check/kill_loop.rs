//! Start, write, SIGKILL, start, verify: as often as asked.
//!
//! A killed process loses its memory, not what the kernel has taken from it. This finds what was
//! answered but kept in the server, wrong recovery, and torn pages; lost device caches are the
//! simulator's business.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Duration;

use super::load::{self, Plan, Totals, pause};
use super::model::Model;
use super::options::Options;
use super::random::Random;
use super::verify::{self, Report};

const PROGRESS_EVERY: u64 = 20;
/// A kill comes this long after the first write at the latest.
const LOAD_MILLIS_MAX: u64 = 800;
/// Some servers die again while they open; this long after their start at the latest.
const OPENING_MILLIS_MAX: u64 = 60;

/// A dead server's drives stay claimed until the kernel has finished its last requests. A new
/// server that says so is started again, this often and this far apart.
const STARTS_MAX: u32 = 50;
const START_AGAIN: Duration = Duration::from_millis(100);
/// How `steadyraid` says that it was refused something (as opposed to a panic or a signal).
const EXIT_REFUSED: i32 = 3;

#[derive(Default)]
struct Tally {
    kills_under_load: u64,
    kills_while_opening: u64,
    starts_refused: u64,
    totals: Totals,
    flushed_sectors: u64,
    open_sectors: u64,
}

/// A running server. Dropping it kills it.
struct Server {
    process: Child,
    /// Kept open: a server must be able to print.
    stdout: Option<BufReader<ChildStdout>>,
}

impl Server {
    fn start(command: &[String]) -> Result<Server, String> {
        let (program, arguments) = command.split_first().ok_or("kill-loop needs -- SERVER")?;
        let mut process = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{program}: {error}"))?;
        let stdout = process.stdout.take().map(BufReader::new);
        Ok(Server { process, stdout })
    }

    /// Starts until one serves; `refused` counts those that found their drives still in use.
    fn start_and_wait(command: &[String], refused: &mut u64) -> Result<Server, String> {
        for _ in 0..STARTS_MAX {
            let mut server = Server::start(command)?;
            if server.becomes_ready()? {
                return Ok(server);
            }
            let status = server.process.wait().map_err(|error| error.to_string())?;
            if status.code() != Some(EXIT_REFUSED) {
                return Err(format!("the server ended before it was ready: {status}"));
            }
            *refused += 1;
            pause(START_AGAIN);
        }
        Err(format!("the server does not start, {STARTS_MAX} times in a row"))
    }

    fn becomes_ready(&mut self) -> Result<bool, String> {
        let stdout = self.stdout.as_mut().expect("it is piped");
        let mut line = String::new();
        while line.trim_end() != "ready" {
            line.clear();
            let length = stdout.read_line(&mut line).map_err(|error| error.to_string())?;
            if length == 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// SIGKILL, and wait until it is gone.
    fn kill(mut self) -> Result<(), String> {
        match self.try_kill()? {
            None => Ok(()),
            Some(status) => Err(format!("the server ended before it was killed: {status}")),
        }
    }

    /// The exit status, if it ended by itself before.
    fn try_kill(&mut self) -> Result<Option<ExitStatus>, String> {
        let status = self.process.try_wait().map_err(|error| error.to_string())?;
        self.end();
        Ok(status)
    }

    fn end(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

pub fn run(options: &Options) -> Result<(), String> {
    let mut model = Model::new(options.connections, options.region_sectors());
    let mut tally = Tally::default();
    let mut random = Random::new(options.seed);
    println!("kill-loop: seed {}, {} cycles", options.seed, options.cycles);
    let mut server = Server::start_and_wait(&options.server, &mut tally.starts_refused)?;
    check(options, &mut model, &mut tally)?;
    for cycle in 1..=options.cycles {
        let reproduce = |why| format!("cycle {cycle}, seed {}: {why}", options.seed);
        load_and_kill(options, server, &mut model, &mut random, &mut tally).map_err(reproduce)?;
        if cycle == options.cycles {
            lose_drives(options)?;
        } else {
            kill_while_opening(options, &mut random, &mut tally).map_err(reproduce)?;
        }
        let refused = &mut tally.starts_refused;
        server = Server::start_and_wait(&options.server, refused).map_err(reproduce)?;
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
        let mut server = Server::start(&options.server)?;
        pause(Duration::from_millis(random.below(OPENING_MILLIS_MAX)));
        match server.try_kill()? {
            None => tally.kills_while_opening += 1,
            Some(status) if status.code() == Some(EXIT_REFUSED) => tally.starts_refused += 1,
            Some(status) => return Err(format!("the server ended while it opened: {status}")),
        }
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
            "{} kills under load, {} while opening ({} starts too early); {}; {} flushed \
             sectors found, {} were free to be old or new",
            self.kills_under_load,
            self.kills_while_opening,
            self.starts_refused,
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

//! Random sequences of everything that a pool should bear, and a proof after each.
//!
//! ```text
//! plan ── words ──> world ──┬── clients ──> ledger ──> model <── check ── reads the volumes
//!   ^                       ├── server: killed, stopped, started
//!   └── slots <── status ───┴── drives: rotten, stale, lost, replaced
//! ```
//!
//! Within what the scheme bears: what a FLUSH or FUA covers reads as that version or a later one,
//! every other sector as some version from the last flushed one on, no request fails, and the
//! pool opens by itself. Beyond it requests may fail, and no wrong bytes are given.

mod check;
mod clients;
mod drives;
mod failure;
mod harm;
mod ledger;
mod op;
mod plan;
mod schemes;
mod slots;
mod tool;
#[cfg(test)]
mod toy;
mod world;

use std::fs;
use std::path::PathBuf;

use super::random::mix;
use crate::clock::Elapsed;
use failure::{Failure, Problem};
use op::Op;
use schemes::Scheme;
use world::{Counts, World};

#[derive(Clone, Debug)]
pub struct Options {
    binary: PathBuf,
    scheme: String,
    runs: u64,
    seed: u64,
    steps: u64,
    beyond: bool,
    /// Folders of runs that failed stay.
    keep: bool,
    canary: bool,
    /// Only tells which schemes there are.
    names: bool,
    /// Names of ops that are left out.
    without: Vec<String>,
    /// Words instead of a plan.
    script: Option<String>,
    folder: PathBuf,
}

impl Options {
    pub fn parse(arguments: &[String]) -> Result<Options, String> {
        let mut options = Options {
            binary: PathBuf::new(),
            scheme: "all".to_owned(),
            runs: 1,
            seed: 1,
            steps: 8,
            beyond: false,
            keep: false,
            canary: false,
            names: false,
            without: Vec::new(),
            script: None,
            folder: std::env::temp_dir(),
        };
        let mut rest = arguments.iter();
        while let Some(name) = rest.next() {
            match name.as_str() {
                "--beyond" => options.beyond = true,
                "--keep" => options.keep = true,
                "--canary" => options.canary = true,
                "--names" => options.names = true,
                _ => {
                    let value = rest.next().ok_or_else(|| format!("{name} needs a value"))?;
                    options.set(name, value)?;
                }
            }
        }
        if options.binary.as_os_str().is_empty() && !options.names {
            return Err("--binary is missing".to_owned());
        }
        if options.runs == 0 || options.steps < 3 {
            return Err("use --runs from 1 and --steps from 3 on".to_owned());
        }
        if let Some(name) =
            options.without.iter().find(|name| !op::MAY_BE_LEFT_OUT.contains(&name.as_str()))
        {
            return Err(format!("--without {name}: there are {}", op::MAY_BE_LEFT_OUT.join(", ")));
        }
        // Scripts and schemes that make no sense are told before anything is made.
        options.script()?;
        schemes::named(&options.scheme)?;
        Ok(options)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let number = || value.parse::<u64>().map_err(|error| format!("{name} {value}: {error}"));
        match name {
            "--binary" => self.binary = value.into(),
            "--scheme" => self.scheme = value.to_owned(),
            "--runs" => self.runs = number()?,
            "--seed" => self.seed = number()?,
            "--steps" => self.steps = number()?,
            "--script" => self.script = Some(value.to_owned()),
            "--without" => self.without = value.split(',').map(str::to_owned).collect(),
            "--folder" => self.folder = value.into(),
            _ => return Err(format!("no option {name}")),
        }
        Ok(())
    }

    fn script(&self) -> Result<Option<Vec<Op>>, String> {
        self.script.as_deref().map(op::script).transpose()
    }
}

/// What came of the runs of one scheme.
struct Line {
    scheme: Scheme,
    runs: u64,
    seconds: u64,
    counts: Counts,
    failures: Vec<(u64, Failure)>,
}

pub fn run(options: &Options) -> Result<(), String> {
    if options.canary {
        return canary(options);
    }
    if options.names {
        schemes::ALL.iter().for_each(|scheme| println!("{}", scheme.name));
        return Ok(());
    }
    let mut lines = Vec::new();
    for scheme in schemes::named(&options.scheme)? {
        let since = Elapsed::start();
        let (counts, failures) = (Counts::default(), Vec::new());
        let mut line = Line { scheme, runs: options.runs, seconds: 0, counts, failures };
        for seed in options.seed..options.seed + options.runs {
            let outcome = storm(options, scheme, seed, &mut line.counts);
            line.failures.extend(outcome.err().map(|failure| (seed, failure)));
        }
        line.seconds = since.get().as_secs();
        lines.push(line);
    }
    summarize(options, &lines)
}

/// Schemes differ in their plans, or all would be seen in the same few.
fn seed_of(scheme: Scheme, seed: u64) -> u64 {
    scheme.name.bytes().fold(seed, |seed, byte| mix(seed ^ u64::from(byte)))
}

/// One run: a pool from its making to its end.
fn storm(options: &Options, scheme: Scheme, seed: u64, counts: &mut Counts) -> Result<(), Failure> {
    println!(
        "storm {}: {} drives, {} may be faulty, seed {seed}",
        scheme.name, scheme.drives, scheme.bears
    );
    let name = format!("storm-{}-{}-{seed}", std::process::id(), scheme.name);
    let folder = options.folder.join(name);
    let mut done = Vec::new();
    let outcome = World::new(&options.binary, folder.clone(), scheme, seed, options.beyond)
        .and_then(|mut world| {
            let outcome = weather(options, seed_of(scheme, seed), &mut world, &mut done);
            counts.add(&world.counts);
            outcome
        });
    if let Err(failure) = &outcome {
        println!("FAILED {}: {failure}", scheme.name);
        println!("  again: {}", again(options, scheme, seed));
        println!("  so far: --script '{}'", op::words(&done));
        if options.keep {
            println!("  the drives and the server's log: {}", folder.display());
            return outcome;
        }
    }
    fs::remove_dir_all(&folder).map_err(Failure::harness)?;
    outcome
}

/// All steps, or the script. `done` is what was tried, the last of which may have failed.
fn weather(
    options: &Options,
    seed: u64,
    world: &mut World,
    done: &mut Vec<Op>,
) -> Result<(), Failure> {
    if let Some(ops) = options.script().map_err(Failure::harness)? {
        return step(world, "script", &ops, done);
    }
    step(world, "0", &[Op::Start], done)?;
    for number in 1..=options.steps {
        world.quiet_refresh()?;
        let place = plan::Place { step: number, steps: options.steps, beyond: options.beyond };
        let mut ops = plan::step(seed, &world.sketch(), world.slots.bears, place);
        ops.retain(|op| !options.without.iter().any(|name| *name == op.name()));
        step(world, &number.to_string(), &ops, done)?;
        if world.is_over() {
            println!("  more is faulty than the pool bears, and it does not open");
            break;
        }
    }
    Ok(())
}

/// Prints one line, also of a step that fails.
fn step(world: &mut World, name: &str, ops: &[Op], done: &mut Vec<Op>) -> Result<(), Failure> {
    let (before, since) = (done.len(), Elapsed::start());
    let mut outcome = Ok(());
    for op in ops {
        done.push(*op);
        outcome = world.run(*op);
        if outcome.is_err() || world.is_over() {
            break;
        }
    }
    let seconds = since.get().as_secs_f32();
    println!("  {name:>2}  {}  [{}] {seconds:.1} s", op::words(&done[before..]), world.slots);
    outcome
}

fn again(options: &Options, scheme: Scheme, seed: u64) -> String {
    let Options { binary, steps, .. } = options;
    let mut words = format!(
        "cargo xtask flush-check storm --binary {} --scheme {} --seed {seed} --steps {steps}",
        binary.display(),
        scheme.name
    );
    if !options.without.is_empty() {
        words.push_str(&format!(" --without {}", options.without.join(",")));
    }
    if options.beyond {
        words.push_str(" --beyond");
    }
    words
}

fn summarize(options: &Options, lines: &[Line]) -> Result<(), String> {
    println!(
        "\n{:<13} {:>4} {:>6} {:>5} {:>6} {:>9} {:>8} {:>7} {:>7} {:>9} {:>7}  seconds",
        "scheme",
        "runs",
        "failed",
        "kills",
        "faults",
        "flushed",
        "open",
        "in-hole",
        "rotten",
        "undecided",
        "unread"
    );
    let mut all = Counts::default();
    let mut failed = 0;
    for line in lines {
        let Line { scheme, runs, counts, failures, seconds } = line;
        println!(
            "{:<13} {runs:>4} {:>6} {:>5} {:>6} {:>9} {:>8} {:>7} {:>7} {:>9} {:>7}  {seconds}",
            scheme.name,
            failures.len(),
            counts.kills,
            counts.faults,
            counts.flushed_sectors,
            counts.open_sectors,
            counts.excused_lost,
            counts.excused_rotten,
            counts.undecided,
            counts.unreadable_sectors
        );
        for (seed, Failure { problem, text }) in failures {
            let first = text.lines().next().unwrap_or("");
            println!(
                "    seed {seed:<6} {problem}: {}",
                first.chars().take(150).collect::<String>()
            );
        }
        all.add(counts);
        failed += failures.len();
    }
    println!(
        "{} writes ({} with FUA) and {} flushes, {} sectors read back; {} drives given up that \
         nobody hurt; {} starts had to wait for what a killed server had; {} faults left out, as \
         more was faulty by then than planned",
        all.load.writes,
        all.load.fua_writes,
        all.load.flushes,
        all.load.sectors_read_back,
        all.given_up,
        all.late_starts,
        all.left_out
    );
    if failed > 0 {
        return Err(format!("{failed} storms failed"));
    }
    // Storms in which nobody died, or nothing was certain, have shown nothing. Of those that go
    // beyond what a pool bears each may end before anything can be read.
    let is_read = all.flushed_sectors > 0 || options.beyond;
    let happened = all.load.connections_lost > 0 && all.faults > 0 && is_read;
    if options.script.is_none() && !happened {
        return Err("too little happened: these storms prove nothing".to_owned());
    }
    Ok(())
}

/// What nobody can notice but the harness must be noticed by it.
fn canary(options: &Options) -> Result<(), String> {
    let mut options = options.clone();
    let story = "start fill load:200 flush stop";
    for (words, problem) in [("", None), ("spoil", Some(Problem::Data(super::model::Kind::Lost)))] {
        options.script = Some(format!("{story} {words} start check"));
        let outcome = storm(&options, schemes::CANARY, options.seed, &mut Counts::default());
        match (outcome, problem) {
            (Ok(()), None) => {}
            (Err(failure), Some(problem)) if failure.problem == problem => {}
            (outcome, _) => return Err(format!("the canary lives on: {outcome:?}")),
        }
    }
    println!("ok: an older version in both copies is noticed");
    Ok(())
}

//! Writes to an NBD export and proves that what was flushed survives the server's death.
//!
//! Every sector that is written says which write it belongs to ([`pattern`]). A history of what
//! was sent and which flushes were answered ([`history`]) gives, for every sector, the contents
//! it may have after a crash ([`model`]): the last flushed version, or any later one, whole.
//! Nothing older, nothing torn, nothing that was never written.
//!
//! ```text
//! load ── events ──> history ──> model <── check ── verify reads the export
//! ```

mod history;
mod kill_loop;
mod load;
mod model;
mod options;
mod pattern;
mod random;
mod server;
mod storm;
mod verify;

use std::fs::File;
use std::path::Path;

use options::Options;

const USAGE: &str = "\
usage: cargo xtask flush-check write     --socket PATH --export NAME --log FILE [OPTIONS]
       cargo xtask flush-check verify    --socket PATH --export NAME --log FILE
       cargo xtask flush-check kill-loop --socket PATH --export NAME [OPTIONS] -- SERVER...
       cargo xtask flush-check storm     --binary PATH [STORM OPTIONS]

  write      writes and flushes until the time is over or the server is gone
  verify     reads back everything that `write` touched
  kill-loop  starts SERVER (which prints `ready` when it serves), writes, kills it with SIGKILL,
             starts it again, verifies; again and again
  storm      makes pools of every scheme, and lets kills, rot, stale and lost drives, rebuilds
             and scrubs come over them in random sequences; verifies

  --connections N   clients at the same time, each with its own region   [4]
  --region BYTES    size of a region                                     [16777216]
  --seconds N       how long `write` writes                              [10]
  --cycles N        how often `kill-loop` kills                          [200]
  --seed N          what is random follows from this                     [1]
  --lose FILE       a drive to take away after the last kill; may be repeated

The regions start at offset 0 and must never have been written before.

  --scheme NAME     one kind of pool, or all                             [all]
  --runs N          pools of each                                        [1]
  --seed N          of the first run; the next has the next              [1]
  --steps N         lives of the server in a run, about                  [8]
  --beyond          more drives become faulty than the pool bears: requests may fail then
  --without WORDS   kinds of trouble to leave out, like rot,stale        [none]
  --script WORDS    these words instead of a plan (storm/op.rs; a failed run prints them)
  --folder PATH     where pools are made                                 [temporary]
  --keep            the folder of a run that failed stays
  --canary          proves that storms can fail, and nothing else";

pub fn command(arguments: &[String]) -> Result<(), String> {
    let Some((verb, rest)) = arguments.split_first() else {
        return Err(USAGE.to_owned());
    };
    if verb == "storm" {
        let options = storm::Options::parse(rest).map_err(|why| format!("{why}\n\n{USAGE}"))?;
        return storm::run(&options);
    }
    let options = Options::parse(rest).map_err(|why| format!("{why}\n\n{USAGE}"))?;
    match verb.as_str() {
        "write" => write(&options),
        "verify" => verify(&options),
        "kill-loop" => kill_loop::run(&options),
        _ => Err(USAGE.to_owned()),
    }
}

fn write(options: &Options) -> Result<(), String> {
    let log = options.log.as_deref().ok_or("write needs --log")?;
    let mut model = model::Model::new(options.connections, options.region_sectors());
    let plan = load::Plan::from(options);
    // The regions must be empty, or the first verdict would be about somebody else's data.
    verify::run(&options.socket, &options.export, &mut model)?.result()?;
    let session = load::run(&plan, &model)?;
    session.history.save(log).map_err(|error| describe(log, &error))?;
    println!("{}", session.totals);
    Ok(())
}

fn verify(options: &Options) -> Result<(), String> {
    let log = options.log.as_deref().ok_or("verify needs --log")?;
    let file = File::open(log).map_err(|error| describe(log, &error))?;
    let history = history::History::load(file)?;
    let mut model = history.model();
    let report = verify::run(&options.socket, &options.export, &mut model)?;
    println!("{report}");
    report.result()?;
    if report.flushed_sectors == 0 {
        return Err("no sector was covered by a flush: this run proves nothing".to_owned());
    }
    Ok(())
}

fn describe(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}

//! Clients that are no good neighbours, and what a good one has from the server beside them.
//!
//! Each kind is a process of its own. `check` sees that the good client is answered whatever they
//! do; `measure` takes turns with and without them, since machines are shared and noisy, and prints
//! a table of ratios.

mod bad;
mod table;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use self::bad::Kind;
use self::table::{Row, Samples};
use crate::clock::Elapsed;
use crate::nbd_client::Client;

const USAGE: &str = "\
usage: cargo xtask neighbours check|measure --socket PATH --good EXPORT --bad EXPORT
           [--requests N] [--rounds N] [--seconds N]

  check    beside each kind of bad neighbour, N requests of a good client are answered
  measure  a table of latencies, alone and beside each kind";

/// What the good client reads and writes.
const REQUEST_BYTES: usize = 4096;
/// Where it does: small enough to be written at first.
const REGION_BYTES: u64 = 8 << 20;
/// How long the good client waits for an answer. The server disconnects a client that stops after
/// twice as long at least, so who waits for that one fails.
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Clone, Debug)]
struct Options {
    socket: PathBuf,
    good: String,
    bad: String,
    requests: u64,
    rounds: u64,
    seconds: u64,
}

impl Options {
    fn parse(arguments: &[String]) -> Result<Options, String> {
        let (socket, good, bad) = Default::default();
        let mut options = Options { socket, good, bad, requests: 1000, rounds: 5, seconds: 2 };
        for pair in arguments.chunks(2) {
            let [name, value] = pair else { return Err(USAGE.to_owned()) };
            let number =
                || value.parse::<u64>().map_err(|error| format!("{name} {value}: {error}"));
            match name.as_str() {
                "--socket" => options.socket = value.into(),
                "--good" => value.clone_into(&mut options.good),
                "--bad" => value.clone_into(&mut options.bad),
                "--requests" => options.requests = number()?,
                "--rounds" => options.rounds = number()?,
                "--seconds" => options.seconds = number()?,
                _ => return Err(USAGE.to_owned()),
            }
        }
        Ok(options)
    }
}

pub fn command(arguments: &[String]) -> Result<(), String> {
    let (verb, rest) = arguments.split_first().ok_or(USAGE)?;
    if verb == "be" {
        let [kind, socket, export] = rest else { return Err(USAGE.to_owned()) };
        return bad::be(Kind::named(kind)?, Path::new(socket), export);
    }
    let options = Options::parse(rest)?;
    match verb.as_str() {
        "check" => check(&options),
        "measure" => measure(&options),
        _ => Err(USAGE.to_owned()),
    }
}

/// A process that is killed when this is dropped.
struct Neighbour(Child);

impl Neighbour {
    /// Started, and at it.
    fn start(kind: Kind, options: &Options) -> Result<Neighbour, String> {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        // Of processors it has what nobody else wants: it would have its own host.
        let mut command = Command::new("chrt");
        command.args(["--idle", "0"]).arg(program);
        command.args(["neighbours", "be", kind.name()]).arg(&options.socket).arg(&options.bad);
        let mut child =
            command.stdout(Stdio::piped()).spawn().map_err(|error| error.to_string())?;
        let stdout = child.stdout.take().ok_or("it has an output")?;
        let neighbour = Neighbour(child);
        let mut line = String::new();
        let read = BufReader::new(stdout).read_line(&mut line);
        if read.is_err() || line != bad::BEGUN {
            return Err(format!("{}: it did not begin", kind.name()));
        }
        Ok(neighbour)
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The good client.
struct Good {
    client: Client,
    at: u64,
}

impl Good {
    fn connect(options: &Options) -> Result<Good, String> {
        let text = |error: std::io::Error| format!("the good client: {error}");
        let client = Client::connect_within(&options.socket, &options.good, PATIENCE);
        let mut good = Good { client: client.map_err(text)?, at: 0 };
        for offset in (0..REGION_BYTES).step_by(1 << 20) {
            good.write(offset, &vec![1; 1 << 20])?;
        }
        Ok(good)
    }

    fn write(&mut self, offset: u64, data: &[u8]) -> Result<(), String> {
        let error = self.client.write(offset, data, false);
        match error.map_err(|error| format!("the good client's write: {error}"))? {
            0 => Ok(()),
            error => Err(format!("the good client's write failed with error {error}")),
        }
    }

    /// One read, somewhere.
    fn read(&mut self) -> Result<(), String> {
        self.at = (self.at + 7 * REQUEST_BYTES as u64) % REGION_BYTES;
        let mut data = [0; REQUEST_BYTES];
        self.client
            .read(self.at, &mut data)
            .map_err(|error| format!("the good client's read: {error}"))
    }

    fn reads_for(&mut self, span: Duration) -> Result<Samples, String> {
        let since = Elapsed::start();
        let mut samples = Samples::default();
        while since.get() < span {
            let asked = Elapsed::start();
            self.read()?;
            samples.add(asked.get());
        }
        Ok(samples)
    }
}

fn check(options: &Options) -> Result<(), String> {
    for kind in Kind::ALL {
        let _neighbour = Neighbour::start(kind, options)?;
        let beside = |what: String| format!("beside a neighbour that {}: {what}", kind.does());
        // One that comes now, not one that was there before.
        let mut good = Good::connect(options).map_err(beside)?;
        for number in 0..options.requests {
            good.read().map_err(beside)?;
            if number.is_multiple_of(10) {
                good.write(0, &[7; REQUEST_BYTES]).map_err(beside)?;
            }
        }
        println!("beside a neighbour that {}: {} answered", kind.does(), options.requests);
    }
    Ok(())
}

fn measure(options: &Options) -> Result<(), String> {
    let span = Duration::from_secs(options.seconds);
    let mut good = Good::connect(options)?;
    good.reads_for(span)?;
    let mut rows = Vec::new();
    for kind in Kind::ALL {
        let mut row = Row::new(kind.does());
        for _ in 0..options.rounds {
            let alone = good.reads_for(span)?;
            let neighbour = Neighbour::start(kind, options)?;
            let beside = good.reads_for(span)?;
            drop(neighbour);
            row.add(alone, beside);
        }
        rows.push(row);
    }
    print!("{}", table::render(&mut rows));
    Ok(())
}

//! What the clients sent and what they were promised, as lines of text.
//!
//! ```text
//! flush-check 1 CONNECTIONS SECTORS      header: regions lie side by side from sector 0
//! write CONNECTION SEQUENCE FIRST COUNT  sent; may or may not have reached the server
//! zero CONNECTION SEQUENCE FIRST COUNT   the same, as WRITE_ZEROES
//! durable CONNECTION SEQUENCE            a write with FUA was answered
//! flushed CONNECTION SEQUENCE            a flush was answered that covers all up to SEQUENCE
//! ```

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::Path;

use super::model::Model;
use super::pattern::Stamp;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    Write { stamp: Stamp, zero: bool },
    Durable { sequence: u64 },
    Flushed { upto: u64 },
}

/// The events of one session; `events[i].0` is the connection whose region is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct History {
    pub connections: usize,
    pub region_sectors: u64,
    pub events: Vec<(usize, Event)>,
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "flush-check 1 {} {}", self.connections, self.region_sectors)?;
        for (connection, event) in &self.events {
            match event {
                Event::Write { stamp, zero } => {
                    let verb = if *zero { "zero" } else { "write" };
                    let Stamp { sequence, first, count } = stamp;
                    writeln!(f, "{verb} {connection} {sequence} {first} {count}")?;
                }
                Event::Durable { sequence } => writeln!(f, "durable {connection} {sequence}")?,
                Event::Flushed { upto } => writeln!(f, "flushed {connection} {upto}")?,
            }
        }
        Ok(())
    }
}

impl History {
    pub fn save(&self, path: &Path) -> io::Result<()> {
        let mut file = BufWriter::new(File::create(path)?);
        write!(file, "{self}")?;
        file.flush()
    }

    pub fn load(file: impl io::Read) -> Result<History, String> {
        let mut lines = BufReader::new(file).lines();
        let header = lines.next().ok_or("the log is empty")?.map_err(|error| error.to_string())?;
        let (name, numbers) = split(&header)?;
        let ("flush-check", [1, connections, region_sectors]) = (name, numbers.as_slice()) else {
            return Err(format!("not a log of flush-check: '{header}'"));
        };
        let connections = usize::try_from(*connections).map_err(|error| error.to_string())?;
        let mut history = History { connections, region_sectors: *region_sectors, events: vec![] };
        for line in lines {
            let line = line.map_err(|error| error.to_string())?;
            let (connection, event) = parse(&line)?;
            if connection >= connections {
                return Err(format!("no such connection: '{line}'"));
            }
            history.events.push((connection, event));
        }
        Ok(history)
    }

    /// What an export that was empty before may hold now.
    pub fn model(&self) -> Model {
        let mut model = Model::new(self.connections, self.region_sectors);
        model.apply(self);
        model
    }
}

fn split(line: &str) -> Result<(&str, Vec<u64>), String> {
    let mut words = line.split_ascii_whitespace();
    let name = words.next().unwrap_or("");
    let numbers: Result<Vec<u64>, _> = words.map(str::parse).collect();
    Ok((name, numbers.map_err(|error| format!("'{line}': {error}"))?))
}

fn parse(line: &str) -> Result<(usize, Event), String> {
    let (name, numbers) = split(line)?;
    let (connection, event) = match (name, numbers.as_slice()) {
        ("write" | "zero", &[connection, sequence, first, count]) => {
            let stamp = Stamp { sequence, first, count };
            (connection, Event::Write { stamp, zero: name == "zero" })
        }
        ("durable", &[connection, sequence]) => (connection, Event::Durable { sequence }),
        ("flushed", &[connection, upto]) => (connection, Event::Flushed { upto }),
        _ => return Err(format!("not a line of a flush-check log: '{line}'")),
    };
    Ok((usize::try_from(connection).map_err(|error| error.to_string())?, event))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_read_as_it_was_written() {
        let stamp = Stamp { sequence: 3, first: 8, count: 2 };
        let history = History {
            connections: 2,
            region_sectors: 64,
            events: vec![
                (0, Event::Write { stamp, zero: false }),
                (1, Event::Write { stamp: Stamp { first: 70, ..stamp }, zero: true }),
                (0, Event::Durable { sequence: 3 }),
                (1, Event::Flushed { upto: 3 }),
            ],
        };
        assert_eq!(History::load(history.to_string().as_bytes()), Ok(history));
    }

    #[test]
    fn broken_logs_are_refused() {
        for log in ["", "x 1 2 3", "flush-check 2 1 1", "flush-check 1 1 8\nwrite 0 1 2"] {
            assert!(History::load(log.as_bytes()).is_err(), "{log:?}");
        }
        assert!(History::load(&b"flush-check 1 1 8\nflushed 1 2"[..]).is_err());
    }
}

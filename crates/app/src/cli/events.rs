//! `events`: what happened to pools, and what happens.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;

use crate::control::{Answer, ControlArgs, Request};
use crate::error::{Failure, Outcome};
use crate::exit::Exit;
use crate::render::table::printable;
use crate::render::view::Event;
use crate::render::{json, print, print_on};
use crate::wall_clock;

/// How long the server may keep a request for events waiting: as long as it will.
const WAIT_MILLIS: u64 = 20_000;

/// Show what happened to pools: spikes, drives slow, avoided or failed, space running low
///
/// The server remembers the last few thousand events of each pool, from when it was opened. A
/// line says how many are missing where events came faster than they were taken. Spikes are told
/// of together once a minute; --spikes shows the last thousand one by one.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  steadyraid events
  steadyraid events tank --follow
  steadyraid events tank --spikes
  steadyraid events tank --since 1200 --json")]
pub struct Args {
    /// Only those of this pool
    pool: Option<String>,
    /// Go on with those to come, until interrupted or the server ends
    #[arg(short, long)]
    follow: bool,
    /// Only events after number N of their pool
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    since: u64,
    /// Each spike by itself, with numbers of their own, instead of events
    #[arg(long)]
    spikes: bool,
    #[command(flatten)]
    control: ControlArgs,
    /// A JSON document for each event, in one line, instead of text
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Outcome<Exit> {
    // One connection for all: numbers of events mean something to one server only.
    let server = args.control.connect()?;
    let mut reader = Reader::new(args.since);
    let mut printer = Printer::new(args.json);
    let mut wait_millis = 0;
    loop {
        let (pool, after, spikes) = (args.pool.clone(), reader.last.clone(), args.spikes);
        let request = Request::Events { pool, after, wait_millis, spikes };
        let Answer::Events(events) = server.ask(&request)? else {
            return Err(Failure::new("server", "answered something else than it was asked"));
        };
        let text: String = reader.read(events).iter().map(|item| printer.text(item)).collect();
        let read_on = print_on(&text);
        if !args.follow {
            printer.end();
        }
        if !args.follow || !read_on {
            return Ok(Exit::Ok);
        }
        wait_millis = WAIT_MILLIS;
    }
}

/// What there is to print.
#[derive(Debug, PartialEq, Eq)]
enum Item {
    /// Events that nobody remembers any more.
    Missed {
        pool: String,
        count: u64,
    },
    Event(Event),
}

/// Finds what is new, and what is missing.
struct Reader {
    since: u64,
    /// The last event seen of each pool.
    last: BTreeMap<String, u64>,
}

impl Reader {
    fn new(since: u64) -> Reader {
        Reader { since, last: BTreeMap::new() }
    }

    fn read(&mut self, events: Vec<Event>) -> Vec<Item> {
        let mut items = Vec::new();
        for event in events {
            let before = self.last.insert(event.pool.clone(), event.sequence);
            let before = before.unwrap_or(0).max(self.since);
            if event.sequence <= before {
                continue;
            }
            let count = event.sequence - before - 1;
            if count > 0 {
                items.push(Item::Missed { pool: event.pool.clone(), count });
            }
            items.push(Item::Event(event));
        }
        items
    }
}

#[derive(Serialize)]
struct Missed<'a> {
    pool: &'a str,
    missed: u64,
}

/// Lines, whenever there are some: columns have widths that usually fit.
struct Printer {
    json: bool,
    started: bool,
}

impl Printer {
    fn new(json: bool) -> Printer {
        Printer { json, started: false }
    }

    fn text(&mut self, item: &Item) -> String {
        match item {
            Item::Missed { pool, count } if self.json => {
                json::line(&Missed { pool, missed: *count })
            }
            Item::Event(event) if self.json => json::line(event),
            Item::Missed { pool, count } => {
                format!("{}({count} events of pool {pool} were missed)\n", self.heading())
            }
            Item::Event(event) => self.heading() + &row(event),
        }
    }

    fn heading(&mut self) -> String {
        if std::mem::replace(&mut self.started, true) {
            return String::new();
        }
        columns(["TIME", "SEVERITY", "POOL", "DRIVE", "EVENT", "WHAT HAPPENED"])
    }

    /// Silence would leave people in doubt; programs count lines.
    fn end(&self) {
        if !self.json && !self.started {
            print("no events\n");
        }
    }
}

fn row(event: &Event) -> String {
    let drive = event.drive.map_or("-".to_owned(), |drive| drive.to_string());
    columns([
        &wall_clock::local(event.unix_micros),
        &event.severity,
        &printable(&event.pool),
        &drive,
        &event.kind,
        &printable(&event.text),
    ])
}

fn columns([time, severity, pool, drive, kind, text]: [&str; 6]) -> String {
    let mut line = format!("{time:23}  {severity:8}  {pool:8}  {drive:>5}  {kind:14}  {text}");
    line.truncate(line.trim_end().len());
    let _ = writeln!(line);
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(pool: &str, sequence: u64) -> Event {
        Event {
            pool: pool.to_owned(),
            sequence,
            time: wall_clock::rfc3339(0),
            unix_micros: 0,
            severity: "info".to_owned(),
            kind: "spike".to_owned(),
            drive: Some(3),
            drive_name: None,
            text: "slow\x1b[2J".to_owned(),
        }
    }

    fn sequences(items: &[Item]) -> Vec<(u64, bool)> {
        let of = |item: &Item| match item {
            Item::Missed { count, .. } => (*count, true),
            Item::Event(event) => (event.sequence, false),
        };
        items.iter().map(of).collect()
    }

    #[test]
    fn gaps_are_told_pool_by_pool_and_nothing_twice() {
        let mut reader = Reader::new(0);
        let items = reader.read(vec![event("a", 1), event("b", 4), event("a", 2)]);
        assert_eq!(sequences(&items), [(1, false), (3, true), (4, false), (2, false)]);
        let items = reader.read(vec![event("a", 2), event("a", 9), event("b", 5)]);
        assert_eq!(sequences(&items), [(6, true), (9, false), (5, false)]);
    }

    #[test]
    fn what_is_before_since_is_neither_shown_nor_missing() {
        let mut reader = Reader::new(5);
        let items = reader.read(vec![event("a", 4), event("a", 5), event("a", 6), event("b", 8)]);
        assert_eq!(sequences(&items), [(6, false), (2, true), (8, false)]);
        assert_eq!(reader.last, [("a".to_owned(), 6), ("b".to_owned(), 8)].into());
    }

    #[test]
    fn a_line_is_a_line_whatever_the_event_says() {
        let mut printer = Printer::new(false);
        let text = printer.text(&Item::Event(event("a", 1)));
        assert_eq!(text.lines().count(), 2, "a heading and the event");
        assert!(text.ends_with("      3  spike           slow?[2J\n"), "{text}");
        let text = printer.text(&Item::Missed { pool: "a".to_owned(), count: 7 });
        assert_eq!(text, "(7 events of pool a were missed)\n");
        let text = Printer::new(true).text(&Item::Missed { pool: "a".to_owned(), count: 7 });
        assert_eq!(text, "{\"version\":1,\"pool\":\"a\",\"missed\":7}\n");
    }
}

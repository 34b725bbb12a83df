//! `day`: a day of one pool.

use std::rc::Rc;
use std::time::Instant;

use serde_json::json;
use sim::failure::Spot;
use sim::run::caught;
use sim::story::Story;
use sim::world::day::{self, DayReport, Entry};
use sim::world::{Context, Plan};

/// Lines of a story that are told: some hours' deeds and events.
const LINES_MAX: usize = 400;

#[derive(clap::Args)]
pub struct Words {
    /// What happens: the same seed and length give the same day
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Virtual hours
    #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u64).range(1..=8760))]
    hours: u64,
    /// Print one JSON object in the end instead of a table
    #[arg(long)]
    json: bool,
    /// If it fails, tell what happened before
    #[arg(long)]
    story: bool,
}

#[expect(clippy::disallowed_methods, reason = "how long people wait is outside of all worlds")]
fn now() -> Instant {
    Instant::now()
}

fn say_report(report: &DayReport) {
    let DayReport { deeds, tally, .. } = report;
    println!();
    for (name, times) in deeds {
        println!("{times:5}  {name}");
    }
    println!(
        "\n{} requests, the slowest took {} ms; the machine died {} times and {} while the pool \
         was opened, and was closed {} times; {} drives were lost, {} replaced, {} exchanged, {} \
         joined; {} audits; {} pages mended; {} conversions, {} stripes compacted",
        tally.requests,
        tally.slowest / 1_000_000,
        tally.deaths,
        tally.deaths_in_recovery,
        tally.clean_closes,
        tally.drives_lost,
        tally.drives_replaced,
        tally.drives_exchanged,
        tally.drives_joined,
        tally.audits,
        tally.mended,
        tally.conversions,
        tally.compacted
    );
    println!("nothing was lost; memory is flat; digest {:016x}", report.digest);
}

fn as_json(words: &Words, report: &DayReport, entries: &[Entry]) -> serde_json::Value {
    let tally = &report.tally;
    json!({
        "seed": words.seed,
        "hours": words.hours,
        "digest": format!("{:016x}", report.digest),
        "virtual_seconds": report.virtual_nanos / 1_000_000_000,
        "requests": tally.requests,
        "slowest_millis": tally.slowest / 1_000_000,
        "deaths": tally.deaths + tally.deaths_in_recovery,
        "audits": tally.audits,
        "deeds": report.deeds,
        "looks": entries,
    })
}

/// Of many requests only those that touched the page that is wrong are worth a line.
fn say_story(story: &Story, spot: Option<&Spot>) {
    let told = story.about(spot);
    let whole = story.whole();
    let lines: Vec<&str> = match spot {
        Some(_) => told.lines().collect(),
        None => whole.lines().filter(|line| !line.contains(" us   r")).collect(),
    };
    for line in &lines[lines.len().saturating_sub(LINES_MAX)..] {
        println!("{line}");
    }
}

pub fn run(words: &Words) -> bool {
    let Words { seed, hours, json, story } = *words;
    if !json {
        println!("seed {seed}, {hours} virtual hours\n{}\n", Plan::day(seed).describe());
        println!("{}", Entry::HEADER);
    }
    let begin = now();
    let mut context: Option<Rc<Context>> = None;
    let result = caught(|| {
        let prepare = |shared: &Rc<Context>| {
            if story {
                shared.story.borrow_mut().record();
            }
            context = Some(shared.clone());
        };
        day::run(seed, hours, prepare, &mut |entry| {
            if json {
                eprintln!("{:.1} of {hours} hours", entry.hours);
            } else {
                println!("{}", entry.line());
            }
        })
    });
    let seconds = now().duration_since(begin).as_secs_f64();
    eprintln!("{seconds:.1} s");
    match result {
        Ok(report) if json => {
            println!("{:#}", as_json(words, &report, &report.entries));
            true
        }
        Ok(report) => {
            say_report(&report);
            super::conclude(1, 0)
        }
        Err(failure) => {
            if let Some(context) = context.filter(|_| story) {
                say_story(&context.story.borrow(), failure.spot.as_ref());
            }
            println!("FAILED seed {seed}\n{:?}: {failure}", failure.check);
            println!(
                "  replay: cargo run --release -p sim -- day --seed {seed} --hours {hours} --story"
            );
            super::conclude(0, 1)
        }
    }
}

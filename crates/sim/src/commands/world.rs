//! `world`: many worlds.

use std::time::{Duration, Instant, SystemTime};

use sim::campaign::{self, Outcome, Summary};
use sim::run::Case;

/// Failures that are told in full; of more, the first lines do.
const STORIES_MAX: usize = 3;
/// Between two lines about how far it is.
const PROGRESS: Duration = Duration::from_secs(10);
/// Worlds without another word about how many.
const COUNT_DEFAULT: u64 = 100;
const FIRST_DEFAULT: u64 = 10_000;

#[derive(clap::Args)]
pub struct Words {
    /// This world
    #[arg(long, conflicts_with = "seeds")]
    seed: Option<u64>,
    /// The worlds from A up to, and without, B
    #[arg(long, value_name = "A..B", value_parser = parse_range)]
    seeds: Option<(u64, u64)>,
    /// Go on with the seeds that follow until so many minutes are over; without seeds, from one
    /// that nobody has tried
    #[arg(long, value_name = "M", value_parser = clap::value_parser!(u64).range(1..=10_080))]
    minutes: Option<u64>,
    /// Threads; results do not depend on them
    #[arg(long, value_name = "J", default_value_t = 1, value_parser = parse_jobs)]
    jobs: usize,
}

fn parse_range(text: &str) -> Result<(u64, u64), String> {
    let (first, end) = text.split_once("..").ok_or("use A..B")?;
    let number = |text: &str| text.parse::<u64>().map_err(|_| format!("'{text}' is no seed"));
    let (first, end) = (number(first)?, number(end)?);
    if first < end { Ok((first, end)) } else { Err("there is no seed in it".into()) }
}

fn parse_jobs(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(jobs @ 1..=256) => Ok(jobs),
        _ => Err("use 1 to 256".into()),
    }
}

#[expect(clippy::disallowed_methods, reason = "how long people wait is outside of all worlds")]
fn now() -> Instant {
    Instant::now()
}

/// A seed that was hardly ever tried: a thousand worlds a second for ever.
#[expect(clippy::disallowed_methods, reason = "printed first, it is the seed of all that follows")]
fn fresh_seed() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(FIRST_DEFAULT, |since| since.as_secs() * 1000)
}

/// First seed and last, if there is one.
fn range(words: &Words) -> (u64, Option<u64>) {
    let open = words.minutes.is_some();
    match (words.seed, words.seeds) {
        (Some(seed), _) => (seed, (!open).then_some(seed)),
        (_, Some((first, end))) => (first, (!open).then_some(end - 1)),
        _ if open => (fresh_seed(), None),
        _ => (FIRST_DEFAULT, Some(FIRST_DEFAULT + COUNT_DEFAULT - 1)),
    }
}

struct Teller {
    begin: Instant,
    said: Instant,
    stories: usize,
}

impl Teller {
    fn tell(&mut self, outcome: &Outcome, summary: &Summary) {
        if let Err(failure) = &outcome.result {
            let case = Case::of(outcome.seed);
            println!("FAILED seed {}\n{}", outcome.seed, case.report(failure));
            if self.stories < STORIES_MAX {
                self.stories += 1;
                println!("{}", case.tell().story);
            }
        }
        if now().duration_since(self.said) >= PROGRESS {
            self.said = now();
            let seconds = self.said.duration_since(self.begin).as_secs();
            let Summary { passed, failed, .. } = summary;
            eprintln!("seed {}, {seconds} s: {passed} passed, {failed} failed", outcome.seed);
        }
    }
}

pub fn run(words: &Words) -> bool {
    let (first, last) = range(words);
    match last {
        Some(last) if last == first => println!("seed {first}"),
        Some(last) => println!("seeds {first}..{}", last + 1),
        None => println!("seeds from {first} on"),
    }
    let begin = now();
    let limit = words.minutes.map(|minutes| Duration::from_secs(60 * minutes));
    let go_on = || limit.is_none_or(|limit| now().duration_since(begin) < limit);
    let mut teller = Teller { begin, said: begin, stories: 0 };
    let summary = campaign::run(first, last, words.jobs, go_on, |outcome, summary| {
        teller.tell(outcome, summary);
    });
    let Summary { passed, failed, trace, requests, virtual_nanos } = summary;
    let seconds = now().duration_since(begin).as_secs_f64();
    eprintln!("{seconds:.1} s");
    println!(
        "{requests} requests in {} virtual seconds, traces {trace:016x}",
        virtual_nanos / 1_000_000_000
    );
    super::conclude(passed, failed)
}

//! `eval systems`: every system runs in it, twice alike, and those that coordinate do.

use clap::Parser;
use eval::array::System;
use eval::array::prepare::Trim;
use eval::array::stand::Stand;
use eval::systems::{Options, Outcome, Table};
use eval::why::{self, Cause};
use io::Wait;
use model::ssd::Fill;

#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    options: Options,
}

fn options(arguments: &[&str]) -> Options {
    let given = ["systems"].iter().chain(arguments);
    Arguments::parse_from(given).options
}

fn run(options: &Options, fill: Fill, trim: Trim) -> Vec<Outcome> {
    let stand = options.stand(fill, trim).expect("drives");
    let each = options.systems.iter().map(|&system| {
        let outcome = options.measure(&stand, system, None).expect("a layout");
        stand.forget(system);
        outcome
    });
    each.collect()
}

#[test]
fn every_system_runs_and_loses_no_request() {
    let short = "--fill-percent 4 --rate 1000 --seconds 1 --warmup 1 --nvram-mib 16";
    let options = options(&short.split(' ').collect::<Vec<_>>());
    assert!(options.systems.len() > 20, "all of them");
    let mut requests = None;
    for outcome in run(&options, Fill::Fresh, Trim::Trimmed) {
        let system = outcome.system;
        assert_eq!((outcome.failed, &outcome.trouble), (0, &None), "{system}");
        let seen = (outcome.reads.len(), outcome.writes.len());
        // The same for all, though their sizes differ.
        assert_eq!(*requests.get_or_insert(seen), seen, "{system}");
        assert!(outcome.drives.host_write_bytes > 0 && outcome.user_bytes > 0, "{system}");
    }
}

#[test]
fn the_same_seed_gives_the_same_figures() {
    let short = "--systems raid5,steering,fusion --fill-percent 4 --seconds 1 --warmup 1";
    let arguments: Vec<&str> = short.split(' ').collect();
    let figures = |seed: &str| {
        let options = options(&[&arguments[..], &["--seed", seed]].concat());
        let mut table = Table::default();
        run(&options, Fill::Aged, Trim::Untrimmed).into_iter().for_each(|outcome| {
            table.add(outcome);
        });
        table.json(&options)
    };
    let first = figures("1");
    assert_eq!(first, figures("1"));
    assert_ne!(first, figures("2"));
}

/// LGC is RAID5 as it is; GGC is not.
#[test]
fn local_collection_is_raid5_as_it_is() {
    let load = "--systems gc-local,raid5-open,gc-global --fill-percent 4 --seconds 2 --warmup 1";
    let outcomes = run(&options(&load.split(' ').collect::<Vec<_>>()), Fill::Aged, Trim::Untrimmed);
    assert_eq!(outcomes[0].system, System::GcLocal);
    assert!(outcomes[0].drives.collections > 0, "the load makes drives collect");
    assert_eq!(outcomes[0].latencies, outcomes[1].latencies);
    assert_ne!(outcomes[0].latencies, outcomes[2].latencies);
}

/// Explaining changes nothing, each moment of a slow request has its cause, and hardly any is one
/// that nobody tells: in the path of a request, in a task that writes for several, in a queue for
/// room.
#[test]
fn slow_requests_are_explained() {
    let (usual, full) = ("--seconds 1", "--rate 16000 --read-percent 20 --seconds 2");
    for (systems, load) in [("raid5,fusion,log-raid", usual), ("alternate", full)] {
        let load = format!("--systems {systems} --fill-percent 4 --warmup 1 --why {load}");
        let options = options(&load.split(' ').collect::<Vec<_>>());
        let stand = options.stand(Fill::Aged, Trim::Untrimmed).expect("drives");
        for &system in &options.systems {
            explain(&options, &stand, system);
        }
    }
}

fn explain(options: &Options, stand: &Stand, system: System) {
    let measure = || options.measure(stand, system, None).expect("a layout");
    let (plain, none) = why::explained(None, measure);
    let (outcome, reports) = why::explained(Some(0.9), measure);
    assert_eq!((outcome.latencies, none.len()), (plain.latencies, 0), "{system}");
    let [report] = &reports[..] else { panic!("{system}: {} reports", reports.len()) };
    let tenth = |count: u64| (count as f64 * 0.1).round() as usize;
    let expected = (tenth(plain.reads.len()), tenth(plain.writes.len()));
    let found = (report.reads.len(), report.writes.len());
    assert!(found.0.abs_diff(expected.0) + found.1.abs_diff(expected.1) <= 2, "{found:?}");
    for told in report.reads.iter().chain(&report.writes) {
        let all: u64 = Cause::all().map(|cause| told.path.get(cause)).sum();
        assert_eq!(all, told.nanos, "{system}: {told:?}");
    }
    for slow in [&report.reads, &report.writes] {
        let shares = why::shares(slow);
        let of = |cause| shares.iter().find(|share| share.cause == cause);
        assert!(of(Cause::Untold).is_none_or(|untold| untold.of_time < 0.05), "{shares:?}");
        assert!(of(Cause::Fault).is_none(), "no drive has a fault: {shares:?}");
        // Also of a record that was written for several.
        let drives = shares.iter().filter(|share| matches!(share.cause, Cause::Drive(_)));
        let of_drives: f64 = drives.map(|share| share.of_time).sum();
        let space = of(Cause::Array(Wait::Space));
        let full_cache = space.is_some_and(|space| space.of_time > 0.9);
        assert!(of_drives > 0.3 || full_cache, "{system}: {shares:?}");
    }
    let lines = report.csv().lines().count();
    assert_eq!(lines, 1 + report.reads.len() + report.writes.len());
}

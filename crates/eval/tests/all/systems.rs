//! `eval systems`: every system runs in it, twice alike, and those that coordinate do.

use clap::Parser;
use eval::array::System;
use eval::array::prepare::Trim;
use eval::systems::{Options, Outcome, Table};
use eval::why::{self, Cause};
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
/// that nobody tells.
#[test]
fn slow_requests_are_explained() {
    let short =
        "--systems raid5,fusion,log-raid,alternate --fill-percent 4 --seconds 1 --warmup 1 --why";
    let options = options(&short.split(' ').collect::<Vec<_>>());
    let stand = options.stand(Fill::Aged, Trim::Untrimmed).expect("drives");
    for &system in &options.systems {
        let measure = || options.measure(&stand, system, None).expect("a layout");
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
        }
        let lines = report.csv().lines().count();
        assert_eq!(lines, 1 + report.reads.len() + report.writes.len());
    }
}

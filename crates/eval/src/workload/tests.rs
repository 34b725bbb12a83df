//! Workloads as a whole: they have the figures they should have, and the same ones every time.

use io::Nanos;

use super::arrivals::Arrivals;
use super::fit::{self, Fitter};
use super::presets::PRESETS;
use super::{Kind, Workload};
use crate::trace::figures::Figures;
use crate::trace::reader::{Reader, Reading};
use crate::trace::record::{Op, Record};

fn workload() -> Workload {
    Workload {
        name: "test".to_owned(),
        arrivals: Arrivals::bursts(2000.0, 0.5),
        read_share: 0.3,
        reads: Kind {
            sizes: vec![(8192, 3.0), (65536, 1.0)],
            sequential: 0.4,
            run: 8,
            fresh: 0.5,
            skew: 0.9,
            shared: 0.2,
        },
        writes: Kind {
            sizes: vec![(4096, 0.9), (16384, 0.1)],
            sequential: 0.2,
            run: 8,
            fresh: 0.25,
            skew: 1.1,
            shared: 0.0,
        },
        span: 16 << 30,
        align: 4096,
    }
}

#[test]
fn a_workload_has_the_shares_it_was_given() {
    let figures = Figures::of(workload().during(Nanos::from_secs(30), 7));
    let near = |what: &str, value: f64, wanted: f64, most: f64| {
        assert!((value - wanted).abs() <= most, "{what}: {value}, not {wanted}");
    };
    near("rate", figures.iops, 2000.0, 100.0);
    near("reads", figures.read_share, 0.3, 0.001);
    near("KB of a read", figures.reads.average_kb, 22.528, 0.3);
    near("KB of a write", figures.writes.average_kb, 5.3248, 0.1);
    near("sequential reads", figures.sequential_reads, 0.4, 0.02);
    near("sequential writes", figures.sequential_writes, 0.2, 0.02);
    near("updates", figures.footprint.update_share, 0.75, 0.01);
    near("aligned", figures.aligned_share, 1.0, 0.0);
    near("busy milliseconds", figures.by_ms.busy, 0.5 * (1.0 - (-4f64).exp()), 0.03);
    assert!(figures.by_10_ms.dispersion > 5.0 && figures.by_second.dispersion > 20.0);
    assert!(figures.end_gib <= 16.0 && figures.end_gib > 12.0);
    // Poisson arrivals have neither.
    let smooth = Workload { arrivals: Arrivals::poisson(2000.0), ..workload() };
    let smooth = Figures::of(smooth.during(Nanos::from_secs(30), 7));
    near("dispersion", smooth.by_10_ms.dispersion, 1.0, 0.1);
}

#[test]
fn a_seed_names_the_requests_and_sizes_change_no_times() {
    let first = |workload: Workload, seed| workload.requests(seed).take(5000).collect::<Vec<_>>();
    assert_eq!(first(workload(), 1), first(workload(), 1));
    assert_ne!(first(workload(), 1), first(workload(), 2));
    let mut other = workload();
    other.writes.sizes = vec![(512, 1.0)];
    let times = |records: Vec<Record>| records.iter().map(|r| r.at).collect::<Vec<_>>();
    assert_eq!(times(first(other, 1)), times(first(workload(), 1)));
    // On every machine: these are written down.
    let sum = first(workload(), 1).iter().fold(0u64, |sum, r| {
        io::rng::mix(sum ^ r.at.0 ^ r.offset.rotate_left(20) ^ r.len << 40 ^ r.op as u64)
    });
    assert_eq!(sum, FINGERPRINT, "{sum:#x}");
}

/// Changes when a workload means other requests than it did, and only then.
const FINGERPRINT: u64 = 0x88d3_11fb_1699_8392;

#[test]
fn nonsense_is_refused() {
    let refused = |change: &dyn Fn(&mut Workload)| {
        let mut workload = workload();
        change(&mut workload);
        assert!(workload.problem().is_some(), "{workload:?}");
    };
    assert_eq!(workload().problem(), None);
    refused(&|w| w.read_share = f64::NAN);
    refused(&|w| w.writes.sizes = Vec::new());
    refused(&|w| w.writes.sizes = vec![(513, 1.0)]);
    refused(&|w| w.reads.fresh = 1.5);
    refused(&|w| w.span = 1 << 20);
    refused(&|w| w.align = 3);
    refused(&|w| w.arrivals.phases[0].next.deck = vec![(99, 1)]);
    refused(&|w| w.arrivals.phases[0].levels[0].next.deck = Vec::new());
    refused(&|w| w.arrivals.phases[0].next.last = Some(3));
    refused(&|w| w.arrivals.scale(0.0));
    // From the last phase nothing leads back.
    refused(&|w| w.arrivals.phases[5].next.deck = vec![(5, 1)]);
}

#[test]
fn a_space_that_is_used_up_is_used_again() {
    let small = Workload { span: 64 << 20, ..workload() };
    let mut all = workload().writes;
    all.fresh = 1.0;
    let small = Workload { writes: all, ..small };
    let records: Vec<Record> = small.requests(3).take(200_000).collect();
    assert!(records.iter().all(|record| record.end() <= 64 << 20));
    assert!(Figures::of(records.into_iter()).footprint.update_share > 0.8);
}

/// Every figure that a paper prints, in a minute.
#[test]
fn presets_have_the_figures_of_the_papers() {
    for preset in &PRESETS {
        assert_eq!(preset.workload().problem(), None, "{}", preset.name);
        for (what, paper, ours) in preset.compare(&preset.measure(1)) {
            let most = match what {
                "write share" | "partial 4K" | "partial 8K" => 0.02,
                _ => paper * 0.03,
            };
            let name = preset.name;
            assert!((ours - paper).abs() <= most, "{name}, {what}: {ours}, the paper {paper}");
        }
    }
}

fn fitted(records: impl Iterator<Item = Record>, name: &str) {
    let mut fitter = Fitter::default();
    records.for_each(|record| fitter.add(&record));
    let fit = fitter.finish(name).unwrap_or_else(|error| panic!("{name}: {error}"));
    // Another seed than the one it was fitted with.
    let made = fit.made(2);
    let rows = fit::compare(&fit.wanted, &made);
    let off: Vec<_> =
        rows.iter().filter(|(_, wanted, made, bound)| !bound.holds(*wanted, *made)).collect();
    assert!(off.is_empty(), "{name}: {off:#?}");
    // What is written is read.
    let text = serde_json::to_string(&fit.workload).unwrap();
    assert_eq!(serde_json::from_str::<Workload>(&text).unwrap(), fit.workload);
}

/// A source whose parameters are known.
#[test]
fn a_fit_is_like_what_it_was_fitted_to() {
    fitted(workload().during(Nanos::from_secs(60), 11), "test");
    let mut other = workload();
    other.arrivals = Arrivals { batch: 4.0, ..Arrivals::poisson(300.0) };
    (other.read_share, other.align) = (0.9, 512);
    other.reads.sizes = vec![(1536, 1.0), (4096, 1.0), (512, 2.0)];
    fitted(other.during(Nanos::from_secs(60), 12), "other");
    // Half of it at one place: a fit with the wrong figures would be seen.
    let mut fitter = Fitter::default();
    other.during(Nanos::from_secs(60), 12).for_each(|record| fitter.add(&record));
    let fit = fitter.finish("other").unwrap();
    let hot = Figures::of(other.during(Nanos::from_secs(60), 12).map(|record| {
        if record.at.0 % 2 == 0 && record.op == Op::Read {
            Record { offset: 0, ..record }
        } else {
            record
        }
    }));
    let rows = fit::compare(&hot, &fit.made(2));
    assert!(rows.iter().any(|(_, wanted, made, bound)| !bound.holds(*wanted, *made)));
}

/// Excerpts of real traces, which are not part of the repository: STEADYRAID_TRACES names the
/// directory they are in.
#[test]
fn fits_of_real_traces_are_like_them() {
    let Some(directory) = std::env::var_os("STEADYRAID_TRACES") else {
        eprintln!("no traces: STEADYRAID_TRACES does not name their directory");
        return;
    };
    let entries = std::fs::read_dir(directory).expect("the directory of the traces");
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "zst"));
    assert!(!paths.is_empty(), "there is none");
    for path in paths {
        let reader = Reader::open(&path, &Reading::default()).unwrap();
        fitted(reader.map(Result::unwrap), &path.display().to_string());
    }
}

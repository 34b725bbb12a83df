//! Garbage collection as the host sees it: what each mode does to latencies, idle and forced
//! collection, wear.

mod common;

use common::{Bench, Load, Outcome, closed_loop, data_centre, open_loop, reference};
use io::Nanos;
use io::model::Model;
use model::ssd::{Config, Fill, Mode, Snapshot, Ssd};

/// Small blocks: many collections in a short run.
fn aged(mode: Mode) -> Config {
    let mut config = data_centre();
    config.pages_per_block = 16;
    config.collection.mode = mode;
    config
}

fn writes(ssd: &mut Ssd, count: u32, per_second: f64) -> Outcome {
    let load = Load { reads_percent: 30, bytes: 4096, count, seed: 3 };
    open_loop(ssd, Nanos::ZERO, load, per_second)
}

/// FusionRAID §2.3, consumer drives: during a collection everything waits, and then everything
/// is completed at once.
#[test]
fn blocking_collection_stops_reads_and_writes_and_ends_in_a_batch() {
    let mut ssd = Ssd::new(aged(Mode::Blocking), 1).expect("it fits together");
    let outcome = writes(&mut ssd, 60_000, 6_000.0);
    let collections = ssd.counters().collections;
    assert!((5..40).contains(&collections), "{collections}");
    for latencies in [&outcome.reads, &outcome.writes] {
        let (median, longest) = (latencies.at(0.5), latencies.at(1.0));
        assert!(median < 200.0 && longest > 50_000.0, "{median} us, {longest} us");
    }
}

#[test]
fn a_blocked_batch_completes_together() {
    let mut ssd = Ssd::new(aged(Mode::Blocking), 1).expect("it fits together");
    let mut bench = Bench::new(&mut ssd, Nanos::ZERO);
    let mut next = 0u64;
    while !bench.ssd.is_collecting() {
        bench.submit(common::write(next * 4096, 4096));
        next += 7;
        let until = Nanos(bench.now.0 + 50_000);
        while bench.now < until {
            bench.advance(until);
        }
    }
    // What was under way ends; then nothing does before the collection does.
    let until = Nanos(bench.now.0 + 2_000_000);
    while bench.now < until {
        bench.advance(until);
    }
    let before = bench.ssd.counters().completed;
    for index in 0..20 {
        bench.submit(common::write(index * 4096, 4096));
    }
    while bench.ssd.is_collecting() {
        assert_eq!(bench.ssd.counters().completed, before, "the host waits");
        bench.advance(Nanos(u64::MAX));
    }
    let until = Nanos(bench.now.0 + 200_000);
    while bench.now < until {
        bench.advance(until);
    }
    assert!(bench.ssd.counters().completed >= before + 20, "all at once");
}

/// Data-centre drives: reads never wait for more than a program and an erase; a paced drive
/// that can't keep pace stops writes until a superblock is clean.
#[test]
fn paced_collection_spares_reads_and_writes_as_long_as_it_keeps_pace() {
    let run = |gain_percent| {
        let mut ssd = Ssd::new(aged(Mode::Paced { gain_percent }), 1).expect("it fits");
        let load = Load { reads_percent: 30, bytes: 4096, count: 100_000, seed: 3 };
        let outcome = closed_loop(&mut ssd, Nanos::ZERO, load, 32);
        assert!(ssd.counters().collections > 0 && ssd.counters().moved_bytes > 0);
        outcome
    };
    let (steady, behind) = (run(100), run(20));
    let longest = |outcome: &Outcome| (outcome.reads.at(1.0) / 1e3, outcome.writes.at(1.0) / 1e3);
    println!("{:?} ms, {:?} ms", longest(&steady), longest(&behind));
    let ((reads, writes), (reads_behind, writes_behind)) = (longest(&steady), longest(&behind));
    assert!(reads < 7.0 && writes < 15.0, "{reads} ms, {writes} ms");
    assert!(reads_behind < 7.0 && writes_behind > 50.0, "{reads_behind}, {writes_behind} ms");
    assert!(behind.writes.at(0.5) < steady.writes.at(0.5), "on, then off");
}

/// The lesson of the reference (its §1.3): at equal load the way garbage is collected moves the
/// 99th percentile a hundredfold, and what is left of it is the erase.
#[test]
fn per_plane_collection_that_yields_is_a_hundred_times_gentler() {
    let run = |mode| {
        let mut config = reference();
        (config.channels, config.blocks_per_plane) = (2, 512);
        config.collection.mode = mode;
        // Two or three blocks at a time.
        let collection = &mut config.collection;
        (collection.hard, collection.low, collection.high) = (28, 29, 30);
        config.fill = Fill::Aged;
        let mut ssd = Ssd::new(config, 1).expect("it fits together");
        let load = Load { reads_percent: 70, bytes: 16 << 10, count: 30_000, seed: 5 };
        open_loop(&mut ssd, Nanos::ZERO, load, 1_500.0)
    };
    let (blocking, yielding) = (run(Mode::Blocking), run(Mode::Preemptible));
    for outcome in [&blocking, &yielding] {
        assert!((80.0..90.0).contains(&outcome.reads.at(0.5)), "{}", outcome.reads.at(0.5));
        assert!((720.0..730.0).contains(&outcome.writes.at(0.5)));
    }
    assert!(blocking.reads.at(0.99) > 100_000.0, "{} us", blocking.reads.at(0.99));
    assert!(yielding.reads.at(0.99) < 1_000.0, "{} us", yielding.reads.at(0.99));
    let class = yielding.reads.at(0.999);
    assert!((700.0..6_000.0).contains(&class), "one erase, {class} us");
}

#[test]
fn silence_is_used_and_ends_at_once() {
    let mut config = aged(Mode::Idle);
    config.collection.idle_after = Some(Nanos::from_millis(20));
    let mut ssd = Ssd::new(config, 2).expect("it fits together");
    // Takes a block or two, but doesn't reach the low watermark.
    let load = Load { reads_percent: 0, bytes: 4096, count: 1_000, seed: 1 };
    closed_loop(&mut ssd, Nanos::ZERO, load, 1);
    let before = ssd.counters().moved_bytes;
    let mut done = Vec::new();
    while !ssd.is_collecting() {
        let next = ssd.next_event().expect("the timer of silence");
        ssd.advance(next, &mut done);
    }
    let now = ssd.next_event().expect("it collects");
    ssd.advance(now, &mut done);
    ssd.submit(now, io::model::Tag(0), common::write(0, 4096));
    let mut last = now;
    while ssd.is_collecting() {
        last = ssd.next_event().expect("it is at work");
        ssd.advance(last, &mut done);
    }
    let copies = last.0 - now.0;
    assert!(copies < 5_000_000, "it ends what dies are at, for the host it begins nothing");
    while let Some(next) = ssd.next_event() {
        ssd.advance(next, &mut done);
        last = next;
    }
    assert_eq!(done.len(), 1);
    assert!(done[0].at.0 - now.0 < 1_000_000, "it didn't wait for the collection");
    assert!(!ssd.is_collecting() && ssd.counters().moved_bytes > before);
    // Full again up to the high watermark: more silence changes nothing.
    let counters = ssd.counters();
    ssd.advance(Nanos(last.0 + 1_000_000_000), &mut done);
    assert_eq!(ssd.counters(), counters);
}

#[test]
fn collection_is_forced_from_outside_and_ends_by_itself_or_when_told() {
    let snapshot = Snapshot::new(aged(Mode::Blocking), 1).expect("it fits together");
    let mut ended_early = 0;
    for seed in 0..8 {
        let mut ssd = Ssd::from_snapshot(&snapshot, seed);
        assert!(!ssd.is_collecting());
        ssd.force_collection(Nanos::ZERO, true);
        if !ssd.is_collecting() {
            // It was at its high watermark.
            continue;
        }
        let mut done = Vec::new();
        let told = seed % 2 == 0;
        if told {
            ssd.force_collection(Nanos::ZERO, false);
            ended_early += 1;
        }
        let mut end = Nanos::ZERO;
        while let Some(next) = ssd.next_event() {
            ssd.advance(next, &mut done);
            end = next;
        }
        assert!(!ssd.is_collecting());
        ssd.verify();
        // Victims that are begun are finished; more is a whole cycle.
        assert_eq!(ssd.counters().collections, 1);
        assert!(end > Nanos::from_millis(5) || told, "{end:?}");
    }
    assert!(ended_early > 0);
    let mut fresh = Ssd::new(Config { fill: Fill::Fresh, ..data_centre() }, 1).expect("it fits");
    fresh.force_collection(Nanos::ZERO, true);
    assert!(!fresh.is_collecting() && fresh.next_event().is_none(), "there is no garbage");
}

#[test]
fn blocks_wear_alike_under_random_writes() {
    let mut ssd = Ssd::new(aged(Mode::Preemptible), 1).expect("it fits together");
    let load = Load { reads_percent: 0, bytes: 4096, count: 100_000, seed: 1 };
    closed_loop(&mut ssd, Nanos::ZERO, load, 32);
    let wear = ssd.wear();
    assert!(wear.min > 0 && f64::from(wear.max - wear.min) < wear.mean, "{wear:?}");
    ssd.verify();
}

//! The presets meet the figures that DRIVES.md compares them with. In virtual time: exact.

use std::time::Duration;

use io::env::Nanos;
use model::presets::Preset;
use sim::drive::probe::Period;
use sim::drive::spikes::{Kind, Rule, find};
use sim::drive::summary::Summary;
use sim::drive::{measure, parse, record};

fn figures(line: &str) -> Summary {
    measure(line).unwrap_or_else(|error| panic!("{line}: {error}"))
}

fn within(found: f64, target: f64, percent: f64, what: &str) {
    let miss = (found / target - 1.0) * 100.0;
    assert!(miss.abs() <= percent, "{what}: {found:.3} misses {target} by {miss:.1} %");
}

fn between(found: f64, low: f64, high: f64, what: &str) {
    assert!((low..=high).contains(&found), "{what}: {found:.3}, not {low} to {high}");
}

const STEADY: &str = "--request 4K --depth 32 --fill aged --warmup 20 --seconds 20";

#[test]
fn s4500_and_s4600_differ_by_over_provisioning_and_reach_their_random_writes() {
    let size = Preset::S4500.default_size();
    let mut s4500 = Preset::S4500.ssd_config(size).unwrap();
    let s4600 = Preset::S4600.ssd_config(size).unwrap();
    s4500.over_provisioning_permille = s4600.over_provisioning_permille;
    s4500.blocks_per_plane = s4600.blocks_per_plane;
    assert_eq!(s4500, s4600, "nothing but the over-provisioning, and the blocks that takes");
    for (name, target) in [("s4500", 33_000.0), ("s4600", 65_000.0)] {
        within(figures(&format!("{name} {STEADY}")).iops, target, 20.0, name);
    }
}

#[test]
fn dc_at_depth_one_has_the_latencies_of_its_data_sheet() {
    let qd1 = "--request 4K --depth 1 --seconds 2 --fill written";
    let reads = figures(&format!("dc-sata --workload randread {qd1}")).reads;
    let writes = figures(&format!("dc-sata --workload randwrite {qd1}")).writes;
    between(reads.mean_us, 100.0, 120.0, "reads");
    between(reads.p999_us, 0.0, 300.0, "99.9 % of reads");
    between(writes.mean_us, 35.0, 55.0, "writes");
    between(writes.p999_us, 0.0, 800.0, "99.9 % of writes");
}

#[test]
fn dc_steady_random_writes_follow_from_bandwidth_and_amplification() {
    let sequential = figures("dc-sata --workload seqwrite --seconds 10").mb_per_second;
    let line = "dc-sata --request 4K --depth 32 --fill aged --warmup 40 --seconds 120";
    let steady = figures(line);
    let amplification = steady.write_amplification.unwrap();
    let expected = sequential * 1e6 / 4096.0 / amplification;
    within(steady.iops, expected, 20.0, "steady random writes");

    let size = Preset::DcSata.default_size();
    let config = Preset::DcSata.ssd_config(size).unwrap();
    let planes = config.channels * config.dies_per_channel * config.planes;
    let superblock = u64::from(planes * config.pages_per_block * config.page_bytes);
    // Two superblocks are open, and the last two are the collection's.
    let used = f64::from(config.blocks_per_plane - 2 - config.collection.hard);
    let expected = greedy_amplification(size as f64 / superblock as f64 / used);
    within(amplification, expected, 5.0, "write amplification");
}

/// For uniform random writes when `valid` of the space is. Blocks collected in the order of
/// writing hold a share v of valid data, with valid = (1 - v) / ln(1/v); greedy collection of
/// large blocks does 2.4 % better.
fn greedy_amplification(valid: f64) -> f64 {
    let (mut low, mut high) = (1e-9, 1.0 - 1e-9);
    for _ in 0..100 {
        let v: f64 = (low + high) / 2.0;
        if (1.0 - v) / -v.ln() < valid { low = v } else { high = v }
    }
    0.976 / (1.0 - low)
}

#[test]
fn under_pressure_dc_throughput_is_even_and_consumer_throughput_is_not() {
    let dc = figures("dc-sata --workload randwrite --fill aged --warmup 20 --seconds 60");
    let consumer = figures(&format!("consumer-sata {STEADY}"));
    between(dc.throughput_cov, 0.0, 0.10, "dc");
    between(consumer.throughput_cov, 0.40, 10.0, "consumer");
}

#[test]
fn reads_wait_for_an_erase_when_collection_is_paced_and_for_a_superblock_when_it_blocks() {
    let line = "dc-sata --workload mixed:70 --request 4K --rate 10000 --fill aged \
                --warmup 20 --seconds 30";
    let paced = figures(line).reads.p999_us;
    let blocking = figures(&format!("{line} --gc blocking")).reads.p999_us;
    between(paced / 1e3, 3.0, 10.0, "paced");
    between(blocking / 1e3, 40.0, 350.0, "blocking");
}

#[test]
fn consumer_flushes_are_spikes_of_5_to_20_times_the_mean_a_buffer_apart() {
    let line = "consumer-sata --workload seqwrite --seconds 10";
    let found = figures(line);
    let spikes = &found.spikes;
    between(spikes.duration_ms, 3.0, 12.0, "duration");
    between(spikes.height_ms * 1e3 / found.writes.mean_us, 5.0, 20.0, "times the mean");
    let buffer = 10.0 * (1 << 20) as f64;
    let apart = buffer / (found.mb_per_second * 1e6) * 1e3;
    within(spikes.idle_ms + spikes.duration_ms, apart, 3.0, "from spike to spike");
    assert_eq!(found.collections, 0, "a clean drive");

    // Each drive has its own phase.
    let first = |seed: u64| {
        let args = parse(&format!("{line} --seed {seed}")).unwrap();
        find(&record(&args).unwrap(), Rule::default())[0].period.begin
    };
    assert_ne!(first(1), first(2));
}

#[test]
fn consumer_collections_tower_over_flushes() {
    let found = figures("consumer-sata --workload seqwrite --span 2G --warmup 40 --seconds 30");
    let (collections, flushes) = (&found.collecting_spikes, &found.other_spikes);
    assert!(collections.count > 10 && flushes.count > 100);
    within(collections.height_ms / flushes.height_ms, 21.0, 20.0, "height");
    within(collections.duration_ms / flushes.duration_ms, 18.0, 20.0, "duration");
    within(collections.idle_ms / collections.duration_ms, 10.0, 20.0, "idle to spike");
}

#[test]
fn dc_has_no_spikes_under_sequential_writes_and_long_ones_under_random_writes() {
    let sequential = figures("dc-sata --workload seqwrite --fill written --seconds 60");
    assert!(sequential.collections > 0, "it collects, nobody notices");
    assert_eq!(sequential.spikes.count, 0);
    let random = figures("dc-sata --workload randwrite --fill aged --warmup 20 --seconds 60");
    assert!(random.collecting_spikes.height_ms > 100.0, "{:?}", random.collecting_spikes);
    assert!(random.spikes.duty > 0.5, "most of the time: {:?}", random.spikes);
}

#[test]
fn under_fusionraids_evaluation_load_a_drive_has_its_five_spikes_a_minute() {
    let found = figures("dc-sata --workload fusion --fill aged --warmup 60 --seconds 600");
    within(found.write_spikes.per_minute, 4.85, 15.0, "spikes a minute");
    within(found.write_spikes.duration_ms, 3.79, 15.0, "their duration");
}

/// Drives don't spike together: of N, one is slow in 1 - (1 - p)^N of the time.
#[test]
fn in_an_array_some_drive_is_slow_as_often_as_chance_says() {
    let drives = 12;
    let seconds = 180;
    let rule = Rule { only: Some(Kind::Writes), ..Rule::default() };
    let mut slow: Vec<Period> = Vec::new();
    for seed in 1..=drives {
        let line = format!(
            "dc-sata --size 4G --workload fusion --fill aged --warmup 20 --seconds {seconds} \
             --seed {seed}"
        );
        let spikes = find(&record(&parse(&line).unwrap()).unwrap(), rule);
        slow.extend(spikes.iter().map(|spike| spike.period));
    }
    let seconds = Duration::from_secs(seconds).as_nanos() as f64;
    let share = |nanos: u64| nanos as f64 / seconds;
    let alone = share(slow.iter().map(|period| period.length().0).sum()) / drives as f64;
    let some = share(covered(slow));
    let chance = 1.0 - (1.0 - alone).powi(drives);
    assert!(alone > 0.0001, "{alone}");
    within(some, chance, 5.0, "some drive is slow");
}

/// The length of the union of periods.
fn covered(mut periods: Vec<Period>) -> u64 {
    periods.sort_by_key(|period| period.begin);
    let mut end = Nanos::ZERO;
    let mut sum = 0;
    for period in periods {
        sum += period.end.saturating_sub(period.begin.max(end)).0;
        end = end.max(period.end);
    }
    sum
}

#[test]
fn the_hard_disk_appends_in_a_tenth_of_a_millisecond_and_seeks_in_eight() {
    let append = figures("hdd-10k --workload seqwrite --request 4K --depth 1 --seconds 5");
    let random = figures("hdd-10k --workload randwrite --request 4K --depth 1 --seconds 60");
    within(append.writes.mean_us, 100.0, 20.0, "append");
    within(random.writes.mean_us, 8_000.0, 10.0, "random");
}

#[test]
fn a_seed_names_a_run() {
    let run = |seed| {
        let line = format!("consumer-sata --workload mixed:50 --seconds 1 --seed {seed}");
        record(&parse(&line).unwrap()).unwrap().samples
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn what_cannot_be_run_is_refused_with_a_reason() {
    for (line, reason) in [
        ("floppy", "consumer-sata"),
        ("dc-sata --workload sideways", "seqwrite"),
        ("dc-sata --request 100", "4 KiB"),
        ("dc-sata --request 4K --depth 0", "depth"),
        ("dc-sata --rate 0", "rate"),
        ("dc-sata --seconds 0", "seconds"),
        ("dc-sata --size 1G", "GiB"),
        ("dc-sata --op 5", "over"),
        ("hdd-10k --gc blocking", "SSD"),
        ("hdd-10k --request 4K --rate 100000 --seconds 60", "keep up"),
    ] {
        let error = measure(line).expect_err(line);
        assert!(error.contains(reason), "{line}: {error}");
    }
}

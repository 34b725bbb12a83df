//! The hard disk against closed forms: rotation, seeks, zones, queue.

use io::drive::Durability;
use io::env::Nanos;
use io::model::{Command, Completion, Model, Tag};

use super::{Config, Hdd, Schedule, SeekTimes};

const KIB: u64 = 1024;
const MIB: u64 = 1 << 20;

/// A 10,000 rpm disk: 6 ms a turn, 4.2 ms a seek, 72 MB/s outside and 48 MB/s inside.
fn ten_thousand() -> Config {
    Config {
        size: 4 << 30,
        rpm: 10_000,
        heads: 4,
        zones: 16,
        outer_track: 844 * 512,
        inner_track: 562 * 512,
        seek: SeekTimes {
            next_cylinder: Nanos::from_micros(400),
            average: Nanos::from_micros(4_200),
            full_stroke: Nanos::from_micros(8_300),
            write_settle: Nanos::from_micros(400),
        },
        track_switch: Nanos::from_micros(400),
        overhead: Nanos::from_micros(40),
        link_bytes_per_second: 300_000_000,
        read_buffer: 8 * MIB,
        stream_window: Nanos::ZERO,
        schedule: Schedule::Fifo,
    }
}

fn read(offset: u64, len: u64) -> Command {
    Command::Read { offset, len }
}

fn write(offset: u64, len: u64) -> Command {
    Command::Write { offset, len, durability: Durability::Cached }
}

fn disk(config: Config) -> Hdd {
    Hdd::new(config, 7).unwrap()
}

/// A small generator for places, so that tests need no crate.
struct Places(u64);

impl Places {
    fn next(&mut self, below: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

/// Keeps `depth` commands waiting until `count` are done; mean latency and commands a second.
fn closed_loop(
    hdd: &mut Hdd,
    depth: u64,
    count: u64,
    mut next: impl FnMut() -> Command,
) -> (f64, f64) {
    let mut done: Vec<Completion> = Vec::new();
    let mut began = Vec::new();
    let (mut now, mut latencies) = (Nanos::ZERO, 0);
    let mut submit = |hdd: &mut Hdd, now, began: &mut Vec<Nanos>| {
        hdd.submit(now, Tag(began.len() as u64), next());
        began.push(now);
    };
    (0..depth).for_each(|_| submit(hdd, now, &mut began));
    let mut completed = 0;
    while completed < count {
        now = hdd.next_event().expect("something is waiting");
        hdd.advance(now, &mut done);
        for completion in done.drain(..) {
            latencies += completion.at.0 - began[completion.tag.0 as usize].0;
            completed += 1;
            submit(hdd, now, &mut began);
        }
    }
    let seconds = now.0 as f64 / 1e9;
    (latencies as f64 / completed as f64, completed as f64 / seconds)
}

fn near(found: f64, expected: f64, percent: f64) {
    let miss = (found / expected - 1.0) * 100.0;
    assert!(miss.abs() <= percent, "{found} is {miss:.2} % from {expected}");
}

fn random(config: Config, depth: u64, count: u64, command: fn(u64, u64) -> Command) -> (f64, f64) {
    let mut places = Places(1);
    let blocks = config.size / (4 * KIB);
    closed_loop(&mut disk(config), depth, count, || command(places.next(blocks) * 4 * KIB, 4 * KIB))
}

#[test]
fn random_reads_take_a_seek_and_half_a_turn() {
    // Overhead, average seek, half a turn, 4 KiB of 60 MB/s. Sectors lie more on the outer
    // tracks than the average over cylinders knows, hence the tolerance.
    let (mean, iops) = random(ten_thousand(), 1, 20_000, read);
    near(mean, 40e3 + 4_200e3 + 3_000e3 + 68e3, 3.0);
    near(iops, 136.8, 3.0);
}

#[test]
fn random_writes_also_settle() {
    let (mean, _) = random(ten_thousand(), 1, 20_000, write);
    near(mean, 40e3 + 14e3 + 4_600e3 + 3_000e3 + 68e3, 3.0);
}

#[test]
fn without_seeks_the_mean_rotation_is_half_a_turn() {
    let config = Config { heads: 1, zones: 1, size: 844 * 512, read_buffer: 0, ..ten_thousand() };
    let mut places = Places(3);
    let (mean, _) = closed_loop(&mut disk(config), 1, 20_000, || read(places.next(844) * 512, 512));
    near(mean, 40e3 + 3_000e3 + 7e3, 2.0);
}

fn sequential_rate(
    config: Config,
    start: u64,
    depth: u64,
    command: fn(u64, u64) -> Command,
) -> f64 {
    let mut place = start;
    let (_, iops) = closed_loop(&mut disk(config), depth, 800, || {
        place += 64 * KIB;
        command(place, 64 * KIB)
    });
    iops * (64 * KIB) as f64 / 1e6
}

#[test]
fn streams_run_at_the_rate_of_their_zone() {
    // A track in a turn and a switch to the next.
    let config = ten_thousand();
    let rate = |track: f64| track / 6_400e3 * 1e3;
    let (outer, inner) = (rate(844.0 * 512.0), rate(562.0 * 512.0));
    let inside = config.size - 60 * MIB;
    near(sequential_rate(config, 0, 4, write), outer, 2.0);
    near(sequential_rate(config, inside, 4, write), inner, 2.0);
    near(sequential_rate(config, 0, 1, read), outer, 2.0);
    near(sequential_rate(config, inside, 1, read), inner, 2.0);
}

#[test]
fn appending_one_by_one_waits_a_turn_unless_the_window_is_open() {
    let appends = |stream_window| {
        let config = Config { stream_window, ..ten_thousand() };
        let mut place = 0;
        closed_loop(&mut disk(config), 1, 20_000, || {
            place += 4 * KIB;
            write(place, 4 * KIB)
        })
        .0
    };
    near(appends(Nanos::ZERO), 6_000e3, 2.0);
    // Overhead, link, 4 KiB of 72 MB/s, and a switch of 0.4 ms for each 105.
    near(appends(Nanos::from_millis(1)), 40e3 + 13.7e3 + 56.9e3 + 3.8e3, 2.0);
}

#[test]
fn the_nearest_first_beats_the_order_of_arrival_and_starves_nobody() {
    let patience = Nanos::from_millis(300);
    let nearest = Schedule::ShortestPositioning { depth: 32, patience };
    let (_, fifo) = random(ten_thousand(), 32, 10_000, read);
    let (_, best) = random(Config { schedule: nearest, ..ten_thousand() }, 32, 10_000, read);
    assert!(best > 1.8 * fifo, "{best} against {fifo}");

    // A stream costs no positioning; what is far away waits its patience, not for ever.
    let mut hdd = disk(Config { schedule: nearest, read_buffer: 0, ..ten_thousand() });
    let far = Tag(u64::MAX);
    let mut done: Vec<Completion> = Vec::new();
    let mut stream = (0..).map(|tag| (Tag(tag), read(tag * 4 * KIB, 4 * KIB)));
    for (tag, command) in stream.by_ref().take(20) {
        hdd.submit(Nanos::ZERO, tag, command);
    }
    hdd.submit(Nanos::ZERO, far, read(3 << 30, 4 * KIB));
    while done.last().is_none_or(|completion| completion.tag != far) {
        let now = hdd.next_event().unwrap();
        hdd.advance(now, &mut done);
        if hdd.in_flight() < 20 {
            let (tag, command) = stream.next().unwrap();
            hdd.submit(now, tag, command);
        }
    }
    let at = done.last().unwrap().at;
    assert!(at > patience && at < Nanos(patience.0 + 20_000_000), "{at:?}");
}

#[test]
fn a_read_that_follows_is_served_from_the_buffer() {
    let mut hdd = disk(ten_thousand());
    let mut done = Vec::new();
    let mut ask = |hdd: &mut Hdd, at, command| {
        hdd.submit(Nanos(at), Tag(0), command);
        let end = hdd.next_event().unwrap();
        hdd.advance(end, &mut done);
        while hdd.in_flight() > 0 {
            hdd.advance(hdd.next_event().unwrap(), &mut done);
        }
        done.pop().unwrap().at.0 - at
    };
    ask(&mut hdd, 0, read(MIB, 64 * KIB));
    let link = |bytes: u64| bytes * 1_000 / 300;
    // 100 ms later the 8 MiB that follow have passed.
    let later = 200_000_000;
    assert_eq!(ask(&mut hdd, later, read(MIB + 64 * KIB, 64 * KIB)), 40_000 + link(64 * KIB));
    // A write there makes them stale.
    ask(&mut hdd, 2 * later, write(MIB + 128 * KIB, 4 * KIB));
    assert!(ask(&mut hdd, 3 * later, read(MIB + 128 * KIB, 4 * KIB)) > 100_000);
}

#[test]
fn every_command_ends_once_and_a_power_cut_forgets() {
    let mut hdd = disk(ten_thousand());
    let mut places = Places(9);
    let mut done = Vec::new();
    for tag in 0..500 {
        let offset = places.next(1_000) * 4 * KIB;
        let command = match tag % 5 {
            0 => Command::Flush,
            1 => Command::Discard { offset, len: 4 * KIB },
            2 => write(offset, 8 * KIB),
            _ => read(offset, 8 * KIB),
        };
        let now = Nanos(tag * 1_000_000);
        hdd.advance(now, &mut done);
        hdd.submit(now, Tag(tag), command);
    }
    hdd.advance(Nanos::from_secs(60), &mut done);
    assert!(done.is_sorted_by_key(|completion| completion.at));
    let mut tags: Vec<u64> = done.iter().map(|completion| completion.tag.0).collect();
    tags.sort_unstable();
    assert_eq!(tags, (0..500).collect::<Vec<_>>());
    assert_eq!((hdd.in_flight(), hdd.next_event()), (0, None));

    hdd.submit(Nanos::from_secs(61), Tag(500), write(0, 4 * KIB));
    hdd.power_cycle(Nanos::from_secs(61));
    assert_eq!((hdd.in_flight(), hdd.next_event()), (0, None));
    let counters = hdd.counters();
    assert_eq!((counters.submitted, counters.completed), (501, 501));
}

#[test]
fn what_cannot_be_built_is_refused_by_name() {
    let base = ten_thousand;
    let refused = [
        ("size", Config { size: 0, ..base() }),
        ("size", Config { size: 1_000, ..base() }),
        ("rpm", Config { rpm: 0, ..base() }),
        ("heads", Config { heads: 0, ..base() }),
        ("zones", Config { zones: 0, ..base() }),
        ("inner_track", Config { inner_track: 1 << 30, ..base() }),
        ("track_switch", Config { track_switch: Nanos::from_secs(1), ..base() }),
        ("link_bytes_per_second", Config { link_bytes_per_second: 0, ..base() }),
        (
            "seek.full_stroke",
            Config { seek: SeekTimes { full_stroke: Nanos(1), ..base().seek }, ..base() },
        ),
        (
            "schedule depth",
            Config {
                schedule: Schedule::ShortestPositioning { depth: 0, patience: Nanos::ZERO },
                ..base()
            },
        ),
    ];
    for (parameter, config) in refused {
        let error = Hdd::new(config, 0).err().expect(parameter);
        assert_eq!(error.parameter, parameter);
        assert!(error.to_string().starts_with("hard disk: "));
    }
}

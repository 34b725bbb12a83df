//! What a host sees of a drive's inside: buffer, FLUSH, TRIM, suspension, the log of the map.

mod common;

use common::{Bench, Load, closed_loop, closed_loop_of, data_centre, open_loop, reference, write};
use io::model::{Command, Model, Phase, Tag};
use io::{Durability, Nanos};
use model::ssd::{Buffer, Config, Destage, Fill, MapLog, Ssd};

const MIB: u64 = 1 << 20;

fn ssd(config: &Config) -> Ssd {
    Ssd::new(config.clone(), 1).expect("it fits together")
}

fn fresh() -> Config {
    Config { fill: Fill::Fresh, ..data_centre() }
}

fn volatile() -> Config {
    let mut config = fresh();
    config.buffer.as_mut().expect("it has one").power_loss_protected = false;
    config
}

/// How long one command takes an idle drive, in microseconds.
fn alone(ssd: &mut Ssd, now: Nanos, command: Command) -> f64 {
    let mut bench = Bench::new(ssd, now);
    bench.submit(command);
    let outcome = bench.finish();
    outcome.nanos as f64 / 1e3
}

/// Overhead, firmware, and 4 KiB on the link.
const LINK_MICROS: f64 = 25.0 + 5.0 + 7.4;

#[test]
fn a_write_ends_in_the_buffer_and_is_read_from_there() {
    let mut ssd = ssd(&fresh());
    let took = alone(&mut ssd, Nanos::ZERO, write(0, 4096));
    assert!((took - LINK_MICROS).abs() < 0.1, "{took} us");
    let read = Command::Read { offset: 0, len: 4096 };
    let took = alone(&mut ssd, Nanos::from_secs(1), read);
    assert!((took - LINK_MICROS).abs() < 0.1, "{took} us");
    assert_eq!(ssd.counters().flash_read_bytes, 0);
    assert_eq!(ssd.counters().flash_write_bytes, 0, "one page doesn't fill a program");
}

#[test]
fn a_flush_waits_for_the_flash_unless_the_buffer_is_protected() {
    for (config, least, most) in [(fresh(), 0.0, 40.0), (volatile(), 700.0, 900.0)] {
        let mut ssd = ssd(&config);
        alone(&mut ssd, Nanos::ZERO, write(0, 4096));
        let took = alone(&mut ssd, Nanos::from_secs(1), Command::Flush);
        assert!((least..most).contains(&took), "{took} us");
        let durable = Command::Write { offset: MIB, len: 4096, durability: Durability::Durable };
        let took = alone(&mut ssd, Nanos::from_secs(2), durable);
        assert!((least..most).contains(&took), "{took} us");
        let took = alone(&mut ssd, Nanos::from_secs(3), Command::Flush);
        assert!(took < 40.0, "nothing to flush, {took} us");
    }
}

#[test]
fn a_full_buffer_takes_writes_as_fast_as_the_flash() {
    let mut config = fresh();
    // Without a host in the way.
    config.host.link_bytes_per_sec = 3_000_000_000;
    let mut ssd = ssd(&config);
    let sequential = |index: u32| write(u64::from(index) * 65536, 65536);
    let outcome = common::closed_loop_of(&mut ssd, Nanos::ZERO, 12_000, 32, sequential);
    let rate = outcome.per_second() * 65536.0 / 1e6;
    // 8 dies of 32 KiB in 700 us and 32 us of transfer.
    let flash = 8.0 * 32768.0 / (700.0 + 32.8);
    assert!((rate / flash - 1.0).abs() < 0.03, "{rate} of {flash} MB/s");
    // The first ones find room; later ones wait for the 2 MiB before them.
    let (first, last) = (outcome.writes.at(0.002), outcome.writes.at(1.0));
    assert!(first < 1_000.0 && last < 8_000.0, "{first} us, {last} us");
}

/// FusionRAID §2.3: spikes of 3 to 12 ms, which block reads too, at intervals of buffer size
/// over write rate.
#[test]
fn bursts_block_the_host_at_intervals() {
    let mut config = volatile();
    let buffer = config.buffer.as_mut().expect("it has one");
    buffer.destage = Destage::Threshold { bytes: 2 * MIB };
    buffer.drain_blocks_host = true;
    let mut ssd = ssd(&config);
    let load = Load { reads_percent: 30, bytes: 4096, count: 40_000, seed: 3 };
    let outcome = open_loop(&mut ssd, Nanos::ZERO, load, 10_000.0);
    let flushes = ssd.counters().buffer_flushes as f64;
    // Overwrites in the buffer are few: the drive is large.
    let expected = outcome.writes.count() as f64 * 4096.0 / (2.0 * MIB as f64);
    assert!((flushes - expected).abs() < 0.1 * expected, "{flushes} bursts, not {expected}");
    let programs = 2.0 * MIB as f64 / 32768.0 / 8.0;
    let burst = programs * 0.733;
    for latencies in [&outcome.writes, &outcome.reads] {
        let longest = latencies.at(1.0) / 1e3;
        assert!(longest > 0.9 * burst && longest < burst + 0.5, "{longest} ms, not {burst}");
        assert!(latencies.at(0.5) < 200.0, "between bursts it is quick");
    }
}

#[test]
fn the_timer_drains_what_is_there_and_then_rests() {
    let mut config = volatile();
    config.buffer.as_mut().expect("it has one").period = Some(Nanos::from_millis(10));
    let mut ssd = ssd(&config);
    alone(&mut ssd, Nanos::ZERO, write(0, 4096));
    let timer = ssd.next_event().expect("the timer");
    assert!(timer <= Nanos::from_millis(11), "{timer:?}");
    let mut done = Vec::new();
    while let Some(next) = ssd.next_event() {
        ssd.advance(next, &mut done);
    }
    assert_eq!((ssd.counters().buffer_flushes, ssd.counters().flash_write_bytes), (1, 32768));
}

#[test]
fn what_is_trimmed_or_was_never_written_needs_no_flash() {
    let mut ssd = ssd(&Config { fill: Fill::Written, ..data_centre() });
    let read = Command::Read { offset: 0, len: 4096 };
    assert!(alone(&mut ssd, Nanos::ZERO, read) > 60.0 + LINK_MICROS);
    alone(&mut ssd, Nanos::from_secs(1), Command::Discard { offset: 0, len: MIB });
    let took = alone(&mut ssd, Nanos::from_secs(2), read);
    assert!((took - LINK_MICROS).abs() < 0.1, "{took} us");
    assert_eq!(ssd.counters().trimmed_bytes, MIB);
}

/// Writes of half a page of the map read the other half.
#[test]
fn parts_of_map_entries_are_read_before_they_are_written() {
    let mut ssd = ssd(&Config { fill: Fill::Written, ..data_centre() });
    let took = alone(&mut ssd, Nanos::ZERO, write(512, 4096));
    assert!(took > 60.0 + LINK_MICROS, "{took} us");
    assert_eq!(ssd.counters().flash_read_bytes, 8192);
}

#[test]
fn reads_suspend_programs() {
    let mut config = reference();
    let read = |config: &Config| {
        let mut ssd = ssd(config);
        let load = Load { reads_percent: 70, bytes: 16 << 10, count: 20_000, seed: 1 };
        open_loop(&mut ssd, Nanos::ZERO, load, 16_000.0)
    };
    let plain = read(&config);
    config.timing.program_suspend = Some(Nanos::from_micros(10));
    let suspending = read(&config);
    assert!(plain.reads.at(0.99) > 700.0, "{} us", plain.reads.at(0.99));
    assert!(suspending.reads.at(0.99) < 250.0, "{} us", suspending.reads.at(0.99));
    assert!(suspending.writes.mean() > plain.writes.mean(), "it isn't for nothing");
}

#[test]
fn a_die_that_is_read_without_a_pause_still_programs() {
    for suspend in [None, Some(Nanos::from_micros(10))] {
        let mut config = Config { fill: Fill::Written, ..volatile() };
        config.timing.program_suspend = suspend;
        let mut ssd = ssd(&config);
        // One page, so one die; the write has a part for each.
        let next = |number| match number {
            64 => write(MIB, MIB),
            65 => Command::Flush,
            _ => Command::Read { offset: 0, len: 4096 },
        };
        let outcome = closed_loop_of(&mut ssd, Nanos::ZERO, 5_000, 24, next);
        let flush = outcome.writes.at(1.0);
        // Each suspension lets a row of reads pass, about a millisecond.
        assert!(flush < 40_000.0, "{flush} us, all reads {} ms", outcome.nanos / 1_000_000);
        assert!(outcome.nanos > 200_000_000, "the die is never idle");
    }
}

/// A data-centre drive's rare spikes: scattered writes fill the log, sequential ones don't.
#[test]
fn the_log_of_the_map_stops_scattered_writes_only() {
    let mut config = fresh();
    config.map_log = Some(MapLog { entries: 1_000, programs: 32 });
    let load = Load { reads_percent: 0, bytes: 4096, count: 10_000, seed: 1 };
    let scattered = open_loop(&mut ssd(&config), Nanos::ZERO, load, 5_000.0);
    // Four programs on each die, one after the other.
    let longest = scattered.writes.at(1.0);
    assert!((2_900.0..4_500.0).contains(&longest), "{longest} us");
    let slow = (0..1000).find(|&part| scattered.writes.at(f64::from(part) / 1e3) > 500.0);
    let share = 1.0 - f64::from(slow.expect("some wait")) / 1e3;
    // Ten times 3 ms of arrivals in two seconds.
    assert!((0.005..0.03).contains(&share), "{share} of all writes wait");
    let in_order = |index: u32| write(u64::from(index) * 4096, 4096);
    let mut ssd = ssd(&config);
    let sequential = common::closed_loop_of(&mut ssd, Nanos::ZERO, 10_000, 1, in_order);
    assert!(sequential.writes.at(1.0) < 200.0, "{} us", sequential.writes.at(1.0));
}

#[test]
fn more_commands_than_the_device_queue_wait_in_front() {
    let mut config = reference();
    config.host.queue_depth = 1;
    let load = Load { reads_percent: 100, bytes: 16 << 10, count: 1_000, seed: 1 };
    let outcome = closed_loop(&mut ssd(&config), Nanos::ZERO, load, 16);
    // One at a time: 81.7 us each.
    assert!((outcome.per_second() * 81.7e-6 - 1.0).abs() < 0.01, "{}", outcome.per_second());
}

#[test]
fn the_same_seed_is_the_same_drive() {
    let run = |seed| {
        let mut ssd = Ssd::new(data_centre(), seed).expect("it fits together");
        let load = Load { reads_percent: 30, bytes: 4096, count: 20_000, seed: 1 };
        let outcome = closed_loop(&mut ssd, Nanos::ZERO, load, 32);
        (outcome.nanos, ssd.counters(), ssd.wear())
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn a_power_cut_empties_a_volatile_buffer_only() {
    for (config, kept) in [(volatile(), false), (fresh(), true)] {
        let mut ssd = ssd(&config);
        alone(&mut ssd, Nanos::ZERO, write(0, 4096));
        ssd.submit(Nanos::from_secs(1), io::model::Tag(9), write(MIB, 4096));
        ssd.power_cycle(Nanos::from_secs(1));
        ssd.verify();
        assert_eq!(ssd.in_flight(), 0);
        alone(&mut ssd, Nanos::from_secs(2), Command::Flush);
        let filler = |index: u32| write(2 * MIB + u64::from(index) * 4096, 4096);
        common::closed_loop_of(&mut ssd, Nanos::from_secs(3), 7, 1, filler);
        // Eight pages fill a program: seven new ones and the one that was kept.
        let programmed = ssd.counters().flash_write_bytes;
        assert_eq!(programmed, if kept { 32768 } else { 0 });
    }
}

/// Each refusal names the parameter and says what would do.
#[test]
fn what_does_not_fit_together_is_refused() {
    type Change = fn(&mut Config);
    let cases: [(&str, Change); 9] = [
        ("channels", |config| config.channels = 0),
        ("align", |config| config.align = 1000),
        ("mapping_bytes", |config| config.mapping_bytes = 3 * 4096),
        ("over_provisioning_permille", |config| config.over_provisioning_permille = 5),
        ("collection.hard", |config| config.collection.hard = 1),
        ("collection.low", |config| config.collection.low = 1),
        ("collection.high", |config| config.collection.high = config.collection.low),
        ("buffer.bytes", |config| config.buffer.as_mut().expect("it has one").bytes = 4096),
        ("buffer.destage", |config| {
            let destage = Destage::Threshold { bytes: 4 * MIB };
            config.buffer = config.buffer.map(|buffer| Buffer { destage, ..buffer });
        }),
    ];
    for (parameter, change) in cases {
        let mut config = data_centre();
        change(&mut config);
        let error = Ssd::new(config, 1).expect_err(parameter);
        assert_eq!(error.parameter, parameter, "{error}");
        assert!(!error.problem.is_empty() && !error.remedy.is_empty(), "{error}");
    }
}

/// Of two reads of one die the second waits for the first; a read waits for its die's program.
#[test]
fn operations_tell_where_their_time_went() {
    let mut ssd = ssd(&Config { fill: Fill::Written, ..data_centre() });
    let mut done = Vec::new();
    let read = Command::Read { offset: 0, len: 4096 };
    for tag in 0..2 {
        ssd.submit(Nanos::ZERO, Tag(tag), read);
    }
    while ssd.in_flight() > 0 {
        let next = ssd.next_event().expect("it goes on");
        ssd.advance(next, &mut done);
    }
    let told = |at: usize, phase| done[at].phases.get(phase);
    assert_eq!(told(0, Phase::Read), Nanos::ZERO);
    // Sensing takes 60 us, less what the firmware took to see the second.
    let waited = told(1, Phase::Read);
    assert!((Nanos::from_micros(40)..Nanos::from_micros(80)).contains(&waited), "{waited}");
    for completion in &done {
        assert_eq!(completion.phases.total(), completion.at);
    }
}

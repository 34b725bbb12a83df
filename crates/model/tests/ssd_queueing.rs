//! The reference curves of a drive without collection and buffer: queues at dies, nothing else.
//! They were measured on another simulator and agree with queueing theory.

mod common;

use common::{Load, Outcome, open_loop, reference};
use io::Nanos;
use model::ssd::Ssd;

/// Share of reads in percent, arrivals per second; mean, 99 % of writes, the same of reads (us).
type Row = (u64, f64, [f64; 2], [f64; 2]);

const NONE: [f64; 2] = [0.0; 2];
/// Poisson arrivals of 16 KiB requests. The means of the most loaded writes are theory's
/// (M/D/1), since those of the other simulator differ from theory by up to 2 %.
const OPEN: [Row; 10] = [
    (0, 4e3, [800.0, 1669.0], NONE),
    (0, 8e3, [922.0, 2334.0], NONE),
    (0, 12e3, [1138.0, 3355.0], NONE),
    (0, 16e3, [1628.0, 5603.0], NONE),
    (0, 20e3, [3801.0, 16602.0], NONE),
    (70, 8e3, [768.0, 1432.0], [123.0, 739.0]),
    (70, 16e3, [835.0, 1892.0], [166.0, 773.0]),
    (70, 24e3, [936.0, 2451.0], [212.0, 785.0]),
    (70, 32e3, [1102.0, 3280.0], [260.0, 792.0]),
    (70, 48e3, [2180.0, 8587.0], [366.0, 799.0]),
];

/// Enough spare room that nothing is collected.
fn drive() -> Ssd {
    let mut config = reference();
    (config.blocks_per_plane, config.over_provisioning_permille) = (200, 600);
    Ssd::new(config, 1).expect("it fits together")
}

fn near(what: &str, found: f64, expected: f64, percent: f64) {
    let off = (found / expected - 1.0) * 100.0;
    println!("{what}: {found:.0}, reference {expected:.0}, {off:+.1} %");
    assert!(off.abs() <= percent, "{what}: {found:.0}, not {expected:.0}: {off:+.1} %");
}

fn open(reads_percent: u64, per_second: f64) -> Outcome {
    // The fuller the dies, the slower queues change: their mean needs more samples.
    let loaded = matches!((reads_percent, per_second), (0, 20e3) | (70, 48e3));
    let count = if loaded { 400_000 } else { 100_000 };
    let load = Load { reads_percent, bytes: 16 << 10, count, seed: 5 };
    open_loop(&mut drive(), Nanos::ZERO, load, per_second)
}

#[test]
fn open_arrivals_wait_as_theory_says() {
    for (reads, per_second, writes_expected, reads_expected) in OPEN {
        let outcome = open(reads, per_second);
        let name = format!("{reads} % reads, {per_second} per second");
        near(&format!("{name}, write mean"), outcome.writes.mean(), writes_expected[0], 2.0);
        near(&format!("{name}, write p99"), outcome.writes.at(0.99), writes_expected[1], 10.0);
        if reads > 0 {
            near(&format!("{name}, read mean"), outcome.reads.mean(), reads_expected[0], 2.0);
            near(&format!("{name}, read p99"), outcome.reads.at(0.99), reads_expected[1], 10.0);
        }
    }
}

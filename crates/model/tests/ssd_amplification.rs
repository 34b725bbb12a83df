//! Write amplification against over-provisioning: the reference curve, measured on another
//! simulator and agreeing with the mean field of greedy collection.

mod common;

use common::{Load, closed_loop, reference};
use io::Nanos;
use io::model::Model;
use model::ssd::{Config, Fill, Snapshot, Ssd, Victims};

/// Thousandths of the raw capacity that the host doesn't see, write amplification.
const GREEDY: [(u32, f64); 5] = [(72, 8.98), (122, 4.81), (202, 2.87), (282, 2.08), (401, 1.52)];

/// 8 planes of 1024 blocks of 128 pages of 16 KiB. The free blocks of a plane float between
/// 10 and 30, as those of the reference do.
fn eight_planes(over_provisioning_permille: u32) -> Config {
    let mut config = reference();
    (config.channels, config.dies_per_channel, config.planes) = (8, 1, 1);
    (config.blocks_per_plane, config.pages_per_block) = (1024, 128);
    config.over_provisioning_permille = over_provisioning_permille;
    (config.collection.low, config.collection.high) = (10, 30);
    config.fill = Fill::Aged;
    config
}

fn near(what: &str, found: f64, expected: f64) {
    let off = found / expected - 1.0;
    println!("{what}: {found:.2}, reference {expected:.2}, {:+.1} %", off * 100.0);
    assert!(off.abs() < 0.05, "{what}: {found:.2}, not {expected:.2}");
}

/// The reference's planes are alike and don't know each other: two are as good as eight.
fn aged(mut config: Config) -> f64 {
    config.channels = 2;
    Snapshot::new(config, 3).expect("it fits together").write_amplification()
}

#[test]
fn amplification_falls_with_over_provisioning_as_the_reference_does() {
    for (permille, expected) in GREEDY {
        near(&format!("greedy, {permille} per mille"), aged(eight_planes(permille)), expected);
    }
    let mut config = eight_planes(122);
    config.collection.victims = Victims::Choices { d: 10 };
    near("best of 10, 122 per mille", aged(config), 5.0);
}

/// Not only without time.
#[test]
fn amplification_in_time_is_that_of_the_reference() {
    let mut config = eight_planes(282);
    config.channels = 2;
    let mut ssd = Ssd::new(config, 4).expect("it fits together");
    let load = Load { reads_percent: 0, bytes: 16 << 10, count: 200_000, seed: 1 };
    closed_loop(&mut ssd, Nanos::ZERO, load, 64);
    let counters = ssd.counters();
    near("greedy, in time", counters.write_amplification(), 2.08);
    // Each erased block held what was programmed since: the host's pages and the moved ones.
    let written = counters.flash_write_bytes as f64 / (128.0 * 16384.0);
    let off = counters.erases as f64 / written - 1.0;
    assert!(off.abs() < 0.02, "{} erases for {written} blocks", counters.erases);
}

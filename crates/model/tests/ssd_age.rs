//! Aging without time against really doing it: the same write amplification, the same spread of
//! valid data over the blocks.

mod common;

use common::{Load, closed_loop, data_centre};
use io::Nanos;
use io::model::Model;
use model::ssd::{Config, Fill, Mode, Snapshot, Ssd};

const MODES: [Mode; 4] = [
    Mode::Blocking,
    Mode::Preemptible,
    Mode::Paced { gain_percent: 100 },
    Mode::Paced { gain_percent: 40 },
];

/// Small, with little buffer: what is overwritten in the buffer would make a difference.
fn config(mode: Mode, fill: Fill) -> Config {
    let mut config = data_centre();
    config.collection.mode = mode;
    config.pages_per_block = 24;
    config.buffer.as_mut().expect("it has one").bytes = 512 << 10;
    config.fill = fill;
    config
}

/// Overwrites parts of the drive at random, in time; the write amplification of the later half,
/// and the valid shares of blocks at several moments of it.
fn live(ssd: &mut Ssd, rounds: u64) -> (f64, Vec<f64>) {
    let units = (ssd.geometry().size >> 12) as u32;
    let mut now = Nanos::ZERO;
    let mut half = ssd.counters();
    let mut shares = Vec::new();
    for round in 0..rounds {
        if round == rounds / 2 {
            half = ssd.counters();
        }
        let load = Load { reads_percent: 0, bytes: 4096, count: units / 4, seed: round };
        now = Nanos(now.0 + closed_loop(ssd, now, load, 32).nanos);
        if round >= rounds / 2 {
            shares.extend(ssd.valid_shares());
        }
    }
    ssd.verify();
    let end = ssd.counters();
    let flash = end.flash_write_bytes - half.flash_write_bytes;
    let host = end.host_write_bytes - half.host_write_bytes;
    (flash as f64 / host as f64, shares)
}

fn quantiles(mut shares: Vec<f64>) -> [f64; 6] {
    shares.sort_by(f64::total_cmp);
    [0.02, 0.1, 0.25, 0.5, 0.75, 0.9].map(|part| shares[(shares.len() as f64 * part) as usize])
}

#[test]
fn aging_without_time_ends_where_aging_in_time_does() {
    for mode in MODES {
        let config = config(mode, Fill::Aged);
        // Of several, since one drive's blocks are few.
        let snapshots: Vec<Snapshot> =
            (0..6).map(|seed| Snapshot::new(config.clone(), seed).expect("it fits")).collect();
        let amplification = snapshots.iter().map(Snapshot::write_amplification).sum::<f64>() / 6.0;
        let blocks = snapshots
            .iter()
            .flat_map(|snapshot| Ssd::from_snapshot(snapshot, 9).valid_shares().collect::<Vec<_>>())
            .collect();

        let mut ssd = Ssd::new(self::config(mode, Fill::Written), 7).expect("it fits");
        let (lived, lived_blocks) = live(&mut ssd, 16);
        let off = amplification / lived - 1.0;
        println!("{mode:?}: {amplification:.3} aged, {lived:.3} lived, {:+.1} %", off * 100.0);
        assert!(off.abs() < 0.02, "{mode:?}: {amplification:.3} aged, {lived:.3} lived");
        let (aged, lived) = (quantiles(blocks), quantiles(lived_blocks));
        println!("  valid shares {aged:.3?} aged, {lived:.3?} lived");
        for (aged, lived) in aged.into_iter().zip(lived) {
            assert!((aged - lived).abs() < 0.02, "{mode:?}: {aged:.3} aged, {lived:.3} lived");
        }
    }
}

#[test]
fn copies_of_a_snapshot_are_aged_drives_at_other_moments() {
    let config = config(Mode::Blocking, Fill::Aged);
    let snapshot = Snapshot::new(config, 1).expect("it fits");
    let spread = |seed: u64| {
        let ssd = Ssd::from_snapshot(&snapshot, seed);
        ssd.verify();
        ssd.valid_shares().collect::<Vec<_>>()
    };
    assert_eq!(spread(1), spread(1), "a seed makes one drive");
    assert_ne!(spread(1), spread(2), "different seeds are at different moments");
    let (lived, _) = live(&mut Ssd::from_snapshot(&snapshot, 5), 6);
    let off = lived / snapshot.write_amplification() - 1.0;
    assert!(off.abs() < 0.02, "{lived:.3}, {:.3} before", snapshot.write_amplification());
}

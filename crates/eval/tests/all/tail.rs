//! What is promised of a slow drive, where virtual time makes it exact.

use eval::array::System;
use eval::array::fusion::Shape;
use eval::array::load::Arrivals;
use eval::array::prepare::Trim;
use eval::array::stand::Stand;
use eval::tail::{Bound, Cell, Kind, Member, Table, Timing};
use io::Nanos;
use model::presets::Preset;

const TRIM: Trim = Trim::Untrimmed;

fn drives() -> Stand {
    // One part in twenty full: enough to read from, quickly made.
    let shape = Shape { volume_percent: 5, ..Shape::new(5) };
    let size = Preset::DcSata.sizes().0;
    Stand::new(Preset::DcSata, size, 8, TRIM, &shape, 1).expect("a pool of 8 drives")
}

fn cell(system: System, kind: Kind, member: Member) -> Cell {
    let timing = Timing { warmup: Nanos::from_millis(500), measured: Nanos::from_secs(3) };
    let (drives, arrivals) = (8, Arrivals::Poisson);
    Cell {
        drives,
        trim: TRIM,
        kind,
        bytes: 4096,
        arrivals,
        rate: 4_000,
        timing,
        member,
        system,
        seed: 1,
    }
}

fn ratios(drives: &Stand, system: System, kind: Kind, member: Member) -> Table {
    let mut table = Table::default();
    for member in [Member::Fine, member] {
        table.add(&cell(system, kind, member).run(drives).expect("a layout"));
    }
    table
}

#[test]
fn the_same_seed_gives_the_same_table() {
    let drives = drives();
    let run = || ratios(&drives, System::Fusion, Kind::Mixed, Member::Delayed(10)).json();
    assert_eq!(run(), run());
    let other = Cell { seed: 2, ..cell(System::Fusion, Kind::Mixed, Member::Fine) };
    let first = cell(System::Fusion, Kind::Mixed, Member::Fine).run(&drives).expect("a pool");
    assert_ne!(other.run(&drives).expect("a pool").latencies, first.latencies);
}

#[test]
fn an_array_without_detours_shows_that_a_drive_hangs() {
    let drives = drives();
    for system in [System::RAID5, System::RAID10, System::FusionNd] {
        for kind in [Kind::Read, Kind::Write] {
            // Reads go to the mirror with less to do, which a drive that hangs never is.
            if (system, kind) == (System::RAID10, Kind::Read) {
                continue;
            }
            let table = ratios(&drives, system, kind, Member::Hang);
            let row = &table.rows[1];
            assert!(!Bound::PROMISED.holds(row), "{system} {kind}: {row:?}");
            assert!(row.p999 > 900_000_000, "{system} {kind}: {} ns", row.p999);
        }
    }
}

/// Cells of a pool beside each kind of slow drive, the one without first.
fn beside(drives: &Stand, kind: Kind, rate: u64) -> Table {
    let mut table = Table::default();
    let members =
        [Member::Fine, Member::Delayed(10), Member::Delayed(100), Member::Slow, Member::Hang];
    for member in members {
        // Until enough answers have told what is usual, nobody is late before 5 ms.
        let warmup = Nanos::from_secs(3);
        let cell = cell(System::Fusion, kind, member);
        let timing = Timing { warmup, ..cell.timing };
        table.add(&Cell { timing, rate, ..cell }.run(drives).expect("a pool"));
    }
    table
}

#[test]
fn reads_do_not_show_a_slow_drive() {
    for row in &beside(&drives(), Kind::Read, 10_000).rows {
        assert!(Bound::PROMISED.holds(row), "{row:?}");
    }
}

/// Nothing is sent twice before 0.2 ms. Here hardly anything else takes as long, so that the ratios
/// of docs/results-tail.md, whose pools have more to do, would say nothing.
#[test]
fn writes_beside_a_slow_drive_are_sent_elsewhere_in_time() {
    for row in &beside(&drives(), Kind::Write, 20_000).rows {
        assert!(row.p999 < 300_000 && row.p9999 < 1_000_000, "{row:?}");
    }
}

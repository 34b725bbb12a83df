//! Ours: every scheme on every paper's home workload, on the same drives and the same clock, beside
//! the clairvoyant bound (`array::bound`): what is lost to what could be.

pub mod homes;
pub mod rows;

use homes::Home;

use crate::experiment::{Axis, Conclusion, Experiment, Found, Kind, Picture, Scale, Series, Table};
use crate::papers::fusionraid::mix::{AGED, Drives};

pub fn all() -> Vec<Experiment> {
    vec![
        Experiment {
            name: "ours-fusionraid",
            title: "Every scheme on FusionRAID's mix",
            source: "The four traces of FusionRAID §5.3 at once, on its 29 drives (§5.1)",
            cells: |scale| Home::FusionRaid.cells(scale),
            conclude: |scale, found| conclude(Home::FusionRaid, scale, found),
        },
        Experiment {
            name: "ours-steering",
            title: "Every scheme on GC-Steering's traces",
            source: "The traces of GC-Steering Table I in turn, on its five drives, 90 % full \
                     (§IV)",
            cells: |scale| Home::Steering.cells(scale),
            conclude: |scale, found| conclude(Home::Steering, scale, found),
        },
        Experiment {
            name: "ours-hybraid",
            title: "Every scheme on HybRAID's write-intensive volumes",
            source: "The volumes of HybRAID Figure 3 in turn, on its five drives (§4.1)",
            cells: |scale| Home::Hybraid.cells(scale),
            conclude: |scale, found| conclude(Home::Hybraid, scale, found),
        },
        Experiment {
            name: "ours-separation",
            title: "Every scheme on reads beside as many writes",
            source: "Skourtis et al., Figures 2 and 3: large and small requests in turn; on six \
                     drives, so that most schemes can take part",
            cells: |scale| Home::Separation.cells(scale),
            conclude: |scale, found| conclude(Home::Separation, scale, found),
        },
        Experiment {
            name: "ours-ldm",
            title: "Every scheme on LDM's traces",
            source: "The traces of LDM Table II at once, on its six drives (§4.1)",
            cells: |scale| Home::Ldm.cells(scale),
            conclude: |scale, found| conclude(Home::Ldm, scale, found),
        },
    ]
}

/// Of the latencies of all requests.
const QUANTILES: [(&str, &str); 4] =
    [("median", "p50_ms"), ("p99", "p99_ms"), ("p99.9", "p999_ms"), ("p99.99", "p9999_ms")];
const BOUND: &str = "bound";
const NEAR_NOTHING: &str = "The bound: each request has all drives to itself, which never collect; \
    it is of arrays that bear a lost drive (not raid0) and answer from drives (not nv-raid, nor \
    alternate, which has what waits for its next turn in memory). Its \
    bytes and erases are those of the long run: a short one lives on blocks that are free, and \
    what is on hard disks is in no flash.";

fn conclude(home: Home, scale: Scale, found: &Found) -> Conclusion {
    let (tables, pictures) =
        AGED.into_iter().map(|drives| compared(home, drives, scale, found)).unzip();
    Conclusion { checks: vec![], tables, pictures }
}

/// All of them on drives of one kind.
fn compared(home: Home, drives: Drives, scale: Scale, found: &Found) -> (Table, Picture) {
    let (rows, notes) = rows::rows(home);
    let cells: Vec<(String, String)> = [(BOUND.to_owned(), home.bound_name())]
        .into_iter()
        .chain(rows.iter().map(|row| (row.label.clone(), home.cell_name(&row.on(drives)))))
        .collect();
    let latency = |cell: &str, figure: &str| found.value(cell, &format!("all/{figure}"));
    let columns = [
        "scheme",
        "median ms",
        "p99 ms",
        "p99.9 ms",
        "p99.99 ms",
        "p99 of the bound's",
        "written to drives",
        "written to flash",
        "erases for a GiB",
        "space",
    ];
    let title = format!(
        "Latency of all requests on {} drives; bytes on drives and in flash, blocks erased, and \
         space, for what users write",
        drives.label
    );
    let mut table = Table { notes, ..Table::new(&title, &columns) };
    let bound = latency(&cells[0].1, "p99_ms");
    for (label, cell) in &cells {
        let gib = found.value(cell, "drives/user_write_bytes") / (1u64 << 30) as f64;
        let rest = [
            latency(cell, "p99_ms") / bound,
            found.value(cell, "drives/write_amplification"),
            found.value(cell, "drives/flash_amplification"),
            found.value(cell, "drives/erases") / gib,
            found.value(cell, "scheme/space"),
        ];
        let latencies = QUANTILES.map(|(_, figure)| latency(cell, figure));
        table.row(label, latencies.into_iter().chain(rest));
    }
    let requests = latency(&cells[0].1, "requests");
    table.notes.push(NEAR_NOTHING.to_owned());
    table.notes.push(format!(
        "{requests:.0} requests in {} s; p99.99 of fewer than 10,000 is the slowest.",
        home.span(scale).measured.0 / 1_000_000_000
    ));
    let bars = |(label, figure): (&str, &str)| {
        Series::bars(label, cells.iter().map(|(_, cell)| latency(cell, figure)))
    };
    let picture = Picture {
        name: format!("latency-{}", drives.label),
        title: format!("Latency of all requests, {} drives", drives.label),
        kind: Kind::Bars,
        x: Axis::linear("scheme"),
        y: Axis::logarithmic("milliseconds"),
        groups: cells.iter().map(|(label, _)| label.clone()).collect(),
        series: QUANTILES.map(bars).into(),
    };
    (table, picture)
}

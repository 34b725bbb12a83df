//! FusionRAID §5.4, Figure 13 (a) to (c): what conversion costs in latency, in writes, and what it
//! gives back in space. Each trace by itself on an array that holds nothing before, so that all
//! that is written is the trace's.

use engine::ConversionPolicy;
use model::ssd::Fill;
use serde_json::json;

use super::bed;
use super::mix::{MIX, RAID5_4, TRACES};
use crate::array::System;
use crate::array::fusion::Shape;
use crate::experiment::bed::{Bed, parameters, span};
use crate::experiment::{
    Axis, Cell, Check, Conclusion, Experiment, Found, Kind, Picture, Scale, Series, Table, traced,
};

pub const A: Experiment = Experiment {
    name: "fusionraid-fig13a",
    title: "FusionRAID Figure 13 (a): latency with and without conversion",
    source: "FusionRAID §5.4",
    cells,
    conclude: latency,
};

pub const B: Experiment = Experiment {
    name: "fusionraid-fig13b",
    title: "FusionRAID Figure 13 (b): write amplification",
    source: "FusionRAID §5.4",
    cells,
    conclude: writes,
};

pub const C: Experiment = Experiment {
    name: "fusionraid-fig13c",
    title: "FusionRAID Figure 13 (c): space for each byte of the user's",
    source: "FusionRAID §5.4",
    cells,
    conclude: space,
};

/// The paper's name, ours, and whether replicas become stripes at once.
const VARIANTS: [(&str, &str, bool); 4] = [
    ("4-RAID5", RAID5_4, false),
    ("4-RAIDM", "mirror-log", false),
    ("FusionRAID, not converting", "fusion-paper", false),
    ("FusionRAID, converting", "fusion-paper", true),
];

fn name(system: &str, converting: bool, trace: &str) -> String {
    let how = if converting { "converting" } else { "not" };
    format!("fusionraid-conversion/{system}/{how}/{trace}")
}

fn cells(scale: Scale) -> Vec<Cell> {
    let traces = 0..MIX.len();
    let each = VARIANTS.iter().flat_map(|variant| traces.clone().map(move |at| (variant, at)));
    each.map(|(&(_, system, converting), at)| cell(scale, system, converting, at)).collect()
}

fn cell(scale: Scale, name_of: &'static str, converting: bool, at: usize) -> Cell {
    let ((trace, preset), system): (_, System) = (MIX[at], super::mix::system(name_of));
    let conversion = if converting { ConversionPolicy::Eager } else { ConversionPolicy::Lazy };
    let aged = bed(scale, Fill::Aged);
    let shape = Shape { conversion, replicated_percent: 50, filled: false, ..aged.shape.clone() };
    let bed = Bed { shape, ..aged };
    let span = span(0, scale.pick(4, 30));
    let own = json!({ "trace": preset, "converting": converting });
    let given = parameters(&bed, system, span, own);
    let name = name(name_of, converting, trace);
    Cell::seeded(name, scale.pick(3.0, 3.0), given, move |seed| {
        bed.measure(system, span, bed.seed, |size| {
            vec![(trace.to_owned(), traced::of(preset, (0, size), seed.of(bed.seed)))]
        })
    })
}

fn of(found: &Found, variant: usize, trace: &str, figure: &str) -> f64 {
    let (_, system, converting) = VARIANTS[variant];
    found.value(&name(system, converting, trace), figure)
}

fn bars(
    name: &str,
    title: &str,
    unit: &str,
    found: &Found,
    figure: impl Fn(&str) -> String,
) -> Picture {
    let bars = |(at, (label, ..)): (usize, &(&str, &str, bool))| {
        Series::bars(*label, TRACES.map(|trace| of(found, at, trace, &figure(trace))))
    };
    Picture {
        name: name.to_owned(),
        title: title.to_owned(),
        kind: Kind::Bars,
        x: Axis::linear("workload"),
        y: Axis::linear(unit),
        groups: TRACES.map(str::to_owned).into(),
        series: VARIANTS.iter().enumerate().map(bars).collect(),
    }
}

fn table(title: &str, found: &Found, figure: impl Fn(&str) -> String) -> Table {
    let columns: Vec<&str> = ["workload"].into_iter().chain(VARIANTS.map(|own| own.0)).collect();
    let mut table = Table::new(title, &columns);
    for trace in TRACES {
        let values = (0..VARIANTS.len()).map(|at| of(found, at, trace, &figure(trace)));
        table.row(trace, values);
    }
    table
}

fn mean(values: [f64; 4]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn latency(_: Scale, found: &Found) -> Conclusion {
    let ratio = |figure: &str| {
        mean(TRACES.map(|trace| {
            let figure = format!("{trace}/{figure}");
            of(found, 3, trace, &figure) / of(found, 2, trace, &figure)
        }))
    };
    let checks = vec![
        // Most reads are of what nobody wrote, and take no time.
        Check::ours("median of writes, converting over not, mean", "x", ratio("write_p50_ms"))
            .because("\"its performance overhead is quite small\""),
        Check::ours("p99, converting over not, mean", "x", ratio("p99_ms")),
        Check::ours("p99 of writes, converting over not, mean", "x", ratio("write_p99_ms")),
    ];
    let tables = vec![
        table("Median of writes, milliseconds", found, |trace| format!("{trace}/write_p50_ms")),
        table("99th percentile, milliseconds", found, |trace| format!("{trace}/p99_ms")),
    ];
    let pictures = vec![bars("p99", "99th percentile", "milliseconds", found, |trace| {
        format!("{trace}/p99_ms")
    })];
    Conclusion { checks, tables, pictures }
}

fn writes(_: Scale, found: &Found) -> Conclusion {
    let figure = |_: &str| "drives/write_amplification".to_owned();
    let more = mean(TRACES.map(|trace| {
        of(found, 3, trace, &figure(trace)) / of(found, 2, trace, &figure(trace)) - 1.0
    }));
    let less = TRACES
        .map(|trace| of(found, 3, trace, &figure(trace)) / of(found, 1, trace, &figure(trace)));
    let mut checks = vec![
        Check::new("written more because of conversion, mean", "%", 5.6, more * 100.0).because(
            "parity alone is a sixth of what full stripes hold, less where few tuples fill",
        ),
    ];
    checks.extend(TRACES.into_iter().zip(less).map(|(trace, ratio)| {
        let check = Check::ours(format!("{trace}: written, of what 4-RAIDM writes"), "x", ratio);
        check.because(if trace == "VD" { "above 1 in the paper" } else { "below 1 in the paper" })
    }));
    let tables = vec![
        table("Bytes written to drives for each of the user's", found, figure),
        table("Bytes written to flash for each of the user's", found, |_| {
            "drives/flash_amplification".to_owned()
        }),
    ];
    let pictures = vec![bars("writes", "Written to drives", "bytes a byte", found, figure)];
    Conclusion { checks, tables, pictures }
}

fn space(_: Scale, found: &Found) -> Conclusion {
    let figure = |_: &str| "scheme/space".to_owned();
    let each = |variant| mean(TRACES.map(|trace| of(found, variant, trace, &figure(trace))));
    let checks = vec![
        Check::new("4-RAID5", "x", 7.0 / 6.0, each(0)),
        Check::new("4-RAIDM", "x", 2.0, each(1))
            .because("ours keeps a part free to write its log in"),
        Check::new("FusionRAID, converted, mean", "x", 7.0 / 6.0, each(3))
            .because("what is not yet converted, and holes of what was written again, at the end"),
        Check::ours("FusionRAID, not converting, mean", "x", each(2)),
    ];
    let tables = vec![table("Drive space for each byte of the user's", found, figure)];
    let pictures = vec![bars("space", "Space", "bytes a byte", found, figure)];
    Conclusion { checks, tables, pictures }
}

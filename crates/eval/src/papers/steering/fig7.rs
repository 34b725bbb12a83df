//! GC-Steering §IV.B, Figure 7: mean response time and number of collections, against local and
//! global garbage collection.

use super::runs::{DEFAULT, Run, TRACES, mean, seconds};
use crate::experiment::{
    Axis, Cell, Check, Conclusion, Experiment, Found, Kind, Picture, Scale, Series, Table,
};

pub const A: Experiment = Experiment {
    name: "steering-fig7a",
    title: "GC-Steering Figure 7 (a): mean response time",
    source: "GC-Steering §IV.B",
    cells,
    conclude: times,
};

pub const B: Experiment = Experiment {
    name: "steering-fig7b",
    title: "GC-Steering Figure 7 (b): collections",
    source: "GC-Steering §IV.B",
    cells,
    conclude: collections,
};

/// The paper's name, and ours; the last but one steers by what it sees itself, and the last has
/// D_Table where the paper has it.
const SYSTEMS: [(&str, &str); 5] = [
    ("LGC", "gc-local"),
    ("GGC", "gc-global"),
    ("GC-Steering", "steering"),
    ("ours, by its own signal", "steering-watch"),
    ("GC-Steering, D_Table in NVRAM", "steering-nvram"),
];

fn run(system: usize) -> Run {
    Run { system: SYSTEMS[system].1, ..DEFAULT }
}

/// The same on drives that block: what the answer depends on.
fn blocking(system: usize) -> Run {
    Run { blocking: true, ..run(system) }
}

fn cells(scale: Scale) -> Vec<Cell> {
    let systems = 0..SYSTEMS.len();
    let runs = systems.flat_map(|at| [run(at), blocking(at)]);
    runs.flat_map(|run| TRACES.map(|(_, preset)| run.cell(scale, preset))).collect()
}

fn picture(found: &Found, name: &str, title: &str, figure: &str) -> Picture {
    let normal = |preset: &str, at: usize| {
        run(at).value(found, preset, figure) / run(0).value(found, preset, figure)
    };
    Picture {
        name: name.to_owned(),
        title: title.to_owned(),
        kind: Kind::Bars,
        x: Axis::linear("trace"),
        y: Axis::linear("of LGC"),
        groups: TRACES.map(|(trace, _)| trace.to_owned()).into(),
        series: (0..SYSTEMS.len())
            .map(|at| Series::bars(SYSTEMS[at].0, TRACES.map(|(_, preset)| normal(preset, at))))
            .collect(),
    }
}

fn table(found: &Found, of: fn(usize) -> Run, title: &str, figure: &str) -> Table {
    let columns: Vec<&str> = ["trace"].into_iter().chain(SYSTEMS.map(|own| own.0)).collect();
    let mut table = Table::new(title, &columns);
    for (trace, preset) in TRACES {
        table.row(trace, (0..SYSTEMS.len()).map(|at| of(at).value(found, preset, figure)));
    }
    table
}

const TOGETHER: &str = "prxy_0 and rsrch_0: a write to RAID5 waits while any of its drives stops; \
                        one after another with LGC and GC-Steering, all at once with GGC, which \
                        is over sooner";
const PACED: &str = "drives that collect in short pieces: GGC collects as often as LGC here \
                     (Figure 7 b), and a piece is too short for it to matter when it comes";

const NVRAM: &str = "the sensitivity: a record needs no page of its own, and what was steered ends \
                     with the next write in place";

const OWN: &str = "as it is served: the write hole is closed, for which each write of a part of a \
                   stripe writes partial parity, too";

/// How much less one takes than the other, percent, over these traces.
fn less(found: &Found, one: Run, other: Run, traces: &[(&str, &str)], figure: &str) -> f64 {
    let part = |&(_, preset): &(&str, &str)| {
        1.0 - one.value(found, preset, figure) / other.value(found, preset, figure)
    };
    mean(traces.iter().map(part)) * 100.0
}

/// Those in which drives that block collect, and keep up: where nothing collects there is nothing
/// to steer round, and where requests wait for a tenth of all the time the queue only grows.
fn steady(scale: Scale, found: &Found) -> Vec<(&'static str, &'static str)> {
    let most_ms = seconds(scale) as f64 * 1000.0 / 10.0;
    let of = |preset: &str, figure: &str| blocking(0).value(found, preset, figure);
    let is = |trace: &(&str, &str)| {
        of(trace.1, "drives/collections") > 0.0 && of(trace.1, "load/mean_ms") < most_ms
    };
    TRACES.into_iter().filter(is).collect()
}

fn times(scale: Scale, found: &Found) -> Conclusion {
    let mean_of = "load/mean_ms";
    let below =
        |at, other, traces: &[(&str, &str)]| less(found, run(at), run(other), traces, mean_of);
    let blocked = |at, other, traces: &[(&str, &str)]| {
        less(found, blocking(at), blocking(other), traces, mean_of)
    };
    let steady = steady(scale, found);
    let kept_up = blocked(2, 0, &steady[..]);
    let why = "drives that collect in short pieces leave little to steer round: what drives that \
               block make of it, and what D_Table on the drives costs, see below";
    let checks = vec![
        Check::new("GC-Steering below LGC, mean", "%", 63.3, below(2, 0, &TRACES)).because(why),
        Check::new("GC-Steering below GGC, mean", "%", 65.8, below(2, 1, &TRACES)).because(why),
        Check::new("D_Table in NVRAM: below LGC", "%", 63.3, below(4, 0, &TRACES)).because(NVRAM),
        Check::new("D_Table in NVRAM: below GGC", "%", 65.8, below(4, 1, &TRACES)).because(NVRAM),
        Check::new("drives that block: below LGC", "%", 63.3, blocked(2, 0, &TRACES))
            .because("the sensitivity: how long a drive stops for everything while it collects"),
        Check::new("drives that block: below GGC", "%", 65.8, blocked(2, 1, &TRACES))
            .because(TOGETHER),
        Check::new("the same below LGC, where they collect and keep up", "%", 63.3, kept_up)
            .because(format!(
                "{} of 8 traces: in the others nothing collects, or there is more to write than \
                 the drives can take",
                steady.len()
            )),
        Check::new("the same below GGC, on these traces", "%", 65.8, blocked(2, 1, &steady[..]))
            .because("without those where one stop in common is the shortest"),
        Check::new("LGC below GGC, HPC_W", "%", 24.9, below(0, 1, &TRACES[..1])).because(PACED),
        Check::new("LGC below GGC, HPC_R", "%", 36.1, below(0, 1, &TRACES[1..2])).because(PACED),
        Check::new("GGC below LGC, the others, mean", "%", 6.7, below(1, 0, &TRACES[2..]))
            .because(PACED),
        Check::new("the same, drives that block", "%", 6.7, blocked(1, 0, &TRACES[2..])).because(
            "the sensitivity: where a collection stops a drive, it matters whether others stop \
             at the same time",
        ),
        Check::ours("ours by its own signal below LGC", "%", below(3, 0, &TRACES)).because(OWN),
        Check::ours("the same, drives that block", "%", blocked(3, 0, &TRACES)).because(
            "the partial parity that closes the write hole makes drives collect within this time \
             that do not without it, for seconds at once (Figure 7 b)",
        ),
        Check::new(
            "D_Table in NVRAM, drives that block: below LGC",
            "%",
            63.3,
            blocked(4, 0, &TRACES),
        )
        .because(NVRAM),
    ];
    let mut tables = Vec::new();
    for (of, drives) in [(run as fn(usize) -> Run, "paced"), (blocking, "that block")] {
        for (label, figure) in
            [("Mean", mean_of), ("99th percentile", "load/p99_ms"), ("99.9th", "load/p999_ms")]
        {
            let title = format!("{label}, milliseconds, drives {drives}");
            tables.push(table(found, of, &title, figure));
        }
    }
    let pictures = vec![
        picture(found, "mean", "Mean response time", mean_of),
        picture(found, "p99", "99th percentile", "load/p99_ms"),
    ];
    Conclusion { checks, tables, pictures }
}

fn collections(_: Scale, found: &Found) -> Conclusion {
    let figure = "drives/collections";
    let more = |at| -less(found, run(at), run(0), &TRACES, figure);
    let checks = vec![
        Check::new("GC-Steering more than LGC, mean", "%", 0.0, more(2)).because(
            "what is steered is written p + 1 times, and once more when it goes home: where \
                 few writes make a drive collect at all, these are many",
        ),
        Check::new("the same, D_Table in NVRAM", "%", 0.0, more(4)).because(NVRAM),
        Check::ours("GGC more than LGC, mean", "%", more(1)).because(
            "\"much larger\": where drives collect in step with what they are written, \
             collecting earlier makes them collect less later",
        ),
    ];
    let tables = vec![
        table(found, run, "Collections", figure),
        table(found, blocking, "Collections, drives that block", figure),
    ];
    let pictures = vec![picture(found, "collections", "Collections", figure)];
    Conclusion { checks, tables, pictures }
}

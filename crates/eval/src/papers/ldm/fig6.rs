//! LDM §4.2, Figure 6: response time second by second, of LDM, 4-RAIS5 and a single SSD.

use std::cell::RefCell;
use std::rc::Rc;

use serde_json::json;

use super::runs::{LDM, LDM_BARE, Made, RAIS5_4, of_pages};
use crate::array::System;
use crate::array::load::play;
use crate::array::tally::Tally;
use crate::experiment::bed::{Bed, latencies, parameters, span};
use crate::experiment::{
    self, Axis, Cell, Check, Conclusion, Experiment, Figures, Found, Picture, Scale, Series, Table,
    traced,
};

pub const EXPERIMENT: Experiment = Experiment {
    name: "ldm-fig6",
    title: "LDM Figure 6: response time as time goes on",
    source: "LDM §4.2",
    cells,
    conclude,
};

/// The text does not say of which traces the figure is: the one that gains most by Table III, and
/// the one with most requests.
const TRACES: [(&str, &str); 2] = [("Fin1", "ldm-fin1"), ("prxy", "ldm-prxy0")];
/// Above this a point is high, by the text.
const HIGH_MS: f64 = 1.0;
const SINGLE: &str = "a single SSD";
const LABELS: [&str; 4] = [LDM.label, LDM_BARE.label, RAIS5_4.label, SINGLE];
const OURS: usize = 0;
const ONE: usize = 3;
/// The sensitivity: so many times the requests, on the single SSD.
const TIMES: u32 = 16;
const PAGES: &str = "/pages";
const ARRAYS: [Option<Made>; 4] = [Some(LDM), Some(LDM_BARE), Some(RAIS5_4), None];

fn name(label: &str, preset: &str) -> String {
    format!("ldm-seconds/{}/{preset}", label.replace(", ", "-").replace(' ', "-"))
}

fn cell(scale: Scale, at: usize, preset: &'static str) -> Cell {
    cell_of(scale, at, preset, (false, 1))
}

/// With its requests of whole pages, or so many times as many.
fn cell_of(scale: Scale, at: usize, preset: &'static str, (pages, times): (bool, u32)) -> Cell {
    let (system, bed) = match ARRAYS[at] {
        Some(made) => (made.system(), made.bed(scale)),
        None => (System::Single, Bed { drives: 1, ..RAIS5_4.bed(scale) }),
    };
    let span = span(scale.pick(5, 30), scale.pick(40, 600));
    let own = json!({ "trace": preset, "whole_pages": pages, "times": times });
    let given = parameters(&bed, system, span, own);
    let busier = if times == 1 { String::new() } else { format!("/x{times}") };
    let name = name(LABELS[at], preset) + if pages { PAGES } else { "" } + &busier;
    Cell::seeded(name, scale.pick(0.5, 2.0), given, move |seed| {
        let stand = bed.stand(system)?;
        let world = stand.of(system)?.wake(bed.seed);
        world.env.block_on(async {
            let opened = stand.open(system, &world).await;
            let mut workload = traced::preset(preset);
            workload.arrivals.scale(f64::from(times));
            let workload = if pages { of_pages(workload) } else { workload };
            let load = traced::placed(workload, (0, opened.array.size()), seed.of(bed.seed));
            let tally = Rc::new(RefCell::new(Tally::with_series(span.measured)));
            play(&world, &opened.array, &[(load, tally.clone())], span, || {}).await;
            let tally = tally.take();
            let mut figures = Figures::default();
            latencies(&mut figures, "load", &tally);
            seconds(&mut figures, &tally);
            match tally.failed {
                0 => Ok(figures),
                failed => Err(format!("{failed} requests failed")),
            }
        })
    })
}

/// Mean response time of each second in which anything was answered.
fn seconds(figures: &mut Figures, tally: &Tally) {
    let all = (1..).map(f64::from).zip(tally.seconds());
    let answered = all.filter(|(_, second)| second.answered > 0);
    let points: Vec<(f64, f64)> =
        answered.map(|(at, second)| (at, second.mean as f64 / 1e6)).collect();
    let count = points.len().max(1) as f64;
    let means = || points.iter().map(|point| point.1);
    let mean = means().sum::<f64>() / count;
    let variance = means().map(|each| (each - mean).powi(2)).sum::<f64>() / count;
    figures.set("seconds/highest_ms", means().fold(0.0, f64::max));
    figures.set("seconds/variation", variance.sqrt() / mean);
    let high = means().filter(|mean| *mean > HIGH_MS).count();
    figures.set("seconds/high", high as f64 / count * 100.0);
    figures.curves.insert("seconds".to_owned(), points);
}

fn cells(scale: Scale) -> Vec<Cell> {
    let each = (0..ARRAYS.len()).flat_map(|at| TRACES.map(|trace| (at, trace.1)));
    let pages = TRACES.map(|trace| cell_of(scale, OURS, trace.1, (true, 1)));
    let busier = TRACES.map(|trace| cell_of(scale, ONE, trace.1, (false, TIMES)));
    each.map(|(at, preset)| cell(scale, at, preset)).chain(pages).chain(busier).collect()
}

fn pictures(found: &Found) -> Vec<Picture> {
    let picture = |(trace, preset): (&str, &str)| Picture {
        name: trace.to_lowercase(),
        title: format!("Mean response time of each second, {trace}"),
        kind: experiment::Kind::Lines,
        x: Axis::linear("seconds"),
        y: Axis::logarithmic("milliseconds"),
        groups: vec![],
        series: LABELS
            .map(|label| Series::new(label, found.curve(&name(label, preset), "seconds")))
            .into(),
    };
    TRACES.map(picture).into()
}

const COLUMNS: [&str; 6] =
    ["array, trace", "highest ms", "% above 1 ms", "variation", "mean ms", "p99 ms"];

fn conclude(_: Scale, found: &Found) -> Conclusion {
    let of = |label: &str, preset: &str, figure: &str| {
        found.value(&name(label, preset), &format!("seconds/{figure}"))
    };
    let mut checks = Vec::new();
    let mut table = Table::new("Means of seconds", &COLUMNS);
    for (trace, preset) in TRACES {
        let highest = |label| of(label, preset, "highest_ms");
        checks.extend([
            Check::new(format!("{trace}: highest of LDM"), "ms", HIGH_MS, highest(LDM.label))
                .because(
                    "\"less than 1 ms\": reads of what is logged wait for a disk, and under prxy \
                     writes that begin within pages, too; the next line is without these",
                ),
            Check::new(
                format!("{trace}, whole pages: highest of LDM"),
                "ms",
                HIGH_MS,
                of(LDM.label, &format!("{preset}{PAGES}"), "highest_ms"),
            )
            .because("the sensitivity: what is left are reads of what is logged"),
            Check::new(
                format!("{trace}: highest of LDM, bare"),
                "ms",
                HIGH_MS,
                highest(LDM_BARE.label),
            )
            .because(
                "the sensitivity: \"less than 1 ms\" is less than half a turn of its log's disks",
            ),
            Check::new(format!("{trace}: highest of 4-RAIS5"), "ms", 10.0, highest(RAIS5_4.label))
                .because("\"even go up to 10 ms\": at the printed rate none of its SSDs collects"),
            Check::new(format!("{trace}: highest of a single SSD"), "ms", 10.0, highest(SINGLE))
                .because(
                    "at the printed rate the drive is written so little in a run that it does not \
                     have to collect; the next line is with more",
                ),
            Check::new(
                format!("{trace}, {TIMES} times the rate: highest of a single SSD"),
                "ms",
                10.0,
                of(SINGLE, &format!("{preset}/x{TIMES}"), "highest_ms"),
            )
            .because(
                "the sensitivity: a drive that has to collect is far above 10 ms, one that has \
                 not far below",
            ),
        ]);
        for label in LABELS {
            let what = format!("{trace}: seconds above 1 ms, {label}");
            let paper = if label.starts_with(LDM.label) { 0.0 } else { f64::NAN };
            let check = Check::new(what, "%", paper, of(label, preset, "high"));
            // Of LDM alone the paper says something.
            checks.push(match paper.is_nan() {
                true => check,
                false => check.because("see its highest"),
            });
            let row = ["highest_ms", "high", "variation"].map(|figure| of(label, preset, figure));
            let whole = ["mean_ms", "p99_ms"]
                .map(|figure| found.value(&name(label, preset), &format!("load/{figure}")));
            table.row(format!("{label}, {trace}"), row.into_iter().chain(whole));
        }
    }
    let pictures = pictures(found);
    Conclusion { checks, tables: vec![table], pictures }
}

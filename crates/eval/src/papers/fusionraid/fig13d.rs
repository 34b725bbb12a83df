//! FusionRAID §5.4, Figure 13 (d): how much the detector's threshold t and count x̂ matter.

use engine::{SpikeHandling, Threshold};
use io::Nanos;
use model::ssd::Fill;
use serde_json::json;

use super::bed;
use crate::array::System;
use crate::experiment::bed::{Bed, parameters, span};
use crate::experiment::{
    Axis, Cell, Check, Conclusion, Experiment, Figures, Found, Kind, Picture, Scale, Series, Table,
    traced,
};

pub const EXPERIMENT: Experiment = Experiment {
    name: "fusionraid-fig13d",
    title: "FusionRAID Figure 13 (d): the detector's parameters",
    source: "FusionRAID §5.4",
    cells,
    conclude,
};

/// Milliseconds.
const T: [f64; 4] = [1.0, 2.0, 5.0, 10.0];
const ENTER: [u32; 3] = [1, 4, 16];
/// So many times the published rate: at the rate itself spikes meet hardly any request.
const TIMES: f64 = 16.0;
const TRACE: &str = "exchange";
const OFF: &str = "fusionraid-fig13d/off";

fn name(t: f64, enter: u32) -> String {
    format!("fusionraid-fig13d/t{t}/x{enter}")
}

fn cells(scale: Scale) -> Vec<Cell> {
    let bed = bed(scale, Fill::Aged);
    let given: &[f64] = scale.pick(&T[1..3], &T);
    let grid = given.iter().flat_map(|&t| ENTER.map(|enter| (t, enter)));
    let mut cells = vec![cell(scale, OFF.to_owned(), &bed, SpikeHandling::WATCH, "off")];
    cells.extend(grid.map(|(t, enter)| {
        let threshold = Threshold::Fixed(Nanos((t * 1e6) as u64));
        let handling = SpikeHandling { threshold, enter, ..SpikeHandling::PAPER };
        cell(scale, name(t, enter), &bed, handling, &format!("t {t} ms, x {enter}"))
    }));
    cells
}

fn cell(scale: Scale, name: String, bed: &Bed, handling: SpikeHandling, what: &str) -> Cell {
    let span = span(scale.pick(1, 3), scale.pick(3, 20));
    let own = json!({ "trace": TRACE, "times": TIMES, "detector": what });
    let given = parameters(bed, System::FusionPaper, span, own);
    let bed = bed.clone();
    Cell::seeded(name, scale.pick(6.0, 4.0), given, move |seed| -> Result<Figures, String> {
        bed.measure_with(System::FusionPaper, Some(handling), span, bed.seed, |size| {
            let faster = traced::preset(TRACE).times(TIMES);
            vec![("Exchange".to_owned(), traced::placed(faster, (0, size), seed.of(bed.seed)))]
        })
    })
}

fn conclude(scale: Scale, found: &Found) -> Conclusion {
    let given: &[f64] = scale.pick(&T[1..3], &T);
    let of = |cell: &str, figure: &str| found.value(cell, &format!("Exchange/{figure}"));
    let figures = ["p50_ms", "p90_ms", "p99_ms", "p999_ms", "slowest1_ms"];
    let mut table = Table::new(
        "Exchange, milliseconds",
        &["detector", "p50", "p90", "p99", "p99.9", "slowest 1 %"],
    );
    table.row("no redirection", figures.map(|figure| of(OFF, figure)));
    let mut series = vec![Series::new("no redirection", found.curve(OFF, "Exchange/cdf"))];
    let (mut best, mut worst) = (f64::INFINITY, 0.0f64);
    for &t in given {
        for enter in ENTER {
            let cell = name(t, enter);
            table.row(format!("t {t} ms, x {enter}"), figures.map(|figure| of(&cell, figure)));
            let slow = of(&cell, "slowest1_ms");
            (best, worst) = (best.min(slow), worst.max(slow));
            if enter == ENTER[0] || t == 2.0 {
                let curve = found.curve(&cell, "Exchange/cdf");
                series.push(Series::new(format!("t {t} ms, x {enter}"), curve));
            }
        }
    }
    let without = of(OFF, "slowest1_ms");
    let checks = vec![
        Check::ours(
            "slowest 1 %: without redirection over the best parameters",
            "x",
            without / best,
        )
        .because("the paper shows distributions: smaller t and x react earlier"),
        Check::ours("slowest 1 %: worst over best parameters", "x", worst / best)
            .because("\"performs well with smaller thresholds\""),
    ];
    let picture = Picture {
        name: "cdf".to_owned(),
        title: "Exchange: distribution of latencies".to_owned(),
        kind: Kind::Lines,
        x: Axis::logarithmic("milliseconds"),
        y: Axis::linear("part of requests"),
        groups: vec![],
        series,
    };
    Conclusion { checks, tables: vec![table], pictures: vec![picture] }
}

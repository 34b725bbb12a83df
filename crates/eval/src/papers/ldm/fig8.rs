//! LDM §4.2, Figure 8: (a) response time while a lost SSD is rebuilt, (b) how long that takes.
//! A spare is filled as md does it (docs/results-rebuild.md), beside the requests of the traces.

use io::Nanos;
use serde_json::json;

use super::runs::{ARRAYS, BARE, HPDA, HPDA_BARE, LDM, LDM_BARE, Made, RAIS5_4, RAIS5_6, S_LDM};
use crate::array::served::Speed;
use crate::experiment::bed::{Bed, latencies, parameters, span};
use crate::experiment::{
    Axis, Cell, Check, Conclusion, Experiment, Figures, Found, Kind, Picture, Scale, Series, Table,
    traced,
};
use crate::rebuild::{Case, Demand, LOST, MB, Times};
use crate::workload::presets;

pub const A: Experiment = Experiment {
    name: "ldm-fig8a",
    title: "LDM Figure 8 (a): response time during reconstruction",
    source: "LDM §4.2",
    cells,
    conclude: |_, found| conclude(found, MEAN),
};

pub const B: Experiment = Experiment {
    name: "ldm-fig8b",
    title: "LDM Figure 8 (b): reconstruction time",
    source: "LDM §4.2",
    cells,
    conclude: |_, found| conclude(found, SECONDS),
};

const MEAN: &str = "load/mean_ms";
const SECONDS: &str = "seconds";
const TRACES: [(&str, &str); 3] = [("Fin1", "ldm-fin1"), ("src", "ldm-src12"), ("usr", "ldm-usr0")];
/// GC-Steering's Table I has the same Fin1 with so many requests a second.
const BUSY: (&str, f64) = ("ldm-fin1", 1482.0);
/// md's `sync_speed_max`, unless somebody changes it.
const SPEED: Speed = Speed::AtMost(200 * MB);

fn name(made: &Made, preset: &str, busy: bool) -> String {
    let busy = if busy { "-busy" } else { "" };
    format!("ldm-rebuild/{}/{preset}{busy}", made.label.replace(", ", "-"))
}

fn cell(scale: Scale, made: Made, preset: &'static str, busy: bool) -> Cell {
    let (system, bed) = (made.system(), made.bed(scale));
    let bed = Bed { drives: made.drives + 1, spares: 1, ..bed };
    // Nothing takes an hour. The quick scale says how long it would take at the pace so far, which
    // is less in the beginning, where room is made for a drive's sums.
    let span = span(scale.pick(1, 10), scale.pick(10, 3600));
    let own = json!({ "trace": preset, "busy": busy, "lost": LOST, "speed": format!("{SPEED:?}") });
    let given = parameters(&bed, system, span, own);
    Cell::seeded(name(&made, preset, busy), scale.pick(0.5, 8.0), given, move |seed| {
        let zero = Nanos::ZERO;
        let (warmup, during_max) = (span.warmup, span.measured);
        let times = Times { warmup, before: zero, during_max, after: zero };
        let demand = Demand { rate: 0, bytes: 0, read_percent: 0 };
        let case = Case { system, speed: SPEED, lost: LOST, demand, times, seed: bed.seed };
        let outcome = case.run_under(&*bed.stand(system)?, |size| {
            let mut workload = traced::preset(preset);
            if busy {
                let printed = presets::find(preset).and_then(|own| own.printed.iops);
                workload = workload.times(BUSY.1 / printed.expect("the table has it"));
            }
            traced::placed(workload, (0, size), seed.of(bed.seed))
        })?;
        let mut figures = Figures::default();
        figures.set("keeps_up", f64::from(u8::from(outcome.keeps_up)));
        // What an array does that falls behind for ever is no response time: the table has a gap.
        if outcome.keeps_up {
            latencies(&mut figures, "load", &outcome.phases[1]);
            figures.set(SECONDS, outcome.seconds());
            figures.set("mb_per_second", outcome.rate() / 1e6);
        }
        match (outcome.phases[1].failed, outcome.trouble) {
            (0, None) => Ok(figures),
            (failed, trouble) => Err(format!("{failed} requests failed; {trouble:?}")),
        }
    })
}

fn cells(scale: Scale) -> Vec<Cell> {
    let mut cells = Vec::new();
    for made in ARRAYS.into_iter().chain(BARE) {
        cells.extend(TRACES.map(|(_, preset)| cell(scale, made, preset, false)));
        cells.push(cell(scale, made, BUSY.0, true));
    }
    cells
}

fn conclude(found: &Found, figure: &str) -> Conclusion {
    let of = |made: &Made, preset: &str, busy: bool| found.value(&name(made, preset, busy), figure);
    let mean = |made: &Made, by: &Made| {
        let each = TRACES.map(|(_, preset)| of(made, preset, false) / of(by, preset, false));
        each.iter().sum::<f64>() / each.len() as f64
    };
    let busy = |made: &Made, by: &Made| of(made, BUSY.0, true) / of(by, BUSY.0, true);
    let why = match figure {
        MEAN => "a figure without numbers: \"significantly\" below 1",
        _ => {
            "\"significantly\" below 1: the pace is that of a spare of 200 MB/s at most, which the \
             requests of the traces hardly hold up. HPDA reads its parity from a hard disk, where \
             it writes its log, too. The quick scale goes by the first 10 seconds"
        }
    };
    let mut checks = Vec::new();
    for made in [LDM, LDM_BARE, S_LDM, HPDA, HPDA_BARE] {
        for by in [RAIS5_4, RAIS5_6] {
            let what = format!("{} of {}, mean", made.label, by.label);
            checks.push(Check::ours(what, "x", mean(&made, &by)).because(why));
        }
    }
    for made in [LDM, LDM_BARE, S_LDM] {
        let what = format!("{} of 4-RAIS5, Fin1 at 1482 requests a second", made.label);
        checks.push(Check::ours(what, "x", busy(&made, &RAIS5_4)).because(
            "the sensitivity: as many requests as GC-Steering's Table I has of the same trace",
        ));
    }
    let unit = if figure == MEAN { "Mean, milliseconds" } else { "Seconds" };
    let title = format!("{unit} (a gap: requests come faster than they are answered)");
    let mut table = Table::new(&title, &["array", "Fin1", "src", "usr", "Fin1, busy"]);
    let all = || ARRAYS.into_iter().chain(BARE);
    for made in all() {
        let row = TRACES.map(|(_, preset)| of(&made, preset, false));
        table.row(made.label, row.into_iter().chain([of(&made, BUSY.0, true)]));
    }
    let bars = |made: Made| {
        let of = |(_, preset)| of(&made, preset, false) / of(&RAIS5_4, preset, false);
        Series::bars(made.label, TRACES.map(of))
    };
    let picture = Picture {
        name: "bars".to_owned(),
        title: unit.to_owned(),
        kind: Kind::Bars,
        x: Axis::linear("trace"),
        y: Axis::linear("of 4-RAIS5"),
        groups: TRACES.map(|(trace, _)| trace.to_owned()).into(),
        series: all().map(bars).collect(),
    };
    Conclusion { checks, tables: vec![table], pictures: vec![picture] }
}

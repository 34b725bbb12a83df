//! LDM §4.2, Figure 5 and Table III: mean response time of the arrays; Figure 7: the same for what
//! they cost.

use super::runs::{
    ARRAYS, CACHED, HPDA, HPDA_CACHED, LDM, LDM_CACHED, Made, RAIS5_4, RAIS5_6, S_LDM, TRACES,
};
use crate::experiment::{
    Axis, Cell, Check, Conclusion, Experiment, Found, Kind, Picture, Scale, Series, Table,
};

pub const EXPERIMENT: Experiment = Experiment {
    name: "ldm-fig5",
    title: "LDM Figure 5 and Table III: response time",
    source: "LDM §4.2",
    cells,
    conclude,
};

pub const FIG7: Experiment = Experiment {
    name: "ldm-fig7",
    title: "LDM Figure 7: performance for the cost",
    source: "LDM §4.2",
    cells,
    conclude: worth,
};

fn cells(scale: Scale) -> Vec<Cell> {
    let each = shown().flat_map(|made| TRACES.map(|trace| (made, trace.1)));
    let busy = TIMES.iter().flat_map(|&times| BUSY.map(|made| made.at_times(times)));
    let busy = busy.map(|made| made.cell(scale, BUSIER.1));
    let full = [HPDA, LDM].map(|made| made.at_times(FULL).cell_of(scale, BUSIER.1, FULL_SECONDS));
    each.map(|(made, preset)| made.cell(scale, preset)).chain(busy).chain(full).collect()
}

/// The sensitivity: the trace that gains most by Table III, at so many times its rate.
const BUSIER: (&str, &str, f64, f64) = TRACES[0];
const TIMES: [u32; 2] = [4, 16];
/// HPDA's log is full after minutes of it, at either scale.
const FULL: u32 = 8;
const FULL_SECONDS: u64 = 600;
const BUSY: [Made; 5] = [RAIS5_4, HPDA, LDM, HPDA_CACHED, LDM_CACHED];

/// The paper's, and those with a cache beside them.
fn shown() -> impl Iterator<Item = Made> {
    ARRAYS.into_iter().chain(CACHED)
}

fn picture(name: &str, title: &str, y: Axis, of: impl Fn(&Made, &str) -> f64) -> Picture {
    let bars = |made: Made| Series::bars(made.label, TRACES.map(|trace| of(&made, trace.1)));
    Picture {
        name: name.to_owned(),
        title: title.to_owned(),
        kind: Kind::Bars,
        x: Axis::linear("trace"),
        y,
        groups: TRACES.map(|trace| trace.0.to_owned()).into(),
        series: shown().map(bars).collect(),
    }
}

fn table(title: &str, of: impl Fn(&Made, &str) -> f64) -> Table {
    let columns: Vec<&str> = ["trace"].into_iter().chain(shown().map(|made| made.label)).collect();
    let mut table = Table::new(title, &columns);
    for (trace, preset, ..) in TRACES {
        table.row(trace, shown().map(|made| of(&made, preset)));
    }
    table
}

const IDLE: &str = "the paper blames seeks between log and parity on HPDA's parity disk: ours make \
                    this much. A log that is full makes far more (Fin1, 8 times its rate, below): \
                    HPDA's is an eighth of that disk, LDM's are two whole ones";

/// What 4-RAIS5 takes of what LDM with a cache does, trace by trace.
fn each_of_six(ratios: [f64; 6]) -> impl Iterator<Item = Check> {
    TRACES.into_iter().zip(ratios).map(|((trace, _, paper, _), ratio)| {
        Check::new(format!("{trace}: 4-RAIS5 over LDM, with a cache"), "x", paper, ratio)
            .because("the trace's part of the mean")
    })
}

fn busier(found: &Found) -> Vec<Check> {
    let (trace, preset, over_rais5, over_hpda) = BUSIER;
    let over = |times: u32, one: Made, by: Made, paper: f64, label: &str| {
        let (one, by) = (one.at_times(times), by.at_times(times));
        let ratio = one.value(found, preset, "mean_ms") / by.value(found, preset, "mean_ms");
        let why = match (one.system() == HPDA.system(), one.log_full(found, preset)) {
            (false, _) => "the drives of 4-RAIS5 collect at this rate".to_owned(),
            (true, 0.0) => "HPDA's log was never full".to_owned(),
            (true, full) => {
                let by = by.log_full(found, preset);
                format!("{full} writes found HPDA's log full, {by} LDM's")
            }
        };
        let what = format!("{trace}, {times} times its rate: {label}");
        Check::new(what, "x", paper, ratio).because(format!("the sensitivity: {why}"))
    };
    let mut checks = Vec::new();
    for times in TIMES {
        checks.extend([
            over(times, RAIS5_4, LDM_CACHED, over_rais5, "4-RAIS5 over LDM, with a cache"),
            over(times, HPDA_CACHED, LDM_CACHED, over_hpda, "HPDA over LDM, with a cache"),
            over(times, HPDA, LDM, over_hpda, "HPDA over LDM"),
        ]);
    }
    checks.push(over(FULL, HPDA, LDM, over_hpda, "HPDA over LDM, for ten minutes"));
    checks
}

fn conclude(_: Scale, found: &Found) -> Conclusion {
    let of = |made: &Made, preset: &str| made.value(found, preset, "mean_ms");
    let mean = |values: [f64; 6]| values.iter().sum::<f64>() / values.len() as f64;
    let over = |made: &Made, by: &Made| TRACES.map(|trace| of(made, trace.1) / of(by, trace.1));
    let (rais5, hpda) = (over(&RAIS5_4, &LDM), over(&HPDA, &LDM));
    let why = "ours wait for the platter; the paper's are behind a controller that has a protected \
               cache: the lines below are with one";
    let mut checks = Vec::new();
    for (at, (trace, _, paper_rais5, paper_hpda)) in TRACES.into_iter().enumerate() {
        let what = format!("{trace}: 4-RAIS5 over LDM");
        checks.push(Check::new(what, "x", paper_rais5, rais5[at]).because(why));
        let what = format!("{trace}: HPDA over LDM");
        checks.push(Check::new(what, "x", paper_hpda, hpda[at]).because(IDLE));
    }
    checks.push(Check::new("4-RAIS5 over LDM, mean", "x", 20.4, mean(rais5)).because(why));
    checks.push(Check::new("HPDA over LDM, mean", "x", 5.0, mean(hpda)).because(IDLE));
    let cached = (over(&RAIS5_4, &LDM_CACHED), over(&HPDA_CACHED, &LDM_CACHED));
    checks.extend([
        Check::new("the same with a cache before the disks: 4-RAIS5", "x", 20.4, mean(cached.0))
            .because(
                "Fin2, src and prxy are as in the paper; under Fin1, usr and proj no drive of \
                 our 4-RAIS5 collects in a run; at 4 times Fin1's rate they do (below), usr and \
                 proj have not been tried",
            ),
        Check::new("the same with a cache before the disks: HPDA", "x", 5.0, mean(cached.1))
            .because("the cache hides where the disk's arm has to go, at higher rates too (below)"),
        Check::new("S-LDM over LDM, with a cache, mean", "x", 1.0, mean(over(&S_LDM, &LDM_CACHED)))
            .because("\"comparably\""),
    ]);
    checks.extend(each_of_six(cached.0));
    checks.extend(busier(found));
    let with_ssds = mean(over(&RAIS5_6, &S_LDM));
    checks.push(Check::ours("6-RAIS5 over S-LDM, mean", "x", with_ssds).because("above 1"));
    let same = mean(over(&S_LDM, &LDM));
    checks.push(Check::new("S-LDM over LDM, mean", "x", 1.0, same).because(why));
    let tables = vec![
        table("Mean, milliseconds", of),
        table("99th percentile, milliseconds", |made, preset| made.value(found, preset, "p99_ms")),
    ];
    let axis = Axis::logarithmic("milliseconds");
    let pictures = vec![picture("mean", "Mean response time", axis, of)];
    Conclusion { checks, tables, pictures }
}

/// For each byte an SSD costs ten times what a hard disk does (§4.2).
fn cost(made: &Made) -> f64 {
    const SSD: f64 = 10.0;
    (made.drives - made.disks) as f64 * SSD + made.disks as f64
}

fn worth(_: Scale, found: &Found) -> Conclusion {
    // Requests a millisecond for each unit of cost, of 4-RAIS5.
    let of = |made: &Made, preset: &str| {
        let worth = |made: &Made| 1.0 / (made.value(found, preset, "mean_ms") * cost(made));
        worth(made) / worth(&RAIS5_4)
    };
    let best = |own: Made, among: [Made; 5]| {
        let is_best = |trace: &(&str, &str, f64, f64)| {
            let worth = |made: &Made| of(made, trace.1);
            among.iter().all(|other| worth(&own) >= worth(other))
        };
        TRACES.iter().filter(|trace| is_best(trace)).count() as f64
    };
    let what = "traces on which LDM gives most for its cost";
    let cached = [RAIS5_4, RAIS5_6, HPDA_CACHED, LDM_CACHED, S_LDM];
    let checks = vec![
        Check::new(what, "of 6", 6.0, best(LDM, ARRAYS))
            .because("bare hard disks here: see Figure 5"),
        Check::new(format!("{what}, with a cache"), "of 6", 6.0, best(LDM_CACHED, cached)),
    ];
    let tables = vec![table("Performance for the cost, of 4-RAIS5", of)];
    let axis = Axis::logarithmic("of 4-RAIS5");
    let pictures = vec![picture("worth", "Performance for the cost", axis, of)];
    Conclusion { checks, tables, pictures }
}

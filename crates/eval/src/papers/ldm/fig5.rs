//! LDM §4.2, Figure 5 and Table III: mean response time of the arrays; Figure 7: the same for what
//! they cost.

use super::runs::{
    ARRAYS, BARE, CLOSED, HPDA, HPDA_BARE, HPDA_CLOSED, LDM, LDM_BARE, LDM_CLOSED, Made, RAIS5_4,
    RAIS5_4_CLOSED, RAIS5_6, S_LDM, TRACES,
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

/// The paper's, and those of the sensitivity beside them.
fn all() -> impl Iterator<Item = Made> {
    ARRAYS.into_iter().chain(BARE).chain(CLOSED)
}

fn cells(scale: Scale) -> Vec<Cell> {
    let each = all().flat_map(|made| TRACES.map(|trace| (made, trace.1)));
    let pages = PAGED.map(|made| (made.in_pages(), SMALLEST.1));
    let busy = TIMES.iter().flat_map(|&times| BUSY.map(|made| (made.at_times(times), BUSIER.1)));
    let full = [HPDA, LDM].map(|made| made.at_times(FULL).cell_of(scale, BUSIER.1, FULL_SECONDS));
    let measured = each.chain(pages).chain(busy).map(|(made, preset)| made.cell(scale, preset));
    measured.chain(full).collect()
}

/// The sensitivity: the trace that gains most by Table III, at so many times its rate.
const BUSIER: (&str, &str, f64, f64) = TRACES[0];
const TIMES: [u32; 2] = [4, 16];
/// HPDA's log is full after minutes of it, at either scale.
const FULL: u32 = 8;
const FULL_SECONDS: u64 = 600;
const BUSY: [Made; 5] = [RAIS5_4, HPDA, LDM, HPDA_BARE, LDM_BARE];
/// The sensitivity: the only trace of which an average request is less than a page.
const SMALLEST: (&str, &str, f64, f64) = TRACES[5];
const PAGED: [Made; 3] = [RAIS5_4, HPDA, LDM];

fn picture(name: &str, title: &str, y: Axis, of: impl Fn(&Made, &str) -> f64) -> Picture {
    let bars = |made: Made| Series::bars(made.label, TRACES.map(|trace| of(&made, trace.1)));
    Picture {
        name: name.to_owned(),
        title: title.to_owned(),
        kind: Kind::Bars,
        x: Axis::linear("trace"),
        y,
        groups: TRACES.map(|trace| trace.0.to_owned()).into(),
        series: all().map(bars).collect(),
    }
}

fn table(title: &str, of: impl Fn(&Made, &str) -> f64) -> Table {
    let columns: Vec<&str> = ["trace"].into_iter().chain(all().map(|made| made.label)).collect();
    let mut table = Table::new(title, &columns);
    for (trace, preset, ..) in TRACES {
        table.row(trace, all().map(|made| of(&made, preset)));
    }
    table
}

/// What one array takes of what another does, trace by trace.
fn over(found: &Found, one: &Made, by: &Made) -> [f64; 6] {
    TRACES.map(|(_, preset, ..)| {
        one.value(found, preset, "mean_ms") / by.value(found, preset, "mean_ms")
    })
}

fn mean(values: [f64; 6]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

const RAIS5: &str = "at the printed rate no SSD of an open 4-RAIS5 collects garbage; reads of what \
                     LDM logged wait for a disk, as our traces are nowhere quiet for long enough \
                     to destage it. At 16 times Fin1's rate one collects (below)";
const RAIS5_SMALL: &str = "a write that begins or ends within a page of the log reads the rest of \
                           it from a disk first: with whole pages it is above 1 (below)";
const SEEKS: &str = "the paper blames seeks between log and parity, which come with destaging: our \
                     traces are nowhere quiet for long enough (table below). HPDA's small log \
                     fills in ten minutes at 8 times Fin1's rate (below)";

/// Table III.
fn table_3(found: &Found) -> Vec<Check> {
    let (rais5, hpda) = (over(found, &RAIS5_4, &LDM), over(found, &HPDA, &LDM));
    let mut checks = Vec::new();
    for (at, (trace, _, paper_rais5, paper_hpda)) in TRACES.into_iter().enumerate() {
        let what = format!("{trace}: 4-RAIS5 over LDM");
        checks.push(Check::new(what, "x", paper_rais5, rais5[at]).because(if at == 5 {
            RAIS5_SMALL
        } else {
            RAIS5
        }));
        let what = format!("{trace}: HPDA over LDM");
        checks.push(Check::new(what, "x", paper_hpda, hpda[at]).because(SEEKS));
    }
    checks.push(Check::new("4-RAIS5 over LDM, mean", "x", 20.4, mean(rais5)).because(RAIS5));
    checks.push(Check::new("HPDA over LDM, mean", "x", 5.0, mean(hpda)).because(SEEKS));
    checks
}

/// The same of arrays that are as the product has them, or as the paper's may have been.
fn otherwise(found: &Found) -> Vec<Check> {
    let check = |what: &str, paper: f64, one: &Made, by: &Made, why: &str| {
        let what = format!("{what}, mean");
        Check::new(what, "x", paper, mean(over(found, one, by))).because(why)
    };
    let closed = "the sensitivity: all with a log of partial parity, for which SSDs of \
                  4-RAIS5 collect under Fin1 and prxy";
    let bare = "the sensitivity: every write to the log waits for the platter";
    let (_, preset, rais5, hpda) = SMALLEST;
    let paged = |one: Made| {
        let ms = |made: Made| made.in_pages().value(found, preset, "mean_ms");
        ms(one) / ms(LDM)
    };
    let pages = "the sensitivity: our map knows whole pages, the paper's offset and length: what \
                 a write leaves of a page is read first";
    vec![
        check("closed: 4-RAIS5 over LDM", 20.4, &RAIS5_4_CLOSED, &LDM_CLOSED, closed),
        check("closed: HPDA over LDM", 5.0, &HPDA_CLOSED, &LDM_CLOSED, closed),
        check("bare disks: 4-RAIS5 over LDM", 20.4, &RAIS5_4, &LDM_BARE, bare),
        check("bare disks: HPDA over LDM", 5.0, &HPDA_BARE, &LDM_BARE, bare),
        check("bare disks: S-LDM over LDM", 1.0, &S_LDM, &LDM_BARE, bare),
        Check::new("prxy, whole pages: 4-RAIS5 over LDM", "x", rais5, paged(RAIS5_4))
            .because(pages),
        Check::new("prxy, whole pages: HPDA over LDM", "x", hpda, paged(HPDA)).because(pages),
    ]
}

fn busier(found: &Found) -> Vec<Check> {
    let (trace, preset, over_rais5, over_hpda) = BUSIER;
    let over = |times: u32, one: Made, by: Made, paper: f64, label: &str| {
        let (one, by) = (one.at_times(times), by.at_times(times));
        let ratio = one.value(found, preset, "mean_ms") / by.value(found, preset, "mean_ms");
        let full = |made: &Made| made.count(found, preset, "direct_log_full");
        let why = match (one.system() == HPDA.system(), full(&one)) {
            (false, _) => {
                let collected = one.value_of(found, preset, "drives/collections");
                format!("its drives collected {collected} times meanwhile")
            }
            (true, 0.0) => {
                let destaged = |made: &Made| made.count(found, preset, "destaged_stripes");
                let whole = one.count(found, preset, "destaged_whole");
                let (own, of_ldm) = (destaged(&one), destaged(&by));
                format!("HPDA destaged {own} stripes, {whole} of them whole, LDM {of_ldm}")
            }
            (true, of_hpda) => {
                format!("{of_hpda} writes found HPDA's log full, {} LDM's", full(&by))
            }
        };
        let what = format!("{trace}, {times} times its rate: {label}");
        Check::new(what, "x", paper, ratio).because(format!("the sensitivity: {why}"))
    };
    let mut checks = Vec::new();
    for times in TIMES {
        checks.extend([
            over(times, RAIS5_4, LDM, over_rais5, "4-RAIS5 over LDM"),
            over(times, HPDA, LDM, over_hpda, "HPDA over LDM"),
            over(times, HPDA_BARE, LDM_BARE, over_hpda, "HPDA over LDM, bare disks"),
        ]);
    }
    checks.push(over(FULL, HPDA, LDM, over_hpda, "HPDA over LDM, for ten minutes"));
    checks
}

/// What LDM's log did.
fn log_table(found: &Found) -> Table {
    const COUNTERS: [&str; 6] = [
        "log_writes",
        "direct_writes",
        "log_reads",
        "destaged_stripes",
        "destaged_whole",
        "destaged_for_reads",
    ];
    let columns = [
        "trace",
        "writes to it",
        "writes in place",
        "reads from it",
        "stripes destaged",
        "of them whole",
        "of them for reads",
    ];
    let mut table = Table::new("LDM's log", &columns);
    for (trace, preset, ..) in TRACES {
        table.row(trace, COUNTERS.map(|counter| LDM.count(found, preset, counter)));
    }
    table
}

fn conclude(_: Scale, found: &Found) -> Conclusion {
    let of = |made: &Made, preset: &str| made.value(found, preset, "mean_ms");
    let ratio = |one: &Made, by: &Made| mean(over(found, one, by));
    let mut checks = table_3(found);
    checks.extend([
        Check::new("S-LDM over LDM, mean", "x", 1.0, ratio(&S_LDM, &LDM)).because(
            "\"comparably\": reads of what is logged, and prxy's writes within pages, wait \
                 for a disk",
        ),
        Check::new("6-RAIS5 over 4-RAIS5, mean", "x", 1.0, ratio(&RAIS5_6, &RAIS5_4))
            .because("\"almost the same\""),
        Check::ours("6-RAIS5 over S-LDM, mean", "x", ratio(&RAIS5_6, &S_LDM))
            .because("above 1: S-LDM \"performs better\""),
    ]);
    checks.extend(otherwise(found));
    checks.extend(busier(found));
    let tables = vec![
        table("Mean, milliseconds", of),
        table("99th percentile, milliseconds", |made, preset| made.value(found, preset, "p99_ms")),
        log_table(found),
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
    let bare = [RAIS5_4, RAIS5_6, HPDA_BARE, LDM_BARE, S_LDM];
    let checks = vec![
        Check::new(what, "of 6", 6.0, best(LDM, ARRAYS)).because(
            "Figure 5's response times for what the arrays cost: at the printed rates 4-RAIS5, \
             which nothing makes collect, is the fastest",
        ),
        Check::new(format!("{what}, bare disks"), "of 6", 6.0, best(LDM_BARE, bare))
            .because("the sensitivity: writes wait for the platter"),
    ];
    let tables = vec![table("Performance for the cost, of 4-RAIS5", of)];
    let axis = Axis::logarithmic("of 4-RAIS5");
    let pictures = vec![picture("worth", "Performance for the cost", axis, of)];
    Conclusion { checks, tables, pictures }
}

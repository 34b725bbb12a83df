//! FusionRAID §5.2, Figure 10: eight workloads, run in mixes of four on five systems. Each
//! workload's median and p99, averaged over the mixes that it is in.

use std::collections::BTreeSet;

use io::rng::Rng;
use model::ssd::Fill;
use serde_json::json;

use super::bed;
use super::mix::{LOG_RAID, RAID5_4, RAID50, TOLE_RAID};
use crate::array::System;
use crate::array::prepare::Trim;
use crate::experiment::bed::{Bed, parameters, span};
use crate::experiment::{
    Axis, Cell, Check, Conclusion, Experiment, Found, Kind, Picture, Scale, Series, Table, traced,
};

pub const EXPERIMENT: Experiment = Experiment {
    name: "fusionraid-fig10",
    title: "FusionRAID Figure 10: mixes of four workloads",
    source: "FusionRAID §5.2",
    cells,
    conclude,
};

pub const TRACES: [&str; 8] = [
    "ycsb-load",
    "ycsb-a",
    "ycsb-b",
    "tpc-c",
    "tensorflow",
    "virtual-desktop",
    "exchange",
    "proxy",
];

/// The paper's name, ours, and how much FusionRAID is below it: median in percent, p99 in times.
const SYSTEMS: [(&str, &str, f64, f64); 6] = [
    ("4-RAID5", RAID5_4, 49.0, 15.0),
    ("RAID50", RAID50, 81.0, 35.0),
    ("LogRAID", LOG_RAID, 76.0, 34.0),
    ("ToleRAID", TOLE_RAID, 45.0, 8.3),
    ("FusionRAID", "fusion-paper", f64::NAN, f64::NAN),
    ("ours", "fusion", f64::NAN, f64::NAN),
];
const FUSION: usize = 4;
const OURS: usize = 5;
const MIXES: usize = 20;
const SEED: u64 = 1;

/// Mixes of four, drawn without putting back; the first few have every workload in them.
fn mixes(count: usize) -> Vec<[usize; 4]> {
    let mut rng = Rng::new(SEED);
    let mut mixes = Vec::new();
    let mut known = BTreeSet::new();
    while mixes.len() < count {
        let mut left: Vec<usize> = (0..TRACES.len()).collect();
        let mut draw = || left.swap_remove(rng.below(left.len() as u64) as usize);
        let mut mix = [draw(), draw(), draw(), draw()];
        mix.sort_unstable();
        if known.insert(mix) {
            mixes.push(mix);
        }
    }
    mixes
}

fn of_scale(scale: Scale) -> Vec<[usize; 4]> {
    mixes(scale.pick(3, MIXES))
}

/// The sensitivity: the first mix with so many times the requests, on those of the systems that
/// keep up with it as it is.
const TIMES: [f64; 4] = [1.0, 2.0, 2.5, 3.0];
const BUSY: [usize; 5] = [0, 1, 3, FUSION, OURS];
/// What FusionRAID is compared with there.
const OTHERS: [usize; 3] = [0, 1, 3];
/// Another: the same on drives that were told before the array was made that they hold nothing, as
/// `create` does.
const TOLD: [usize; 3] = [1, FUSION, OURS];
/// A rate that aged drives fall behind with which were never told.
const TOLD_TIMES: f64 = 2.5;
/// And another: what closing the write hole, which md leaves open, does to these.
const CLOSED: [(usize, &str); 2] = [(0, "n-raid5"), (1, "raid50")];

fn name(system: &str, mix: [usize; 4], times: f64, trim: Trim) -> String {
    let busy = if times == 1.0 { String::new() } else { format!("/x{times}") };
    let told = if trim == Trim::Untrimmed { "" } else { "/told" };
    format!("fusionraid-fig10/{system}/{}{busy}{told}", mix.map(|at| TRACES[at]).join("+"))
}

fn untold(system: &str, mix: [usize; 4]) -> String {
    name(system, mix, 1.0, Trim::Untrimmed)
}

fn cells(scale: Scale) -> Vec<Cell> {
    let each = SYSTEMS
        .iter()
        .flat_map(|&(_, system, ..)| of_scale(scale).into_iter().map(move |mix| (system, mix)));
    let busy = BUSY.iter().flat_map(|&at| TIMES[1..].iter().map(move |&times| (at, times)));
    let first = |system, times, trim| cell(scale, system, (mixes(1)[0], times, trim));
    let busy = busy.map(|(at, times)| first(SYSTEMS[at].1, times, Trim::Untrimmed));
    let told = TOLD.iter().flat_map(|&at| TIMES.iter().map(move |&times| (at, times)));
    let told = told.map(|(at, times)| first(SYSTEMS[at].1, times, Trim::Trimmed));
    let closed = CLOSED.map(|(_, system)| first(system, 1.0, Trim::Untrimmed));
    let each = each.map(|(system, mix)| cell(scale, system, (mix, 1.0, Trim::Untrimmed)));
    each.chain(busy).chain(told).chain(closed).collect()
}

fn cell(scale: Scale, label: &'static str, (mix, times, trim): ([usize; 4], f64, Trim)) -> Cell {
    let bed = Bed { trim, ..bed(scale, Fill::Aged) };
    let system: System = super::mix::system(label);
    let span = span(scale.pick(1, 5), scale.pick(3, 25));
    let own = json!({ "traces": mix.map(|at| TRACES[at]), "load_seed": SEED, "times": times });
    let given = parameters(&bed, system, span, own);
    // Requests that wait cost time, too.
    let waits = times != 1.0 && trim == Trim::Untrimmed;
    let cost = scale.pick(8.0, 10.0) * if waits { 5.0 } else { 1.0 };
    Cell::seeded(name(label, mix, times, trim), cost, given, move |seed| {
        bed.measure(system, span, bed.seed, |size| {
            let part = (size / 4) >> 20 << 20;
            let placed = |(at, trace): (u64, usize)| {
                let mut workload = traced::preset(TRACES[trace]);
                workload.arrivals.scale(times);
                let load = traced::placed(workload, (part * at, part), seed.of(SEED + at));
                (TRACES[trace].to_owned(), load)
            };
            (0..).zip(mix).map(placed).collect()
        })
    })
}

/// A figure of a workload on a system: in each mix that has it.
fn each(scale: Scale, found: &Found, system: usize, trace: usize, figure: &str) -> Vec<f64> {
    let with = of_scale(scale).into_iter().filter(|mix| mix.contains(&trace));
    let value =
        |mix| found.value(&untold(SYSTEMS[system].1, mix), &format!("{}/{figure}", TRACES[trace]));
    with.map(value).filter(|value| value.is_finite()).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

const TOLE: &str = "the paper's ToleRAID has 4-RAID5's medians; ours spreads over all drives and \
                    has RAID50's, as its writes are those";
const WRITES: &str = "mean of the mixes; nearer to what drives can do both are slower (below), and \
                      FusionRAID, for which they write more flash, gets there first";
const READS: &str = "what decides FusionRAID's p99 here are reads that wait 4 to 5 ms for an erase \
                     (DRIVES.md), and every system has those: see writes by themselves";
const STREAM: &str = "one stream of writes keeps few of the groups busy: on aged drives that is \
                      less than heavy mixes write, and its writes (not reads) queue for seconds";

/// How many times FusionRAID's p99 of writes a system's is, mean of the mixes.
fn of_writes(scale: Scale, found: &Found, system: &str) -> f64 {
    let tail = |system: &str, mix| found.value(&untold(system, mix), "all/write_p99_ms");
    let ratio = |mix| tail(system, mix) / tail(SYSTEMS[FUSION].1, mix);
    mean(&of_scale(scale).into_iter().map(ratio).collect::<Vec<_>>())
}

/// A figure of a system under the first mix.
fn first(found: &Found, at: usize, times: f64, trim: Trim, figure: &str) -> f64 {
    found.value(&name(SYSTEMS[at].1, mixes(1)[0], times, trim), figure)
}

/// What the rate, or what drives know, does to the two.
fn beside(found: &Found, at: usize, times: f64, trim: Trim) -> String {
    let of = |at: usize, figure: &str| first(found, at, times, trim, figure);
    let flash = "drives/flash_amplification";
    format!(
        "the sensitivity, how near the drives are to what they can do: p99 {:.1} ms beside {:.1}, \
         flash written for each byte {:.1} beside {:.1}",
        of(at, "all/p99_ms"),
        of(FUSION, "all/p99_ms"),
        of(at, flash),
        of(FUSION, flash)
    )
}

/// The first mix at other rates, on drives that know what is free, and with the write hole closed.
fn sensitivities(found: &Found) -> Vec<Check> {
    let p99 = |at, times, trim| first(found, at, times, trim, "all/p99_ms");
    let over = |at, times, trim| p99(at, times, trim) / p99(FUSION, times, trim);
    let mut checks = Vec::new();
    for &at in &OTHERS {
        for times in TIMES {
            let what =
                format!("p99, {} over FusionRAID, one mix, {times}x the rate", SYSTEMS[at].0);
            let check = Check::new(what, "x", SYSTEMS[at].3, over(at, times, Trim::Untrimmed));
            checks.push(check.because(beside(found, at, times, Trim::Untrimmed)));
        }
    }
    let (label, .., paper) = SYSTEMS[1];
    for times in TIMES {
        let what = format!("the same, {label}, {times}x, drives told what is free");
        let check = Check::new(what, "x", paper, over(1, times, Trim::Trimmed));
        checks.push(check.because(beside(found, 1, times, Trim::Trimmed)));
    }
    for (trim, drives) in [(Trim::Untrimmed, "aged drives"), (Trim::Trimmed, "drives told")] {
        let what = format!("p99, {label} over ours, {TOLD_TIMES}x, {drives}");
        let ours = p99(OURS, TOLD_TIMES, trim);
        let check = Check::ours(what, "x", p99(1, TOLD_TIMES, trim) / ours);
        checks.push(check.because(format!(
            "ours {ours:.1} ms, median {:.2} beside {:.2}: free space that drives take for data \
             is copied at every collection; 'create' tells them",
            first(found, OURS, TOLD_TIMES, trim, "all/p50_ms"),
            first(found, 1, TOLD_TIMES, trim, "all/p50_ms"),
        )));
    }
    for (at, system) in CLOSED {
        let closed = found.value(&untold(system, mixes(1)[0]), "all/p99_ms");
        let what = format!("p99, {} over FusionRAID, one mix, write hole closed", SYSTEMS[at].0);
        let check =
            Check::new(what, "x", SYSTEMS[at].3, closed / p99(FUSION, 1.0, Trim::Untrimmed));
        checks.push(check.because(format!(
            "the sensitivity: with a partial-parity log {closed:.1} ms, without, as md by \
             default, {:.1}",
            p99(at, 1.0, Trim::Untrimmed)
        )));
    }
    checks
}

fn conclude(scale: Scale, found: &Found) -> Conclusion {
    let of = |system: usize, trace: usize, figure: &str| {
        mean(&each(scale, found, system, trace, figure))
    };
    let traces = 0..TRACES.len();
    let over_traces = |value: &dyn Fn(usize) -> f64| {
        let values: Vec<f64> = traces.clone().map(value).filter(|v| v.is_finite()).collect();
        mean(&values)
    };
    let mut checks = Vec::new();
    for (fusion, label) in [(FUSION, "FusionRAID"), (OURS, "ours")] {
        for (at, &(other, _, median, tail)) in SYSTEMS[..FUSION].iter().enumerate() {
            let below = over_traces(&|trace| {
                100.0 * (1.0 - of(fusion, trace, "p50_ms") / of(at, trace, "p50_ms"))
            });
            let times = over_traces(&|trace| of(at, trace, "p99_ms") / of(fusion, trace, "p99_ms"));
            let median = Check::new(format!("median, {label} below {other}"), "%", median, below);
            let median = if other == "ToleRAID" { median.because(TOLE) } else { median };
            let why = if other == "LogRAID" { STREAM } else { READS };
            let what = format!("p99, {other} over {label}");
            checks.extend([median, Check::new(what, "x", tail, times).because(why)]);
        }
    }
    for &(other, system, _, tail) in &SYSTEMS[..FUSION] {
        let ratio = of_writes(scale, found, system);
        let check = Check::new(format!("p99 of writes, {other} over FusionRAID"), "x", tail, ratio);
        checks.push(check.because(match other {
            "LogRAID" => STREAM,
            _ if ratio < tail => WRITES,
            _ => "mean of the mixes; the paper's figure has reads in it, too",
        }));
    }
    checks.extend(sensitivities(found));
    let columns: Vec<&str> = ["workload"].into_iter().chain(SYSTEMS.map(|own| own.0)).collect();
    let table = |title: &str, figure: &str| {
        let mut table = Table::new(title, &columns);
        for trace in traces.clone() {
            table.row(TRACES[trace], (0..SYSTEMS.len()).map(|at| of(at, trace, figure)));
        }
        table
    };
    let picture = |name: &str, title: &str, figure: &str| Picture {
        name: name.to_owned(),
        title: title.to_owned(),
        kind: Kind::Bars,
        x: Axis::linear("workload"),
        y: Axis::logarithmic("milliseconds"),
        groups: TRACES.map(str::to_owned).into(),
        series: SYSTEMS
            .iter()
            .enumerate()
            .map(|(at, own)| Series::bars(own.0, traces.clone().map(|t| of(at, t, figure))))
            .collect(),
    };
    let tables = vec![
        table("Median, milliseconds, mean of the mixes", "p50_ms"),
        table("99th percentile, milliseconds, mean of the mixes", "p99_ms"),
    ];
    let pictures =
        vec![picture("median", "Median", "p50_ms"), picture("p99", "99th percentile", "p99_ms")];
    Conclusion { checks, tables, pictures }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mixes_are_as_the_papers() {
        let all = mixes(MIXES);
        for (trace, name) in TRACES.iter().enumerate() {
            let count = all.iter().filter(|mix| mix.contains(&trace)).count();
            // "Number of executions ranges between 9 and 13."
            assert!((6..=14).contains(&count), "{name} is in {count}");
        }
        let few = mixes(3);
        assert_eq!(few, all[..3]);
    }
}

//! HybRAID §4.2 and §4.3, Figures 9 to 12, and 17: performance, reads for parity, CRAIS5 beside it,
//! what drives write, performance for the cost.

use super::runs::{
    AGED, ARRAYS, CLOSED, CRAIS5, CRAIS5_6, DEEP, HYBRID, IN_TURN, Made, RAID5, RAID10, READS,
    STAY, VOLATILE, WHOLE, WORKLOADS, Way, cells,
};
use crate::experiment::{Axis, Check, Conclusion, Experiment, Found, Kind, Picture, Series, Table};

pub const FIG9: Experiment = Experiment {
    name: "hybraid-fig9",
    title: "HybRAID Figure 9: performance against RAID5 and RAID10",
    source: "HybRAID §4.2",
    cells: |scale| {
        let mut all = cells(scale, &ARRAYS[..3], &[WORKLOADS, READS].concat());
        for (_, way, _) in CHANGES {
            all.extend(cells(scale, &FLAT.map(|own| own.by(way)), &WORKLOADS));
        }
        all.extend(cells(scale, &[HYBRID.by(STAY), HYBRID.by(IN_TURN)], &WORKLOADS));
        all
    },
    conclude: |_, found| performance(found),
};

pub const FIG10: Experiment = Experiment {
    name: "hybraid-fig10",
    title: "HybRAID Figure 10: reads that writes cost",
    source: "HybRAID §4.2",
    cells: |scale| cells(scale, &ARRAYS[..3], &WORKLOADS),
    conclude: |_, found| reads(found),
};

pub const FIG11: Experiment = Experiment {
    name: "hybraid-fig11",
    title: "HybRAID Figure 11: against CRAIS5",
    source: "HybRAID §4.2",
    cells: |scale| cells(scale, &[&ARRAYS[..], &[CRAIS5_6]].concat(), &WORKLOADS),
    conclude: |_, found| cached(found),
};

pub const FIG12: Experiment = Experiment {
    name: "hybraid-fig12",
    title: "HybRAID Figure 12: what drives write",
    source: "HybRAID §4.3",
    cells: |scale| {
        let closed = [HYBRID, RAID5].map(|own| own.by(CLOSED));
        cells(scale, &[&FLAT[..], &closed].concat(), &WORKLOADS)
    },
    conclude: |_, found| writes(found),
};

pub const FIG14: Experiment = Experiment {
    name: "hybraid-fig14",
    title: "HybRAID Figure 14: migrations",
    source: "HybRAID §4.4.1",
    cells: |scale| cells(scale, &[HYBRID, HYBRID.by(WHOLE)], &WORKLOADS),
    conclude: |_, found| migrations(found),
};

pub const FIG17: Experiment = Experiment {
    name: "hybraid-fig17",
    title: "HybRAID Figure 17: performance for the cost",
    source: "HybRAID §4.5",
    cells: |scale| {
        let mut all = cells(scale, &ARRAYS[..3], &WORKLOADS);
        for (_, way, _) in CHANGES {
            all.extend(cells(scale, &FLAT.map(|own| own.by(way)), &WORKLOADS));
        }
        all
    },
    conclude: |_, found| worth(found),
};

const FLAT: [Made; 3] = [HYBRID, RAID5, RAID10];

/// What the answer depends on.
const CHANGES: [(&str, Way, &str); 5] = [
    (
        "write hole closed",
        CLOSED,
        "the sensitivity: RAID5 logs its partial parity before most writes, HybRAID before few",
    ),
    (
        "32 under way",
        DEEP,
        "the sensitivity: the reads before a small write to RAID5 overlap with other requests",
    ),
    ("aged drives", AGED, "the sensitivity: drives that were full and overwritten at random"),
    ("filled with whole stripes", WHOLE, "the sensitivity: all stripes begin in RAID5"),
    (
        "drives with a volatile cache",
        VOLATILE,
        "the sensitivity: a durable write waits for flash (the paper's drives have no capacitors)",
    ),
];

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// One array's figure over another's, mean of the workloads.
fn over(found: &Found, one: Made, other: Made, loads: &[(&str, &str)], figure: &str) -> f64 {
    let ratio =
        |load: &(&str, &str)| one.value(found, load.0, figure) / other.value(found, load.0, figure);
    mean(&loads.iter().map(ratio).collect::<Vec<_>>())
}

fn table(
    found: &Found,
    title: &str,
    arrays: &[Made],
    loads: &[(&str, &str)],
    figure: &str,
) -> Table {
    let columns: Vec<&str> =
        ["workload"].into_iter().chain(arrays.iter().map(|own| own.label)).collect();
    let mut table = Table::new(title, &columns);
    for (label, _) in loads {
        table.row(*label, arrays.iter().map(|made| made.value(found, label, figure)));
    }
    table
}

fn picture(
    found: &Found,
    arrays: &[Made],
    loads: &[(&str, &str)],
    figure: &str,
    y: &str,
) -> Picture {
    let bars = |made: &Made| {
        Series::bars(made.label, loads.iter().map(|load| made.value(found, load.0, figure)))
    };
    Picture {
        name: "bars".to_owned(),
        title: y.to_owned(),
        kind: Kind::Bars,
        x: Axis::linear("workload"),
        y: Axis::linear(y),
        groups: loads.iter().map(|load| load.0.to_owned()).collect(),
        series: arrays.iter().map(bars).collect(),
    }
}

const WHY: &str = "the reads before a small write are two drive latencies here, and nothing else: \
                   on a modelled drive RAID5 loses less by them (Figure 2); see the sensitivities \
                   of Figure 9";
const WHY10: &str = "one under way, RAID10 never reads before it writes and HybRAID does for \
                     stripes that have not moved to mirrors (Figure 10)";

const TIMES: &str = "the paper prints \"reductions\" of -2.1x and -0.3x and does not say of \
                     what; 1 is as fast";

/// What its parts gain (§4.6). What tiers alone do is not measured: without the other two they
/// would be another array.
fn parts(found: &Found) -> Vec<Check> {
    let gain = |way| (over(found, HYBRID, HYBRID.by(way), &WORKLOADS, "iops") - 1.0) * 100.0;
    vec![
        Check::new("gained by migration", "%", 15.4, gain(STAY)).because(
            "one under way, a stripe that has moved saves its reads before each later write",
        ),
        Check::new("gained by threads", "%", 17.9, gain(IN_TURN))
            .because("one under way, all that overlaps is the stripes of a request"),
    ]
}

fn performance(found: &Found) -> Conclusion {
    let all = [WORKLOADS, READS].concat();
    let gain = |other, loads: &[(&str, &str)]| over(found, HYBRID, other, loads, "iops");
    let mut checks = vec![
        Check::new("HybRAID over RAID5, writes", "x", 3.3, gain(RAID5, &WORKLOADS)).because(WHY),
        Check::new("HybRAID over RAID10, writes", "x", 2.6, gain(RAID10, &WORKLOADS))
            .because(WHY10),
        Check::new("HybRAID over RAID5, reads", "x", -2.1, gain(RAID5, &READS)).because(TIMES),
        Check::new("HybRAID over RAID10, reads", "x", -0.3, gain(RAID10, &READS)).because(TIMES),
    ];
    for (label, way, why) in CHANGES {
        for (other, paper) in [(RAID5, 3.3), (RAID10, 2.6)] {
            let gain = over(found, HYBRID.by(way), other.by(way), &WORKLOADS, "iops");
            let name = format!("the same over {}, {label}", other.label);
            checks.push(Check::new(name, "x", paper, gain).because(why));
        }
    }
    checks.extend(parts(found));
    let tables = vec![table(found, "Requests a second", &ARRAYS[..3], &all, "iops")];
    let pictures = vec![picture(found, &ARRAYS[..3], &all, "iops", "requests a second")];
    Conclusion { checks, tables, pictures }
}

fn reads(found: &Found) -> Conclusion {
    // Bytes read from drives for each that the user wrote.
    let of = |made: Made, load: &str| {
        made.value(found, load, "drives/read_bytes")
            / made.value(found, load, "drives/user_write_bytes")
    };
    let part = |other: Made| {
        mean(&WORKLOADS.map(|(load, _)| 1.0 - of(HYBRID, load) / of(other, load))) * 100.0
    };
    let checks = vec![
        Check::new("less read than RAID5", "%", 12.3, part(RAID5))
            .because("more small writes find their stripe in mirrors, where nothing is read"),
        Check::new("more read than RAID10", "%", 14.4, -part(RAID10))
            .because("small writes to stripes that are not in mirrors, or not yet (Figure 14)"),
    ];
    let mut table = Table::new(
        "Bytes read from drives for each written by the user",
        &["workload", HYBRID.label, RAID5.label, RAID10.label],
    );
    for (load, _) in WORKLOADS {
        table.row(load, [HYBRID, RAID5, RAID10].map(|made| of(made, load)));
    }
    Conclusion { checks, tables: vec![table], pictures: vec![] }
}

fn cached(found: &Found) -> Conclusion {
    let gain = |made| over(found, made, RAID5, &WORKLOADS, "iops");
    let checks = vec![
        Check::new("HybRAID over RAID5", "x", 3.3, gain(HYBRID)).because(WHY),
        Check::new("CRAIS5 over RAID5", "x", 1.5, gain(CRAIS5)).because(
            "of its five drives two are the cache and three RAID5, which has all large writes; \
             the paper compares arrays of three usable drives: see the next line",
        ),
        Check::new("CRAIS5 of six drives, three usable, over RAID5", "x", 1.5, gain(CRAIS5_6))
            .because(
                "the sensitivity: RAID5 as large as the one it is compared with; small writes to \
                 that cost less here than in the paper (Figure 2), so keeping them out gains less",
            ),
    ];
    let tables = vec![table(found, "Requests a second", &ARRAYS, &WORKLOADS, "iops")];
    let pictures = vec![picture(found, &ARRAYS, &WORKLOADS, "iops", "requests a second")];
    Conclusion { checks, tables, pictures }
}

const EVEN: &str = "here writes fall to both tiers' drives more evenly than in the paper: \
                    all drives together, below, are near it";

fn writes(found: &Found) -> Conclusion {
    // For each byte of the user's, so that a faster array is not blamed for writing more.
    let of = |made: Made, load: &str, figure: &str| {
        made.value(found, load, figure) / made.value(found, load, "drives/user_write_bytes")
    };
    let part = |own: Made, other: Made, figure: &str| {
        mean(&WORKLOADS.map(|(load, _)| of(own, load, figure) / of(other, load, figure) - 1.0))
            * 100.0
    };
    let (most, all) = ("drives/most_write_bytes", "drives/write_bytes");
    let mut checks = vec![
        Check::new("most of a drive, to RAID10", "%", -16.1, part(HYBRID, RAID10, most))
            .because(EVEN),
        Check::new("most of a drive, to RAID5", "%", 7.0, part(HYBRID, RAID5, most)).because(EVEN),
        Check::new("all drives, to RAID10", "%", -15.3, part(HYBRID, RAID10, all)),
        Check::new("all drives, to RAID5", "%", 9.8, part(HYBRID, RAID5, all))
            .because("two copies of what is in mirrors, and moves, beside one parity"),
    ];
    let (own, other) = (HYBRID.by(CLOSED), RAID5.by(CLOSED));
    for (what, paper, figure) in [("most of a drive", 7.0, most), ("all drives", 9.8, all)] {
        let what = format!("{what}, to RAID5, write hole closed");
        checks.push(Check::new(what, "%", paper, part(own, other, figure)).because(
            "the sensitivity: what closes it is a record of partial parity beside every small \
             write to RAID5, which md does not write",
        ));
    }
    let mut table = Table::new(
        "Bytes written to drives for each of the user's",
        &["workload, drives", HYBRID.label, RAID5.label, RAID10.label],
    );
    for (load, _) in WORKLOADS {
        for (label, figure) in [("most", most), ("all", all)] {
            let row = [HYBRID, RAID5, RAID10].map(|made| of(made, load, figure));
            table.row(format!("{load}, {label}"), row);
        }
    }
    Conclusion { checks, tables: vec![table], pictures: vec![] }
}

/// Writes that take their stripe to the other tier.
const MOVES: [&str; 2] = ["moved to mirrors by a write", "moved to parity by a write"];

fn migrations(found: &Found) -> Conclusion {
    let of =
        |made: Made, load: &str, figure: &str| made.value(found, load, &format!("scheme/{figure}"));
    let written = |made: Made, load: &str| {
        let figures = [
            "first writes to mirrors",
            "first writes to parity",
            "writes that stayed in mirrors",
            "writes that stayed in parity",
            MOVES[0],
            MOVES[1],
        ];
        figures.iter().map(|figure| of(made, load, figure)).sum::<f64>()
    };
    let part =
        |made: Made, load: &str, figure: &str| of(made, load, figure) / written(made, load) * 100.0;
    let online = |made| mean(&WORKLOADS.map(|load| part(made, load.0, MOVES[0])));
    let checks = vec![
        Check::new("writes that migrate online, mean", "%", 6.3, online(HYBRID)).because(
            "a stripe migrates once: the oftener its places are written again, the less of all \
             writes that is; Figure 15 has other rates and lengths",
        ),
        Check::new("the same, filled with whole stripes", "%", 6.3, online(HYBRID.by(WHOLE)))
            .because("the sensitivity: all stripes begin in RAID5"),
    ];
    let mut table = Table::new("Percent of writes", &["workload", "to mirrors", "to parity"]);
    for (made, kind) in [(HYBRID, "own sizes"), (HYBRID.by(WHOLE), "whole stripes")] {
        for (load, _) in WORKLOADS {
            let row = MOVES.map(|figure| part(made, load, figure));
            table.row(format!("{load}, {kind}"), row);
        }
    }
    Conclusion { checks, tables: vec![table], pictures: vec![] }
}

fn worth(found: &Found) -> Conclusion {
    /// Usable drives in each: three. Drives of RAID5, RAID10 and HybRAID (§4.5).
    const DRIVES: [f64; 3] = [4.0, 6.0, 5.0];
    let (_, fitted) = super::cost::cost(DRIVES[0]);
    let gain = |other| over(found, HYBRID, other, &WORKLOADS, "iops");
    let worth = |other, drives: f64, cost: f64| gain(other) * drives / cost;
    let changed = |way, other: Made, drives: f64| {
        over(found, HYBRID.by(way), other.by(way), &WORKLOADS, "iops") * drives / fitted
    };
    let (same, fitted) = (DRIVES[2], fitted);
    let of_fig9 =
        "Figure 9's figures for what equation (1) says that it costs: they differ as those";
    let mut checks = vec![
        Check::new("over RAID5, same drives", "x", 2.8, worth(RAID5, DRIVES[0], same)).because(WHY),
        Check::new("over RAID10, same drives", "x", 2.6, worth(RAID10, DRIVES[1], same))
            .because("RAID10 of four drives measured, of six paid for, as in the paper"),
        Check::new("over RAID5, drives fitted", "x", 3.1, worth(RAID5, DRIVES[0], fitted))
            .because(of_fig9),
        Check::new("over RAID10, drives fitted", "x", 3.0, worth(RAID10, DRIVES[1], fitted))
            .because(of_fig9),
    ];
    for (label, way, why) in CHANGES {
        for (other, drives, paper) in [(RAID5, DRIVES[0], 3.1), (RAID10, DRIVES[1], 3.0)] {
            let what = format!("over {}, drives fitted, {label}", other.label);
            let ours = changed(way, other, drives);
            checks.push(Check::new(what, "x", paper, ours).because(why));
        }
    }
    Conclusion { checks, tables: vec![], pictures: vec![] }
}

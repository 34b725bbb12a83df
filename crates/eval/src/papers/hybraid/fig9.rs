//! HybRAID §4.2 and §4.3, Figures 9 to 12, and 17: performance, reads for parity, CRAIS5 beside it,
//! what drives write, performance for the cost.

use super::runs::{ARRAYS, CRAIS5, CRAIS5_6, HYBRID, Made, RAID5, RAID10, READS, WORKLOADS, cells};
use crate::experiment::{Axis, Check, Conclusion, Experiment, Found, Kind, Picture, Series, Table};

pub const FIG9: Experiment = Experiment {
    name: "hybraid-fig9",
    title: "HybRAID Figure 9: performance against RAID5 and RAID10",
    source: "HybRAID §4.2",
    cells: |scale| {
        let mut all = cells(scale, &ARRAYS[..3], &[WORKLOADS, READS].concat());
        for (_, change, _) in CHANGES {
            all.extend(cells(scale, &[HYBRID, RAID5, RAID10].map(change), &WORKLOADS));
        }
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
    cells: |scale| cells(scale, &ARRAYS[..3], &WORKLOADS),
    conclude: |_, found| writes(found),
};

pub const FIG14: Experiment = Experiment {
    name: "hybraid-fig14",
    title: "HybRAID Figure 14: migrations",
    source: "HybRAID §4.4.1",
    cells: |scale| cells(scale, &[HYBRID, HYBRID.blank()], &WORKLOADS),
    conclude: |_, found| migrations(found),
};

pub const FIG17: Experiment = Experiment {
    name: "hybraid-fig17",
    title: "HybRAID Figure 17: performance for the cost",
    source: "HybRAID §4.5",
    cells: |scale| {
        let mut all = cells(scale, &ARRAYS[..3], &WORKLOADS);
        for (_, change, _) in CHANGES {
            all.extend(cells(scale, &[HYBRID, RAID5, RAID10].map(change), &WORKLOADS));
        }
        all
    },
    conclude: |_, found| worth(found),
};

/// What the answer depends on.
const CHANGES: [(&str, Change, &str); 2] = [
    (
        "one request under way",
        Made::one_at_a_time,
        "the sensitivity: with many under way the reads before a small write to RAID5 overlap \
         with other requests, as they do not where one thread handles all stripes",
    ),
    (
        "nothing written before",
        Made::blank,
        "the sensitivity: a stripe's first write chooses its tier; what fills ours before is \
         whole stripes, so that all of it begins in RAID5",
    ),
];

type Change = fn(Made) -> Made;

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

const WHY: &str = "our RAID5 and RAID10 have no stripe cache threads or scheduler in the way: they \
                   are several times as fast beside HybRAID as md is in the paper";

fn performance(found: &Found) -> Conclusion {
    let all = [WORKLOADS, READS].concat();
    let gain = |other, loads: &[(&str, &str)]| over(found, HYBRID, other, loads, "iops");
    let mut checks = vec![
        Check::new("HybRAID over RAID5, writes", "x", 3.3, gain(RAID5, &WORKLOADS)).because(WHY),
        Check::new("HybRAID over RAID10, writes", "x", 2.6, gain(RAID10, &WORKLOADS)).because(WHY),
        Check::ours("HybRAID over RAID5, reads", "x", gain(RAID5, &READS))
            .because("lower than 1: RAID5 has more drives for every read"),
        Check::ours("HybRAID over RAID10, reads", "x", gain(RAID10, &READS)),
    ];
    for (label, change, why) in CHANGES {
        for (other, paper) in [(RAID5, 3.3), (RAID10, 2.6)] {
            let gain = over(found, change(HYBRID), change(other), &WORKLOADS, "iops");
            let name = format!("the same over {}, {label}", other.label);
            checks.push(Check::new(name, "x", paper, gain).because(why));
        }
    }
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
            .because("how much migrates to the mirrors decides: see Figure 14"),
        Check::new("more read than RAID10", "%", 14.4, -part(RAID10)),
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

fn writes(found: &Found) -> Conclusion {
    // For each byte of the user's, so that a faster array is not blamed for writing more.
    let of = |made: Made, load: &str, figure: &str| {
        made.value(found, load, figure) / made.value(found, load, "drives/user_write_bytes")
    };
    let part = |other: Made, figure: &str| {
        mean(&WORKLOADS.map(|(load, _)| of(HYBRID, load, figure) / of(other, load, figure) - 1.0))
            * 100.0
    };
    let (most, all) = ("drives/most_write_bytes", "drives/write_bytes");
    let why = "the partial-parity log that closes the write hole is written, too; md has none";
    let checks = vec![
        Check::new("most of a drive, to RAID10", "%", -16.1, part(RAID10, most)).because(
            "less migrates than in the paper (Figure 14), which writes less, and less is whole \
             stripes (Figure 3), which writes more; how much is whose has not been separated",
        ),
        Check::new("most of a drive, to RAID5", "%", 7.0, part(RAID5, most)).because(why),
        Check::new("all drives, to RAID10", "%", -15.3, part(RAID10, all)),
        Check::new("all drives, to RAID5", "%", 9.8, part(RAID5, all)).because(why),
    ];
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
        Check::new(
            "the same, of an array nothing was written to before",
            "%",
            6.3,
            online(HYBRID.blank()),
        )
        .because(
            "the sensitivity: a stripe's first write chooses its tier; what fills ours before \
                 is whole stripes, so that all of it begins in RAID5",
        ),
    ];
    let mut table = Table::new("Percent of writes", &["workload", "to mirrors", "to parity"]);
    for (made, kind) in [(HYBRID, "filled"), (HYBRID.blank(), "blank")] {
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
    let changed = |change: Change, other, drives: f64| {
        over(found, change(HYBRID), change(other), &WORKLOADS, "iops") * drives / fitted
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
    for (label, change, why) in CHANGES {
        for (other, drives, paper) in [(RAID5, DRIVES[0], 3.1), (RAID10, DRIVES[1], 3.0)] {
            let what = format!("over {}, drives fitted, {label}", other.label);
            let ours = changed(change, other, drives);
            checks.push(Check::new(what, "x", paper, ours).because(why));
        }
    }
    Conclusion { checks, tables: vec![], pictures: vec![] }
}

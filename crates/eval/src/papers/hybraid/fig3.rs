//! HybRAID §2.2, Figure 3: small, partial and full pieces of what write-intensive volumes write, on
//! RAID5 (3+1).

use serde_json::json;

use crate::experiment::{
    Axis, Cell, Check, Conclusion, Experiment, Figures, Found, Kind, Picture, Scale, Series, Table,
    traced,
};
use crate::trace::figures::Stripes;
use crate::trace::record::Op;

pub const EXPERIMENT: Experiment = Experiment {
    name: "hybraid-fig3",
    title: "HybRAID Figure 3: sizes of writes",
    source: "HybRAID §2.2",
    cells,
    conclude,
};

/// Made after the figure's text.
const OWN: [&str; 2] = ["hybraid-mean", "hybraid-web"];
/// Volumes of the same collection, made after what two other papers print of them: nothing of
/// Figure 3 went into these.
const OTHERS: [&str; 9] = [
    "gc-hm0",
    "gc-mds0",
    "gc-prxy0",
    "gc-rsrch0",
    "gc-wdev0",
    "ldm-src12",
    "ldm-usr0",
    "ldm-proj0",
    "ldm-prxy0",
];
const UNITS_KIB: [u64; 2] = [4, 8];
const CLASSES: [&str; 3] = ["small", "partial", "full"];
const SEED: u64 = 1;

fn name(preset: &str) -> String {
    format!("hybraid-sizes/{preset}")
}

fn cell(scale: Scale, preset: &'static str) -> Cell {
    let requests = scale.pick(100_000, 1_000_000);
    let given = json!({ "requests": requests, "seed": SEED });
    Cell::new(name(preset), scale.pick(0.1, 1.0), given, move || {
        let mut stripes = UNITS_KIB.map(|kib| Stripes::new(kib << 10));
        let mut writes = 0u32;
        for record in traced::preset(preset).requests(SEED).take(requests) {
            if record.op == Op::Write {
                writes += 1;
                stripes.iter_mut().for_each(|own| own.add(record.offset, record.len));
            }
        }
        let mut figures = Figures::default();
        figures.set("writes", f64::from(writes) / requests as f64 * 100.0);
        for (kib, own) in UNITS_KIB.iter().zip(&stripes) {
            let seen = own.figures();
            for (at, class) in CLASSES.iter().enumerate() {
                figures.set(format!("{kib}/{class}/pieces"), seen.pieces[at] * 100.0);
                figures.set(format!("{kib}/{class}/bytes"), seen.bytes[at] * 100.0);
            }
        }
        Ok(figures)
    })
}

fn cells(scale: Scale) -> Vec<Cell> {
    OWN.into_iter().chain(OTHERS).map(|preset| cell(scale, preset)).collect()
}

fn table(found: &Found, kib: u64) -> Table {
    let columns =
        ["workload", "small", "partial", "full", "small, bytes", "partial, bytes", "full, bytes"];
    let mut table = Table::new(&format!("Percent, units of {kib} KB"), &columns);
    for preset in OWN.into_iter().chain(OTHERS) {
        let of =
            |class: &str, what: &str| found.value(&name(preset), &format!("{kib}/{class}/{what}"));
        let row = ["pieces", "bytes"].map(|what| CLASSES.map(|class| of(class, what)));
        table.row(preset, row.concat());
    }
    table
}

fn conclude(_: Scale, found: &Found) -> Conclusion {
    let of = |preset: &str, figure: &str| found.value(&name(preset), figure);
    let over = |figure: &str| {
        OTHERS.iter().map(|preset| of(preset, figure)).sum::<f64>() / OTHERS.len() as f64
    };
    let why = "a preset made to have it: of the volumes only the text says numbers";
    let others = "of sizes that were made from a printed average alone";
    let mut checks = vec![
        Check::new("requests that are writes, mean", "%", 79.5, of(OWN[0], "writes")).because(why),
    ];
    for (kib, paper) in UNITS_KIB.into_iter().zip([29.0, 35.0]) {
        let partial = format!("{kib}/partial/pieces");
        let what = format!("partial pieces, units of {kib} KB, mean");
        checks.push(Check::new(what, "%", paper, of(OWN[0], &partial)).because(why));
        let what = format!("partial pieces, units of {kib} KB, nine other volumes");
        checks.push(Check::new(what, "%", paper, over(&partial)).because(others));
    }
    checks.push(
        Check::new(
            "partial pieces of web_0, web_1, web_3",
            "%",
            50.0,
            of(OWN[1], "8/partial/pieces"),
        )
        .because("\"close to 50 %\", taken as with units of 8 KB"),
    );
    let yes = |is: bool| f64::from(u8::from(is));
    let [small, full] = ["small", "full"].map(|class| {
        let of = |what: &str| of(OWN[0], &format!("4/{class}/{what}"));
        (of("pieces"), of("bytes"))
    });
    let most = CLASSES.iter().all(|class| of(OWN[0], &format!("4/{class}/pieces")) <= small.0);
    let least = CLASSES.iter().all(|class| of(OWN[0], &format!("4/{class}/bytes")) >= small.1);
    checks.extend([
        Check::new("small pieces are most in number", "(1 yes)", 1.0, yes(most)),
        Check::new("and least in bytes", "(1 yes)", 1.0, yes(least)),
        Check::new("bytes of full pieces", "%", 70.0, full.1).because(
            "§4.4.2 reads 70 % off this figure; the preset was made after numbers of pieces: how \
             many bytes they have is ours",
        ),
    ]);
    let pictures = UNITS_KIB.map(|kib| Picture {
        name: format!("{kib}k"),
        title: format!("Pieces of writes, units of {kib} KB"),
        kind: Kind::Bars,
        x: Axis::linear("workload"),
        y: Axis::linear("%"),
        groups: OWN.into_iter().chain(OTHERS).map(str::to_owned).collect(),
        series: CLASSES
            .map(|class| {
                let figure = format!("{kib}/{class}/pieces");
                let all = OWN.into_iter().chain(OTHERS);
                Series::bars(class, all.map(|preset| of(preset, &figure)))
            })
            .into(),
    });
    let tables = UNITS_KIB.map(|kib| table(found, kib)).into();
    Conclusion { checks, tables, pictures: pictures.into() }
}

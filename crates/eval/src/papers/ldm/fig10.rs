//! LDM §5, Figure 10: mean time to data loss against mean time to repair.
//!
//! Three ways to the same number: the paper's closed forms (1), (2), (6), (7), the chain of its
//! Figure 9 solved, and the chain played. Of HPDA the paper quotes another; its chain is ours:
//! four SSDs and the parity drive bear one loss, the parity drive and its mirror one more.

use serde_json::json;

use super::markov::Chain;
use crate::experiment::{
    Axis, Cell, Check, Conclusion, Experiment, Figures, Found, Kind, Picture, Scale, Series, Table,
};

pub const EXPERIMENT: Experiment = Experiment {
    name: "ldm-fig10",
    title: "LDM Figure 10: mean time to data loss",
    source: "LDM §5, formulas (1) to (7)",
    cells,
    conclude,
};

/// Failures an hour (§5): hard disks once in 50,000 hours, SSDs in 200,000.
const LAMBDA: f64 = 1.0 / 50_000.0;
const PHI: f64 = 1.0 / 200_000.0;
/// SSDs of RAIS5 wear from parity updates: twice the rate (§5).
const PHI_WORN: f64 = 2.0 * PHI;
/// Days to repair that the figure shows.
const DAYS: [u64; 7] = [1, 2, 3, 4, 5, 6, 7];
const HOURS_OF_DAY: f64 = 24.0;
const HOURS_OF_YEAR: f64 = 24.0 * 365.0;
const SEED: u64 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Array {
    Rais5Of4,
    Rais5Of6,
    Hpda,
    Ldm,
    SLdm,
}

const ARRAYS: [Array; 5] = [Array::Rais5Of4, Array::Rais5Of6, Array::Hpda, Array::Ldm, Array::SLdm];

impl Array {
    fn name(self) -> &'static str {
        match self {
            Array::Rais5Of4 => "4-RAIS5",
            Array::Rais5Of6 => "6-RAIS5",
            Array::Hpda => "HPDA",
            Array::Ldm => "LDM",
            Array::SLdm => "S-LDM",
        }
    }

    fn chain(self, mu: f64) -> Chain {
        let raid5 = |drives: f64, phi: f64| {
            let chain = Chain::new(2).goes(0, 1, drives * phi).goes(1, 0, mu);
            chain.loses(1, (drives - 1.0) * phi)
        };
        match self {
            Array::Rais5Of4 => raid5(4.0, PHI_WORN),
            Array::Rais5Of6 => raid5(6.0, PHI_WORN),
            Array::Hpda => hpda(PHI, LAMBDA, mu),
            Array::Ldm => log_mirror(PHI, LAMBDA, mu),
            Array::SLdm => log_mirror(PHI, PHI, mu),
        }
    }

    /// As the paper prints it; none of HPDA, whose formula it does not give.
    fn formula(self, mu: f64) -> Option<f64> {
        let raid5 = |sum: f64, pairs: f64, phi: f64| (sum * phi + mu) / (pairs * phi * phi);
        let (l, p) = (LAMBDA, PHI);
        Some(match self {
            Array::Rais5Of4 => raid5(7.0, 12.0, PHI_WORN),
            Array::Rais5Of6 => raid5(11.0, 30.0, PHI_WORN),
            Array::Hpda => return None,
            Array::Ldm => {
                (9.0 * l * mu + 21.0 * p * mu + 2.0 * mu * mu)
                    / (6.0 * l.powi(3)
                        + 4.0 * l * l * mu
                        + 24.0 * p * p * mu
                        + 42.0 * p * l * l
                        + 108.0 * p * p * l)
            }
            Array::SLdm => (15.0 * p * mu + mu * mu) / (14.0 * p * p * mu + 120.0 * p.powi(3)),
        })
    }
}

/// The paper's Figure 9: four SSDs that bear one loss, two log drives that bear one.
fn log_mirror(phi: f64, lambda: f64, mu: f64) -> Chain {
    Chain::new(4)
        .goes(0, 1, 4.0 * phi)
        .goes(0, 2, 2.0 * lambda)
        .goes(1, 0, mu)
        .goes(1, 3, 2.0 * lambda)
        .loses(1, 3.0 * phi)
        .goes(2, 0, mu)
        .goes(2, 3, 4.0 * phi)
        .loses(2, lambda)
        .goes(3, 1, mu)
        .goes(3, 2, mu)
        .loses(3, 3.0 * phi + lambda)
}

/// RAID4 of four SSDs and a hard disk's parity, beside which a second hard disk mirrors the
/// buffer: state 1 an SSD is lost, 2 the parity drive, 3 the buffer's, 4 an SSD and the buffer's.
fn hpda(phi: f64, lambda: f64, mu: f64) -> Chain {
    Chain::new(5)
        .goes(0, 1, 4.0 * phi)
        .goes(0, 2, lambda)
        .goes(0, 3, lambda)
        .goes(1, 0, mu)
        .goes(1, 4, lambda)
        .loses(1, 3.0 * phi + lambda)
        .goes(2, 0, mu)
        .loses(2, 4.0 * phi + lambda)
        .goes(3, 0, mu)
        .goes(3, 4, 4.0 * phi)
        .loses(3, lambda)
        .goes(4, 1, mu)
        .goes(4, 3, mu)
        .loses(4, 3.0 * phi + lambda)
}

fn cells(scale: Scale) -> Vec<Cell> {
    let lives = scale.pick(200, 5_000);
    let cell = |array: Array| {
        let parameters = json!({
            "hdd_failures_per_hour": LAMBDA, "ssd_failures_per_hour": PHI, "lives": lives,
            "seed": SEED,
        });
        Cell::new(
            format!("ldm-mttdl/{}", array.name()),
            scale.pick(0.1, 3.0),
            parameters,
            move || {
                let mut figures = Figures::default();
                for days in DAYS {
                    let mu = 1.0 / (days as f64 * HOURS_OF_DAY);
                    let chain = array.chain(mu);
                    let mut set = |way: &str, hours: f64| {
                        figures.set(format!("{way}/{days}"), hours / HOURS_OF_YEAR);
                    };
                    set("chain", chain.mttdl());
                    array.formula(mu).into_iter().for_each(|hours| set("formula", hours));
                    let (mean, error) = chain.played(lives, SEED + days);
                    set("played", mean);
                    set("error", error);
                }
                Ok(figures)
            },
        )
    };
    ARRAYS.map(cell).into()
}

fn conclude(_: Scale, found: &Found) -> Conclusion {
    let of = |array: Array, way: &str, days: u64| {
        found.value(&format!("ldm-mttdl/{}", array.name()), &format!("{way}/{days}"))
    };
    let columns = ["array, days to repair", "formula", "chain", "played", "±", "chain / formula"];
    let mut table = Table::new("Years to data loss", &columns);
    for array in ARRAYS {
        for days in DAYS {
            let [formula, chain, played, error] =
                ["formula", "chain", "played", "error"].map(|way| of(array, way, days));
            let row = [formula, chain, played, error, chain / formula];
            table.row(format!("{}, {days}", array.name()), row);
        }
    }
    // The mean over the days of the figure, which hardly matter.
    let over = |other: Array, way: &str| {
        let ratio = |days| of(Array::Ldm, way, days) / of(other, way, days);
        DAYS.map(ratio).iter().sum::<f64>() / DAYS.len() as f64
    };
    let way = |array: Array| if array == Array::Hpda { "chain" } else { "formula" };
    let lines = ARRAYS.map(|array| {
        let years = |days: u64| (days as f64, of(array, way(array), days));
        Series::new(array.name(), DAYS.map(years).into())
    });
    let furthest = |one: &'static str, other: &'static str| {
        let each = ARRAYS.iter().flat_map(|&array| {
            DAYS.map(move |days| (of(array, one, days) / of(array, other, days) - 1.0).abs())
        });
        each.filter(|part| part.is_finite()).fold(0.0, f64::max) * 100.0
    };
    let error = {
        let part = |array, days| of(array, "error", days) / of(array, "played", days);
        ARRAYS.iter().flat_map(|&array| DAYS.map(|days| part(array, days))).fold(0.0, f64::max)
    };
    let (to_chain, to_played) = (furthest("formula", "chain"), furthest("played", "chain"));
    let checks = vec![
        Check::new("LDM over 6-RAIS5, by the formulas", "x", 2.7, over(Array::Rais5Of6, "formula"))
            .because("the paper's factor is that over six SSDs, as many drives as LDM has"),
        Check::ours("LDM over 4-RAIS5, by the formulas", "x", over(Array::Rais5Of4, "formula"))
            .because("over four SSDs hardly anything is gained: the log drives can fail, too"),
        Check::new("LDM over HPDA, by the chains", "x", 1.7, over(Array::Hpda, "chain"))
            .because("HPDA's formula is quoted from elsewhere and not printed: the chain is ours"),
        Check::new("formulas against chains, furthest", "%", 0.0, to_chain).because(
            "(6), (7) leave out terms of (3) that hardly matter; the last line of (4) has μ where \
             (3) has 2μ, a slip of print",
        ),
        Check::ours("played against chains, furthest", "%", to_played)
            .because(format!("standard error up to {:.1} %", error * 100.0)),
    ];
    let picture = Picture {
        name: "mttdl".to_owned(),
        title: "Mean time to data loss".to_owned(),
        kind: Kind::Lines,
        x: Axis::linear("days to repair"),
        y: Axis::logarithmic("years to data loss"),
        groups: vec![],
        series: lines.into(),
    };
    Conclusion { checks, tables: vec![table], pictures: vec![picture] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_of_raid5_are_their_chains() {
        for array in [Array::Rais5Of4, Array::Rais5Of6] {
            let formula = array.formula(0.01).expect("it has one");
            assert!((array.chain(0.01).mttdl() / formula - 1.0).abs() < 1e-9);
        }
    }
}

//! HybRAID §4.4.1, Figure 15: how far apart migrations are.
//!
//! Requests come when they come: the paper's volumes were recorded over a week, and its figure has
//! hours between migrations. Its tables of rates are pictures; the rates here are those that LDM
//! prints of volumes of the same collection.

use std::cell::RefCell;
use std::rc::Rc;

use io::virt::VirtEnv;
use io::{Buf, Env, Nanos};
use serde_json::json;

use super::runs::{HYBRID, WORKLOADS};
use crate::array::load::play;
use crate::array::served::Served;
use crate::array::tally::Tally;
use crate::array::{Answer, Array};
use crate::experiment::bed::{parameters, span};
use crate::experiment::{
    Axis, Cell, Check, Conclusion, Experiment, Figures, Found, Kind, Picture, Scale, Series, Table,
    traced,
};
use crate::workload::presets::RATE;

pub const EXPERIMENT: Experiment = Experiment {
    name: "hybraid-fig15",
    title: "HybRAID Figure 15: time between migrations",
    source: "HybRAID §4.4.1",
    cells,
    conclude,
};

/// Requests a second: `src1_2`, `usr_0`, `proj_0`, `prxy_0` (LDM Table II); and what the other
/// experiments of this paper have where none is printed.
const RATES: [u32; 5] = [14, 26, 28, 224, RATE as u32];
const PRINTED: usize = 4;
const CLOSE: Nanos = Nanos::from_millis(10);
const MOVED: &str = "moved to mirrors by a write";

/// Notes when stripes move: with the answer of the write that moved them.
struct Noting {
    served: Served,
    env: VirtEnv,
    seen: RefCell<(u64, Vec<Nanos>)>,
}

impl Noting {
    fn look(&self) {
        let counters = self.served.counters();
        let moved = counters.iter().find(|(name, _)| *name == MOVED).map_or(0, |(_, count)| *count);
        let (before, times) = &mut *self.seen.borrow_mut();
        times.extend((*before..moved).map(|_| self.env.now()));
        *before = moved;
    }
}

impl Array for Noting {
    fn size(&self) -> u64 {
        self.served.size()
    }

    fn read(&self, offset: u64, len: u64) -> Answer<'_, Vec<Buf>> {
        self.served.read(offset, len)
    }

    fn write(&self, offset: u64, data: Buf) -> Answer<'_> {
        Box::pin(async move {
            let done = self.served.write(offset, data).await;
            self.look();
            done
        })
    }

    fn flush(&self) -> Answer<'_> {
        self.served.flush()
    }
}

fn name(load: &str, rate: u32) -> String {
    format!("hybraid-apart/{load}/{rate}")
}

fn cell(scale: Scale, (load, preset): (&'static str, &'static str), rate: u32) -> Cell {
    let (bed, system) = (HYBRID.bed(scale, preset), HYBRID.system());
    let span = span(0, scale.pick(60, 600));
    let own = json!({ "workload": preset, "requests_per_second": rate });
    let given = parameters(&bed, system, span, own);
    let cost = f64::from(rate) * scale.pick(0.004, 0.04) + 0.2;
    Cell::seeded(name(load, rate), cost, given, move |seed| {
        let stand = bed.stand(system)?;
        let world = stand.of(system)?.wake(bed.seed);
        world.env.block_on(async {
            let opened = stand.open(system, &world).await;
            let served = opened.served.expect("a scheme");
            let (env, seen) = (world.env.clone(), RefCell::default());
            let noting = Rc::new(Noting { served, env, seen });
            let workload = traced::preset(preset).times(f64::from(rate) / RATE);
            let made = traced::placed(workload, (0, noting.size()), seed.of(bed.seed));
            let tally = Rc::new(RefCell::new(Tally::default()));
            let array: Rc<dyn Array> = noting.clone();
            play(&world, &array, &[(made, tally.clone())], span, || {}).await;
            let writes = tally.borrow().writes.len() as f64;
            let times = noting.seen.take().1;
            match tally.borrow().failed {
                0 => Ok(apart(&times, writes)),
                failed => Err(format!("{failed} requests failed")),
            }
        })
    })
}

/// Of the times of all migrations.
fn apart(times: &[Nanos], writes: f64) -> Figures {
    /// Points of the distribution.
    const POINTS: i32 = 50;
    let mut gaps: Vec<u64> =
        times.windows(2).map(|pair| pair[1].saturating_sub(pair[0]).0).collect();
    gaps.sort_unstable();
    let all = gaps.len() as f64;
    let mut figures = Figures::default();
    figures.set("migrations", times.len() as f64);
    figures.set("of_writes", times.len() as f64 / writes * 100.0);
    if gaps.is_empty() {
        return figures;
    }
    let far = gaps.iter().filter(|gap| **gap > CLOSE.0).count();
    figures.set("far", far as f64 / all * 100.0);
    let millis = |part: f64| gaps[((all - 1.0) * part) as usize] as f64 / 1e6;
    figures.set("median_ms", millis(0.5));
    figures.set("longest_ms", millis(1.0));
    let point = |at| (millis(f64::from(at) / f64::from(POINTS)), f64::from(at) / f64::from(POINTS));
    // A logarithm has no place for two that are one.
    let points = (0..=POINTS).map(point).filter(|(gap, _)| *gap > 0.0);
    figures.curves.insert("gaps".to_owned(), points.collect());
    figures
}

fn cells(scale: Scale) -> Vec<Cell> {
    let each = WORKLOADS.into_iter().flat_map(|load| RATES.map(|rate| (load, rate)));
    each.map(|(load, rate)| cell(scale, load, rate)).collect()
}

fn conclude(_: Scale, found: &Found) -> Conclusion {
    let of = |load: &str, rate: u32, figure: &str| found.value(&name(load, rate), figure);
    let mean = |rates: &[u32], figure: &str| {
        let all = WORKLOADS
            .iter()
            .flat_map(|load| rates.iter().map(move |&rate| of(load.0, rate, figure)));
        let all: Vec<f64> = all.collect();
        all.iter().sum::<f64>() / all.len() as f64
    };
    let (printed, ours) = RATES.split_at(PRINTED);
    let checks = vec![
        Check::new("more than 10 ms apart", "%", 92.7, mean(printed, "far")).because(
            "how far apart they are is one over the rate of requests and the part that migrates; \
             the rates are those LDM prints of volumes of the same collection",
        ),
        Check::new("the same, 1000 requests a second", "%", 92.7, mean(ours, "far"))
            .because("the sensitivity: more requests, less between migrations"),
        Check::new("writes that migrate", "%", 6.3, mean(printed, "of_writes"))
            .because("see Figure 14"),
    ];
    let columns = [
        "workload, requests a second",
        "migrations",
        "% of writes",
        "% > 10 ms",
        "median ms",
        "longest ms",
    ];
    let mut table = Table::new("Time between migrations", &columns);
    for (load, _) in WORKLOADS {
        for rate in RATES {
            let row = ["migrations", "of_writes", "far", "median_ms", "longest_ms"];
            table.row(format!("{load}, {rate}"), row.map(|figure| of(load, rate, figure)));
        }
    }
    let pictures = WORKLOADS.map(|(load, _)| Picture {
        name: load.to_owned(),
        title: format!("Time between migrations, {load}"),
        kind: Kind::Lines,
        x: Axis::logarithmic("milliseconds"),
        y: Axis::linear("part of them"),
        groups: vec![],
        series: RATES
            .map(|rate| Series::new(format!("{rate}/s"), found.curve(&name(load, rate), "gaps")))
            .into(),
    });
    Conclusion { checks, tables: vec![table], pictures: pictures.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_between_one_and_the_next() {
        let times: Vec<Nanos> = [5, 5, 15, 26, 1026].map(Nanos::from_millis).into();
        let figures = apart(&times, 50.0);
        let of = |name: &str| figures.values.get(name).copied();
        assert_eq!((of("migrations"), of("of_writes")), (Some(5.0), Some(10.0)));
        // 0, 10, 11 and 1000 ms: 10 is not more than 10.
        assert_eq!(
            (of("far"), of("median_ms"), of("longest_ms")),
            (Some(50.0), Some(10.0), Some(1000.0))
        );
        assert!(figures.curves["gaps"].iter().all(|point| point.0 > 0.0));
        let none = apart(&times[..1], 50.0);
        assert_eq!((none.values.get("far"), none.values["migrations"]), (None, 1.0));
    }
}

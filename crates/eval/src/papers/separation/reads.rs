//! Readers and writers at once, each with some requests always under way, on two drives that were
//! written at random before: what the readers get, second by second.

use std::cell::RefCell;
use std::rc::Rc;

use futures_util::future::join;
use model::presets::Preset;
use serde_json::json;

use crate::array::System;
use crate::array::fusion::Shape;
use crate::array::load::{Arrivals, Sizes, Stream, closed};
use crate::array::tally::Tally;
use crate::experiment::bed::{Bed, latencies, parameters, span};
use crate::experiment::{Cell, Figures, Scale};

/// Bytes of a request: the paper's large and small ones, whose sizes it does not print.
pub const SIZES: [(&str, u64); 2] = [("large", 256 << 10), ("small", 4 << 10)];
/// Requests of the readers, and of the writers, under way.
const DEPTH: usize = 4;

/// What the paper has: its scheme on two drives, a single drive; and a mirror beside them.
pub const ALTERNATE: &str = "alternate";
pub const SINGLE: &str = "single";
pub const MIRROR: &str = "raid1";

pub fn cell_name(system: &str, size: &str, writes: bool) -> String {
    let writes = if writes { "mixed" } else { "reads" };
    format!("separation/{system}/{size}/{writes}")
}

fn bed(scale: Scale) -> Bed {
    /// Of a pool of ours, which is not made here.
    const WIDTH: u16 = 3;
    let drive_bytes = Preset::ConsumerSata.sizes().0;
    let shape = Shape { volume_percent: scale.pick(20, 50), ..Shape::new(WIDTH) };
    Bed { drive_bytes, shape, ..Bed::new(Preset::ConsumerSata, 2, WIDTH) }
}

/// A system under requests of one size, with or without writes beside the reads.
pub fn cell(scale: Scale, name: &'static str, size: (&'static str, u64), writes: bool) -> Cell {
    let (bed, system): (Bed, System) = (bed(scale), name.parse().expect("a system we know"));
    let span = span(scale.pick(1, 5), scale.pick(6, 30));
    let own = json!({ "bytes": size.1, "depth": DEPTH, "writes": writes });
    let given = parameters(&bed, system, span, own);
    Cell::seeded(cell_name(name, size.0, writes), scale.pick(3.0, 12.0), given, move |seed| {
        let stand = bed.stand(system)?;
        let world = stand.of(system)?.wake(bed.seed);
        world.env.block_on(async {
            let opened = stand.open(system, &world).await;
            let stream = |read_percent, seed| Stream {
                arrivals: Arrivals::Poisson,
                rate: 1,
                read_percent,
                reads: Sizes::one(size.1),
                writes: Sizes::one(size.1),
                first: 0,
                span: opened.array.size() / size.1 * size.1,
                seed,
            };
            let tally = |length| Rc::new(RefCell::new(Tally::with_series(length)));
            let (of_reads, of_writes) = (tally(span.measured), tally(span.measured));
            let (reads, written) =
                (stream(100, seed.of(bed.seed)), stream(0, seed.of(bed.seed + 1)));
            let reader = closed(&world, &opened.array, (&reads, &of_reads), DEPTH, span);
            let writer = closed(&world, &opened.array, (&written, &of_writes), DEPTH, span);
            match writes {
                true => drop(join(reader, writer).await),
                false => reader.await,
            }
            let mut figures = Figures::default();
            each_second(&mut figures, "reads", &of_reads.borrow());
            latencies(&mut figures, "reads", &of_reads.borrow());
            if writes {
                each_second(&mut figures, "writes", &of_writes.borrow());
                latencies(&mut figures, "writes", &of_writes.borrow());
            }
            Ok(figures)
        })
    })
}

/// How many a second, and how much that varies.
fn each_second(figures: &mut Figures, name: &str, tally: &Tally) {
    let seconds: Vec<f64> = tally.seconds().iter().map(|second| second.answered as f64).collect();
    let count = seconds.len().max(1) as f64;
    let mean = seconds.iter().sum::<f64>() / count;
    let variance = seconds.iter().map(|each| (each - mean).powi(2)).sum::<f64>() / count;
    figures.set(format!("{name}/per_second"), mean);
    figures.set(format!("{name}/variation_percent"), variance.sqrt() / mean * 100.0);
    figures.set(
        format!("{name}/least_per_second"),
        seconds.iter().copied().fold(f64::INFINITY, f64::min),
    );
    let points = (1..).map(f64::from).zip(seconds).collect();
    figures.curves.insert(format!("{name}/seconds"), points);
}

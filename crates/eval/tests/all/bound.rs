//! The clairvoyant bound beside arrays.

use std::cell::RefCell;
use std::rc::Rc;

use eval::array::System;
use eval::array::bound::Bound;
use eval::array::fusion::Shape;
use eval::array::load::{Arrivals, Sizes, Span, Stream, play};
use eval::array::stand::Stand;
use eval::array::tally::Tally;
use eval::array::world::Shelf;
use io::Nanos;
use model::presets::Preset;
use model::ssd::Fill;

const KIB: u64 = 1 << 10;

fn span() -> Span {
    Span { warmup: Nanos::from_millis(100), measured: Nanos::from_millis(900) }
}

fn stream(rate: u64, span: u64) -> Stream {
    let sizes = Sizes(vec![(4 * KIB, 3), (64 * KIB, 2), (512 * KIB, 1)]);
    Stream {
        arrivals: Arrivals::Poisson,
        rate,
        read_percent: 50,
        reads: sizes.clone(),
        writes: sizes,
        first: 0,
        span,
        seed: 1,
    }
}

/// One request at a time on arrays that hold nothing else: what is as near to it as any.
#[test]
fn no_array_is_below_it() {
    let preset = Preset::DcSata;
    let drive_bytes = preset.sizes().0;
    let shelf = Shelf { fill: Fill::Fresh, ..Shelf::solid(preset, drive_bytes, 5, 1) };
    let shape = Shape { volume_percent: 4, ..Shape::new(5) };
    let stand = Stand::on(shelf, &shape).expect("drives");
    let bound = Bound::new(preset, 5).expect("a drive");
    for system in [System::Fusion, System::RAID5, System::RAID10] {
        for rate in [50, 5000] {
            let world = stand.of(system).expect("a layout").wake(1);
            world.env.block_on(async {
                let opened = stand.open(system, &world).await;
                let size = opened.array.size();
                let load = stream(rate, size / (512 * KIB) * 512 * KIB);
                let seen = Rc::new(RefCell::new(Tally::default()));
                play(&world, &opened.array, &[(load.clone(), seen.clone())], span(), || ()).await;
                let (seen, least) = (seen.take(), bound.play(&load, span(), size));
                let each = [(&seen.reads, &least.reads), (&seen.writes, &least.writes)];
                for (seen, least) in each {
                    assert_eq!(seen.len(), least.len(), "{system}: the same requests");
                    for step in 0..=100 {
                        let part = f64::from(step) / 100.0;
                        let seen = seen.value_at_quantile(part);
                        let least = least.value_at_quantile(part);
                        assert!(seen >= least, "{system}, {part}: {seen} ns of {least}");
                    }
                }
            });
        }
        stand.forget(system);
    }
}

//! The test bed of experiments with arrays: drives, what is made on them, the load; and what is
//! measured of every one of them alike.

use std::cell::RefCell;
use std::rc::Rc;

use engine::SpikeHandling;
use hdrhistogram::Histogram;
use io::{Env, ModelCounters, Nanos};
use model::presets::Preset;
use model::ssd::Fill;
use serde_json::{Value, json};

use super::Figures;
use crate::array::fusion::Shape;
use crate::array::layout::Variant;
use crate::array::load::{Load, Span, closed, play};
use crate::array::prepare::Trim;
use crate::array::stand::Stand;
use crate::array::tally::{Tally, mean_of_slowest};
use crate::array::world::{Shelf, counted, sum};
use crate::array::{Opened, System};

/// Drives, and how what is made on them is filled.
#[derive(Clone, Debug)]
pub struct Bed {
    pub preset: Preset,
    pub fill: Fill,
    pub trim: Trim,
    pub drive_bytes: u64,
    pub drives: usize,
    /// So many of them, the last ones but for spares, are hard disks.
    pub disks: usize,
    /// Of the size of an SSD.
    pub disk_percent: u64,
    /// Bytes of protected write cache before each of those.
    pub disk_cache: u64,
    pub shape: Shape,
    /// Drives, the last ones, that schemes leave alone.
    pub spares: usize,
    /// What is other than schemes propose.
    pub variant: Variant,
    /// Of `hybrid`: writes after which a stripe moves, if not as the scheme proposes.
    pub online_threshold: Option<u8>,
    /// What it is filled with, one after the other, over and over; none: large whole stripes.
    pub pieces: Vec<u64>,
    /// Of `nv-raid`; a 512th of the drives unless said otherwise.
    pub nvram_bytes: Option<u64>,
    pub seed: u64,
}

thread_local! {
    /// Making drives old and filling what lies on them takes longer than most measurements, and
    /// the next cell often wants the same.
    static LAST: RefCell<Option<(String, System, Rc<Stand>)>> = const { RefCell::new(None) };
}

impl Bed {
    /// Aged drives of the size that their preset is calibrated at (DRIVES.md), half full.
    /// Untrimmed, as the papers' are: FusionRAID §5.1 overwrites full drives for hours, and none
    /// trims any.
    pub fn new(preset: Preset, drives: usize, width: u16) -> Bed {
        const DRIVE_BYTES: u64 = 8 << 30;
        Bed {
            preset,
            fill: Fill::Aged,
            trim: Trim::Untrimmed,
            drive_bytes: DRIVE_BYTES.max(preset.sizes().0),
            drives,
            disks: 0,
            disk_percent: 100,
            disk_cache: 0,
            shape: Shape::new(width),
            spares: 0,
            variant: Variant::default(),
            online_threshold: None,
            pieces: Vec::new(),
            nvram_bytes: None,
            seed: 1,
        }
    }

    pub fn parameters(&self) -> Value {
        json!({
            "preset": self.preset.to_string(),
            "drives_are": format!("{:?}", self.fill).to_lowercase(),
            "told": self.told(),
            "settled": true,
            "drive_bytes": self.drive_bytes,
            "drives": self.drives,
            "hard_disks": self.disks,
            "disk_percent": self.disk_percent,
            "disk_cache_bytes": self.disk_cache,
            "spares": self.spares,
            "width": self.shape.width,
            "filled_percent": if self.shape.filled { self.shape.volume_percent } else { 0 },
            "variant": format!("{:?}", self.variant),
            "seed": self.seed,
        })
    }

    /// Whether drives know what is free when something is made on them. New ones always do.
    pub fn told(&self) -> bool {
        self.fill == Fill::Fresh || self.trim == Trim::Trimmed
    }

    /// The stand of this bed. Of what was made on it only that of one system is kept.
    pub fn stand(&self, system: System) -> Result<Rc<Stand>, String> {
        // A buffer's size is no matter to what is made.
        let key = format!("{:?}", Bed { nvram_bytes: None, ..self.clone() });
        let stand = match LAST.take() {
            Some((own, of, stand)) if own == key => {
                if of.scheme() != system.scheme() {
                    stand.forget(of);
                }
                stand
            }
            other => {
                // There need not be memory for both.
                drop(other);
                let Bed { preset, fill, drive_bytes, drives, disks, spares, seed, .. } = *self;
                let Bed { disk_percent, disk_cache, trim, .. } = *self;
                let solid = Shelf::solid(preset, drive_bytes, drives, seed);
                let shelf = Shelf { fill, trim, disks, disk_percent, disk_cache, spares, ..solid };
                let mut stand = Stand::on(shelf, &self.shape)?;
                stand.variant = self.variant;
                stand.online_threshold = self.online_threshold;
                stand.pieces = self.pieces.clone().into();
                Rc::new(stand)
            }
        };
        stand.nvram_bytes.set(self.nvram_bytes);
        LAST.replace(Some((key, system, stand.clone())));
        Ok(stand)
    }

    /// One system under loads, in a world of its own. `loads` is told how large the array is.
    pub fn measure<L: Load>(
        &self,
        system: System,
        span: Span,
        seed: u64,
        loads: impl Fn(u64) -> Vec<(String, L)>,
    ) -> Result<Figures, String> {
        self.measure_with(system, system.spikes(), span, seed, loads)
    }

    /// The same, spikes of a pool of ours handled in this way.
    pub fn measure_with<L: Load>(
        &self,
        system: System,
        spikes: Option<SpikeHandling>,
        span: Span,
        seed: u64,
        loads: impl Fn(u64) -> Vec<(String, L)>,
    ) -> Result<Figures, String> {
        let stand = self.stand(system)?;
        let world = stand.of(system)?.wake(seed);
        world.env.block_on(async {
            let opened = match spikes {
                Some(spikes) => Opened::fusion(&world, spikes).await,
                None => stand.open(system, &world).await,
            };
            let named = loads(opened.array.size());
            let streams = named
                .into_iter()
                .map(|(name, load)| (name, (load, Rc::new(RefCell::new(Tally::default())))));
            let (names, streams): (Vec<String>, Vec<_>) = streams.unzip();
            let before = RefCell::new(ModelCounters::default());
            play(&world, &opened.array, &streams, span, || {
                before.replace(world.counters());
            })
            .await;
            let mut figures = Figures::default();
            let mut all = Tally::default();
            for (name, (_, tally)) in names.iter().zip(&streams) {
                let tally = tally.take();
                all.reads.add(&tally.reads).expect("the same bounds");
                all.writes.add(&tally.writes).expect("the same bounds");
                all.failed += tally.failed;
                latencies(&mut figures, name, &tally);
            }
            if names.len() > 1 {
                latencies(&mut figures, "all", &all);
            }
            let user: u64 = streams.iter().map(|(load, _)| load.written(span)).sum();
            drives(&mut figures, &world.counters(), &before.take(), user);
            scheme(&mut figures, &opened);
            match opened.served.as_ref().and_then(|served| served.trouble()) {
                Some(trouble) => Err(format!("background work: {trouble}")),
                None if all.failed > 0 => Err(format!("{} requests failed", all.failed)),
                None => Ok(figures),
            }
        })
    }
}

impl Bed {
    /// One system under one load of which so many requests are always under way: how many it
    /// answers a second.
    pub fn measure_closed<L: Load>(
        &self,
        system: System,
        depth: usize,
        span: Span,
        seed: u64,
        load: impl Fn(u64) -> L,
    ) -> Result<Figures, String> {
        let stand = self.stand(system)?;
        let world = stand.of(system)?.wake(seed);
        world.env.block_on(async {
            let opened = stand.open(system, &world).await;
            let load = load(opened.array.size());
            let tally = Rc::new(RefCell::new(Tally::default()));
            let before = Rc::new(RefCell::new(Vec::new()));
            let (ports, env, noted) = (world.ports(self.drives), world.env.clone(), before.clone());
            let begin = env.now() + span.warmup;
            world.env.spawn(async move {
                env.sleep_until(begin).await;
                noted.replace(counted(&ports));
            });
            closed(&world, &opened.array, (&load, &tally), depth, span).await;
            let (tally, before) = (tally.take(), before.take());
            let mut figures = Figures::default();
            let answered = tally.all().len();
            figures.set("iops", answered as f64 / (span.measured.0 as f64 / 1e9));
            latencies(&mut figures, "load", &tally);
            let all = load.requests().take(answered as usize);
            let user = all.filter(|request| !request.read).map(|request| request.len).sum();
            drives(&mut figures, &world.counters(), &sum(&before), user);
            let each = world.each_counters().into_iter().zip(&before);
            let written = each.map(|(now, was)| now.host_write_bytes - was.host_write_bytes);
            figures.set("drives/most_write_bytes", written.max().unwrap_or(0) as f64);
            scheme(&mut figures, &opened);
            match tally.failed {
                0 => Ok(figures),
                failed => Err(format!("{failed} requests failed")),
            }
        })
    }
}

fn millis(nanos: f64) -> f64 {
    nanos / 1e6
}

/// Latencies of one load, in milliseconds.
pub fn latencies(figures: &mut Figures, name: &str, tally: &Tally) {
    let all = tally.all();
    let mut put = |kind: &str, latencies: &Histogram<u64>| {
        figures.set(format!("{name}/{kind}requests"), latencies.len() as f64);
        if latencies.is_empty() {
            return;
        }
        for (label, quantile) in
            [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999), ("p9999", 0.9999)]
        {
            let value = millis(latencies.value_at_quantile(quantile) as f64);
            figures.set(format!("{name}/{kind}{label}_ms"), value);
        }
        figures.set(format!("{name}/{kind}mean_ms"), millis(latencies.mean()));
        figures.set(format!("{name}/{kind}max_ms"), millis(latencies.max() as f64));
    };
    put("", &all);
    put("read_", &tally.reads);
    put("write_", &tally.writes);
    for (label, per_million) in [("slowest1", 10_000), ("slowest01", 1_000), ("slowest10", 100_000)]
    {
        let slow = |latencies| millis(mean_of_slowest(latencies, per_million));
        figures.set(format!("{name}/{label}_ms"), slow(&all));
        figures.set(format!("{name}/read_{label}_ms"), slow(&tally.reads));
        figures.set(format!("{name}/write_{label}_ms"), slow(&tally.writes));
    }
    figures.curves.insert(format!("{name}/cdf"), distribution(&all));
}

/// Points of the distribution: milliseconds, and the part that took no longer.
pub fn distribution(latencies: &Histogram<u64>) -> Vec<(f64, f64)> {
    const PARTS: [f64; 14] =
        [0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 0.9995, 0.9999];
    let point = |part: f64| (millis(latencies.value_at_quantile(part) as f64), part);
    PARTS.map(point).into()
}

/// What all drives did while it was measured.
pub fn drives(figures: &mut Figures, now: &ModelCounters, before: &ModelCounters, user: u64) {
    let written = now.host_write_bytes - before.host_write_bytes;
    let flash = now.flash_write_bytes - before.flash_write_bytes;
    figures.set("drives/user_write_bytes", user as f64);
    figures.set("drives/read_bytes", (now.host_read_bytes - before.host_read_bytes) as f64);
    figures.set("drives/write_bytes", written as f64);
    figures.set("drives/flash_bytes", flash as f64);
    figures.set("drives/erases", (now.erases - before.erases) as f64);
    figures.set("drives/collections", (now.collections - before.collections) as f64);
    if user > 0 {
        figures.set("drives/write_amplification", written as f64 / user as f64);
        figures.set("drives/flash_amplification", flash as f64 / user as f64);
    }
}

/// What the scheme counted since it was opened.
pub fn scheme(figures: &mut Figures, opened: &Opened) {
    for (name, count) in crate::systems::counters(opened) {
        figures.set(format!("scheme/{name}"), count as f64);
    }
    if let Some(fusion) = &opened.fusion {
        let status = fusion.pool.status();
        let spikes = status.drives.iter().map(|drive| drive.spikes);
        let (count, nanos) =
            spikes.fold((0, 0), |sum, one| (sum.0 + one.spikes, sum.1 + one.spike_nanos));
        figures.set("scheme/writes", status.counters.writes as f64);
        figures.set("scheme/spikes", count as f64);
        figures.set("scheme/spike_ms", millis(nanos as f64));
        let space = &status.space;
        let taken = (space.replicated + space.raid + space.limbo) as f64;
        figures.set("scheme/space", taken / space.used.max(1) as f64);
    } else if let Some(served) = &opened.served {
        figures.set("scheme/space", served.space());
    }
}

/// A span in seconds.
pub fn span(warmup: u64, measured: u64) -> Span {
    Span { warmup: Nanos::from_secs(warmup), measured: Nanos::from_secs(measured) }
}

/// Parameters of a cell: the bed's, the span's, and what is its own.
pub fn parameters(bed: &Bed, system: System, span: Span, own: Value) -> Value {
    let mut all = bed.parameters();
    let fields = all.as_object_mut().expect("it is one");
    fields.insert("system".to_owned(), system.to_string().into());
    fields.insert("warmup_seconds".to_owned(), (span.warmup.0 / 1_000_000_000).into());
    fields.insert("seconds".to_owned(), (span.measured.0 / 1_000_000_000).into());
    if let Value::Object(own) = own {
        fields.extend(own);
    }
    all
}

//! `eval systems`: any of the systems under the same load on the same aged drives, in virtual
//! time.
//!
//! Every system has a volume of the same part of what it offers, all of it written before, and
//! gets the same requests at the same times. Nothing is wrong with any drive, except that it
//! collects garbage.

mod report;

use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;

use io::{ModelCounters, Nanos};
use model::presets::Preset;
use model::ssd::Fill;

use crate::array::fusion::Shape;
use crate::array::load::{Arrivals, Load, Sizes, Span, Stream, play};
use crate::array::made::Made;
use crate::array::played::Played;
use crate::array::prepare::{Trim, TrimChoice};
use crate::array::recorded::Recorded;
use crate::array::served::Served;
use crate::array::stand::Stand;
use crate::array::tally::Tally;
use crate::array::traces::MIX;
use crate::array::world::Shelf;
use crate::array::{Opened, System};
use crate::why;
use crate::workload::verbs;

pub use report::{Outcome, Table, millis};

#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// What is compared; all by default. A scheme's name with -open after it: the write hole open
    #[arg(long, value_delimiter = ',', default_values_t = System::all())]
    pub systems: Vec<System>,
    #[arg(long, default_value_t = 8)]
    pub drives: usize,
    /// Drives of this kind; see DRIVES.md
    #[arg(long, default_value_t = Preset::DcSata)]
    pub preset: Preset,
    /// GiB of a drive; by default the least of its kind
    #[arg(long)]
    pub drive_gib: Option<u64>,
    /// Whether drives were told what is free before arrays were made on them, as 'create' does
    #[arg(long, value_enum, default_value_t)]
    pub trimmed: TrimChoice,
    /// Percent of what each system offers that is written before, and used
    #[arg(long, default_value_t = 50)]
    pub fill_percent: u64,
    /// KiB of a request
    #[arg(long, default_value_t = 16)]
    pub kib: u64,
    #[arg(long, default_value_t = 50)]
    pub read_percent: u64,
    /// Requests a second
    #[arg(long, default_value_t = 4000)]
    pub rate: u64,
    /// Requests come in bursts
    #[arg(long)]
    pub bursty: bool,
    /// The four loads of FusionRAID §5.3 instead, each on a quarter of the volume
    #[arg(long)]
    pub mix: bool,
    /// The requests of a trace instead, in any form that `trace info` reads
    #[arg(long, conflicts_with = "mix")]
    pub trace: Option<PathBuf>,
    /// A workload instead: a preset of `trace presets`, or a file that `trace fit` wrote
    #[arg(long, conflicts_with_all = ["mix", "trace"])]
    pub workload: Option<String>,
    /// So many times as fast: --mix, --trace and --workload
    #[arg(long, default_value_t = 1)]
    pub times: u64,
    /// Seconds measured
    #[arg(long, default_value_t = 20)]
    pub seconds: u64,
    /// Seconds before that
    #[arg(long, default_value_t = 10)]
    pub warmup: u64,
    /// MiB of the buffer of nv-raid; a 512th of the drives by default
    #[arg(long)]
    pub nvram_mib: Option<u64>,
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Why the slowest requests were slow, and the counters of each system
    #[arg(long)]
    pub why: bool,
    /// Which requests are explained: those above this quantile
    #[arg(long, default_value_t = 0.99, requires = "why", value_parser = why::quantile)]
    pub why_above: f64,
    /// Writes what each of them waited for: files for each system, in this folder
    #[arg(long, requires = "why", value_name = "DIR")]
    pub why_folder: Option<PathBuf>,
    /// Writes all figures as JSON
    #[arg(long)]
    pub json: Option<PathBuf>,
}

pub fn run(options: &Options) -> Result<(), String> {
    let recorded = options.recorded()?;
    let mut table = Table::default();
    for (at, &trim) in options.trimmed.all().iter().enumerate() {
        if at > 0 {
            println!();
        }
        println!("{}", options.title(trim, recorded.as_ref()));
        println!("{}", Table::heading());
        options.compare(trim, recorded.as_ref(), &mut table)?;
    }
    println!("\n{}", table.shapes());
    match &options.json {
        Some(path) => std::fs::write(path, table.json(options))
            .map_err(|error| format!("{}: {error}", path.display())),
        None => Ok(()),
    }
}

impl Options {
    /// Every system on drives of one kind, a line each.
    fn compare(
        &self,
        trim: Trim,
        recorded: Option<&Recorded>,
        table: &mut Table,
    ) -> Result<(), String> {
        let stand = self.stand(Fill::Aged, trim)?;
        for &system in &self.systems {
            let measure = || self.measure(&stand, system, recorded);
            let quantile = self.why.then_some(self.why_above);
            let (measured, reports) = why::explained(quantile, measure);
            match measured {
                Ok(outcome) => {
                    println!("{}", table.add(outcome));
                    if self.why {
                        print!("{}", table.why());
                    }
                    let name = format!("{system}-{}", trim.name());
                    why::tell(&reports, self.why_folder.as_deref(), &name)?;
                }
                Err(error) => println!("{system:<15} not possible: {error}"),
            }
            // So that dozens of filled arrays are not kept.
            stand.forget(system);
        }
        Ok(())
    }

    pub fn stand(&self, fill: Fill, trim: Trim) -> Result<Stand, String> {
        let shape = Shape {
            volume_percent: self.fill_percent.clamp(1, 95),
            ..Shape::new(crate::tail::width(self.drives))
        };
        let least = self.preset.sizes().0;
        let drive_bytes = self.drive_gib.map_or(least, |gib| gib << 30);
        let (preset, drives, seed) = (self.preset, self.drives, self.seed);
        let shelf = Shelf { fill, trim, ..Shelf::solid(preset, drive_bytes, drives, seed) };
        let stand = Stand::on(shelf, &shape)?;
        if let Some(mib) = self.nvram_mib {
            stand.nvram_bytes.set(Some(mib << 20));
        }
        Ok(stand)
    }

    fn recorded(&self) -> Result<Option<Recorded>, String> {
        self.trace.as_ref().map(|path| Recorded::read(path, self.times)).transpose()
    }

    /// Of a trace that is shorter only that.
    fn span(&self, recorded: Option<&Recorded>) -> Span {
        let warmup = Nanos::from_secs(self.warmup);
        let mut measured = Nanos::from_secs(self.seconds);
        if let Some(recorded) = recorded {
            measured = measured.min(Nanos(recorded.length().saturating_sub(warmup).0 + 1));
        }
        Span { warmup, measured }
    }

    fn loads(&self, size: u64, recorded: Option<&Recorded>) -> Result<Vec<Played>, String> {
        if let Some(recorded) = recorded {
            return Ok(vec![Played::Recorded(recorded.within(size))]);
        }
        if let Some(name) = &self.workload {
            let workload = verbs::workload(name, self.times as f64)?;
            return Ok(vec![Played::Made(Made::new(workload, (0, size), self.seed))]);
        }
        if self.mix {
            let part = (size / MIX.len() as u64) >> 20 << 20;
            let stream = |(at, trace): (u64, &crate::array::traces::Trace)| {
                Played::Stream(trace.times(self.times).stream(part * at, part, self.seed + at))
            };
            return Ok((0..).zip(&MIX).map(stream).collect());
        }
        let bytes = self.kib << 10;
        Ok(vec![Played::Stream(Stream {
            arrivals: if self.bursty { Arrivals::Bursty } else { Arrivals::Poisson },
            rate: self.rate,
            read_percent: self.read_percent,
            reads: Sizes::one(bytes),
            writes: Sizes::one(bytes),
            first: 0,
            span: size / bytes * bytes,
            seed: self.seed,
        })])
    }

    fn title(&self, trim: Trim, recorded: Option<&Recorded>) -> String {
        let load = match (&self.trace, self.mix) {
            _ if self.workload.is_some() => {
                format!("{} x{}", self.workload.as_deref().unwrap_or_default(), self.times)
            }
            (Some(path), _) => {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                format!("{name} x{}", self.times)
            }
            (None, true) => format!("TPC-C + YCSB-A + TF + VD x{}", self.times),
            (None, false) => format!(
                "{} KiB, {} % reads, {}/s ({})",
                self.kib,
                self.read_percent,
                self.rate,
                if self.bursty { Arrivals::Bursty } else { Arrivals::Poisson }
            ),
        };
        let seconds = self.span(recorded).measured.0 as f64 / 1e9;
        let (drives, preset, seed) = (self.drives, self.preset, self.seed);
        format!("{drives} drives, aged {preset}, {trim}, {load}, {seconds:.0} s, seed {seed}")
    }

    /// One system in a world of its own: the same options give the same outcome.
    pub fn measure(
        &self,
        stand: &Stand,
        system: System,
        recorded: Option<&Recorded>,
    ) -> Result<Outcome, String> {
        let loads = |size| self.loads(size, recorded);
        measure(stand, system, self.seed, self.span(recorded), loads)
    }
}

/// One system in a world of its own, under the loads that an array of its size gets.
pub fn measure(
    stand: &Stand,
    system: System,
    seed: u64,
    span: Span,
    loads: impl FnOnce(u64) -> Result<Vec<Played>, String>,
) -> Result<Outcome, String> {
    let world = stand.of(system)?.wake(seed);
    world.env.block_on(async {
        let opened = stand.open(system, &world).await;
        let loads = loads(opened.array.size())?;
        let tally = Rc::new(RefCell::new(Tally::default()));
        let streams: Vec<_> = loads.iter().cloned().map(|load| (load, tally.clone())).collect();
        let before = RefCell::new(ModelCounters::default());
        play(&world, &opened.array, &streams, span, || {
            before.replace(world.counters());
        })
        .await;
        let tally = tally.take();
        Ok(Outcome {
            system,
            trim: stand.trim(),
            shape: opened.shape(),
            latencies: tally.all(),
            reads: tally.reads,
            writes: tally.writes,
            failed: tally.failed,
            user_bytes: loads.iter().map(|load| load.written(span)).sum(),
            drives: since(world.counters(), before.take()),
            counters: counters(&opened),
            trouble: opened.served.as_ref().and_then(|served| served.trouble()),
        })
    })
}

/// What matters of what the drives did meanwhile.
fn since(now: ModelCounters, before: ModelCounters) -> ModelCounters {
    ModelCounters {
        host_read_bytes: now.host_read_bytes - before.host_read_bytes,
        host_write_bytes: now.host_write_bytes - before.host_write_bytes,
        flash_write_bytes: now.flash_write_bytes - before.flash_write_bytes,
        moved_bytes: now.moved_bytes - before.moved_bytes,
        erases: now.erases - before.erases,
        collections: now.collections - before.collections,
        ..now
    }
}

/// The system's own, since it was opened.
pub fn counters(opened: &Opened) -> Vec<(&'static str, u64)> {
    if let Some(nv) = &opened.nv {
        let seen = nv.seen();
        return vec![
            ("written_bytes", seen.written_bytes),
            ("merged_bytes", seen.merged_bytes),
            ("flushed_bytes", seen.flushed_bytes),
            ("flushed_runs", seen.flushed_runs),
            ("flushed_stripes", seen.flushed_stripes),
            ("read_hits", seen.read_hits),
            ("waits", seen.waits),
        ];
    }
    if let Some(fusion) = &opened.fusion {
        let counters = fusion.pool.counters();
        return vec![
            ("redirected_writes", counters.redirected_writes),
            ("redirected_reads", counters.redirected_reads),
            ("hedged_reads", counters.hedged_reads),
            ("hedged_writes", counters.hedged_writes),
            ("hedge_wins", counters.hedge_wins),
            ("hedges_refused", counters.hedges_refused),
            ("reconstructed_reads", counters.reconstructed_reads),
            ("loads", counters.loads),
            ("conversions", counters.conversions),
            ("compacted_stripes", counters.compacted_stripes),
        ];
    }
    let mut counters = opened.served.as_ref().map_or_else(Vec::new, Served::counters);
    if let Some(looks) = &opened.looks {
        let looks = looks.get();
        counters.push(("collecting_permille", looks.collecting * 1000 / looks.drives.max(1)));
    }
    counters
}

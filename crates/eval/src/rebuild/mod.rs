//! `eval rebuild`: a drive is lost. How long until everything is as redundant as before, and what
//! requests notice of it (virtual time). `fusion` writes what was lost to spare blocks on all the
//! other drives; arrays in place fill a hot spare from one end to the other, as md does. Then what
//! GC-Steering's Figure 11 and LDM's Figure 8 (b) show.

mod case;
mod report;

use std::path::PathBuf;

use io::Nanos;
use model::presets::Preset;
use schemes::scheme::Scheme;
use schemes::scheme::steering::Staging;

use crate::array::System;
use crate::array::fusion::Shape;
use crate::array::layout::Variant;
use crate::array::prepare::TrimFlag;
use crate::array::stand::Stand;
use crate::array::world::Shelf;

pub use crate::array::served::Speed;
pub use case::{Case, Demand, Outcome, Times};
pub use report::Page;

#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    #[arg(long, default_value_t = 29)]
    pub drives: usize,
    #[arg(long, default_value_t = Preset::DcSata)]
    pub preset: Preset,
    /// The volume, in percent of what the array can hold; all of it is written
    #[arg(long, value_delimiter = ',', default_values_t = [30, 90])]
    pub fill_percents: Vec<u64>,
    #[arg(long, value_delimiter = ',', default_values = ["fusion", "raid5"])]
    pub systems: Vec<System>,
    /// Requests a second for each drive
    #[arg(long, default_value_t = 250)]
    pub rate: u64,
    /// KiB of a request
    #[arg(long, default_value_t = 16)]
    pub kib: u64,
    #[arg(long, default_value_t = 50)]
    pub read_percent: u64,
    /// MB a second that md fills a spare with at most (its sync_speed_max)
    #[arg(long, default_value_t = 200)]
    pub md_speed: u64,
    /// The product's own pace, too: beside requests it rests four fifths of the time
    #[arg(long)]
    pub product: bool,
    /// Seconds before the loss, and after the rebuild
    #[arg(long, default_value_t = 10)]
    pub seconds: u64,
    /// Seconds before anything is measured
    #[arg(long, default_value_t = 5)]
    pub warmup: u64,
    /// Of the experiments only these: drives, steering, ldm
    #[arg(long, value_delimiter = ',', default_values = ["drives", "steering", "ldm"])]
    pub parts: Vec<String>,
    #[command(flatten)]
    pub trim: TrimFlag,
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Fewer drives, less on them, shorter
    #[arg(long)]
    pub quick: bool,
    /// Writes the tables as Markdown
    #[arg(long)]
    pub markdown: Option<PathBuf>,
}

pub const MB: u64 = 1_000_000;
/// Drives of the arrays of GC-Steering's §IV.C, the spare among them.
pub const STEERING_DRIVES: usize = 6;
/// The fastest that md rebuilds there.
pub const STEERING_SPEED: Speed = Speed::AtMost(10 * MB);
/// Long enough to see what requests notice: at this speed the rest takes minutes and is the same.
const STEERING_SECONDS: u64 = 30;
/// Percent of each of six drives so that the others can take what a lost one held: one and a half
/// times a quarter of the rest, which is 27, and what labels and a log take (`schemes::scheme`).
const SPARED_PERCENT: u64 = 30;
/// The drive that is lost; any of the first would do.
pub const LOST: usize = 1;
/// Nothing takes longer.
const LONGEST: Nanos = Nanos::from_secs(3600);

pub fn run(options: &Options) -> Result<(), String> {
    let options = if options.quick { options.quicker() } else { options.clone() };
    let mut page = Page::default();
    for part in &options.parts {
        match part.as_str() {
            "drives" => options.many_drives(&mut page)?,
            "steering" => options.steering(&mut page)?,
            "ldm" => options.ldm(&mut page)?,
            other => return Err(format!("'{other}': know drives, steering, ldm")),
        }
    }
    match &options.markdown {
        Some(path) => std::fs::write(path, page.markdown())
            .map_err(|error| format!("{}: {error}", path.display())),
        None => Ok(()),
    }
}

/// Staging space in which the others can rebuild one of six drives of so many bytes.
pub fn spared(drive_bytes: u64) -> Staging {
    Staging::Reserved { bytes: drive_bytes / 100 * SPARED_PERCENT }
}

impl Options {
    fn quicker(&self) -> Options {
        Options { fill_percents: vec![4], seconds: 1, warmup: 1, ..self.clone() }
    }

    pub fn times(&self) -> Times {
        let seconds = Nanos::from_secs(self.seconds);
        let warmup = Nanos::from_secs(self.warmup);
        Times { warmup, before: seconds, during_max: LONGEST, after: seconds }
    }

    pub fn stand(&self, drives: usize, spares: usize, percent: u64) -> Result<Stand, String> {
        let width = crate::tail::width(drives);
        let shape = Shape { volume_percent: percent, ..Shape::new(width) };
        let (preset, seed) = (self.preset, self.seed);
        let solid = Shelf::solid(preset, preset.sizes().0, drives, seed);
        let shelf = Shelf { spares, trim: self.trim.trim(), ..solid };
        Stand::on(shelf, &shape)
    }

    pub fn case(&self, system: System, drives: usize, busy: bool) -> Case {
        let rate = if busy { self.rate * drives as u64 } else { 0 };
        let demand = Demand { rate, bytes: self.kib << 10, read_percent: self.read_percent };
        let speed = Speed::AtMost(self.md_speed * MB);
        Case { system, speed, lost: LOST, demand, times: self.times(), seed: self.seed }
    }

    /// One drive of many: spare space on all of them against a hot spare.
    fn many_drives(&self, page: &mut Page) -> Result<(), String> {
        for &percent in &self.fill_percents {
            let stand = self.stand(self.drives, 0, percent)?;
            page.begin(&format!(
                "{} drives of {} GiB, {}, {percent} % full, {} KiB, {} % reads, {}/s or nobody",
                self.drives,
                self.preset.sizes().0 >> 30,
                self.trim.trim(),
                self.kib,
                self.read_percent,
                self.rate * self.drives as u64
            ));
            for &system in &self.systems {
                for (speed, busy) in self.paces(system) {
                    let case = Case { speed, ..self.case(system, self.drives, busy) };
                    page.add(&case.run(&stand)?, self.preset.sizes().0);
                }
                stand.forget(system);
            }
        }
        Ok(())
    }

    /// How fast a system rebuilds, and whether beside requests.
    fn paces(&self, system: System) -> Vec<(Speed, bool)> {
        let md = Speed::AtMost(self.md_speed * MB);
        match system.spikes() {
            Some(_) => vec![(Speed::Product, false), (Speed::Product, true)],
            // Alone the product does as md does.
            None if self.product => vec![(md, false), (md, true), (Speed::Product, true)],
            None => vec![(md, false), (md, true)],
        }
    }

    /// GC-Steering Figure 11: mean response time while a drive is rebuilt, to that before. Arrays
    /// of five and a spare, but for those that rebuild into space of their own.
    fn steering(&self, page: &mut Page) -> Result<(), String> {
        const PUBLISHED: [(System, usize, &str); 5] = [
            (System::GcLocal, 1, "+45.6 %"),
            (System::GcGlobal, 1, "+47.3 %"),
            (System::SteeringOracle, 0, "-55.7 %"),
            (System::Scheme(Scheme::Steering, classical::WriteHole::Closed), 0, "-55.7 %"),
            (System::Fusion, 0, "-"),
        ];
        let percent = self.fill_percents[0];
        let mut stand = self.stand(STEERING_DRIVES, 0, percent)?;
        let staging = Some(spared(self.preset.sizes().0));
        stand.variant = Variant { staging, ..Variant::default() };
        let rate = self.rate * STEERING_DRIVES as u64;
        let trim = self.trim.trim();
        page.begin_steering(&format!(
            "{STEERING_DRIVES} drives, {trim}, {percent} % full, {rate}/s"
        ));
        for (system, spares, published) in PUBLISHED {
            stand.spares = spares;
            let mut case =
                Case { speed: STEERING_SPEED, ..self.case(system, STEERING_DRIVES, true) };
            case.times.during_max = Nanos::from_secs(STEERING_SECONDS);
            page.add_steering(&case.run(&stand)?, published);
            stand.forget(system);
        }
        Ok(())
    }

    /// LDM Figure 8 (b): how long it takes, to the array of four.
    fn ldm(&self, page: &mut Page) -> Result<(), String> {
        let closed = |scheme| System::Scheme(scheme, classical::WriteHole::Closed);
        let arrays = [
            ("4-RAIS5", closed(Scheme::Raid5), 4, 1),
            ("6-RAIS5", closed(Scheme::Raid5), 6, 1),
            ("HPDA", closed(Scheme::Hpda), 6, 1),
            ("S-LDM", closed(Scheme::LogMirror), 6, 1),
            ("-", System::Fusion, 6, 0),
        ];
        let percent = self.fill_percents[0];
        let rate = self.rate * 4;
        page.begin_ldm(&format!("drives {}, {percent} % full, {rate}/s", self.trim.trim()));
        for (published, system, drives, spares) in arrays {
            let stand = self.stand(drives + spares, spares, percent)?;
            let mut case = self.case(system, drives, true);
            case.demand.rate = rate;
            page.add_ldm(published, &case.run(&stand)?);
        }
        Ok(())
    }
}

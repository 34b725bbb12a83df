//! The verbs of `eval trace` that make workloads.

use std::io::Write;
use std::path::{Path, PathBuf};

use io::Nanos;
use serde_json::json;

use super::fit::{self, Fitter};
use super::presets::{self, PRESETS};
use super::{Workload, majority};
use crate::trace::forms;
use crate::trace::packed::Packer;
use crate::trace::reader::Reading;
use crate::trace::transform::Transform;

#[derive(clap::Args, Clone, Debug)]
pub struct Generate {
    /// A preset (`eval trace presets`), or a file that `eval trace fit` wrote
    pub workload: String,
    #[arg(long, default_value_t = 60.0)]
    pub seconds: f64,
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// So many times as fast
    #[arg(long, default_value_t = 1.0)]
    pub times: f64,
    /// Where to; compressed if it ends in .zst; the standard output if not given
    #[arg(long, short)]
    pub output: Option<PathBuf>,
}

#[derive(clap::Args, Clone, Debug)]
pub struct Fitting {
    /// A trace; - is the standard input
    pub file: PathBuf,
    /// Where the parameters go, JSON; the standard output if not given
    #[arg(long, short)]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub reading: Reading,
    #[command(flatten)]
    pub transform: Transform,
}

#[derive(clap::Args, Clone, Debug)]
pub struct Majority {
    #[arg(long, default_value_t = 100)]
    pub seconds: u64,
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Each of the 28 pairs
    #[arg(long)]
    pub pairs: bool,
}

#[derive(clap::Args, Clone, Debug)]
pub struct Presets {
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    #[arg(long)]
    pub json: bool,
}

/// By name, or from a file of parameters; so many times as fast.
pub fn workload(name: &str, times: f64) -> Result<Workload, String> {
    let workload = match presets::find(name) {
        Some(preset) => preset.workload(),
        None => read(name)?,
    };
    let workload = workload.times(times);
    match workload.problem() {
        Some(problem) => Err(format!("{name}: {problem}")),
        None => Ok(workload),
    }
}

fn read(name: &str) -> Result<Workload, String> {
    if !Path::new(name).exists() {
        let names: Vec<&str> = PRESETS.iter().map(|preset| preset.name).collect();
        return Err(format!("{name} is no file and no preset; those are {}", names.join(", ")));
    }
    let text = std::fs::read_to_string(name).map_err(|error| format!("{name}: {error}"))?;
    serde_json::from_str(&text).map_err(|error| format!("{name}: {error}"))
}

impl Generate {
    pub fn run(&self) -> Result<(), String> {
        if !(self.times > 0.0 && self.seconds >= 0.0) {
            return Err("times and seconds are positive".to_owned());
        }
        let wrong = |error: std::io::Error| format!("writing: {error}");
        let workload = workload(&self.workload, self.times)?;
        let mut out = Packer::create(self.output.as_deref()).map_err(wrong)?;
        writeln!(out, "{}", forms::HEADER).map_err(wrong)?;
        for record in workload.during(Nanos((self.seconds * 1e9) as u64), self.seed) {
            forms::write_plain(&mut out, &record, false).map_err(wrong)?;
        }
        out.finish().map_err(wrong)
    }
}

impl Fitting {
    pub fn run(&self) -> Result<(), String> {
        let mut fitter = Fitter::default();
        let each = |record: &_| {
            fitter.add(record);
            Ok(())
        };
        let (_, seen) = crate::trace::for_each(&self.file, &self.reading, &self.transform, each)?;
        if seen.devices.len() > 1 && !self.transform.is_one_device() {
            eprintln!("its {} devices are taken for one (--devices)", seen.devices.len());
        }
        let name = self.file.file_name().unwrap_or_default().to_string_lossy();
        let fit = fitter.finish(&name)?;
        let made = fit.made(2);
        eprintln!("{:<24} {:>12} {:>12}", "", "trace", "made");
        for (what, wanted, made, bound) in fit::compare(&fit.wanted, &made) {
            let off = if bound.holds(wanted, made) { "" } else { "  far off" };
            eprintln!("{what:<24} {wanted:>12.4} {made:>12.4}{off}");
        }
        let text = serde_json::to_string_pretty(&fit.workload).expect("parameters are JSON");
        match &self.output {
            Some(path) => {
                std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
            }
            None => {
                println!("{text}");
                Ok(())
            }
        }
    }
}

impl Majority {
    pub fn run(&self) {
        let outcome = majority::measure(self.seconds.max(1), self.seed);
        println!("complementary slots of 1 ms, {} s, seed {}", self.seconds, self.seed);
        println!("{:<32} {:>7} {:>7} {:>14}", "mix", "paper", "ours", "of busy slots");
        let percent = |part: f64| format!("{:.1} %", part * 100.0);
        for (what, paper, ours) in &outcome.rows {
            let (paper, all, busy) = (percent(*paper), percent(ours.of_all), percent(ours.of_busy));
            println!("{what:<32} {paper:>7} {all:>7} {busy:>14}");
        }
        println!("{:<32} {:>7} {:>7}", "pairs over one half, of 28", 25, outcome.over_half);
        if self.pairs {
            for (a, b, share) in &outcome.pairs {
                println!(
                    "{a:<16} {b:<16} {:>7} {:>7}",
                    percent(share.of_all),
                    percent(share.of_busy)
                );
            }
        }
    }
}

impl Presets {
    pub fn run(&self) {
        let mut all = Vec::new();
        if !self.json {
            println!(
                "{:<16} {:<20} {:<12} {:>9} {:>9}",
                "preset", "paper", "figure", "paper's", "ours"
            );
        }
        for preset in &PRESETS {
            let rows = preset.compare(&preset.measure(self.seed));
            if !self.json {
                for (what, paper, ours) in &rows {
                    let (name, source) = (preset.name, preset.paper.name());
                    println!("{name:<16} {source:<20} {what:<12} {paper:>9.3} {ours:>9.3}");
                }
            }
            all.push(json!({ "name": preset.name, "paper": preset.paper, "figures": rows }));
        }
        if self.json {
            println!("{}", serde_json::to_string_pretty(&all).expect("figures are JSON"));
        }
    }
}

//! `eval trace`: traces of block requests, read, measured, changed, made.
//!
//! ```text
//!   file -> Reader -> Changer -> Meter      `info`: what it is like
//!                             -> plain form `convert`
//! ```
//! All of it independent of the arrays, and one request at a time.

pub mod figures;
pub mod forms;
mod lines;
mod number;
mod order;
pub mod packed;
pub mod reader;
pub mod record;
mod report;
#[cfg(test)]
mod tests;
pub mod transform;

use std::io::Write;
use std::path::{Path, PathBuf};

use self::figures::{Figures, Meter};
use self::forms::Form;
use self::packed::Packer;
use self::reader::{Reader, Reading, Seen};
use self::record::Record;
use self::transform::{Changer, Transform};
use crate::workload::verbs;

#[derive(clap::Subcommand, Clone, Debug)]
pub enum Verb {
    /// What traces are like: the figures of the papers' tables, bursts, footprint, updates, skew
    Info(Info),
    /// A trace in the plain form: timestamp_us,op,offset_bytes,size_bytes
    Convert(Convert),
    /// Requests of a preset or of fitted parameters, in the plain form
    Generate(verbs::Generate),
    /// The parameters that make a workload like a trace, and how like it is
    Fit(verbs::Fitting),
    /// What the papers print of their traces, and what the presets have
    Presets(verbs::Presets),
    /// FusionRAID's majority ratio of mixes of its workloads
    Majority(verbs::Majority),
}

#[derive(clap::Args, Clone, Debug)]
pub struct Info {
    /// Traces, plain or compressed (gz, zst, xz); - is the standard input
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    #[command(flatten)]
    pub reading: Reading,
    #[command(flatten)]
    pub transform: Transform,
    /// All figures as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(clap::Args, Clone, Debug)]
pub struct Convert {
    /// A trace; - is the standard input
    pub file: PathBuf,
    /// Where to; compressed if it ends in .zst; the standard output if not given
    #[arg(long, short)]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub reading: Reading,
    #[command(flatten)]
    pub transform: Transform,
}

pub fn run(verb: &Verb) -> Result<(), String> {
    match verb {
        Verb::Info(info) => info.run(),
        Verb::Convert(convert) => convert.run(),
        Verb::Generate(generate) => generate.run(),
        Verb::Fit(fitting) => fitting.run(),
        Verb::Presets(presets) => {
            presets.run();
            Ok(())
        }
        Verb::Majority(majority) => {
            majority.run();
            Ok(())
        }
    }
}

/// A word to who waits, each so many requests.
const PROGRESS: u64 = 5_000_000;

/// A file, read and changed.
pub fn for_each(
    path: &Path,
    reading: &Reading,
    transform: &Transform,
    mut each: impl FnMut(&Record) -> Result<(), String>,
) -> Result<(Form, Seen), String> {
    let named = |what: String| format!("{}: {what}", path.display());
    let mut reader = Reader::open(path, reading).map_err(|error| named(error.to_string()))?;
    let mut changer = Changer::new(transform)?;
    let mut changed = Vec::new();
    let mut count = 0u64;
    for record in reader.by_ref() {
        let record = record.map_err(|error| named(error.to_string()))?;
        if changer.is_over(record.at) {
            break;
        }
        changed.clear();
        changer.change(record, &mut changed).map_err(named)?;
        changed.iter().try_for_each(&mut each)?;
        count += 1;
        if count.is_multiple_of(PROGRESS) {
            eprintln!("{}: {} million requests", path.display(), count / 1_000_000);
        }
    }
    Ok((reader.form(), reader.seen()))
}

/// What is measured of a file.
pub struct Measured {
    pub file: String,
    pub form: Form,
    pub seen: Seen,
    pub figures: Figures,
}

impl Info {
    fn measure(&self, path: &Path) -> Result<Measured, String> {
        let mut meter = Meter::default();
        let (form, seen) = for_each(path, &self.reading, &self.transform, |record| {
            meter.add(record);
            Ok(())
        })?;
        let file = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        Ok(Measured { file, form, seen, figures: meter.finish() })
    }

    fn run(&self) -> Result<(), String> {
        let mut all = Vec::new();
        for path in &self.files {
            let measured = self.measure(path)?;
            if !self.json {
                print!("{}", report::text(&measured));
            }
            all.push(measured);
        }
        if self.json {
            println!("{}", report::json(&all));
        } else if all.len() > 1 {
            print!("{}", report::table(&all));
        }
        Ok(())
    }
}

impl Convert {
    fn run(&self) -> Result<(), String> {
        let wrong = |error: std::io::Error| format!("writing: {error}");
        let mut out = Packer::create(self.output.as_deref()).map_err(wrong)?;
        let devices = !self.transform.is_one_device();
        let header = if devices { forms::HEADER_DEVICES } else { forms::HEADER };
        writeln!(out, "{header}").map_err(wrong)?;
        let (form, seen) = for_each(&self.file, &self.reading, &self.transform, |record| {
            forms::write_plain(&mut out, record, devices).map_err(wrong)
        })?;
        out.finish().map_err(wrong)?;
        eprint!("{}", report::seen(form, &seen));
        Ok(())
    }
}

//! `drive`: one modelled drive under a workload, in virtual time; every latency is kept.
//!
//! ```text
//! workload ──> probe ──> record ──> spikes, summary (table, JSON), picture (SVG)
//!                │ ^
//!                v │
//!               model
//! ```

mod args;
pub mod gallery;
pub mod picture;
pub mod probe;
pub mod spikes;
pub mod summary;
pub mod workload;

use std::path::Path;

use clap::Parser;
use io::model::Model;
use model::presets::Preset;
use model::ssd::Ssd;

pub use args::DriveArgs;
use picture::Window;
use probe::Record;
use summary::Summary;
use workload::Pattern;

/// Runs what was asked for and prints it.
pub fn run(args: &DriveArgs) -> Result<(), String> {
    if let Some(directory) = &args.all_pictures {
        return gallery::draw_all(directory);
    }
    let record = record(args)?;
    let summary = Summary::of(&record, spikes::Rule::default());
    if args.json {
        let json = serde_json::to_string_pretty(&summary).map_err(|error| error.to_string())?;
        println!("{json}");
    } else {
        println!("{}\n{}", title(args), summary.table());
    }
    match &args.picture {
        Some(file) => save(file, &record, args),
        None => Ok(()),
    }
}

#[derive(Parser)]
#[command(no_binary_name = true)]
struct Line {
    #[command(flatten)]
    args: DriveArgs,
}

/// The arguments of a command line, without the name of the program.
pub fn parse(line: &str) -> Result<DriveArgs, String> {
    let line = Line::try_parse_from(line.split_whitespace());
    line.map(|line| line.args).map_err(|error| error.to_string())
}

/// The figures that a command line shows.
pub fn measure(line: &str) -> Result<Summary, String> {
    Ok(Summary::of(&record(&parse(line)?)?, spikes::Rule::default()))
}

/// Runs the workload of `args` on its drive.
pub fn record(args: &DriveArgs) -> Result<Record, String> {
    let preset = args.preset.ok_or("name a drive: --help lists them")?;
    let mut model = build(args, preset)?;
    let workload = args.workload(model.geometry().size)?;
    probe::run(model.as_mut(), workload, args.seed, args.spans()?)
}

fn build(args: &DriveArgs, preset: Preset) -> Result<Box<dyn Model>, String> {
    let size = args.size(preset);
    if !args.adjusts() {
        return preset.build(size, args.fill, args.seed);
    }
    let mut config = preset.ssd_config(size).ok_or("--gc and --op are for SSDs")?;
    config.fill = args.fill;
    args.adjust(&mut config);
    let ssd = Ssd::new(config, args.seed).map_err(|error| error.to_string())?;
    Ok(Box::new(ssd))
}

fn title(args: &DriveArgs) -> String {
    let preset = args.preset.map(|preset| preset.to_string()).unwrap_or_default();
    let fill = format!("{:?}", args.fill).to_lowercase();
    let load = match args.rate {
        Some(rate) => match args.burst {
            Some(burst) => format!("{rate} a second in bursts of {burst}"),
            None => format!("{rate} a second"),
        },
        None => format!("depth {}", args.depth),
    };
    if args.workload == Pattern::Fusion {
        return format!("{preset}, {fill}: FusionRAID's evaluation load");
    }
    if let Pattern::Pool { .. } = args.workload {
        return format!("{preset}, {fill}: {} of 4, 16 and 64 KiB, {load}", args.workload);
    }
    let request = args.request >> 10;
    format!("{preset}, {fill}: {} of {request} KiB, {load}", args.workload)
}

fn save(file: &Path, record: &Record, args: &DriveArgs) -> Result<(), String> {
    let window = Window { begin_seconds: 0.0, end_seconds: args.seconds };
    let svg = picture::draw(record, window, &title(args));
    std::fs::write(file, svg).map_err(|error| format!("{}: {error}", file.display()))
}

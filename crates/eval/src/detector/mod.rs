//! `eval detector`: the spike detector against an oracle that knows when the drive collects
//! garbage (FusionRAID §4.3). Virtual time: exact, the same on every machine.
//!
//! ```text
//!   scene ──> modelled drives ──> traces ──┬─> oracle: slow requests, spikes ──┐
//!                                          └─> replay of the detector ─────────┴─> score ─> table
//! ```
//!
//! The oracle's *spike* is that of DRIVES.md: a request is slow if it takes more than 3 times the
//! median of its kind and more than 1 ms, which makes the time from its dispatch to its
//! completion slow; slow stretches less than 1 ms apart are one spike. It is a *GC spike* if the
//! drive collects garbage meanwhile. A collection that slows nobody is no spike.

mod grid;
mod replay;
mod score;
mod stalls;
mod table;
#[cfg(test)]
mod tests;
mod trace;

use std::path::PathBuf;

use score::Score;
use serde::Serialize;
use table::{Row, SceneRow};
use trace::{Class, DriveTrace, Extent, SCENES, Scene};

#[derive(clap::Args)]
pub struct Options {
    /// Two drives for 10 seconds each instead of four for 60 (5 times that if requests are few)
    #[arg(long)]
    quick: bool,
    /// Drives of each scene
    #[arg(long)]
    drives: Option<u64>,
    /// Seconds of each data-centre drive, in its own time; of others 5 times that
    #[arg(long)]
    seconds: Option<u64>,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Each scene by itself too
    #[arg(long)]
    scenes: bool,
    /// All figures, those of each scene included
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Default, Serialize)]
struct Report {
    scenes: Vec<SceneRow>,
    rows: Vec<Row>,
}

pub fn run(options: &Options) -> Result<(), String> {
    let (drives, seconds) = if options.quick { (2, 10) } else { (4, 60) };
    let extent = Extent {
        drives: options.drives.unwrap_or(drives).max(1),
        seconds: options.seconds.unwrap_or(seconds).max(1),
        seed: options.seed,
    };
    let mut report = Report::default();
    for class in Class::ALL {
        measure(class, extent, options.scenes, &mut report)?;
    }
    if let Some(file) = &options.json {
        let json = serde_json::to_string_pretty(&report).map_err(|error| error.to_string())?;
        std::fs::write(file, json).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    Ok(())
}

/// All settings over all scenes of a class; prints as it goes.
fn measure(class: Class, extent: Extent, each: bool, report: &mut Report) -> Result<(), String> {
    let extent = Extent { seconds: extent.seconds * class.patience(), ..extent };
    let Extent { drives, seconds, seed } = extent;
    println!("{}: {drives} drives of each, {seconds} s, seed {seed}\n", class.name());
    println!("{}", SceneRow::heading());
    let mut traces: Vec<(&Scene, Vec<DriveTrace>)> = Vec::new();
    for scene in SCENES.iter().filter(|scene| scene.class == class) {
        let drives = trace::record(scene, extent)?;
        let row = SceneRow::of(scene, &drives);
        println!("{}", row.line());
        report.scenes.push(row);
        traces.push((scene, drives));
    }
    println!();
    for section in grid::sections(class) {
        println!("{}: {}\n{}", class.name(), section.name, Row::heading());
        for settings in &section.settings {
            let mut all = Score::default();
            let mut rows = Vec::new();
            for (scene, drives) in &traces {
                let score = Score::of(drives, &replay::replay(drives, *settings));
                rows.push(Row::of(class.name(), scene.name(), section.name, settings, &score));
                all.add(&score);
            }
            let row = Row::of(class.name(), "all".into(), section.name, settings, &all);
            println!("{}", row.line());
            if each {
                rows.iter().for_each(|row| println!("{}  {}", row.line(), row.scene));
            }
            report.rows.push(row);
            report.rows.append(&mut rows);
        }
        println!();
    }
    Ok(())
}

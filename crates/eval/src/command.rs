//! The verbs of the papers' experiments: what there is, run it, report it, compare two runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread::available_parallelism;

use clap::Args;
use clap::builder::RangedU64ValueParser;

use crate::experiment::folder::{Folder, FolderError, Made, Results};
use crate::experiment::raster::Font;
use crate::experiment::sampled::{self, Samples};
use crate::experiment::{
    Experiment, LoadSeed, Scale, compare as changes, costs, page, run as runner, summary,
};
use crate::papers;
use crate::why;

#[derive(Args)]
pub struct ListOptions {
    /// Names, or their beginnings with a '*'; all without any
    names: Vec<String>,
    /// What they cost at the quick scale
    #[arg(long)]
    quick: bool,
    /// The runs they are made of, a line each: name, a tab, seconds of a core
    #[arg(long)]
    cells: bool,
    /// What runs in a folder of results took, beside what they were said to
    #[arg(long, conflicts_with = "cells", value_name = "DIR")]
    costs: Option<PathBuf>,
}

#[derive(Args)]
pub struct RunOptions {
    /// Experiments by name, or by their beginning: 'ldm-*'
    #[arg(required_unless_present_any = ["all", "cell"], value_name = "NAME")]
    names: Vec<String>,
    /// Every experiment there is
    #[arg(long, conflicts_with = "names")]
    all: bool,
    /// A smaller version of each: everything takes minutes instead of hours
    #[arg(long)]
    quick: bool,
    /// Threads; as many as there are cores unless said otherwise
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: Option<u16>,
    /// Where results go
    #[arg(long, default_value = "results", value_name = "DIR")]
    out: PathBuf,
    /// Run again what is there already
    #[arg(long)]
    fresh: bool,
    /// Writes the short text that is committed here, too
    #[arg(long, value_name = "FILE", conflicts_with = "cell")]
    summary: Option<PathBuf>,
    /// Only this run of an experiment ('list --cells' names them), without a report
    #[arg(long, conflicts_with_all = ["names", "all"], value_name = "CELL")]
    cell: Option<String>,
    /// With --cell: under this sample of its load; 1 is that of the reports
    #[arg(long, requires = "cell", value_name = "N", value_parser = seed_range())]
    seed: Option<u64>,
    /// With --cell: under the first N samples of its load, and the median of each figure
    #[arg(long, requires = "cell", conflicts_with = "seed", value_name = "N",
          value_parser = samples_range())]
    seeds: Option<u64>,
    /// With --cell: why its slowest requests were slow; each of them is a line of DIR/why/CELL.csv
    #[arg(long, requires = "cell")]
    why: bool,
    /// Which requests are explained: those above this quantile
    #[arg(long, default_value_t = 0.99, requires = "why", value_parser = why::quantile)]
    why_above: f64,
}

fn seed_range() -> RangedU64ValueParser {
    RangedU64ValueParser::new().range(1..)
}

/// More would run for hours, and say no more.
fn samples_range() -> RangedU64ValueParser {
    RangedU64ValueParser::new().range(1..=100)
}

impl RunOptions {
    fn samples(&self) -> Option<Samples> {
        let one = self.seed.map(|seed| Samples::One(LoadSeed(seed)));
        one.or(self.seeds.map(Samples::First))
    }
}

#[derive(Args)]
pub struct ReportOptions {
    /// Results of runs, maybe put together from several machines
    dir: PathBuf,
    /// Experiments by name; all without any
    names: Vec<String>,
    /// They were run at the quick scale
    #[arg(long)]
    quick: bool,
    /// Writes the short text that is committed here, too
    #[arg(long, value_name = "FILE")]
    summary: Option<PathBuf>,
}

#[derive(Args)]
pub struct CompareOptions {
    /// A folder of results
    before: PathBuf,
    /// Another
    after: PathBuf,
    /// Differences up to this many percent are not told
    #[arg(long, default_value_t = 0.0)]
    tolerance: f64,
    #[arg(long)]
    json: bool,
}

fn scale(quick: bool) -> Scale {
    if quick { Scale::Quick } else { Scale::Full }
}

fn chosen(names: &[String]) -> Result<Vec<Experiment>, String> {
    if names.is_empty() { Ok(papers::all()) } else { papers::named(names) }
}

fn told(error: FolderError) -> String {
    error.to_string()
}

pub fn list(options: &ListOptions) -> Result<(), String> {
    let experiments = chosen(&options.names)?;
    let scale = scale(options.quick);
    if options.cells {
        let all: Vec<&Experiment> = experiments.iter().collect();
        for cell in runner::plan(&all, scale) {
            println!("{}\t{:.0}", cell.name, cell.cost.ceil());
        }
        return Ok(());
    }
    if let Some(dir) = &options.costs {
        return taken(&experiments, scale, dir);
    }
    println!("{:<24} {:>5} {:>9}  title", "name", "cells", "core s");
    for experiment in &experiments {
        let cells = runner::plan(&[experiment], scale);
        let (count, cost) = (cells.len(), runner::cost(&cells));
        println!("{:<24} {count:>5} {cost:>9.0}  {}", experiment.name, experiment.title);
    }
    let all: Vec<&Experiment> = experiments.iter().collect();
    let cost = runner::cost(&runner::plan(&all, scale));
    println!("together {cost:.0} s of a core; runs that several look at are done once");
    Ok(())
}

fn taken(experiments: &[Experiment], scale: Scale, dir: &Path) -> Result<(), String> {
    let cells = runner::plan(&experiments.iter().collect::<Vec<_>>(), scale);
    let costs = costs::costs(&cells, &there(dir)?).map_err(told)?;
    print!("{}", costs::human(&costs, cells.len()));
    Ok(())
}

/// A folder that is not made for asking.
fn there(dir: &Path) -> Result<Folder, String> {
    if !dir.is_dir() {
        return Err(format!("{}: no folder of results", dir.display()));
    }
    Folder::new(dir).map_err(told)
}

pub fn run(options: &RunOptions) -> Result<(), String> {
    let scale = scale(options.quick);
    let folder = Folder::new(&options.out).map_err(told)?;
    if let Some(name) = &options.cell {
        let quantile = options.why.then_some(options.why_above);
        let run = || cell(name, scale, &folder, options.samples());
        let (done, reports) = why::explained(quantile, run);
        let explained = options.out.join("why");
        why::tell(&reports, Some(&explained), &name.replace('/', "~"))?;
        return done;
    }
    let experiments = chosen(&options.names)?;
    let all: Vec<&Experiment> = experiments.iter().collect();
    let cells = runner::plan(&all, scale);
    let cores = available_parallelism().map_or(1, usize::from);
    let jobs = options.jobs.map_or(cores, usize::from);
    let failed = runner::all(&cells, &folder, jobs, options.fresh).map_err(told)?;
    let results = write_report(&all, scale, &folder, &options.names)?;
    write_summary(&results, options.summary.as_deref())?;
    println!("{}", options.out.join("report.html").display());
    match failed {
        0 => Ok(()),
        _ => Err(format!("{failed} of {} runs failed: the report says which and why", cells.len())),
    }
}

/// One cell, for who spreads the list over machines.
fn cell(name: &str, scale: Scale, folder: &Folder, samples: Option<Samples>) -> Result<(), String> {
    let experiments = papers::all();
    let all: Vec<&Experiment> = experiments.iter().collect();
    let cells = runner::plan(&all, scale);
    let cell = cells.iter().find(|cell| cell.name == name);
    let cell = cell.ok_or_else(|| {
        format!("there is no run '{name}': 'steadyraid-eval list --cells' names them all")
    })?;
    if let Some(samples) = samples {
        let sampled = sampled::sample(cell, &Made::here(), samples)?;
        folder.write(&sampled.done).map_err(told)?;
        println!("{} {:.1} s\n{}", sampled.done.cell, sampled.done.seconds, sampled.human());
        return Ok(());
    }
    let done = runner::one(cell, &Made::here(), LoadSeed::REPORTED);
    folder.write(&done).map_err(told)?;
    println!("{name} {:.1} s", done.seconds);
    done.error.map_or(Ok(()), |error| Err(format!("{name}: {error}")))
}

fn write_report(
    experiments: &[&Experiment],
    scale: Scale,
    folder: &Folder,
    names: &[String],
) -> Result<Results, String> {
    let what = if names.is_empty() { "--all".to_owned() } else { names.join(" ") };
    let quick = scale.pick(" --quick", "");
    let command = format!("steadyraid-eval run {what}{quick}");
    let results = runner::conclude(experiments, scale, folder, command).map_err(told)?;
    let json = serde_json::to_string_pretty(&results).expect("plain values") + "\n";
    let write = |name: &str, text: &str| folder.write_file(name, text.as_bytes()).map_err(told);
    write("results.json", &json)?;
    write("report.html", &page::page(&results))?;
    write("results.md", &summary::markdown(&results))?;
    draw(&results, folder)?;
    Ok(results)
}

/// Each picture by itself, as SVG and, if there is a font, as PNG.
fn draw(results: &Results, folder: &Folder) -> Result<(), String> {
    let font = Font::find();
    for experiment in &results.experiments {
        for picture in &experiment.conclusion.pictures {
            let name = format!("pictures/{}-{}", experiment.name, picture.name);
            let svg = picture.svg();
            folder.write_file(&format!("{name}.svg"), svg.as_bytes()).map_err(told)?;
            if let Ok(font) = &font {
                let png = picture.png(font);
                folder.write_file(&format!("{name}.png"), &png).map_err(told)?;
            }
        }
    }
    if let Err(error) = font {
        eprintln!("steadyraid-eval: pictures as SVG only: {error}");
    }
    Ok(())
}

fn write_summary(results: &Results, path: Option<&Path>) -> Result<(), String> {
    let Some(path) = path else { return Ok(()) };
    let written = fs::write(path, summary::markdown(results));
    written.map_err(|error| format!("{}: {error}", path.display()))
}

pub fn report(options: &ReportOptions) -> Result<(), String> {
    let experiments = chosen(&options.names)?;
    let all: Vec<&Experiment> = experiments.iter().collect();
    let folder = Folder::new(&options.dir).map_err(told)?;
    let results = write_report(&all, scale(options.quick), &folder, &options.names)?;
    write_summary(&results, options.summary.as_deref())?;
    let missing: usize = results.experiments.iter().map(|own| own.missing.len()).sum();
    println!("{}", options.dir.join("report.html").display());
    match missing {
        0 => Ok(()),
        _ => Err(format!("{missing} runs are not there: the report says which")),
    }
}

pub fn compare(options: &CompareOptions) -> Result<(), String> {
    let read = |path: &PathBuf| there(path)?.results().map_err(told);
    let (before, after) = (read(&options.before)?, read(&options.after)?);
    let tolerance = options.tolerance / 100.0;
    let (changed, all) = changes::changes(&before, &after, tolerance);
    if options.json {
        println!("{}", changes::json(&changed, all));
    } else {
        print!("{}", changes::human(&changed, all, tolerance));
    }
    Ok(())
}

//! `eval tail`: latency with one slow drive in the array, and without, in virtual time.
//!
//! Pools and classical arrays over the same modelled drives answer the same requests at the same
//! times; one drive is delayed, slow or hangs. What counts is how much that changes: the ratio
//! to the same system without the slow drive.

mod cell;
mod chart;
mod report;

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use io::Nanos;
use model::presets::Preset;

use crate::array::System;
use crate::array::fusion::Shape;
use crate::array::load::Arrivals;
use crate::array::prepare::{Trim, TrimChoice};
use crate::array::stand::Stand;

pub use cell::{Cell, Kind, Member, Outcome, Timing};
pub use report::{Bound, Table};

#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// Numbers of drives: 8 (stripes 5 wide) and 29 (7 wide)
    #[arg(long, value_delimiter = ',', default_values_t = [8, 29])]
    drives: Vec<usize>,
    /// read, write, mixed (70 % reads)
    #[arg(long, value_delimiter = ',', default_values_t = [Kind::Read, Kind::Write])]
    kinds: Vec<Kind>,
    /// KiB of a request
    #[arg(long, value_delimiter = ',', default_values_t = [4, 64])]
    kib: Vec<u64>,
    /// fine, 1ms, 10ms, 100ms, 10x, hang, hangs
    #[arg(long, value_delimiter = ',', default_values_t = Member::ALL)]
    members: Vec<Member>,
    /// Any that `eval systems` knows
    #[arg(long, value_delimiter = ',', default_values_t = System::USUAL)]
    systems: Vec<System>,
    /// Requests come in bursts
    #[arg(long)]
    bursty: bool,
    /// Drives of this kind; see DRIVES.md
    #[arg(long, default_value_t = Preset::DcSata)]
    preset: Preset,
    /// Whether drives were told what is free before arrays were made on them, as 'create' does
    #[arg(long, value_enum, default_value_t)]
    trimmed: TrimChoice,
    /// Seconds measured; by default as many as make 300,000 requests, 6 to 60
    #[arg(long)]
    seconds: Option<u64>,
    /// Seconds before that
    #[arg(long, default_value_t = 3)]
    warmup: u64,
    /// Requests a second; by default about a third of what the slowest system can do
    #[arg(long)]
    rate: Option<u64>,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The pool of 8 drives, 4 KiB, no bursts, fewer slow drives
    #[arg(long)]
    quick: bool,
    /// What the slowest 0.1 % waited for
    #[arg(long)]
    why: bool,
    /// Measures what the systems can do instead
    #[arg(long)]
    capacity: bool,
    /// Writes all figures as JSON
    #[arg(long)]
    json: Option<PathBuf>,
    /// Writes the tables as Markdown
    #[arg(long)]
    markdown: Option<PathBuf>,
    /// Writes the chart
    #[arg(long)]
    svg: Option<PathBuf>,
}

/// Thirty of so many are slower than p99.99.
const REQUESTS: u64 = 300_000;

/// Stripe width of a pool of so many drives: FusionRAID's 6+1, and 4+1 on few drives.
pub fn width(drives: usize) -> u16 {
    if drives < 14 { 5 } else { 7 }
}

pub fn run(options: &Options) -> Result<(), String> {
    let options = if options.quick { options.quicker() } else { options.clone() };
    let mut table = Table::default();
    for &drives in &options.drives {
        for &trim in options.trimmed.all() {
            options.array(drives, trim, &mut table)?;
        }
    }
    if options.capacity {
        return Ok(());
    }
    println!("\n{}", table.verdict());
    let save = |path: &Option<PathBuf>, text: String| match path {
        Some(path) => std::fs::write(path, text).map_err(|e| format!("{}: {e}", path.display())),
        None => Ok(()),
    };
    save(&options.json, table.json())?;
    save(&options.markdown, table.markdown())?;
    save(&options.svg, chart::draw(&table))
}

impl Options {
    fn quicker(&self) -> Options {
        let members = vec![Member::Fine, Member::Delayed(10), Member::Slow, Member::Hangs];
        Options { drives: vec![8], kib: vec![4], members, ..self.clone() }
    }

    /// All loads on arrays of so many drives.
    fn array(&self, drives: usize, trim: Trim, table: &mut Table) -> Result<(), String> {
        let (shape, size) = (Shape::new(width(drives)), self.preset.sizes().0);
        let stand = Stand::new(self.preset, size, drives, trim, &shape, self.seed)?;
        for &kind in &self.kinds {
            for &kib in &self.kib {
                let cell = Cell { trim, ..self.cell(drives, kind, kib) };
                match self.capacity {
                    true => cell::print_capacity(&stand, &cell, &self.systems)?,
                    false => self.measure(&stand, &cell, table)?,
                }
            }
        }
        Ok(())
    }

    fn cell(&self, drives: usize, kind: Kind, kib: u64) -> Cell {
        let rate = self.rate.unwrap_or_else(|| cell::moderate_rate(drives, kind, kib << 10));
        let seconds = self.seconds.unwrap_or((REQUESTS / rate.max(1)).clamp(6, 60));
        Cell {
            drives,
            trim: Trim::Trimmed,
            kind,
            bytes: kib << 10,
            arrivals: if self.bursty { Arrivals::Bursty } else { Arrivals::Poisson },
            rate,
            timing: Timing {
                warmup: Nanos::from_secs(self.warmup),
                measured: Nanos::from_secs(seconds),
            },
            member: Member::Fine,
            system: System::Fusion,
            seed: self.seed,
        }
    }

    fn measure(&self, stand: &Stand, cell: &Cell, table: &mut Table) -> Result<(), String> {
        println!("{}", table.heading(cell));
        for &system in &self.systems {
            for &member in &self.members {
                let outcome = Cell { system, member, ..*cell }.run(stand)?;
                println!("{}", table.add(&outcome));
                if self.why {
                    print!("{}", outcome.why());
                }
            }
        }
        Ok(())
    }
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&match self {
            Member::Fine => "fine".to_owned(),
            Member::Delayed(millis) => format!("{millis}ms"),
            Member::Slow => "10x".to_owned(),
            Member::Hang => "hang".to_owned(),
            Member::Hangs => "hangs".to_owned(),
        })
    }
}

impl FromStr for Member {
    type Err = String;

    fn from_str(text: &str) -> Result<Member, String> {
        let known = Member::ALL.into_iter().find(|member| member.to_string() == text);
        known.ok_or_else(|| format!("'{text}': know fine, 1ms, 10ms, 100ms, 10x, hang, hangs"))
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Kind::Read => "read",
            Kind::Write => "write",
            Kind::Mixed => "mixed",
        })
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Kind, String> {
        let known = [Kind::Read, Kind::Write, Kind::Mixed];
        let found = known.into_iter().find(|kind| kind.to_string() == text);
        found.ok_or_else(|| format!("'{text}': know read, write, mixed"))
    }
}

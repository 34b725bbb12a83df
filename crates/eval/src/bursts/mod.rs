//! `eval bursts`: reads beside bursts of large writes, and recorded traces, in virtual time.
//!
//! `fusion` and the arrays that an operator would take instead have the same part of the same aged
//! drives, and get the same requests at the same times. Every cell of a table says how far `fusion`
//! is from the best of the others, and what its slowest requests waited for where it is worse.

mod load;
mod report;

use std::path::{Path, PathBuf};

use model::presets::Preset;

use crate::array::System;
use crate::array::fusion::Shape;
use crate::array::prepare::{Trim, TrimChoice};
use crate::array::stand::Stand;
use crate::why;
use crate::{systems, tail};

use load::Kind;
pub use report::{Cell, Quantiles, Row, Table};

#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// What is compared; `fusion` with the best of the others
    #[arg(long, value_delimiter = ',', default_values_t = COMPARED)]
    systems: Vec<System>,
    /// Numbers of drives: 8 (stripes 5 wide) and 29 (7 wide)
    #[arg(long, value_delimiter = ',', default_values_t = [8, 29])]
    drives: Vec<usize>,
    /// Drives of these kinds; see DRIVES.md
    #[arg(long, value_delimiter = ',', default_values_t = [Preset::DcSata, Preset::DcNvme])]
    presets: Vec<Preset>,
    /// Whether drives were told what is free before arrays were made on them, as 'create' does
    #[arg(long, value_enum, default_value_t)]
    trimmed: TrimChoice,
    /// Milliseconds of a burst
    #[arg(long, value_delimiter = ',', default_values_t = [100, 2000])]
    bursts: Vec<u64>,
    /// Plays the traces in this folder instead, at their own rate and sped up; on the first number
    /// of drives and the first kind
    #[arg(long, value_name = "DIR")]
    traces: Option<PathBuf>,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// One short cell: 8 dc-sata drives that were told what is free, bursts of 100 ms
    #[arg(long)]
    quick: bool,
    /// Writes the tables as Markdown
    #[arg(long)]
    markdown: Option<PathBuf>,
}

/// `fusion`, and the redundant arrays that have no mechanism against spikes.
const COMPARED: [System; 4] = [System::Fusion, System::RAID10, System::RAID5, System::RAID50];

/// Which of `fusion`'s requests are explained where it is worse.
const EXPLAINED_ABOVE: f64 = 0.99;

pub fn run(options: &Options) -> Result<(), String> {
    let options = if options.quick { options.quicker() } else { options.clone() };
    let mut table = Table::default();
    match &options.traces {
        Some(folder) => options.traces(folder, &mut table)?,
        None => options.all_bursts(&mut table)?,
    }
    println!("\n{}", table.verdict());
    match &options.markdown {
        Some(path) => std::fs::write(path, table.markdown())
            .map_err(|error| format!("{}: {error}", path.display())),
        None => Ok(()),
    }
}

impl Options {
    fn quicker(&self) -> Options {
        let (presets, trimmed) = (vec![Preset::DcSata], TrimChoice::Yes);
        Options { drives: vec![8], presets, trimmed, bursts: vec![100], ..self.clone() }
    }

    fn all_bursts(&self, table: &mut Table) -> Result<(), String> {
        for &preset in &self.presets {
            for &drives in &self.drives {
                for &trim in self.trimmed.all() {
                    let stand = self.stand(preset, drives, trim)?;
                    let capacity = load::capacity(&stand, self.seed)?;
                    for &millis in &self.bursts {
                        let kind = Kind::bursts(millis, capacity, self.quick);
                        self.compare(&stand, Cell { preset, drives, trim, kind }, table)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn traces(&self, folder: &Path, table: &mut Table) -> Result<(), String> {
        let (preset, drives) = (self.presets[0], self.drives[0]);
        let recordings = load::recordings(folder)?;
        for &trim in self.trimmed.all() {
            let stand = self.stand(preset, drives, trim)?;
            for recording in &recordings {
                let own = Kind::Trace(recording.clone());
                self.compare(&stand, Cell { preset, drives, trim, kind: own }, table)?;
                if let Some(faster) = recording.sped_up(&stand, self.seed)? {
                    let kind = Kind::Trace(faster);
                    self.compare(&stand, Cell { preset, drives, trim, kind }, table)?;
                }
            }
        }
        Ok(())
    }

    fn stand(&self, preset: Preset, drives: usize, trim: Trim) -> Result<Stand, String> {
        let shape = Shape::new(tail::width(drives));
        Stand::new(preset, preset.sizes().0, drives, trim, &shape, self.seed)
    }

    /// One load on all systems.
    fn compare(&self, stand: &Stand, cell: Cell, table: &mut Table) -> Result<(), String> {
        println!("\n{cell}\n{}", report::heading());
        for &system in &self.systems {
            let row = self.measure(stand, &cell, system)?;
            println!("{}", row.text());
            table.add(&cell, row);
        }
        if table.is_worse() {
            let again = || self.measure(stand, &cell, System::Fusion);
            let (measured, reports) = why::explained(Some(EXPLAINED_ABOVE), again);
            measured?;
            println!("{}", table.explain(&reports));
        }
        Ok(())
    }

    fn measure(&self, stand: &Stand, cell: &Cell, system: System) -> Result<Row, String> {
        let loads = |size| Ok(cell.kind.loads(size, self.seed));
        let outcome = systems::measure(stand, system, self.seed, cell.kind.span(), loads)?;
        Ok(Row::of(&outcome))
    }
}

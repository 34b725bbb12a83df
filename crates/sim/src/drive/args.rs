//! The command line of the probe.

use std::path::PathBuf;

use clap::Args;
use io::env::Nanos;
use model::presets::Preset;
use model::ssd::{Config, Fill, Mode};

use super::probe::Span;
use super::workload::{FUSION_RATE, Load, Pattern, Workload};

/// A modelled drive under a workload: its latency as a table and as a picture
#[derive(Args, Clone, Debug)]
pub struct DriveArgs {
    /// consumer-sata, dc-sata, s4500, s4600, dc-nvme, ll-nvme, hdd-10k
    #[arg(required_unless_present = "all_pictures")]
    pub preset: Option<Preset>,
    /// seqwrite, seqread, randwrite, randread, mixed:READ_PERCENT, pool:READ_PERCENT, fusion
    #[arg(long, default_value = "randwrite")]
    pub workload: Pattern,
    /// Bytes of a request
    #[arg(long, default_value = "64K", value_parser = size)]
    pub request: u64,
    /// Requests under way at any time
    #[arg(long, default_value_t = 4, conflicts_with = "rate")]
    pub depth: usize,
    /// Requests a second, arriving at random (Poisson), instead of a depth
    #[arg(long)]
    pub rate: Option<f64>,
    /// They come in bursts of so many on average
    #[arg(long, requires = "rate")]
    pub burst: Option<u32>,
    /// The workload stays in the first so many bytes
    #[arg(long, value_parser = size)]
    pub span: Option<u64>,
    /// fresh (empty), written (once, in order) or aged (overwritten at random until steady)
    #[arg(long, default_value = "fresh", value_parser = fill)]
    pub fill: Fill,
    /// Capacity of the modelled drive
    #[arg(long, value_parser = size)]
    pub size: Option<u64>,
    /// Seconds that are measured, in the drive's time
    #[arg(long, default_value_t = 30.0)]
    pub seconds: f64,
    /// Seconds before that
    #[arg(long, default_value_t = 0.0)]
    pub warmup: f64,
    /// The drive's phase and age, and the order of the requests
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Garbage collection: blocking, preemptible, paced, idle; else the preset's
    #[arg(long, value_parser = mode)]
    pub gc: Option<Mode>,
    /// Over-provisioning in thousandths of the raw capacity; else the preset's
    #[arg(long)]
    pub op: Option<u32>,
    /// Figures as JSON
    #[arg(long)]
    pub json: bool,
    /// Draw latency over time into this file (SVG)
    #[arg(long, value_name = "FILE.svg")]
    pub picture: Option<PathBuf>,
    /// Draw the pictures of DRIVES.md into this directory; nothing else counts then
    #[arg(long, value_name = "DIR")]
    pub all_pictures: Option<PathBuf>,
}

impl DriveArgs {
    pub fn size(&self, preset: Preset) -> u64 {
        self.size.unwrap_or(preset.default_size())
    }

    /// The workload on a drive of `size` bytes.
    pub fn workload(&self, size: u64) -> Result<Workload, String> {
        let span = self.span.unwrap_or(size).min(size);
        let request = self.request;
        if request == 0 || !request.is_multiple_of(4096) || request > 16 << 20 || request > span {
            return Err(format!(
                "--request {request}: a multiple of 4 KiB, at most 16M and the span of {span}"
            ));
        }
        if self.pattern_needs_span() && span < 64 << 10 {
            return Err(format!("--span {span}: {} needs at least 64K", self.workload));
        }
        if !(1..=1024).contains(&self.depth) {
            return Err(format!("--depth {}: 1 to 1024", self.depth));
        }
        let rate = match (self.workload, self.rate) {
            (Pattern::Fusion, None) => Some(FUSION_RATE as f64),
            (_, rate) => rate,
        };
        let load = match rate {
            Some(rate) if !(0.001..=1e7).contains(&rate) => {
                return Err(format!("--rate {rate}: 0.001 to 10,000,000 requests a second"));
            }
            Some(rate) => match self.burst {
                Some(burst) if !(1..=10_000).contains(&burst) => {
                    return Err(format!("--burst {burst}: 1 to 10,000 requests"));
                }
                Some(burst) => Load::Bursts { rate, burst },
                None => Load::Open { rate },
            },
            None => Load::Closed { depth: self.depth },
        };
        Ok(Workload { pattern: self.workload, request, load, span })
    }

    fn pattern_needs_span(&self) -> bool {
        matches!(self.workload, Pattern::Fusion | Pattern::Pool { .. })
    }

    pub fn spans(&self) -> Result<Span, String> {
        // A week: what a longer run would show, nobody waits for.
        let good = |seconds: f64| (0.0..=604_800.0).contains(&seconds);
        if !good(self.warmup) || !good(self.seconds) || self.seconds < 0.001 {
            return Err("--seconds and --warmup: up to 604800, at least 0.001 measured".into());
        }
        let nanos = |seconds: f64| Nanos((seconds * 1e9) as u64);
        Ok(Span { warmup: nanos(self.warmup), measured: nanos(self.seconds) })
    }

    /// Applies what was given instead of the preset's own.
    pub fn adjust(&self, config: &mut Config) {
        if let Some(mode) = self.gc {
            config.collection.mode = mode;
            if mode == Mode::Blocking {
                // One superblock at a time: the shortest stops there can be.
                config.collection.high = config.collection.low + 1;
            }
        }
        if let Some(permille) = self.op {
            config.over_provisioning_permille = permille;
            config.visible_bytes = None;
        }
    }

    pub fn adjusts(&self) -> bool {
        self.gc.is_some() || self.op.is_some()
    }
}

/// `4096`, `64K`, `8MiB`, `2G`: powers of 1024.
fn size(text: &str) -> Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit.to_ascii_uppercase().trim_end_matches("IB") {
        "" | "B" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return Err(format!("'{text}': write 4096, 64K, 8M, 2G")),
    };
    let number: u64 = number.parse().map_err(|_| format!("'{text}' is not a size"))?;
    number.checked_mul(1 << shift).ok_or_else(|| format!("{text}: too large"))
}

fn fill(text: &str) -> Result<Fill, String> {
    match text {
        "fresh" => Ok(Fill::Fresh),
        "written" => Ok(Fill::Written),
        "aged" => Ok(Fill::Aged),
        _ => Err(format!("'{text}': fresh, written or aged")),
    }
}

fn mode(text: &str) -> Result<Mode, String> {
    match text {
        "blocking" => Ok(Mode::Blocking),
        "preemptible" => Ok(Mode::Preemptible),
        "paced" => Ok(Mode::Paced { gain_percent: 100 }),
        "idle" => Ok(Mode::Idle),
        _ => Err(format!("'{text}': blocking, preemptible, paced or idle")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        let good = [("0", 0), ("4096", 4096), ("64K", 65_536), ("64KiB", 65_536), ("2g", 2 << 30)];
        for (text, bytes) in good {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in ["", "K", "-1", "1.5G", "64Q", "99999999999T"] {
            assert!(size(text).is_err(), "{text}");
        }
    }
}

//! Drives to choose from, calibrated to published figures. DRIVES.md compares them.
//!
//! Capacities are small (see [`Preset::default_size`]) so that a pool of 29 modelled drives fits
//! in memory. A smaller drive has *fewer superblocks*, nothing else: as many dies and channels,
//! the same times, buffer, watermarks and over-provisioning. So latencies, rates and the shape
//! and spacing of spikes keep their absolute scale; what shrinks with the capacity is how long
//! it takes to fill or to age the drive. What is kept free is a larger part of a small drive:
//! its write amplification is higher. The calibration holds for the default size.

mod disk;
mod nvme;
mod sata;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

use io::model::Model;

use crate::hdd::Hdd;
use crate::ssd::{Config, Fill, Ssd};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Preset {
    /// FusionRAID's drives A to D: volatile buffer flushed in bursts, blocking collection.
    ConsumerSata,
    /// FusionRAID's drive E (Intel D3-S4510, 240 GB): protected buffer, paced collection.
    DcSata,
    /// Intel S4500 and S4600: one drive, differently over-provisioned.
    S4500,
    S4600,
    /// Intel P4500, 1 TB.
    DcNvme,
    /// Samsung Z-NAND.
    LlNvme,
    /// Seagate Savvio 10K, 73 GB: LDM's log disks.
    Hdd10k,
}

impl Preset {
    pub const ALL: [Preset; 7] = [
        Preset::ConsumerSata,
        Preset::DcSata,
        Preset::S4500,
        Preset::S4600,
        Preset::DcNvme,
        Preset::LlNvme,
        Preset::Hdd10k,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Preset::ConsumerSata => "consumer-sata",
            Preset::DcSata => "dc-sata",
            Preset::S4500 => "s4500",
            Preset::S4600 => "s4600",
            Preset::DcNvme => "dc-nvme",
            Preset::LlNvme => "ll-nvme",
            Preset::Hdd10k => "hdd-10k",
        }
    }

    /// The capacity the calibration was made with: enough blocks for garbage collection to
    /// work as on the real drive.
    pub const fn default_size(self) -> u64 {
        match self {
            Preset::Hdd10k => 72 << 30,
            _ => 8 << 30,
        }
    }

    /// The least and the largest capacity that [`Preset::build`] takes. Below, the watermarks
    /// don't fit into the over-provisioned space; above, the map takes gigabytes.
    pub const fn sizes(self) -> (u64, u64) {
        match self {
            Preset::ConsumerSata => (5 << 30, 256 << 30),
            Preset::Hdd10k => (1 << 20, 1 << 40),
            _ => (3 << 30, 256 << 30),
        }
    }

    /// A drive of `size` bytes. The seed is its own: phase of the buffer and the platters, and
    /// how the data of an aged drive lies.
    pub fn build(self, size: u64, fill: Fill, seed: u64) -> Result<Box<dyn Model>, String> {
        self.check_size(size)?;
        match self.ssd_config(size) {
            Some(mut config) => {
                config.fill = fill;
                let ssd = Ssd::new(config, seed).map_err(|error| error.to_string())?;
                Ok(Box::new(ssd))
            }
            None => {
                let hdd = Hdd::new(disk::savvio(size), seed).map_err(|error| error.to_string())?;
                Ok(Box::new(hdd))
            }
        }
    }

    /// The configuration of a hard disk; none for an SSD.
    pub fn hdd_config(self, size: u64) -> Option<crate::hdd::Config> {
        (self == Preset::Hdd10k).then(|| disk::savvio(size))
    }

    /// The configuration of an SSD; none for the hard disk.
    pub fn ssd_config(self, size: u64) -> Option<Config> {
        match self {
            Preset::ConsumerSata => Some(sata::consumer(size)),
            Preset::DcSata => Some(sata::s4510(size)),
            Preset::S4500 => Some(sata::s4500(size)),
            Preset::S4600 => Some(sata::s4600(size)),
            Preset::DcNvme => Some(nvme::p4500(size)),
            Preset::LlNvme => Some(nvme::z_nand(size)),
            Preset::Hdd10k => None,
        }
    }

    fn check_size(self, size: u64) -> Result<(), String> {
        let (least, most) = self.sizes();
        if !(least..=most).contains(&size) {
            let (least, most) = (least as f64 / (1 << 30) as f64, most >> 30);
            return Err(format!("{self} of {size} bytes: choose {least} to {most} GiB"));
        }
        if !size.is_multiple_of(1 << 20) {
            return Err(format!("{self} of {size} bytes: choose a multiple of 1 MiB"));
        }
        Ok(())
    }
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Preset {
    type Err = String;

    fn from_str(text: &str) -> Result<Preset, String> {
        let names = Preset::ALL.map(Preset::name).join(", ");
        let known = Preset::ALL.into_iter().find(|preset| preset.name() == text);
        known.ok_or_else(|| format!("'{text}' is no drive we know: {names}"))
    }
}

/// Blocks per plane so that `size` is what the over-provisioning leaves.
fn fit(config: &mut Config, size: u64) {
    let superblock = u64::from(config.channels * config.dies_per_channel * config.planes)
        * u64::from(config.pages_per_block)
        * u64::from(config.page_bytes);
    let raw = size * 1000 / u64::from(1000 - config.over_provisioning_permille);
    config.blocks_per_plane = raw.div_ceil(superblock) as u32;
    config.visible_bytes = Some(size);
}

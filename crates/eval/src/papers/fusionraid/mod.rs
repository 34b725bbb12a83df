//! FusionRAID (Jiang et al., "FusionRAID: Achieving Consistent Low Latency for Commodity SSD
//! Arrays").

mod fig12;
mod fig13d;
mod fig14;
mod mix;
mod table6;

use model::presets::Preset;
use model::ssd::Fill;

use crate::array::fusion::Shape;
use crate::experiment::Experiment;
use crate::experiment::bed::Bed;

pub fn all() -> Vec<Experiment> {
    vec![fig12::EXPERIMENT, table6::EXPERIMENT, fig13d::EXPERIMENT, fig14::EXPERIMENT]
}

/// The paper's pool (§5.1): 29 SSDs of a data centre, stripes of 6+1; other schemes have four
/// groups of seven and a spare. A fifth of it is filled: the paper's data sets are some hundred
/// gigabytes of seven terabytes.
fn bed(fill: Fill) -> Bed {
    const DRIVES: usize = 29;
    const WIDTH: u16 = 7;
    /// DRIVES.md: the size that the preset is calibrated at.
    const DRIVE_BYTES: u64 = 8 << 30;
    Bed {
        preset: Preset::DcSata,
        fill,
        drive_bytes: DRIVE_BYTES,
        drives: DRIVES,
        shape: Shape { volume_percent: 20, ..Shape::new(WIDTH) },
        spares: 0,
        nvram_bytes: None,
        seed: 1,
    }
}

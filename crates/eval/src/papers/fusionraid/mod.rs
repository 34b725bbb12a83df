//! FusionRAID (Jiang et al., "FusionRAID: Achieving Consistent Low Latency for Commodity SSD
//! Arrays").

mod fig10;
mod fig11b;
mod fig12;
mod fig13abc;
mod fig13d;
mod fig14;
mod fig2;
mod fig4;
pub(super) mod mix;
mod table12;
mod table5;
mod table6;

use model::presets::Preset;
use model::ssd::Fill;

use crate::array::fusion::Shape;
use crate::experiment::bed::Bed;
use crate::experiment::{Experiment, Scale};

pub fn all() -> Vec<Experiment> {
    vec![
        table12::TABLE1,
        table12::TABLE2,
        fig2::EXPERIMENT,
        fig4::EXPERIMENT,
        fig10::EXPERIMENT,
        table5::TABLE5,
        table5::FIG11A,
        fig11b::EXPERIMENT,
        fig12::EXPERIMENT,
        table6::EXPERIMENT,
        fig13abc::A,
        fig13abc::B,
        fig13abc::C,
        fig13d::EXPERIMENT,
        fig14::EXPERIMENT,
    ]
}

/// The paper's pool (§5.1): 29 SSDs of a data centre, stripes of 6+1; other schemes have four
/// groups of seven and a spare. A fifth of it is filled: the paper's data sets are some hundred
/// gigabytes of seven terabytes. Filling it is most of a quick run, so that takes smaller drives.
pub(super) fn bed(scale: Scale, fill: Fill) -> Bed {
    const DRIVES: usize = 29;
    const WIDTH: u16 = 7;
    let shape = Shape { volume_percent: 20, ..Shape::new(WIDTH) };
    let bed = Bed::new(Preset::DcSata, DRIVES, WIDTH);
    let drive_bytes = scale.pick(bed.preset.sizes().0, bed.drive_bytes);
    Bed { fill, shape, drive_bytes, ..bed }
}

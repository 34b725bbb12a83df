//! Log disk mirroring (Wu et al., "LDM: Log Disk Mirroring with Improved Performance and
//! Reliability for SSD-Based Disk Arrays").

mod fig10;
mod fig5;
mod fig6;
mod fig8;
mod markov;
mod runs;

pub use runs::{DISK_PERCENT, TRACES};

use crate::experiment::Experiment;

pub fn all() -> Vec<Experiment> {
    vec![fig5::EXPERIMENT, fig6::EXPERIMENT, fig5::FIG7, fig8::A, fig8::B, fig10::EXPERIMENT]
}

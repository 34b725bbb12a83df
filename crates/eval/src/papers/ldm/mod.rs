//! Log disk mirroring (Wu et al., "LDM: Log Disk Mirroring with Improved Performance and
//! Reliability for SSD-Based Disk Arrays").

mod fig10;
mod markov;

use crate::experiment::Experiment;

pub fn all() -> Vec<Experiment> {
    vec![fig10::EXPERIMENT]
}

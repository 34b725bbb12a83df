//! Separation of reads from writes (Skourtis et al., "High Performance & Low Latency in
//! Solid-State Drives Through Redundancy"): the scheme `alternate`.

mod fig2;
mod fig3;
mod reads;

use crate::experiment::Experiment;

pub fn all() -> Vec<Experiment> {
    vec![fig2::EXPERIMENT, fig3::EXPERIMENT]
}

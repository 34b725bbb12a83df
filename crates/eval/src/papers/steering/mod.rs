//! GC-Steering (Wu et al., "GC-Steering: GC-aware Request Steering and Parallel Reconstruction
//! Optimizations for SSD-based RAIDs").

mod fig10;
mod fig11;
mod fig2;
mod fig7;
mod fig8;
mod fig9;
mod runs;

pub use runs::TRACES;

use crate::experiment::Experiment;

pub fn all() -> Vec<Experiment> {
    vec![
        fig2::EXPERIMENT,
        fig7::A,
        fig7::B,
        fig8::EXPERIMENT,
        fig9::EXPERIMENT,
        fig10::EXPERIMENT,
        fig11::EXPERIMENT,
    ]
}

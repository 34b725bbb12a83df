//! HybRAID ("HybRAID: A High-Performance Hybrid RAID Storage Architecture for Write-Intensive
//! Applications in All-Flash Storage Systems").

mod cost;
mod fig13;
mod fig2;

use crate::experiment::Experiment;

pub fn all() -> Vec<Experiment> {
    vec![fig2::ALIGNED, fig2::ANYWHERE, fig13::EXPERIMENT, cost::TABLE4, cost::FIG16]
}

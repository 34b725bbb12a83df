//! HybRAID ("HybRAID: A High-Performance Hybrid RAID Storage Architecture for Write-Intensive
//! Applications in All-Flash Storage Systems").

mod cost;
mod fig13;
mod fig15;
mod fig2;
mod fig3;
mod fig9;
mod runs;

use crate::experiment::Experiment;

pub fn all() -> Vec<Experiment> {
    vec![
        fig2::ALIGNED,
        fig2::ANYWHERE,
        fig3::EXPERIMENT,
        fig9::FIG9,
        fig9::FIG10,
        fig9::FIG11,
        fig9::FIG12,
        fig13::EXPERIMENT,
        fig9::FIG14,
        fig15::EXPERIMENT,
        cost::TABLE4,
        cost::FIG16,
        fig9::FIG17,
    ]
}

//! Experiments and benchmarks, their tables and numbers.
//!
//! `papers` has what the papers show, on the machinery of `experiment`. `engine_speed`, `space`,
//! `recovery`, `model_speed` measure this machine; what stands on `array` runs in virtual time and
//! gives the same figures everywhere.

pub mod array;
pub mod bursts;
pub mod command;
pub mod conversion;
pub mod detector;
pub mod engine_speed;
pub mod experiment;
pub mod load;
pub mod model_speed;
pub mod papers;
pub mod pressure;
pub mod rebuild;
pub mod recovery;
pub mod slow_drives;
pub mod space;
pub mod spikes;
pub mod systems;
pub mod tail;
pub mod thresholds;
pub mod trace;
pub mod why;
pub mod workload;

//! Experiments and benchmarks, their tables and numbers.
//!
//! `engine_speed`, `space`, `recovery`, `model_speed` measure this machine; what stands on `array`
//! runs in virtual time and gives the same figures everywhere.

pub mod array;
pub mod compare;
pub mod conversion;
pub mod detector;
pub mod engine_speed;
pub mod load;
pub mod model_speed;
pub mod pressure;
pub mod rebuild;
pub mod recovery;
pub mod space;
pub mod spikes;
pub mod tail;
pub mod thresholds;

//! Array schemes, one file each, over the engine's shared mechanisms.

pub mod fusion;
pub mod fusion_nd;

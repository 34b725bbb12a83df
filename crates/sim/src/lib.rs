//! Simulated worlds: drives that tear and lose, oracles, power cuts.
//!
//! Everything follows from one seed: the pool's shape, what clients ask, which drives fail and
//! when the power goes. [`world`] runs one seed, [`cuts`] cuts the power at every write of a
//! fixed script, [`oracle`] knows what a volume may hold.

pub mod content;
pub mod cuts;
pub mod machine;
pub mod oracle;
pub mod run;
pub mod world;

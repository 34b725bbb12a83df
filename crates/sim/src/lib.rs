//! Simulated worlds: drives that tear and lose, oracles, power cuts.
//!
//! Everything follows from one seed: the pool's shape, what clients ask, which drives fail and
//! when the power goes. [`world`] runs one seed, [`cuts`] cuts the power at every write of a
//! fixed script, [`world::day`] is a day of one pool, [`oracle`] knows what a volume may hold.
//! What fails is replayed ([`run`]), told ([`story`]) and made smaller ([`shrink`]); [`campaign`]
//! runs many. [`drive`] shows what one modelled drive does.

pub mod campaign;
pub mod content;
pub mod cuts;
pub mod drive;
pub mod failure;
pub mod machine;
pub mod oracle;
pub mod run;
pub mod shrink;
pub mod story;
pub mod world;

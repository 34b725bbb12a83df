//! One battery over every scheme that runs on real drives: 200 worlds each, more with
//! `SCHEME_SEEDS=N`.

pub mod afflicted;
pub mod alternate;
mod cached_raid5;
mod client;
mod hung;
mod hybrid;
pub mod in_place;
mod log_mirror;
mod log_raid;
mod mirror_log;
mod n_raid5;
pub mod replaced;
pub mod rotten;
mod steering;
mod tole_raid;
pub mod world;

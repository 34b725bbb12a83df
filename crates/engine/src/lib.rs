//! The array: carries out plans over injected drives and clock.
//!
//! Verbs are files: `read`, `write`, `trim`, `convert`, `compact`, `checkpoint`, `recover`. What
//! they work on: `map` (where blocks are), `space` and `tuple` (what drives hold), `journal`
//! (what happened), `array` (the drives). `pool` is the way in.
//!
//! Nothing here opens files, prints, reads a clock or spawns threads: the world is [`io::Env`].

mod admission;
pub mod api;
mod array;
mod attempt;
pub mod audit;
mod background;
mod capacity;
mod checkpoint;
mod compact;
mod convert;
mod discard;
mod events;
mod exchange;
mod flush;
mod foreground;
mod geometry;
mod hedge;
mod journal;
mod label;
mod ladder;
pub mod limits;
mod lists;
mod locks;
mod map;
mod mend;
mod monitor;
mod pacer;
mod places;
#[cfg(not(feature = "planted"))]
mod planted;
#[cfg(feature = "planted")]
pub mod planted;
mod pool;
mod read;
mod reads;
mod rebalance;
mod rebuild;
mod recover;
mod restore;
mod scrub;
mod shard;
mod source;
mod space;
mod substitute;
mod sums;
mod trim;
mod tuple;
mod write;

pub use api::*;
pub use checkpoint::slots::MetaSlots;
pub use label::{Label, read_label};
pub use policy::pace::FULL as PRESSURE_FULL;
pub use pool::{Pool, Volume, add_drives, create, plan_add, plan_create};

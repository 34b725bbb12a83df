//! What the engine promises, seen from outside: device operations, failures, volumes, space,
//! background work. One program: each would compile the engine again.

#[path = "../common/mod.rs"]
mod common;

mod audit;
mod budget;
mod concurrent;
mod create;
mod discards;
mod exchange;
mod failures;
mod figures;
mod grow;
mod grow_live;
mod latencies;
mod limits;
mod load;
mod memory;
mod operations;
mod pace;
mod reopen;
mod restore;
mod rot;
mod shapes;
mod slices;
mod slow;
mod space_use;
mod spare;
mod spikes;
mod stale;
mod volumes;
mod volumes_admin;

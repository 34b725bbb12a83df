//! What the engine promises, seen from outside: device operations, failures, volumes, space.

#[path = "../common/mod.rs"]
mod common;

mod concurrent;
mod create;
mod failures;
mod figures;
mod latencies;
mod limits;
mod memory;
mod operations;
mod reopen;
mod restore;
mod shapes;
mod space_use;
mod spikes;
mod volumes_admin;

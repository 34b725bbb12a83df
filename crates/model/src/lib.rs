//! Modelled drives: state machines that say when operations complete.
//!
//! Pure: no clock, no I/O, no bytes. Each drive follows from its configuration and its seed;
//! time is integer nanoseconds and events have a total order.

pub mod hdd;
pub mod presets;
pub mod ssd;

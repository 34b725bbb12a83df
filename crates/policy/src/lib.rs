//! Decisions: pure functions from facts to plans.
//!
//! Nothing here does I/O, reads a clock, waits, or keeps state. `scheme/` holds one file per
//! array scheme; [`background`] says which background work comes next and how urgent it is.

pub mod background;
pub mod scheme;

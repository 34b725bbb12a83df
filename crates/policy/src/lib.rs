//! Decisions: pure functions from facts to plans.
//!
//! Nothing here does I/O, reads a clock or waits; time comes in as a number. `scheme/` holds one
//! file per array scheme; [`background`] says which background work comes next, [`pace`] how much
//! of the time it may have; [`spike`] who is in a latency spike, [`learn`] and [`recent`] what is
//! usual, [`hedge`] when to send again, [`slow`] which drives are slower than their peers for
//! seconds, [`health`] what becomes of them, [`load`] whether it is the load instead, [`stall`]
//! when nobody listened, [`throttle`] how often a drive may be told of, [`rot`] what of bad pages;
//! [`limit`] when a volume's request may go, [`fair`] whose goes first; [`rebuild`] how lost copies
//! come back.

pub mod background;
pub mod fair;
pub mod health;
pub mod hedge;
pub mod learn;
pub mod limit;
pub mod load;
pub mod pace;
pub mod rebuild;
pub mod recent;
pub mod rot;
pub mod scheme;
pub mod slow;
pub mod spike;
pub mod stall;
pub mod throttle;

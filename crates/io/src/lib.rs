//! The only door to the world: drives, clocks, buffers, sockets, executor.
//!
//! Everything that differs between a real machine and a simulated one is behind two traits:
//! [`Env`] (time, tasks, randomness) and [`Drive`] (one drive with a volatile cache). The
//! engine is compiled against these and nothing else.
//!
//! Two implementations live here side by side:
//! * [`uring`]: real time, io_uring, files and block devices;
//! * [`virt`]: virtual time, drives in memory whose unflushed writes a power cut may lose.
//!
//! On both, drives can have the timing of a [`model`] ([`modelled`], [`virt::ModelPort`]) and
//! [`faulty`] ways; [`any`] lets such wrappers compose.

pub mod any;
pub mod awaited;
pub mod buf;
pub mod crc;
pub mod drive;
pub mod env;
pub mod exec;
pub mod faulty;
pub mod fence;
pub mod gate;
pub mod latency;
pub mod mem;
pub mod memory;
pub mod model;
pub mod modelled;
pub mod net;
mod origin;
mod planted;
pub mod rate;
pub mod rng;
pub mod shortage;
pub mod signal;
pub mod slice;
pub mod sync;
pub mod tally;
pub mod together;
pub mod twin;
pub mod uring;
pub mod virt;
pub mod wait;

pub use any::AnyDrive;
pub use buf::{Buf, BufMut, PAGE};
pub use drive::{Drive, DriveError, DriveErrorKind, Durability, Geometry, Operation};
pub use env::{Env, Nanos};
pub use faulty::{Faults, Faulty};
pub use fence::{Fence, Fenced};
pub use model::{Command, Completion, Model, ModelCounters, Tag};
pub use modelled::{Lateness, Modelled};
pub use origin::{Origin, Origins};
pub use shortage::{Short, Shortage};
pub use together::join_all;
pub use wait::Wait;

//! The array schemes of the papers, side by side, over shared mechanisms.
//!
//! ```text
//!   volumes ── store: what every scheme offers ── a scheme ── in-place arrays (`classical`)
//!                                                    │
//!                                                    └── set: which drives, and where on them
//! ```

pub mod part;
pub mod scheme;
pub mod set;
pub mod store;
pub mod volumes;

pub use store::{Counters, Store, StoreError};
pub use volumes::{Volume, VolumeError, Volumes};

//! The array schemes of the papers, side by side, over shared mechanisms.
//!
//! ```text
//!   volumes ── store: what every scheme offers ── a scheme ── in-place arrays (`classical`)
//!                                                    │
//!                                                    └── set: which drives, and where on them
//! ```

pub mod ages;
pub mod any;
pub mod apart;
pub mod arrays;
pub mod care;
pub mod extents;
pub mod header;
pub mod hostile;
pub mod joined;
pub mod key_locks;
pub mod locks;
pub mod log;
pub mod losses;
pub mod page_map;
pub mod part;
pub mod places;
pub mod plan;
pub mod pool;
pub mod popular;
pub mod scheme;
pub mod segments;
pub mod set;
pub mod store;
pub mod volumes;
pub mod watch;

pub use pool::Pool;
pub use store::{Counters, Replace, Store, StoreError};
pub use volumes::{Volume, VolumeError, Volumes};

//! What a pool knows of its drives, once for all schemes: [`host`], which host may write to them;
//! [`slow`], which of them are slower than their peers; [`events`], what happened.

pub mod events;
pub mod host;
pub mod limits;
pub mod slow;

//! What a pool knows of its drives, once for all schemes. So far: [`host`], which host may write
//! to them.

pub mod host;

//! The API: HTTP and JSON, over the control socket and, if asked for, over loopback.
//!
//! ```text
//! verb ── client ── route ──>  GET /api/v1/pools/tank  ──> route ── serve::http ── control ── pool
//! ```
//! [`route`] says once where each [`Request`](crate::control::Request) lives; the client, the
//! server and the description (`openapi`) follow it.

pub mod client;
pub mod openapi;
pub mod route;

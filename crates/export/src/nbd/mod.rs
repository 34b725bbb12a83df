//! The network block device protocol, server side.
//!
//! [`proto`] turns bytes into requests and answers into bytes and does no I/O, so it is
//! fuzzed alone, and so is [`handshake`]. The others move the bytes:
//!
//! ```text
//! socket ─ link ─ inbox ─ proto::request ─ session ─ proto::reply ─ outbox ─ link ─ socket
//!           │                                 │                                │
//!          tls                             Volume                             tls
//! ```

mod answer;
pub mod handshake;
mod inbox;
mod link;
mod outbox;
pub mod proto;
pub mod server;
mod session;
mod tls;

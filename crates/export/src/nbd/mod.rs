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
//! `places` counts connections and says who has to go, `window` bounds what one of them has under
//! way. No client waits for another one: what is shared is not held while one is waited for.

mod answer;
pub mod handshake;
mod inbox;
mod link;
mod outbox;
pub mod places;
pub mod proto;
pub mod server;
mod session;
mod tls;
mod window;

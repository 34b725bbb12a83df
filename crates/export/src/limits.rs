//! Every bound of the server, each with its reason.

use io::Nanos;

/// Longest export name the protocol allows; longer ones are refused before any look-up.
pub const NAME_BYTES_MAX: usize = 4096;

/// Longest option a client may send. A name and a handful of metadata queries fit many times
/// over; whoever sends more is disconnected, so an option never outgrows the receive buffer.
pub const OPTION_BYTES_MAX: u32 = 32 << 10;

/// Options one client may send before it chooses an export. Real clients send fewer than ten,
/// plus two for each export they list.
pub const OPTIONS_MAX: u32 = 256;

/// Longest read or write. The protocol's default for clients that don't ask, so nobody who
/// follows the protocol sends more. A longer write ends the connection: draining up to 4 GiB
/// for a client that breaks the rules serves nobody.
pub const REQUEST_BYTES_MAX: u32 = 32 << 20;

/// Receive buffer of a connection: 32 pipelined writes of 4 KiB fit, so a deep queue of small
/// writes costs one system call. A power of two, as buffers are.
pub const INBOX_BYTES: usize = 256 << 10;

/// A write's remaining payload is received straight into its own buffer when it is at least
/// this long; shorter rests come through the receive buffer, which may bring the requests
/// behind them in the same system call.
pub const DIRECT_BYTES_MIN: usize = 32 << 10;

/// Encrypted bytes received at once: four records, the longest that TLS has.
pub const TLS_IN_BYTES: usize = 64 << 10;

/// Encrypted bytes that wait to be sent: one send for many small replies, and a long one in parts.
pub const TLS_OUT_BYTES: usize = 256 << 10;

/// Extents in one block status reply. A client asks again for what is left; the reply stays
/// within two pages.
pub const EXTENTS_MAX: usize = 1024;

/// Longest error text sent to a client. One line.
pub const ERROR_TEXT_MAX: usize = 250;

/// After a shutdown's last reply, how long a client may still talk (and hear that the server
/// stops) before its connection is closed. Noticeable to programs, not to people.
pub const FAREWELL: Nanos = Nanos::from_millis(100);

/// Bounds an administrator or a test may want different.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at once. Each has a receive buffer of [`INBOX_BYTES`], 64 MiB together, and
    /// with TLS [`TLS_IN_BYTES`] and [`TLS_OUT_BYTES`] besides.
    pub connections: usize,
    /// Requests of one connection between their arrival and the end of sending their reply.
    /// Deeper queues only add latency: 128 small requests already keep a shard busy.
    pub requests: usize,
    /// Payload bytes of reads and writes in flight, over all connections. At least
    /// [`REQUEST_BYTES_MAX`], or the longest request could never be admitted; twice that lets
    /// one be received while another is worked on.
    pub bytes: u64,
    /// From connecting to choosing an export. People don't type options; programs are quick.
    pub handshake: Nanos,
    /// A client that owes us the rest of a message, or doesn't take our replies, for one to
    /// two of these is disconnected: it holds buffers that others wait for. Long enough for
    /// [`REQUEST_BYTES_MAX`] over a slow link.
    pub stall: Nanos,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 256,
            requests: 128,
            bytes: 2 * REQUEST_BYTES_MAX as u64,
            handshake: Nanos::from_secs(10),
            stall: Nanos::from_secs(60),
        }
    }
}

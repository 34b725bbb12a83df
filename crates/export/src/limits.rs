//! Every bound of the server, each with its reason.

use io::Nanos;

/// Longest export name the protocol allows; longer ones are refused before any look-up.
pub const NAME_BYTES_MAX: usize = 4096;

/// Longest option a client may send. A name and a handful of metadata queries fit many times
/// over; whoever sends more is disconnected, so an option never outgrows the receive buffer.
pub const OPTION_BYTES_MAX: u32 = 32 << 10;

/// Options one client may send before it chooses an export, and how many more for each further
/// export that there is. Real clients send fewer than ten, plus some four for each export they
/// list.
pub const OPTIONS_MAX: u32 = 256;
pub const OPTIONS_PER_EXPORT: u32 = 8;

/// Longest read or write. The protocol's default for clients that don't ask, so nobody who
/// follows the protocol sends more. A longer write ends the connection: draining up to 4 GiB
/// for a client that breaks the rules serves nobody.
pub const REQUEST_BYTES_MAX: u32 = 32 << 20;

/// Receive buffer of a connection that has not chosen an export yet: the longest option fits, with
/// its header and what may be sent behind it. A power of two, as buffers are.
pub const GREETING_INBOX_BYTES: usize = 64 << 10;

/// Receive buffer of a connection that has: 32 pipelined writes of 4 KiB fit, so a deep queue of
/// small writes costs one system call. A power of two, as buffers are.
pub const INBOX_BYTES: usize = 256 << 10;

/// A write's remaining payload is received straight into its own buffer when it is at least
/// this long; shorter rests come through the receive buffer, which may bring the requests
/// behind them in the same system call.
pub const DIRECT_BYTES_MIN: usize = 32 << 10;

/// Most that is received at once: some tens of microseconds of copying. A client that sends long
/// writes as fast as it can takes the thread from the others in pieces of this.
pub const RECEIVE_BYTES_MAX: usize = 256 << 10;

/// Requests, and bytes of their payloads, that one connection starts before the others have their
/// turn: some tens of microseconds.
pub const TURN_REQUESTS: usize = 1;
pub const TURN_BYTES: usize = 64 << 10;

/// The same of the only connection, which has only tasks of volumes beside it: a deep queue of
/// small requests in few turns.
pub const TURN_ALONE_REQUESTS: usize = 64;
pub const TURN_ALONE_BYTES: usize = 1 << 20;

/// Replies that are sent at once, unless a single one is longer: the kernel copies them while all
/// others wait, some ten microseconds for as much as this.
pub const BATCH_BYTES: usize = 16 << 10;

/// The same of the only connection: what a slow client has taken is free for its next requests, and
/// seen to move, piece by piece.
pub const BATCH_ALONE_BYTES: usize = 1 << 20;

/// Payload of all requests that clients have under way, held for them while they send it or take
/// it: each connection has an equal part, see [`Limits::window`]. More connections than this has
/// room for have one request each.
pub const CLIENT_BYTES: u64 = 1 << 30;

/// A request up to this long is a small one, and never waits behind long ones: eight times what
/// databases write, and so short that many of them fit between two long ones.
pub const SMALL_BYTES_MAX: u32 = 64 << 10;

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
    /// Connections in use at once, of each way to come (see `Transport`), so that those from
    /// elsewhere never keep out those of this machine. Each has a receive buffer of
    /// [`INBOX_BYTES`], 64 MiB together, and with TLS [`TLS_IN_BYTES`] and [`TLS_OUT_BYTES`]
    /// besides.
    pub connections: usize,
    /// Connections that have not chosen an export yet, of each way to come. Choosing takes some
    /// milliseconds; when there are more, one that has been there long goes.
    pub handshakes: usize,
    /// Requests of one connection between their arrival and the end of sending their reply.
    /// Deeper queues only add latency: 128 small requests already keep a shard busy.
    pub requests: usize,
    /// Payload bytes of one connection's requests between their arrival and the end of sending
    /// their reply, as long as all connections together stay within [`CLIENT_BYTES`]. A longer
    /// request is admitted alone. Nobody else's requests count here: a client that stops in the
    /// middle of one, or does not take its replies, has only itself to wait for.
    pub window: u64,
    /// Payload bytes of long requests that the volumes work on at once, over all connections. At
    /// least [`REQUEST_BYTES_MAX`], or the longest request could never be admitted; twice that
    /// keeps drives busy. No client is waited for with these in hand.
    pub long: u64,
    /// The same of small requests, up to [`SMALL_BYTES_MAX`]: 4,096 of 4 KiB are more than any
    /// pool works on at once.
    pub small: u64,
    /// From connecting to choosing an export. People don't type options; programs are quick.
    pub handshake: Nanos,
    /// How much longer that may take for each further export that there is: clients that list
    /// them ask for each one, four times over a link around the world.
    pub handshake_per_export: Nanos,
    /// A client that owes us the rest of a message, or doesn't take our replies, for one to
    /// two of these is disconnected. Long enough for [`REQUEST_BYTES_MAX`] over a slow link.
    pub stall: Nanos,
    /// How long a client may do that when the server is told to stop.
    pub last_stall: Nanos,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 256,
            handshakes: 64,
            requests: 128,
            window: REQUEST_BYTES_MAX as u64,
            long: 2 * REQUEST_BYTES_MAX as u64,
            small: 16 << 20,
            handshake: Nanos::from_secs(10),
            handshake_per_export: Nanos::from_millis(250),
            stall: Nanos::from_secs(60),
            last_stall: Nanos::from_secs(2),
        }
    }
}

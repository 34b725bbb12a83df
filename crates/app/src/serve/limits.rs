//! Every bound of the server, each with its reason. (Those of the NBD connections are in
//! `export::limits`, those of the API's requests in [`super::http`].)

use std::time::Duration;

/// Messages that wait to be written, for each target of the log. A pool that fails says a few
/// dozen at once; a target that does not take so many takes none.
pub const LOG_WAITING_MAX: usize = 1024;

/// Longest message of the log: with [`LOG_WAITING_MAX`] 4 MiB a target. Names of drives, which may
/// be long, fit some times over.
pub const LOG_TEXT_BYTES_MAX: usize = 4096;

/// States that wait to be told to the service manager. It wants to hear of the newest.
pub const NOTIFY_WAITING_MAX: usize = 16;

/// Messages of one kind that are written at once: a pool of the most drives, each with something
/// to say.
pub const LOG_AT_ONCE: u64 = 256;

/// Messages of one kind that are written each second after that, for long. A client that
/// reconnects in a loop would fill a disk otherwise.
pub const LOG_PER_SECOND: u64 = 5;

/// Kinds of messages that are counted apart; the others share one count. There are some 40 kinds
/// of events.
pub const LOG_KINDS_MAX: usize = 128;

/// How long a server that ends waits for its last messages: a log that takes them at all takes
/// them at once.
pub const LOG_LAST_WORDS: Duration = Duration::from_millis(500);

/// Targets of alerts. Each has a thread.
pub const ALERT_TARGETS_MAX: usize = 8;

/// Events that wait for one target; of those that come beyond only the number is told. A storm of
/// spikes is a few hundred a minute.
pub const ALERTS_WAITING_MAX: usize = 256;

/// How long a server that is told to stop waits for alerts that are on their way, to all targets
/// together, counted from the signal: with what follows it ends within five seconds.
pub const ALERT_LAST_WORDS: Duration = Duration::from_secs(4);

/// And at least so long from the last event, if closing the pools took all of that.
pub const ALERT_LAST_CHANCE: Duration = Duration::from_millis(500);

/// Of a standard stream, once others have used up [`LOG_LAST_WORDS`]: those that are left are not
/// to blame.
pub const LOG_LAST_CHANCE: Duration = Duration::from_millis(100);

/// Control connections at once. People and scripts ask one thing at a time. When more come, one
/// that asks for nothing has to go.
pub const CONTROL_CONNECTIONS_MAX: usize = 16;

/// HTTP connections over TCP at once. A browser has up to six.
pub const HTTP_CONNECTIONS_MAX: usize = 32;

//! The server itself, whatever pools it serves.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Latencies;

/// Messages of the log, or alerts, that did not get to a target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DroppedMessages {
    /// `stdout`, `stderr`, `journal`, `syslog`, `notify`, `alerts`; `all` for `rate`.
    pub target: String,
    /// `full` (the target does not take them), `failed` (it refuses them), `rate` (too many of one
    /// kind).
    pub reason: String,
    pub count: u64,
}

impl DroppedMessages {
    pub fn new(target: &str, reason: &str, count: u64) -> DroppedMessages {
        DroppedMessages { target: target.to_owned(), reason: reason.to_owned(), count }
    }
}

/// NBD connections that came one way.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct NbdConnections {
    /// `unix` or `tcp`.
    pub transport: String,
    /// Those that have not chosen an export.
    pub handshaking: u64,
    pub established: u64,
}

/// How long one task at a time had the thread that serves, by what it did.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Slices {
    /// `requests`, `compaction`, `conversion`, `checkpoint`, `discard`, `scrub`, `rebuild`, `watch`
    /// (judging drives) or `control` (status, metrics, what operators ask for).
    pub work: String,
    pub latency: Latencies,
}

/// What `status` tells of the server beside its pools.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Server {
    /// In all.
    pub messages_dropped: u64,
    /// Those of which there are some.
    pub dropped: Vec<DroppedMessages>,
    pub nbd: Vec<NbdConnections>,
    /// Of each kind of work that there was.
    pub slices: Vec<Slices>,
}

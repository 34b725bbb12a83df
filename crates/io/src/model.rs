//! When the operations of a modelled drive complete.
//!
//! A [`Model`] is a state machine of time alone: it holds no bytes, waits for nothing and never
//! looks at a clock. Whoever owns it tells it the time and carries its completions to those
//! who wait: a virtual drive in virtual time, a wrapped file or memory in real time.
//!
//! ```text
//!  submit(now, tag, command) ──>  Model  ──> advance(now): completions up to now
//!                                   └──────> next_event(): when to call advance again
//! ```

mod phases;
pub(crate) mod timeline;

use crate::drive::{Durability, Geometry, Operation};
use crate::env::Nanos;

pub use phases::{Phase, Phases};

/// What a drive is asked to do. Ranges are inside the drive, aligned and not empty: checked
/// before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    Read { offset: u64, len: u64 },
    Write { offset: u64, len: u64, durability: Durability },
    Flush,
    Discard { offset: u64, len: u64 },
}

impl Command {
    /// `None` for what moves nothing, which a model never sees.
    pub(crate) fn new(
        operation: Operation,
        offset: u64,
        len: u64,
        durability: Durability,
    ) -> Option<Command> {
        match operation {
            Operation::Flush => Some(Command::Flush),
            _ if len == 0 => None,
            Operation::Read => Some(Command::Read { offset, len }),
            Operation::Write => Some(Command::Write { offset, len, durability }),
            Operation::Discard => Some(Command::Discard { offset, len }),
        }
    }
}

/// Chosen by whoever submits; the model gives it back once and thinks nothing of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub u64);

/// The end of one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    pub tag: Tag,
    /// When it happened: not later than the `now` of the call that reports it.
    pub at: Nanos,
    /// Where its time went, as far as the model tells.
    pub phases: Phases,
}

impl Completion {
    /// Of a model that does not tell where the time went.
    pub fn new(tag: Tag, at: Nanos) -> Completion {
        Completion { tag, at, phases: Phases::default() }
    }
}

/// What a modelled drive has done since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModelCounters {
    pub submitted: u64,
    pub completed: u64,
    pub host_read_bytes: u64,
    pub host_write_bytes: u64,
    pub trimmed_bytes: u64,
    /// Everything programmed into flash: for the host, moved by garbage collection, metadata.
    pub flash_write_bytes: u64,
    /// Of that, what garbage collection moved.
    pub moved_bytes: u64,
    pub flash_read_bytes: u64,
    /// Blocks erased, by all dies and planes.
    pub erases: u64,
    /// Periods of garbage collection, each from its start to its end.
    pub collections: u64,
    /// Times the write buffer was drained because of its threshold, its period or the host.
    pub buffer_flushes: u64,
}

impl ModelCounters {
    /// Bytes programmed for each byte the host wrote; 1 before it wrote any.
    pub fn write_amplification(&self) -> f64 {
        match self.host_write_bytes {
            0 => 1.0,
            host => self.flash_write_bytes as f64 / host as f64,
        }
    }
}

/// One modelled drive.
///
/// Contract: `now` never goes back over all calls; before `submit`, everything up to `now` has
/// been collected by `advance`. Every operation submitted completes exactly once, unless the
/// power goes: `submitted = completed + in_flight` at all times, those a power cut dropped
/// counting as completed.
pub trait Model {
    fn geometry(&self) -> Geometry;

    fn submit(&mut self, now: Nanos, tag: Tag, command: Command);

    /// When something happens next if nobody submits anything; `None` if nothing ever will.
    fn next_event(&self) -> Option<Nanos>;

    /// Lets everything happen up to and including `now`; appends completions in the order they
    /// happened.
    fn advance(&mut self, now: Nanos, done: &mut Vec<Completion>);

    fn in_flight(&self) -> usize;

    /// The power goes and comes back: operations in flight are forgotten, without completion.
    fn power_cycle(&mut self, now: Nanos);

    fn counters(&self) -> ModelCounters;

    /// Whether garbage is being collected now, erases included. Only oracles may ask: a real
    /// drive doesn't tell.
    fn is_collecting(&self) -> bool {
        false
    }

    /// Starts a collection, or lets one that was forced end (global garbage collection). A drive
    /// without garbage does nothing.
    fn force_collection(&mut self, _now: Nanos, _on: bool) {}
}

//! Where the time of a modelled drive's operation went.

use crate::env::Nanos;

/// What an operation waits for in a drive, or what the drive does for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Firmware, and its own sensing and transfer.
    Service,
    /// The drive's queue had no place for it.
    Queue,
    /// The link was busy with others, or the drive takes writes no faster.
    Link,
    /// The drive, or the die, took nothing from the host: a collection, a drain of the write
    /// buffer or the log of the map held it back.
    Held,
    /// Its die was busy with an erase, …
    Erase,
    /// … a program of the host's data or of the map's log, …
    Program,
    /// … a read or a program of a collection, …
    CollectionRead,
    CollectionProgram,
    /// … another read of the host.
    Read,
    /// The write buffer was full, and nothing was collected; or while it was.
    BufferFull,
    BufferCollecting,
    /// The write buffer had to be empty first.
    Drain,
}

impl Phase {
    pub const ALL: [Phase; 12] = [
        Phase::Service,
        Phase::Queue,
        Phase::Link,
        Phase::Held,
        Phase::Erase,
        Phase::Program,
        Phase::CollectionRead,
        Phase::CollectionProgram,
        Phase::Read,
        Phase::BufferFull,
        Phase::BufferCollecting,
        Phase::Drain,
    ];
}

/// Nanoseconds of each phase. All together: what the operation took, or nothing, if the model does
/// not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Phases([u64; Phase::ALL.len()]);

impl Phases {
    pub fn get(&self, phase: Phase) -> Nanos {
        Nanos(self.0[phase as usize])
    }

    pub fn add(&mut self, phase: Phase, time: Nanos) {
        self.0[phase as usize] += time.0;
    }

    pub fn total(&self) -> Nanos {
        Nanos(self.0.iter().sum())
    }
}

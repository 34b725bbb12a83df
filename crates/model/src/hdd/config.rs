//! What a hard disk is made of, and which disks can't be.

use std::fmt;

use io::env::Nanos;

/// The order in which waiting commands are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// As they arrived.
    Fifo,
    /// The one whose first sector passes beneath the head soonest, among the first `depth` that
    /// wait; the oldest goes first once it waited `patience`, so that none waits for ever.
    ShortestPositioning { depth: usize, patience: Nanos },
}

/// Times of the arm between two cylinders, as data sheets give them. Controller overhead of a
/// command that moves the arm is part of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeekTimes {
    pub next_cylinder: Nanos,
    /// Over all pairs of cylinders.
    pub average: Nanos,
    pub full_stroke: Nanos,
    /// A write needs the head quieter than a read does.
    pub write_settle: Nanos,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    pub size: u64,
    pub rpm: u32,
    pub heads: u64,
    pub zones: u64,
    /// Bytes of a track in the outermost and in the innermost zone; linear between them.
    pub outer_track: u64,
    pub inner_track: u64,
    pub seek: SeekTimes,
    /// From one track to the next while streaming; tracks are skewed by just this.
    pub track_switch: Nanos,
    /// Receiving, decoding and answering a command; goes on while the arm serves another.
    pub overhead: Nanos,
    pub link_bytes_per_second: u64,
    /// Bytes kept of what was read and what follows it. Writes are never kept: the cache is off.
    pub read_buffer: u64,
    /// A command that continues where the last one ended, and comes at most this much later,
    /// costs no rotation. Zero is the bare mechanics, where whoever appends one by one waits a
    /// turn for each; more stands for the protected track buffer of a drive, or of the
    /// controller before it, that appending to a log relies on.
    pub stream_window: Nanos,
    pub schedule: Schedule,
}

/// One parameter that can't be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    pub parameter: &'static str,
    pub problem: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "hard disk: {} {}", self.parameter, self.problem)
    }
}

impl std::error::Error for ConfigError {}

pub(super) const SECTOR: u64 = 512;

impl Config {
    /// One turn of the platters.
    pub fn revolution(&self) -> Nanos {
        Nanos(60_000_000_000 / u64::from(self.rpm))
    }

    pub fn validate(&self) -> Result<(), ConfigError> {
        let sectors =
            |name, value: u64| check(name, value > 0 && value.is_multiple_of(SECTOR), value);
        sectors("size", self.size)?;
        sectors("outer_track", self.outer_track)?;
        sectors("inner_track", self.inner_track)?;
        check("rpm", (1_000..=30_000).contains(&self.rpm), self.rpm)?;
        check("heads", (1..=64).contains(&self.heads), self.heads)?;
        check("zones", (1..=256).contains(&self.zones), self.zones)?;
        check("inner_track", self.inner_track <= self.outer_track, self.inner_track)?;
        check("link_bytes_per_second", self.link_bytes_per_second > 0, 0)?;
        check("track_switch", self.track_switch < self.revolution(), self.track_switch.0)?;
        self.validate_seek()?;
        match self.schedule {
            Schedule::Fifo => Ok(()),
            Schedule::ShortestPositioning { depth, .. } => {
                check("schedule depth", (1..=256).contains(&depth), depth)
            }
        }
    }

    fn validate_seek(&self) -> Result<(), ConfigError> {
        let SeekTimes { next_cylinder, average, full_stroke, .. } = self.seek;
        check("seek.next_cylinder", next_cylinder <= average, next_cylinder.0)?;
        check("seek.full_stroke", average <= full_stroke, full_stroke.0)?;
        let third = super::seek::third_of_stroke(&self.seek);
        check("seek.average", (next_cylinder..=full_stroke).contains(&third), average.0)
    }
}

fn check(parameter: &'static str, good: bool, value: impl fmt::Display) -> Result<(), ConfigError> {
    if good {
        return Ok(());
    }
    Err(ConfigError { parameter, problem: format!("can't be {value}") })
}

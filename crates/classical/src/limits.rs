//! Every bound of an in-place array, with its reason.

use io::Nanos;

/// Writes with partial parity on their way to one drive's log; more wait. Each takes a slot of a
/// page and a chunk, so the log of a drive is 4 MiB and some at 64 KiB a chunk.
pub const LOG_SLOTS: usize = 64;
/// A page before the first slot of the log and of the intents alike: the unit of drives.
pub const PAGE: u64 = 4096;
/// Regions whose intents fit a page beside its header.
pub const REGIONS_MAX: u64 = (PAGE - 64) * 8;
/// Fewest stripes of a region: resynchronizing less than a few megabytes saves nothing.
pub const REGION_STRIPES_MIN: u64 = 16;
/// Intents are taken back so long after the last write of their region was flushed: a region that
/// is written again and again costs no write of intents.
pub const INTENT_REST: Nanos = Nanos::from_secs(5);
/// Nothing has been written for so long: the array is flushed by itself, and all intents are taken
/// back at once. As long, since the next write pays for its mark again: longer than the pauses of
/// a client at work.
pub const INTENT_IDLE: Nanos = INTENT_REST;
/// Stripes looked at together after a crash: enough to keep a group of drives busy.
pub const RESYNC_AT_ONCE: usize = 8;
/// Rows rebuilt at a time, their stripes locked: enough to keep the new drive writing while the
/// others are read.
pub const REBUILD_AT_ONCE: u64 = 8;
/// Bytes of them written together, if a chunk is not longer.
pub const REBUILD_WRITE: u64 = 1 << 20;
/// A write that lost drives on its way is tried again so often at most: each time another drive
/// is gone.
pub const TRIES_MAX: usize = 4;
/// Pages of sums written together: more would hold up the requests of the drives.
pub const SUMS_AT_ONCE: usize = 64;
/// Bytes of sums read at a time from each drive when an array is opened: long reads.
pub const SUMS_READ: u64 = 1 << 20;
/// Regions whose sums are written in one go, so that a flush does not wait for those of hours.
pub const REGIONS_AT_ONCE: usize = 64;
/// What was found bad and nobody has asked for yet; older ones are forgotten, and stay counted.
pub const NOTES_MAX: usize = 1024;
/// Pages known to be lost, so that each is told once; of more some are told again.
pub const LOST_KNOWN_MAX: usize = 4096;
/// Stripes scrubbed together, locked meanwhile: enough to keep a group of drives busy.
pub const SCRUB_AT_ONCE: u64 = 8;
/// Pages of sums of a drive looked at in one step of a scrub.
pub const SCRUB_SUMS_AT_ONCE: u64 = 256;
/// Drives that have a copy of a page of the checksum log, at most: of wider mirrors so many lost
/// together with a crash are not thought of.
pub const LOG_COPIES_MAX: usize = 16;
/// Entries of the checksum log whose data may be on its way or in the drives' caches (128 MiB of
/// pages); more wait for a flush. Opening looks at as many pages after a crash.
pub const LOG_WINDOW_MAX: usize = 32768;
/// Bytes of the checksum log read at a time from each drive when an array is opened: long reads.
pub const LOG_READ: u64 = 1 << 20;
/// Entries of the checksum log that are committed without a flush: 32 small writes to two drives.
/// What was written since then and rots nobody can tell from what was written.
pub const LOG_UNCOMMITTED_MAX: u64 = 64;

//! Every bound of what is told of drives, with its reason.

/// Warnings a pool remembers, and as many errors beside them: a day in which every drive of 29 has
/// some thirty.
pub const ALARMS_MAX: usize = 1024;
/// Warnings about one drive's latency in any hour; what is beyond is summed up. A drive that is
/// slow, and then suspect, and comes back, three times.
pub const DRIVE_WARNINGS_HOURLY: usize = 6;
/// The same of what needs nobody's attention: that it is avoided for a stall, and is used again.
pub const DRIVE_MOVES_HOURLY: usize = 12;
/// How often in any hour it is told that many drives are slow at once.
pub const SHARED_SLOW_HOURLY: usize = 2;

//! Workloads made after a paper's traces, on a part of an array.

use crate::array::made::Made;
use crate::workload::{Workload, presets};

/// The preset of this name, on `bytes` of the array from `first`.
pub fn of(name: &str, (first, bytes): (u64, u64), seed: u64) -> Made {
    placed(preset(name), (first, bytes), seed)
}

pub fn preset(name: &str) -> Workload {
    presets::find(name).expect("a preset of ours").workload()
}

/// On a part that is smaller than its space a workload uses less, rather than to be folded: how
/// often it comes back to a place is its own.
pub fn placed(workload: Workload, (first, bytes): (u64, u64), seed: u64) -> Made {
    let span = workload.span.min(bytes / workload.align * workload.align);
    Made::new(Workload { span, ..workload }, (first, bytes), seed)
}

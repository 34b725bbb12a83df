//! Workloads made after a paper's traces, on a part of an array.

use crate::array::load::{Load, Request};
use crate::trace::record::Op;
use crate::workload::{Workload, presets};

/// A workload that uses a part of an array.
#[derive(Clone)]
pub struct Placed {
    workload: Workload,
    first: u64,
    seed: u64,
}

impl Placed {
    /// The preset of this name, so many times as fast, on `bytes` of the array from `first`.
    pub fn of(name: &str, times: f64, (first, bytes): (u64, u64), seed: u64) -> Placed {
        let workload = presets::find(name).expect("a preset of ours").workload().times(times);
        let span = workload.span.min(bytes / workload.align * workload.align);
        Placed { workload: Workload { span, ..workload }, first, seed }
    }

    /// The same with such a part of reads.
    pub fn reading(mut self, share: f64) -> Placed {
        self.workload.read_share = share;
        self
    }
}

impl Load for Placed {
    fn requests(&self) -> Box<dyn Iterator<Item = Request>> {
        let first = self.first;
        let request = move |record: crate::trace::record::Record| Request {
            at: record.at,
            read: record.op == Op::Read,
            offset: first + record.offset,
            len: record.len,
        };
        Box::new(self.workload.requests(self.seed).map(request))
    }

    fn largest_write(&self) -> u64 {
        self.workload.largest_write()
    }
}

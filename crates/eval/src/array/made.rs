//! A workload of `crate::workload` as a load of an array: presets of the papers' traces, and what
//! was fitted to a trace. Requests are made while they are played; none is kept.

use std::rc::Rc;

use super::load::{Load, Request};
use crate::trace::record::{Op, Record};
use crate::trace::transform::clamp;
use crate::workload::Workload;

#[derive(Clone)]
pub struct Made {
    workload: Rc<Workload>,
    /// Part of the array it uses: first byte and bytes.
    first: u64,
    size: u64,
    seed: u64,
}

impl Made {
    /// On a part of an array, which may be smaller than the space of the workload: that is folded.
    pub fn new(workload: Workload, (first, size): (u64, u64), seed: u64) -> Made {
        // A whole number of what places begin at multiples of.
        let size = (size / workload.align * workload.align).max(workload.align);
        Made { workload: Rc::new(workload), first, size, seed }
    }
}

/// A request of a trace on a part of an array.
pub fn request(record: Record, (first, size): (u64, u64)) -> Request {
    let mut record = record;
    clamp(&mut record, size);
    let Record { at, offset, len, op, .. } = record;
    Request { at, read: op == Op::Read, offset: first + offset, len }
}

impl Load for Made {
    fn requests(&self) -> Box<dyn Iterator<Item = Request>> {
        let part = (self.first, self.size);
        Box::new(self.workload.requests(self.seed).map(move |record| request(record, part)))
    }

    fn largest_write(&self) -> u64 {
        self.workload.largest_write().min(self.size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::presets;

    #[test]
    fn a_preset_plays_within_its_part_and_the_same_every_time() {
        let workload = presets::find("exchange").expect("a preset").workload();
        let (first, size) = (1 << 30, 3 << 30);
        let made = Made::new(workload.clone(), (first, size), 1);
        let requests: Vec<Request> = made.requests().take(20_000).collect();
        assert!(requests.iter().all(|r| r.offset >= first && r.offset + r.len <= first + size));
        assert!(requests.iter().all(|r| r.offset % 4096 == 0 && r.len % 4096 == 0));
        assert!(requests.is_sorted_by_key(|request| request.at));
        let writes = requests.iter().filter(|request| !request.read);
        assert_eq!(writes.clone().count(), 14_000);
        assert!(writes.map(|request| request.len).max() <= Some(made.largest_write()));
        assert!(made.requests().take(20_000).eq(requests));
        let other = Made::new(workload, (first, size), 2);
        assert!(!other.requests().take(100).eq(made.requests().take(100)));
    }
}

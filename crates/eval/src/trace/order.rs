//! Requests in the order of time. Traces written at completion, or by several processors, are out
//! of order by a little; a bounded number of requests is held back to mend that.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::record::Record;

/// Requests held back. A queue of a device is shorter; what comes later than so many others is
/// not late, the clock was set back.
pub const WINDOW: usize = 4096;

#[derive(Default)]
pub struct Order {
    /// By time, then as they came.
    held: BinaryHeap<Reverse<(u64, u64, Record)>>,
    came: u64,
    newest: u64,
    given: u64,
    /// Requests with a time before one that came before them.
    pub backward: u64,
    /// Of these, those too far back: they get the time of the request given out last.
    pub late: u64,
}

impl Order {
    /// Times are still those of the file.
    pub fn put(&mut self, record: Record) {
        let at = record.at.0;
        self.backward += u64::from(at < self.newest);
        self.late += u64::from(at < self.given);
        self.newest = self.newest.max(at);
        self.held.push(Reverse((at.max(self.given), self.came, record)));
        self.came += 1;
    }

    pub fn is_full(&self) -> bool {
        self.held.len() >= WINDOW
    }

    /// The earliest of those held, with its time.
    pub fn take(&mut self) -> Option<(u64, Record)> {
        let Reverse((at, _, record)) = self.held.pop()?;
        self.given = at;
        Some((at, record))
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::Op;
    use super::*;
    use io::Nanos;

    fn record(at: u64, offset: u64) -> Record {
        Record { at: Nanos(at), device: 0, offset, len: 512, op: Op::Read }
    }

    fn through(times: impl Iterator<Item = u64>) -> (Vec<(u64, u64)>, Order) {
        let mut order = Order::default();
        let mut out = Vec::new();
        for (offset, at) in (0..).zip(times) {
            order.put(record(at, offset));
            while order.is_full() {
                out.extend(order.take().map(|(at, record)| (at, record.offset)));
            }
        }
        out.extend(std::iter::from_fn(|| order.take()).map(|(at, record)| (at, record.offset)));
        (out, order)
    }

    #[test]
    fn a_little_disorder_is_mended_and_equal_times_keep_their_order() {
        let (out, order) = through([5, 3, 3, 9, 4].into_iter());
        assert_eq!(out, [(3, 1), (3, 2), (4, 4), (5, 0), (9, 3)]);
        assert_eq!((order.backward, order.late), (3, 0));
    }

    #[test]
    fn a_clock_set_back_stands_still_instead() {
        let count = 3 * WINDOW as u64;
        let (out, order) = through((0..count).map(|at| if at == 2 * count / 3 { 0 } else { at }));
        assert!(out.is_sorted_by_key(|&(at, _)| at));
        assert_eq!(out.len() as u64, count);
        assert_eq!((order.backward, order.late), (1, 1));
    }
}

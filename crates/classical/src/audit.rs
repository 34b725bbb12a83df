//! What drives hold, recounted: stripes that contradict themselves or their sums. For tests and
//! checks; nothing may be written meanwhile.

use io::{Buf, Env, join_all};

use crate::array::{Array, Inner};
use crate::grid::Redundancy;
use crate::limits::PAGE;
use crate::row::without;
use crate::sums::{is_lost, passes};

impl<E: Env> Array<E> {
    /// Stripes of a range whose drives disagree: parity that is not that of the data, copies that
    /// differ, pages that are not what their sums say, or would not be if they were solved for.
    pub async fn disagreeing(&self, offset: u64, len: u64) -> Vec<u64> {
        let mut wrong = Vec::new();
        for share in self.inner.grid.split(offset, len) {
            // Nobody has looked at what is owed: whatever it says, nobody has seen it.
            let owed = self.inner.is_owed(share.stripe);
            if !owed && !self.inner.agrees(share.stripe).await {
                wrong.push(share.stripe);
            }
        }
        wrong
    }
}

impl<E: Env> Inner<E> {
    async fn agrees(&self, stripe: u64) -> bool {
        let whole = (0..self.grid.width).map(|member| self.read_unseen(stripe, member));
        let members: Vec<Option<Buf>> = join_all(whole).await;
        (0..self.grid.chunk).step_by(PAGE as usize).all(|start| {
            let cut = |bytes: &Buf| bytes.slice(start as usize..(start + PAGE) as usize);
            let row: Vec<Option<Buf>> = members.iter().map(|m| m.as_ref().map(cut)).collect();
            let views: Vec<Option<&[u8]>> = row.iter().map(Option::as_deref).collect();
            self.row_agrees(stripe, start, &views)
        })
    }

    /// What is lost is what P says; Q must say the same.
    fn row_agrees(&self, stripe: u64, start: u64, row: &[Option<&[u8]>]) -> bool {
        let sums: Vec<u32> = (0..row.len()).map(|at| self.sum(stripe, at, start)).collect();
        let all_pass = |pages: &[Option<&[u8]>]| {
            let mut each = pages.iter().zip(&sums);
            each.all(|(page, sum)| page.is_none_or(|page| passes(*sum, page)))
        };
        if sums.iter().any(|sum| is_lost(*sum)) {
            return true;
        }
        let Some(shape) = self.shape() else {
            let mut there = row.iter().flatten();
            let first = there.next();
            let is_mirror = self.grid.redundancy == Redundancy::Mirror;
            return all_pass(row) && (!is_mirror || there.all(|copy| Some(copy) == first));
        };
        let missing: Vec<usize> = (0..row.len()).filter(|&at| row[at].is_none()).collect();
        if missing.len() > shape.parity() {
            return false;
        }
        let solved = without(shape, row, &missing);
        let mut full = row.to_vec();
        solved.iter().for_each(|(at, page)| full[*at] = Some(page));
        let parity: Vec<usize> = (shape.data()..shape.width()).collect();
        let right = without(shape, &full, &parity);
        all_pass(&full) && right.iter().all(|(at, page)| full[*at] == Some(&page[..]))
    }

    /// A member's chunk as its drive has it, whatever the sums say.
    async fn read_unseen(&self, stripe: u64, member: usize) -> Option<Buf> {
        if self.is_lost(stripe, member) {
            return None;
        }
        let (drive, offset) = self.address(stripe, member, 0);
        drive.read(offset, self.grid.chunk).await.ok()
    }
}

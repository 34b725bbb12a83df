//! Another array has the same data: what of this one is not vouched for, or not the same, may be
//! had from there.
//!
//! ```text
//!   checksums lost ── doubts, known_only_to ─┐
//!   neither old nor new ── take_unvouched ───┼─► whoever has both arrays copies
//!   other checksums where marked ── differs ─┘
//! ```

use std::collections::BTreeMap;
use std::ops::Range;

use io::{Durability, Env};

use crate::array::{Array, ArrayError, Inner};
use crate::limits::PAGE;
use crate::member::Member;
use crate::planted::{self, Bug};
use crate::sums::{LOST, Missed, UNKNOWN, UNVOUCHED, is_known, is_unsure};
use crate::verdict::{Known, Right};

impl<E: Env> Array<E> {
    /// Ranges of bytes whose checksums nobody knows since the array was opened: the checksum log
    /// was lost. Whatever they hold counts; whoever has it elsewhere may believe that rather.
    pub fn doubts(&self) -> Vec<Range<u64>> {
        let sums = self.inner.sums.as_ref();
        if !sums.is_some_and(|sums| sums.log.state.borrow().is_doubted()) {
            return Vec::new();
        }
        self.marked()
    }

    /// Ranges of bytes that were marked when the array was opened, and not looked at since.
    pub fn marked(&self) -> Vec<Range<u64>> {
        let bytes = self.inner.grid.stripe_bytes();
        let stripes = self.inner.owed.borrow().ranges();
        stripes.into_iter().map(|own| own.start * bytes..own.end * bytes).collect()
    }

    /// Ranges of bytes of pages whose checksums are lost here, as far as another array with the
    /// same shape and the same data has them. `written`: but for those of regions where all that
    /// the other one knows is that they are blank.
    pub fn known_only_to(&self, other: &Array<E>, written: bool) -> Vec<Range<u64>> {
        let inner = &self.inner;
        let pairs = inner.sums.as_ref().zip(other.inner.sums.as_ref());
        let Some((own, theirs)) = pairs.filter(|_| inner.grid.is_like(&other.inner.grid)) else {
            return Vec::new();
        };
        let lost = inner.members.iter().any(Member::is_lost);
        let is_sure = !lost && inner.suspects.borrow().is_empty();
        let sure = is_sure || planted::is(Bug::BelieveFoundChecksums);
        let missed = Missed { sure, written };
        let of = |drive| own.known_only_to(theirs, drive, missed);
        let pages = |drive| of(drive).into_iter().map(move |page| (drive, page));
        let pages = (0..inner.members.len()).flat_map(pages);
        pages.filter_map(|(drive, page)| inner.bytes_of_page(drive, page)).collect()
    }

    /// Pages of a range, by their first bytes, of which no checksum is known: whatever they hold
    /// counts.
    pub fn unknown(&self, offset: u64, len: u64) -> Vec<u64> {
        self.pages_with(offset, len, is_unsure)
    }

    /// The same of which nobody ever knew one: what was written once has one, or is in doubt.
    pub fn never_known(&self, offset: u64, len: u64) -> Vec<u64> {
        self.pages_with(offset, len, |sum| sum == UNKNOWN)
    }

    /// The same that a crash left neither old nor new, and that nobody has written since.
    pub fn unvouched(&self, offset: u64, len: u64) -> Vec<u64> {
        self.pages_with(offset, len, |sum| sum == UNVOUCHED)
    }

    fn pages_with(&self, offset: u64, len: u64, is_it: impl Fn(u32) -> bool) -> Vec<u64> {
        let is_it = |at: &u64| self.checksum_at(*at).is_some_and(&is_it);
        (offset / PAGE * PAGE..offset + len).step_by(PAGE as usize).filter(is_it).collect()
    }

    /// Of what these pages hold, by their first bytes, no checksum is known from now on: they were
    /// copied from where none was.
    pub async fn forget(&self, pages: &[u64]) -> Result<(), ArrayError> {
        self.say_of_pages(pages, UNKNOWN).await
    }

    /// These pages are lost: they were to be copied from where they are lost. Durable with the next
    /// flush.
    pub async fn note_lost(&self, pages: &[u64]) -> Result<(), ArrayError> {
        self.say_of_pages(pages, LOST).await
    }

    async fn say_of_pages(&self, pages: &[u64], sum: u32) -> Result<(), ArrayError> {
        if pages.is_empty() {
            return Ok(());
        }
        let inner = &self.inner;
        let _room = inner.reserve_log(pages.len()).await?;
        for at in pages {
            let (stripe, member, start) = self.place_of(*at);
            let logged = inner.set_sums(stripe, member, start, &[sum]);
            inner.written(&logged, Durability::Durable);
        }
        Ok(())
    }

    /// The stripe of a page of data, its member there, and where it begins in the chunk.
    fn place_of(&self, at: u64) -> (u64, usize, u64) {
        let grid = &self.inner.grid;
        let (stripe, within) = (at / grid.stripe_bytes(), at % grid.stripe_bytes());
        (stripe, (within / grid.chunk) as usize, within % grid.chunk)
    }

    /// None beyond its end, too: another array may be longer.
    fn checksum_at(&self, at: u64) -> Option<u32> {
        self.inner.sums.as_ref().filter(|_| at < self.size())?;
        let (stripe, member, start) = self.place_of(at);
        Some(self.inner.sum(stripe, member, start))
    }

    /// Resynchronizes the stripes of a range that were marked when the array was opened.
    pub async fn resync_range(&self, offset: u64, len: u64) -> Result<(), ArrayError> {
        self.inner.check_range(offset, len)?;
        let bytes = self.inner.grid.stripe_bytes();
        self.inner.resync_stripes(offset / bytes..(offset + len).div_ceil(bytes)).await
    }

    /// Pages, by their first bytes, that were looked at by opening, or since it was told what was
    /// written, and are neither what they were before nor what they should be after it: torn by the
    /// crash, or rotten. And the checksum that each should have after it.
    pub fn take_unvouched(&self) -> BTreeMap<u64, u32> {
        self.inner.unvouched.take()
    }

    /// Of these pages those whose checksums are not known to be the same in another array with the
    /// same shape.
    pub fn differs_from(&self, other: &Array<E>, of: &[Range<u64>]) -> Vec<Range<u64>> {
        let (inner, grid) = (&self.inner, &self.inner.grid);
        let have_sums = inner.sums.is_some() && other.inner.sums.is_some();
        if !have_sums || !grid.is_like(&other.inner.grid) {
            return Vec::new();
        }
        let pages = of.iter().flat_map(|own| own.clone().step_by(PAGE as usize));
        let same = |at: u64| {
            let sums = [self.checksum_at(at), other.checksum_at(at)];
            sums[0] == sums[1] && sums[0].is_some_and(is_known)
        };
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for at in pages.filter(|at| !same(*at)) {
            match ranges.last_mut().filter(|last| last.end == at) {
                Some(last) => last.end += PAGE,
                None => ranges.push(at..at + PAGE),
            }
        }
        ranges
    }

    /// A power cut may leave a page of its drives half written.
    pub fn tears(&self) -> bool {
        self.inner.tears
    }

    /// Marks stay: another array that has the same data lacks some of what was written.
    pub fn hold_marks(&self, held: bool) {
        self.inner.intents.held.set(held);
    }
}

impl<E: Env> Inner<E> {
    /// The bytes of the array that a drive's page holds; none if it is parity.
    fn bytes_of_page(&self, drive: usize, page: u64) -> Option<Range<u64>> {
        let (stripe, each) = (self.stripe_of_page(drive, page), self.grid.chunk / PAGE);
        let holds = |member: &usize| self.grid.place(stripe, *member) == (drive, page / each);
        let member = (0..self.grid.data()).find(holds)?;
        let chunk = stripe * self.grid.data() as u64 + member as u64;
        let at = chunk * self.grid.chunk + page % each * PAGE;
        Some(at..at + PAGE)
    }

    /// Whoever announces what was written, as soon as the array is open, may have such a page
    /// elsewhere. Until that is written here it has no checksum: the next opening has to ask again
    /// if this one is cut short.
    pub fn record_unvouched(
        &self,
        (stripe, start): (u64, u64),
        row: &[Known<'_>],
        right: &mut [Right],
    ) {
        let opens = self.sums.iter().any(|sums| sums.log.state.borrow().is_recovering());
        if self.announced.borrow().is_none() && !opens {
            return;
        }
        let data = row.iter().zip(right).enumerate().take(self.grid.data());
        let chunk = stripe * self.grid.data() as u64;
        let mut unvouched = self.unvouched.borrow_mut();
        let data = data.filter(|(_, (known, right))| known.is_unvouched(right));
        for (member, (known, right)) in data {
            unvouched.insert((chunk + member as u64) * self.grid.chunk + start, known.new);
            if self.mending.elsewhere && known.is_asked_for() {
                right.sum = UNVOUCHED;
            }
        }
    }
}

//! Scrub of a log whose medium keeps copies: every copy of every segment is read, held against the
//! checksums in the records, and put right from the other.
//!
//! ```text
//!   segment   [ head | header, blocks | header, blocks | ... | summary ]
//!   a copy      each page right?  a header by its own checksum, blocks by those in it
//!               no: written again from a copy that is; none is: lost, if it counts
//! ```
//! What is written of a segment does not change, so a scrub needs no lock: it keeps the segment
//! from being given back. What is appended meanwhile is looked at next time.
//!
//! A segment that has fewer copies than it could have, as a head rotted and what shows that the
//! rest is a copy, has nothing to be put right from: what counts of it is moved, as background work
//! does when it comes to it. After a scrub everything bears the loss of a drive again.

use std::rc::Rc;

use classical::sums::{UNKNOWN, sum_of_crc};
use classical::{Health, Note, Scrubbed, Unread};
use futures_util::future::LocalBoxFuture;
use io::{Buf, Env, join_all};

use super::bytes::{Head, Header, PAGE, Summary};
use super::medium::Copied;
use super::table::{Place, State};
use super::{Inner, SegmentLog};
use crate::care::{Kept, Step};
use crate::store::StoreError;

/// What there is of a segment to look at.
struct Extent {
    /// `None`: it is on the drives, as all of a closed segment is.
    head: Option<Head>,
    /// Pages of head and records.
    end: u32,
    closed: bool,
}

/// A page as a copy has it; `None`: the drive does not give it.
type Seen = Option<Buf>;

struct Copy {
    place: u32,
    /// From the segment's first page on.
    pages: Vec<Seen>,
}

impl<E: Env, M: Copied> Kept for SegmentLog<E, M> {
    fn has_sums(&self) -> bool {
        self.inner.shape.sums
    }

    fn health(&self) -> Health {
        let sums_memory = self.inner.table.borrow().sums_memory();
        Health { sums_memory, ..self.inner.medium.mending().health() }
    }

    fn take_notes(&self) -> Vec<Note> {
        self.inner.medium.mending().take_notes()
    }

    fn scrub_bytes(&self) -> u64 {
        let inner = &self.inner;
        let used = |number: &u32| inner.extent(*number).is_some();
        let copies = (0..inner.medium.numbers()).filter(used);
        let copies: usize = copies.map(|number| inner.medium.copies(number).len()).sum();
        copies as u64 * u64::from(inner.shape.pages) * PAGE
    }

    /// A segment at a time.
    fn scrub_some(&self, step: u64) -> LocalBoxFuture<'_, Step> {
        Box::pin(async move {
            let inner = &self.inner;
            let mut numbers = step as u32..inner.medium.numbers();
            let Some(number) = numbers.find(|number| inner.extent(*number).is_some()) else {
                return Ok((Scrubbed::default(), None));
            };
            let moved = inner.move_degraded(number).await?;
            let mut found = inner.scrub_segment(number).await;
            found.metadata += u64::from(moved);
            Ok((found, Some(u64::from(number) + 1)))
        })
    }
}

impl<E: Env, M: Copied> Inner<E, M> {
    fn extent(&self, number: u32) -> Option<Extent> {
        match self.table.borrow().state(number) {
            State::Closed => Some(Extent { head: None, end: self.shape.end(), closed: true }),
            State::Open => {
                let mut heads = self.heads.iter();
                let own = heads.find_map(|head| head.borrow().appends_to(number));
                // Before the first record its head may be on its way.
                let own = own.filter(|(_, end)| *end > 1);
                own.map(|(head, end)| Extent { head: Some(head), end, closed: false })
            }
            State::Full => {
                let closing = self.closing.borrow();
                let own = closing.iter().find(|full| full.head.number == number)?;
                let end = own.summary.pages.len() as u32;
                Some(Extent { head: Some(own.head), end, closed: false })
            }
            State::Free | State::Dead(_) | State::Awaited => None,
        }
    }

    /// True: it lacked a copy, and what counts of it is elsewhere now.
    async fn move_degraded(self: &Rc<Self>, number: u32) -> Result<bool, StoreError> {
        if self.extent(number).is_none() || self.medium.is_whole(number) {
            return Ok(false);
        }
        self.fill_degraded();
        self.close_all().await?;
        while self.is_degraded(number) && self.medium.room() == 0 {
            self.make_room().await?;
        }
        let _turn = self.clean_turn.lock().await;
        let lacks = self.is_degraded(number);
        if lacks {
            self.empty(number).await?;
        }
        Ok(lacks)
    }

    async fn scrub_segment(self: &Rc<Self>, number: u32) -> Scrubbed {
        let Some(extent) = self.extent(number) else { return Scrubbed::default() };
        let _pin = self.pin(number);
        let pages = if extent.closed { self.shape.pages } else { extent.end };
        let places = self.medium.copies(number);
        let copies = join_all(places.iter().map(|place| self.read_pages(*place, pages))).await;
        // A drive that is gone has no copy to put right.
        let copies: Vec<Copy> = copies.into_iter().flatten().collect();
        let bytes = copies.len() as u64 * u64::from(pages) * PAGE;
        let mut found = Scrubbed { bytes, ..Scrubbed::default() };
        let head = extent.head.or_else(|| {
            let first = copies.iter().filter_map(|copy| copy.pages[0].as_deref());
            self.head_of(number, first)
        });
        let Some(head) = head else {
            self.lose(number, &copies, 0, UNKNOWN, &mut found);
            return found;
        };
        let first = Buf::from_slice(&head.encode(&self.pool));
        found.metadata += self.put_right(number, &copies, 0, &first).await;
        let summary = self.scrub_records(&head, &extent, &copies, &mut found).await;
        if extent.closed {
            self.scrub_summary(&head, summary, &copies, &mut found).await;
        }
        found
    }

    /// `None`: the drive is gone.
    async fn read_pages(&self, place: u32, pages: u32) -> Option<Copy> {
        let page = |whole: &Buf, at: u32| {
            let from = (at as u64 * PAGE) as usize;
            Some(whole.slice(from..from + PAGE as usize))
        };
        match self.medium.read_copy(place, 0, u64::from(pages) * PAGE, &[]).await {
            Ok(whole) => {
                Some(Copy { place, pages: (0..pages).map(|at| page(&whole, at)).collect() })
            }
            Err(Unread::Absent) => None,
            Err(_) => {
                let each = (0..pages).map(|at| async move {
                    self.medium.read_copy(place, u64::from(at) * PAGE, PAGE, &[]).await.ok()
                });
                Some(Copy { place, pages: join_all(each).await })
            }
        }
    }

    /// Writes what a page should be to the copies that have something else; how many had.
    async fn put_right(&self, number: u32, copies: &[Copy], page: u32, right: &[u8]) -> u64 {
        let at = u64::from(page) * PAGE;
        let mut bad = 0;
        for copy in copies {
            let seen = copy.pages[page as usize].as_deref();
            if seen == Some(right) {
                continue;
            }
            bad += 1;
            let unread = seen.map_or(Unread::Refused, |_| Unread::Wrong);
            let data = Buf::from_slice(right);
            self.medium.rewrite(number, copy.place, at, data, unread).await;
        }
        bad
    }

    /// No copy of a page is what was written.
    fn lose(&self, number: u32, copies: &[Copy], page: u32, sum: u32, found: &mut Scrubbed) {
        found.bad += 1;
        found.lost += 1;
        let place = copies.first().map_or(number, |copy| copy.place);
        self.medium.tell_lost(place, u64::from(page) * PAGE, sum, Unread::Wrong);
    }

    /// Records, one after the other. What they say of each page; `None` where a header is lost.
    async fn scrub_records(
        &self,
        head: &Head,
        extent: &Extent,
        copies: &[Copy],
        found: &mut Scrubbed,
    ) -> Option<Summary> {
        let mut summary = Summary::begun();
        let (mut page, mut live, mut gaps) = (1, 0, Vec::new());
        while page < extent.end {
            let mut seen = copies.iter().filter_map(|copy| copy.pages[page as usize].as_deref());
            let header = seen.find_map(|bytes| {
                Some((Header::of(&self.pool, head, page, bytes)?, Buf::from_slice(bytes)))
            });
            let fits =
                |own: &(Header, Buf)| page as usize + own.0.entries.len() < extent.end as usize;
            let Some((header, right)) = header.filter(fits) else {
                // Behind the end, or a header that nobody has.
                gaps.push(page);
                page += 1;
                continue;
            };
            found.metadata += self.put_right(head.number, copies, page, &right).await;
            summary.add(&header);
            for (entry, page) in header.entries.iter().zip(page + 1..) {
                let passes = |bytes: &&[u8]| crc32c::crc32c(bytes) == entry.crc;
                let mut seen =
                    copies.iter().filter_map(|copy| copy.pages[page as usize].as_deref());
                let counts = self.counts(head.number, page, entry.block);
                live += u32::from(counts);
                if let Some(right) = seen.find(passes) {
                    let bad = self.put_right(head.number, copies, page, right).await;
                    found.bad += bad;
                    found.repaired += bad;
                } else if counts {
                    self.lose(head.number, copies, page, sum_of_crc(entry.crc), found);
                }
            }
            page += 1 + header.entries.len() as u32;
        }
        let lacks = live < self.table.borrow().live(head.number);
        let lacking = lacks && self.scrub_without_header(head.number, copies, &gaps, found);
        (!lacking).then_some(summary)
    }

    /// The block is nowhere else.
    fn counts(&self, segment: u32, page: u32, block: u32) -> bool {
        let table = self.table.borrow();
        block < table.blocks() && table.find(block) == Some(Place { segment, page })
    }

    /// Pages in no record that is known. True: some of them count.
    fn scrub_without_header(
        &self,
        number: u32,
        copies: &[Copy],
        gaps: &[u32],
        found: &mut Scrubbed,
    ) -> bool {
        let live = self.table.borrow().live_pages(number);
        for &page in gaps.iter().filter(|page| live.contains(page)) {
            let mut seen = copies.iter().filter_map(|copy| copy.pages[page as usize].as_deref());
            let first = seen.next();
            // Copies that are the same were not changed by chance.
            let same = copies.len() > 1 && seen.all(|other| Some(other) == first);
            if first.is_none() || !same {
                self.lose(number, copies, page, UNKNOWN, found);
            }
        }
        gaps.iter().any(|page| live.contains(page))
    }

    /// The summary of a closed segment, from a copy or from its records.
    async fn scrub_summary(
        &self,
        head: &Head,
        records: Option<Summary>,
        copies: &[Copy],
        found: &mut Scrubbed,
    ) {
        let (pages, end) = (self.shape.pages, self.shape.end());
        let whole = |copy: &Copy| {
            let each: Option<Vec<&[u8]>> =
                copy.pages[end as usize..].iter().map(Option::as_deref).collect();
            let bytes = each?.concat();
            Summary::decode(&self.pool, head, self.shape, &bytes).map(|_| bytes)
        };
        let made = || records.map(|records| records.encode(&self.pool, head, self.shape));
        let Some(right) = copies.iter().find_map(whole).or_else(made) else {
            self.lose(head.number, copies, end, UNKNOWN, found);
            return;
        };
        for (page, right) in (end..pages).zip(right.chunks_exact(PAGE as usize)) {
            found.metadata += self.put_right(head.number, copies, page, right).await;
        }
    }
}

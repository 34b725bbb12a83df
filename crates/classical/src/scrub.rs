//! Scrub: every page of every drive is read, compared with its sum and with the others of its row,
//! and put right; then what drives have beside chunks.
//!
//! ```text
//!  stripes, some at a time, locked: settle ── look ── mend what is bad
//!            └ a row without gaps: parity and copies fit ── unknown sums learned
//!                                  they don't ── what nobody vouches for is computed anew
//!  then pages of sums, the checksum log, write intents, labels
//! ```
//! In small steps, so that whoever calls can pace it, beside requests. Without sums pages that a
//! drive refuses are written again, and parity and copies that do not fit their data.

use std::ops::{AddAssign, Range};
use std::rc::Rc;

use format::{LABEL_LEN, Superblock, label_offsets};
use io::{Buf, Durability, Env, join_all};

use crate::array::{Array, ArrayError, Inner};
use crate::grid::Redundancy;
use crate::intents::{self, Intents};
use crate::label;
use crate::limits::{PAGE, SCRUB_AT_ONCE, SCRUB_SUMS_AT_ONCE};
use crate::mend::{Mended, Row, Unread};
use crate::row::without;
use crate::sums::{UNKNOWN, is_known, is_unsure, passes};

/// What a step of a scrub came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scrubbed {
    /// Bytes of drives read.
    pub bytes: u64,
    /// Pages that were not what was written, or that a drive refused; of them those written again.
    pub bad: u64,
    pub repaired: u64,
    /// Pages of parity, and copies, that did not fit their data and were written anew.
    pub parity: u64,
    /// Pages that nothing gives.
    pub lost: u64,
    /// Labels, pages of intents, of sums and of the checksum log that were damaged.
    pub metadata: u64,
}

impl AddAssign for Scrubbed {
    fn add_assign(&mut self, other: Scrubbed) {
        self.bytes += other.bytes;
        self.bad += other.bad;
        self.repaired += other.repaired;
        self.parity += other.parity;
        self.lost += other.lost;
        self.metadata += other.metadata;
    }
}

impl<E: Env> Array<E> {
    /// Bytes of drives that a scrub reads, those of chunks.
    pub fn scrub_bytes(&self) -> u64 {
        let grid = self.inner.grid;
        grid.rows * grid.chunk * grid.drives as u64
    }

    /// Looks at what follows a step before; `None`: that was the last one. The first is 0.
    pub async fn scrub_some(&self, step: u64) -> Result<(Scrubbed, Option<u64>), ArrayError> {
        let inner = &self.inner;
        let stripes = inner.grid.stripes();
        if step < stripes {
            let end = stripes.min(step + SCRUB_AT_ONCE);
            let each = join_all((step..end).map(|stripe| inner.scrub_stripe(stripe))).await;
            let mut found = Scrubbed::default();
            for one in each {
                found += one?;
            }
            return Ok((found, Some(end)));
        }
        let numbers = inner.sums.as_ref().map_or(0, |sums| sums.area.numbers);
        let first = (step - stripes) * SCRUB_SUMS_AT_ONCE;
        if first < numbers {
            let some = first..numbers.min(first + SCRUB_SUMS_AT_ONCE);
            let metadata = inner.scrub_sums(some).await?;
            return Ok((Scrubbed { metadata, ..Scrubbed::default() }, Some(step + 1)));
        }
        let (log, intents) = (inner.scrub_log().await?, inner.scrub_intents().await?);
        let metadata = log + intents + inner.scrub_labels().await?;
        Ok((Scrubbed { metadata, ..Scrubbed::default() }, None))
    }

    /// Bytes of data that a step looks at.
    pub fn scrub_range(&self, step: u64) -> Range<u64> {
        let grid = &self.inner.grid;
        let [from, to] = [step, step + SCRUB_AT_ONCE].map(|stripe| stripe.min(grid.stripes()));
        from * grid.stripe_bytes()..to * grid.stripe_bytes()
    }

    /// Nothing is in this range that anybody needs: pages of it that are lost are zeroes from now
    /// on. How many, of all drives.
    pub async fn blank_lost(&self, range: Range<u64>) -> Result<u64, ArrayError> {
        let bytes = self.inner.grid.stripe_bytes();
        let mut blanked = 0;
        for stripe in range.start / bytes..range.end.div_ceil(bytes) {
            let first = stripe * bytes;
            let own = range.start.max(first) - first..range.end.min(first + bytes) - first;
            blanked += self.inner.blank_lost_of(stripe, own).await?;
        }
        Ok(blanked)
    }
}

impl<E: Env> Inner<E> {
    async fn scrub_stripe(self: &Rc<Self>, stripe: u64) -> Result<Scrubbed, ArrayError> {
        let _lock = self.lock(stripe).await;
        self.settle(stripe).await?;
        let pages = self.grid.width * (self.grid.chunk / PAGE) as usize;
        let _room = self.reserve_log(pages).await?;
        let rows = self.look(stripe, 0..self.grid.chunk).await;
        let there = self.grid.width - self.lost_members(stripe).len();
        let bytes = there as u64 * self.grid.chunk;
        let mut found = Scrubbed { bytes, ..Scrubbed::default() };
        let Mended { bad, repaired, lost } = self.mend(stripe, &rows).await;
        (found.bad, found.repaired, found.lost) = (bad, repaired, lost);
        for row in &rows {
            self.fit(stripe, row, &mut found).await;
        }
        self.record_losses().await?;
        Ok(found)
    }

    /// `range`: bytes of the stripe's data.
    async fn blank_lost_of(
        self: &Rc<Self>,
        stripe: u64,
        range: Range<u64>,
    ) -> Result<u64, ArrayError> {
        let _lock = self.lock(stripe).await;
        self.settle(stripe).await?;
        let pages = self.grid.width * (self.grid.chunk / PAGE) as usize;
        let _room = self.reserve_log(pages).await?;
        let is_mirror = self.grid.redundancy == Redundancy::Mirror;
        let zeroes = Buf::zeroed(PAGE as usize);
        let mut blanked = 0;
        for row in self.look(stripe, 0..self.grid.chunk).await {
            let is_within = |member: usize| {
                // Of a mirror each member is a copy.
                let chunk = if is_mirror { 0 } else { member as u64 * self.grid.chunk };
                range.contains(&(chunk + row.start)) && (is_mirror || member < self.grid.data())
            };
            let lost = |member: &usize| row.solved[*member].is_none() && is_within(*member);
            let lost: Vec<usize> = (0..self.grid.width).filter(lost).collect();
            for &member in &lost {
                let Err(unread) = row.seen[member] else { continue };
                if self.rewrite(stripe, member, row.start, &zeroes, unread).await {
                    self.know(stripe, member, row.start, &zeroes);
                    blanked += 1;
                }
            }
            if !lost.is_empty() && !is_mirror {
                // It follows from what is there now.
                for parity in self.grid.data()..self.grid.width {
                    let logged = self.set_sums(stripe, parity, row.start, &[UNKNOWN]);
                    self.written(&logged, Durability::Durable);
                }
            }
        }
        self.record_losses().await?;
        Ok(blanked)
    }

    /// A row whose pages all are there, or follow: whether they fit.
    async fn fit(&self, stripe: u64, row: &Row, found: &mut Scrubbed) {
        let pages: Option<Vec<&[u8]>> = row.solved.iter().map(Option::as_deref).collect();
        let Some(pages) = pages else { return };
        let sums: Vec<u32> =
            (0..pages.len()).map(|member| self.sum(stripe, member, row.start)).collect();
        let Some((right, is_data)) = self.fitting(&pages, &sums) else { return };
        if right.iter().zip(&pages).any(|(right, page)| right[..] != **page) {
            // What a drive that is away has there need not fit either.
            self.kept.touch(self.intents.region(stripe));
        }
        for (member, page) in right.iter().enumerate() {
            let differs = matches!(&row.seen[member], Ok(seen) if seen[..] != page[..]);
            if differs && is_data {
                found.bad += 1;
                let page = Buf::from_slice(page);
                let wrong = Unread::Wrong;
                let done = self.rewrite(stripe, member, row.start, &page, wrong).await;
                found.repaired += u64::from(done);
            } else if differs {
                let (drive, offset) = self.address(stripe, member, row.start);
                let page = Buf::from_slice(page);
                let done = drive.write(offset, page, Durability::Durable).await;
                found.parity += u64::from(done.is_ok());
            }
            self.know(stripe, member, row.start, page);
        }
    }

    /// What the pages of a row should be, and whether the sums say so; else it is only that copies
    /// and parity follow what is data. `None`: the sums contradict each other.
    fn fitting(&self, pages: &[&[u8]], sums: &[u32]) -> Option<(Vec<Vec<u8>>, bool)> {
        let owned = || pages.iter().map(|page| page.to_vec()).collect::<Vec<_>>();
        let Some(shape) = self.shape() else {
            if self.grid.redundancy != Redundancy::Mirror {
                return Some((owned(), true));
            }
            let known = (0..pages.len()).find(|&at| is_known(sums[at]));
            let good = pages[known.unwrap_or(0)].to_vec();
            return Some((vec![good; pages.len()], known.is_some()));
        };
        let views: Vec<Option<&[u8]>> = pages.iter().copied().map(Some).collect();
        let parity: Vec<usize> = (shape.data()..shape.width()).collect();
        let follows = without(shape, &views, &parity);
        if follows.iter().all(|(at, page)| page[..] == *pages[*at]) {
            return Some((owned(), true));
        }
        // Those that nobody vouches for follow from the others, if these are enough.
        let unsure: Vec<usize> = (0..pages.len()).filter(|&at| is_unsure(sums[at])).collect();
        let by_sums = !unsure.is_empty() && unsure.len() <= shape.parity();
        let mut right = owned();
        let solved = if by_sums { without(shape, &views, &unsure) } else { follows };
        solved.into_iter().for_each(|(at, page)| right[at] = page);
        let fits = right.iter().zip(sums).all(|(page, sum)| passes(*sum, page));
        fits.then_some((right, by_sums))
    }

    // ---- beside chunks

    async fn scrub_sums(&self, numbers: Range<u64>) -> Result<u64, ArrayError> {
        let hosts = 0..self.grid.drives;
        let each = join_all(hosts.map(|host| self.check_sums(host, numbers.clone()))).await;
        // Also what the scrub has learned.
        self.store_all_sums().await?;
        Ok(each.into_iter().sum())
    }

    async fn scrub_intents(&self) -> Result<u64, ArrayError> {
        let mut bad = 0;
        {
            let _turn = self.intents.turn.lock().await;
            let (pool, at) = {
                let label = self.label.borrow();
                (label.pool, label.meta.offset)
            };
            let stripes = self.grid.stripes();
            let regions = stripes.div_ceil(intents::region_stripes(stripes)) as usize;
            let Some(newest) = self.intents.sequence.get().checked_sub(1) else { return Ok(0) };
            for member in self.members.iter().filter(|member| !member.is_lost()) {
                bad += match member.read(at + Intents::place(newest), PAGE).await {
                    Ok(page) => {
                        let found = intents::decode(&pool, &page, regions);
                        u64::from(found.is_none_or(|found| found.sequence != newest))
                    }
                    Err(error) => u64::from(error.is_refusal()),
                };
            }
        }
        if bad > 0 {
            self.write_intents().await?;
        }
        Ok(bad)
    }

    /// Labels are written anew, all of them, if one is not as it should be.
    async fn scrub_labels(&self) -> Result<u64, ArrayError> {
        let mut bad = 0;
        {
            let _turn = self.label_turn.lock().await;
            let label = self.label.borrow().clone();
            for (index, member) in self.members.iter().enumerate() {
                if member.is_lost() {
                    continue;
                }
                let own = label::for_drive(&label, index);
                for offset in label_offsets(own.drive_size) {
                    bad += match member.read(offset, LABEL_LEN as u64).await {
                        Ok(bytes) => {
                            let found = Superblock::decode(&bytes);
                            u64::from(found.map_or(true, |(found, _)| found != own))
                        }
                        Err(error) => u64::from(error.is_refusal()),
                    };
                }
            }
            if bad > 0 {
                self.write_label().await;
            }
        }
        self.record_losses().await?;
        Ok(bad)
    }
}

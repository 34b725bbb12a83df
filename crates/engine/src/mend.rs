//! Mending: pages that are wrong, or that a drive refuses, are found out page by page, had from
//! elsewhere, and written back.
//!
//! ```text
//!  a read fails, or is not as the sums say ──> another way ──> answer
//!                    │                          └ none: page by page (`salvage`)
//!                    └──> mend: every member of these rows is looked at ──> what is bad is written
//! ```
//! Whoever mends has a read guard, so that the stripe is not given away meanwhile, and the turn, so
//! that nothing is counted twice. Only pages are written that were written in this life of their
//! stripe, with the same bytes: whoever writes beside it writes elsewhere, or the same.
//!
//! A page is lost when no way to it is left although the drives are there, or no more are gone
//! than the parity bears. Reads of it fail; that is all it costs.

mod lost;
mod report;
mod solve;

use format::StripeId;
use io::slice::spend;
use io::{Buf, BufMut, DriveErrorKind, Durability, Env, PAGE, join_all};
use smallvec::SmallVec;

use crate::api::RequestError;
use crate::geometry::{BlockAddress, Class};
use crate::limits::MENDS_MAX;
use crate::shard::Shard;
use crate::source::Source;
use crate::space::Kind;
use crate::sums::sum_of;
use solve::{Solved, solve_copies, solve_row};

pub use lost::{LostPage, Whose};
pub use report::Mending;

/// What there is of one page.
#[derive(Clone, Debug)]
enum Seen {
    Page(Buf),
    /// The drive is there and should hold it, and doesn't give it.
    Refused,
    /// The drive is gone, or is not to be asked yet.
    Absent,
}

/// Blocks that belong together.
pub enum Unit {
    /// Of a slot of a tuple: the same bytes each, as far as written.
    Copies { slot: usize, members: Vec<BlockAddress> },
    /// Of a stripe: data, then parity.
    Stripe { members: Vec<BlockAddress> },
}

impl Unit {
    pub fn members(&self) -> &[BlockAddress] {
        match self {
            Unit::Copies { members, .. } | Unit::Stripe { members } => members,
        }
    }
}

/// One page of every member of a unit.
pub struct Row {
    page: usize,
    seen: Vec<Seen>,
    solved: Solved,
    /// Members that hold data that counts: it has a sum.
    live: Vec<bool>,
}

impl Row {
    fn is_refused(&self, member: usize) -> bool {
        matches!(self.seen[member], Seen::Refused)
    }

    /// Wrong or refused.
    fn bad(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.seen.len()).filter(|&at| self.is_refused(at) || self.solved.wrong.contains(&at))
    }

    pub fn is_sound(&self) -> bool {
        self.bad().next().is_none()
    }

    fn absent(&self) -> usize {
        self.seen.iter().filter(|seen| matches!(seen, Seen::Absent)).count()
    }
}

/// What mending came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mended {
    pub bad: u64,
    pub repaired: u64,
    pub parity: u64,
    pub lost: SmallVec<[LostPage; 2]>,
}

impl<E: Env> Shard<E> {
    // ---- looking

    /// A RAID stripe or a tuple's stripe 0; nothing else is anybody's to read.
    pub fn units(&self, class: &Class, stripe: StripeId) -> Vec<Unit> {
        let state = self.state.borrow();
        let now = state.space.class_of_zone(stripe.zone);
        if now.is_none_or(|now| now.id != class.id) {
            return Vec::new();
        }
        let address = |stripe, position| state.space.address(class, stripe, position);
        match state.space.kind(stripe) {
            Kind::Raid => {
                let members = (0..class.width()).map(|position| address(stripe, position));
                vec![Unit::Stripe { members: members.collect() }]
            }
            Kind::Tuple => {
                let Some(tuple) = state.space.tuple(stripe) else { return Vec::new() };
                let copies = |slot: usize| {
                    let numbered = tuple.stripes.iter().enumerate();
                    let at = |(copy, &stripe)| address(stripe, tuple.position(slot, copy));
                    Unit::Copies { slot, members: numbered.map(at).collect() }
                };
                (0..class.data()).filter(|&slot| tuple.filled[slot] > 0).map(copies).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Pages `first..first + count` of a unit.
    pub async fn look(
        &self,
        class: &Class,
        stripe: StripeId,
        unit: &Unit,
        (first, count): (usize, usize),
    ) -> Vec<Row> {
        let see = |&at: &BlockAddress| self.see(at, first, count);
        let members = join_all(unit.members().iter().map(see)).await;
        let row = |at: usize| {
            let seen: Vec<Seen> = members.iter().map(|pages| pages[at].clone()).collect();
            self.row(class, stripe, unit, first + at, seen)
        };
        let mut rows = Vec::with_capacity(count);
        for at in 0..count {
            // A slot may be written further meanwhile: its sums are those of when it was read.
            if let Unit::Stripe { .. } = unit {
                // Each page is summed up, and all together are.
                spend(members.len() * 2 * PAGE / 1024).await;
            }
            rows.push(row(at));
        }
        rows
    }

    fn row(
        &self,
        class: &Class,
        stripe: StripeId,
        unit: &Unit,
        page: usize,
        seen: Vec<Seen>,
    ) -> Row {
        let sum = |position| self.state.borrow().sums.get(class, stripe, position, page);
        let pages: Vec<Option<Buf>> = seen
            .iter()
            .map(|seen| if let Seen::Page(page) = seen { Some(page.clone()) } else { None })
            .collect();
        let (solved, live) = match unit {
            Unit::Copies { slot, .. } => {
                let sum = sum(*slot);
                let mut solved = solve_copies(sum, &pages);
                if sum == 0 && self.has_sums() {
                    // Never written, or nobody's any more: copies may differ.
                    solved.wrong.clear();
                }
                (solved, vec![sum != 0; seen.len()])
            }
            Unit::Stripe { .. } => {
                let sums: Vec<u32> = (0..class.data()).map(sum).collect();
                let live = (0..seen.len()).map(|at| sums.get(at).is_some_and(|sum| *sum != 0));
                (solve_row(class.shape, &sums, &pages), live.collect())
            }
        };
        Row { page, seen, solved, live }
    }

    async fn see(&self, at: BlockAddress, first: usize, count: usize) -> Vec<Seen> {
        let from = at.offset + (first * PAGE) as u64;
        match self.array.read(at.drive, from, count * PAGE).await {
            Ok(pages) => {
                let page = |page: usize| Seen::Page(pages.slice(page * PAGE..(page + 1) * PAGE));
                (0..count).map(page).collect()
            }
            Err(error) if error.kind == DriveErrorKind::Removed => vec![Seen::Absent; count],
            Err(_) => {
                let mut seen = Vec::with_capacity(count);
                for page in 0..count {
                    let from = from + (page * PAGE) as u64;
                    seen.push(match self.array.read(at.drive, from, PAGE).await {
                        Ok(page) => Seen::Page(page),
                        Err(error) if error.is_refusal() => Seen::Refused,
                        Err(_) => Seen::Absent,
                    });
                }
                seen
            }
        }
    }

    pub fn has_sums(&self) -> bool {
        self.state.borrow().sums.is_enabled()
    }

    // ---- reading

    /// What was read of a block is what was written there. Nobody changes its sums while it is
    /// read.
    pub fn is_right(&self, source: &Source, first: u64, pages: &[u8]) -> bool {
        let (state, at) = (self.state.borrow(), (source.stripe, source.position));
        let first = (first / PAGE as u64) as usize;
        state.sums.wrong_page(&source.class, at, first, pages).is_none()
    }

    /// Bytes of a block that can't be had in one way: each page in its own.
    pub async fn salvage(
        &self,
        source: &Source,
        first: u64,
        len: usize,
    ) -> Result<Buf, RequestError> {
        let Source { class, stripe, position, copies } = source;
        let (unit, member) = if copies.len() > 1 {
            (Unit::Copies { slot: *position, members: copies.to_vec() }, 0)
        } else {
            let at = |position| self.address(class, *stripe, position);
            (Unit::Stripe { members: (0..class.width()).map(at).collect() }, *position)
        };
        let pages = ((first / PAGE as u64) as usize, len / PAGE);
        let rows = self.look(class, *stripe, &unit, pages).await;
        let mut out = BufMut::zeroed(len);
        for (at, row) in rows.iter().enumerate() {
            let Some(page) = &row.solved.pages[member] else {
                return Err(self.lost_page(class, *stripe, &unit, row, member));
            };
            out[at * PAGE..(at + 1) * PAGE].copy_from_slice(page);
        }
        self.count(|counters| counters.salvaged_reads += 1);
        Ok(out.freeze())
    }

    /// Says that a page can't be had, once of each.
    fn lost_page(
        &self,
        class: &Class,
        stripe: StripeId,
        unit: &Unit,
        row: &Row,
        member: usize,
    ) -> RequestError {
        // Of copies the one that stays is named.
        let (at, position) = match unit {
            Unit::Copies { slot, .. } => (self.address(class, stripe, *slot), *slot),
            Unit::Stripe { members } => (members[member], member),
        };
        let byte = at.offset + (row.page * PAGE) as u64;
        let parity = class.parity();
        if row.absent() <= parity && !self.read_only {
            let sum = self.state.borrow().sums.get(class, stripe, position, row.page);
            self.tell_lost_page(at.drive, byte, sum);
        }
        RequestError::Io(format!(
            "drive {}, byte {byte}: the page can't be read, and stripe {stripe} has lost more than \
             its {parity} parity there",
            self.drive_name(at.drive)
        ))
    }

    // ---- mending

    /// Something is wrong with these pages of a block: looks at them, and puts them right, beside
    /// what else goes on. Beyond a bound it is left to a scrub.
    pub fn mend_later(&self, source: &Source, first: u64, len: usize) {
        let class = source.class.clone();
        let slow = || class.drives(source.stripe).iter().any(|&drive| self.array.is_slow(drive));
        if self.check_usable().is_err() || self.mending.waiting.get() >= MENDS_MAX || slow() {
            return;
        }
        let (shard, guard) = (self.own(), self.reads.enter());
        let (stripe, position) = (source.stripe, source.position);
        let pages = ((first / PAGE as u64) as usize, len / PAGE);
        self.mending.waiting.set(self.mending.waiting.get() + 1);
        self.array.leftovers.leave(&self.env, async move {
            for unit in shard.units(&class, stripe) {
                let concerned = match &unit {
                    Unit::Copies { slot, .. } => *slot == position,
                    Unit::Stripe { .. } => true,
                };
                if concerned {
                    shard.mend(&class, stripe, &unit, pages).await;
                }
            }
            drop(guard);
            shard.mending.waiting.set(shard.mending.waiting.get() - 1);
        });
    }

    /// Puts right what is bad in these pages. The caller has a read guard from when the stripe was
    /// somebody's.
    pub async fn mend(
        &self,
        class: &Class,
        stripe: StripeId,
        unit: &Unit,
        pages: (usize, usize),
    ) -> Mended {
        let _turn = self.mending.turn.lock().await;
        let mut mended = Mended::default();
        let rows = self.look(class, stripe, unit, pages).await;
        for row in rows.iter().filter(|row| !row.is_sound()) {
            let one = self.mend_row(class, stripe, unit, row).await;
            mended.bad += one.bad;
            mended.repaired += one.repaired;
            mended.parity += one.parity;
            mended.lost.extend(one.lost);
        }
        // A drive that would not take it has failed.
        let _ = self.record_failures().await;
        mended
    }

    async fn mend_row(&self, class: &Class, stripe: StripeId, unit: &Unit, row: &Row) -> Mended {
        let mut mended = Mended::default();
        let is_parity = |at: usize| matches!(unit, Unit::Stripe { .. }) && at >= class.data();
        let bad: SmallVec<[usize; 4]> = row.bad().collect();
        for at in bad {
            let member = unit.members()[at];
            let byte = member.offset + (row.page * PAGE) as u64;
            let refused = row.is_refused(at);
            match &row.solved.pages[at] {
                // Without sums nobody knows which of two is wrong.
                Some(_) if !refused && !self.has_sums() => mended.bad += 1,
                Some(page) => {
                    let write =
                        self.array.write(member.drive, byte, page.clone(), Durability::Cached);
                    let done = write.await.is_ok();
                    if is_parity(at) && !refused {
                        mended.parity += u64::from(done);
                        self.count(|counters| counters.mended_parity += u64::from(done));
                    } else {
                        mended.bad += 1;
                        mended.repaired += u64::from(done);
                        self.note_mended(member.drive, byte, refused, done);
                    }
                }
                // The rest of a row without its data says nothing of parity.
                None if is_parity(at) && !refused => {}
                None => {
                    mended.bad += 1;
                    // Copies of a page are lost together.
                    let first = matches!(unit, Unit::Stripe { .. }) || row.bad().next() == Some(at);
                    if row.live[at] && row.absent() <= class.parity() && first {
                        let position = match unit {
                            Unit::Copies { slot, .. } => *slot,
                            Unit::Stripe { .. } => at,
                        };
                        mended.lost.push(LostPage { stripe, position, page: row.page });
                        self.lost_page(class, stripe, unit, row, at);
                    }
                }
            }
        }
        mended
    }

    /// What was found bad on the way to something else.
    async fn mend_unsound(&self, class: &Class, stripe: StripeId, unit: &Unit, rows: &[Row]) {
        if let Some(first) = rows.iter().position(|row| !row.is_sound()) {
            let (first, count) = (rows[first].page, rows.len() - first);
            self.mend(class, stripe, unit, (first, count)).await;
        }
    }

    // ---- for those who have to go on without a page

    /// A slot's bytes as far as they can be had, for stripe 0's block. Where a page is lost: what
    /// is there now, or something that will not pass for what was lost. `None`: a drive is gone
    /// that may have it.
    pub async fn slot_as_it_is(
        &self,
        class: &Class,
        stripe: StripeId,
        slot: usize,
        pages: usize,
    ) -> Option<Buf> {
        let unit = self
            .units(class, stripe)
            .into_iter()
            .find(|unit| matches!(unit, Unit::Copies { slot: at, .. } if *at == slot))?;
        let own = self.address(class, stripe, slot);
        let member = unit.members().iter().position(|at| *at == own)?;
        self.mend(class, stripe, &unit, (0, pages)).await;
        let rows = self.look(class, stripe, &unit, (0, pages)).await;
        let mut out = BufMut::zeroed(pages * PAGE);
        for (at, row) in rows.iter().enumerate() {
            let place = &mut out[at * PAGE..(at + 1) * PAGE];
            match (&row.solved.pages[member], &row.seen[member]) {
                // What has no sum stays as it is: parity must describe what stays.
                (_, Seen::Page(page)) if !row.live[member] => place.copy_from_slice(page),
                (Some(page), _) => place.copy_from_slice(page),
                (None, _) if row.absent() > 0 => return None,
                (None, Seen::Page(page)) => place.copy_from_slice(page),
                (None, _) => place.copy_from_slice(&self.unlike(class, stripe, slot, row.page)),
            }
        }
        Some(out.freeze())
    }

    /// The same for a drive's copy of a slot, from the others. `None`: a drive is gone that may
    /// have what is lost.
    pub async fn copy_as_it_is(&self, source: &Source, len: usize) -> Option<Buf> {
        let Source { class, stripe, position, copies } = source;
        let unit = Unit::Copies { slot: *position, members: copies.to_vec() };
        let rows = self.look(class, *stripe, &unit, (0, len / PAGE)).await;
        let mut out = BufMut::zeroed(len);
        for (at, row) in rows.iter().enumerate() {
            let page = match &row.solved.pages[0] {
                Some(page) => page.clone(),
                None if row.absent() > 0 => return None,
                None => {
                    if row.live[0] {
                        self.lost_page(class, *stripe, &unit, row, 0);
                    }
                    self.unlike(class, *stripe, *position, row.page)
                }
            };
            out[at * PAGE..(at + 1) * PAGE].copy_from_slice(&page);
        }
        self.mend_unsound(class, *stripe, &unit, &rows).await;
        Some(out.freeze())
    }

    /// A page that will not pass for the one that should be there.
    fn unlike(&self, class: &Class, stripe: StripeId, position: usize, page: usize) -> Buf {
        let sum = self.state.borrow().sums.get(class, stripe, position, page);
        let zeroes = Buf::zeroed(PAGE);
        if sum_of(&zeroes) == sum { Buf::from_slice(&[0xff; PAGE]) } else { zeroes }
    }

    /// A block of a stripe from the others, page by page. Pages that are lost although every other
    /// drive is there are given up: they are told, and hold what no read will take for them.
    /// `None`: some may come to be had when other drives are.
    pub async fn block_as_it_is(
        &self,
        class: &Class,
        stripe: StripeId,
        position: usize,
    ) -> Option<Buf> {
        let at = |position| self.address(class, stripe, position);
        let unit = Unit::Stripe { members: (0..class.width()).map(at).collect() };
        let count = usize::from(self.geometry.block_pages());
        let rows = self.look(class, stripe, &unit, (0, count)).await;
        let mut out = BufMut::zeroed(count * PAGE);
        for (at, row) in rows.iter().enumerate() {
            let others_there = row.absent() <= 1;
            let page = match &row.solved.pages[position] {
                Some(page) => page.clone(),
                None if !others_there => return None,
                None => {
                    if row.live[position] {
                        self.lost_page(class, stripe, &unit, row, position);
                    }
                    self.unlike(class, stripe, position, row.page)
                }
            };
            out[at * PAGE..(at + 1) * PAGE].copy_from_slice(&page);
        }
        self.mend_unsound(class, stripe, &unit, &rows).await;
        Some(out.freeze())
    }
}

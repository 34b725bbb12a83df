//! Writing in place.
//!
//! ```text
//!  lock the stripe ─ round the edges up to what drives take ─ plan ─ read old bytes
//!    └─ mark the region (once in a while) ─ log partial parity and new checksums, durable
//!         └─ sums, in memory ─ data and parity, durable ─ record losses, if any ─ unlock, answer
//!                            └ with FUA: the checksum log, durable
//! ```
//! With the write hole closed, data and parity are written through: a second write of the stripe
//! logs a partial parity that counts on the first being there.

use std::rc::Rc;

use futures_util::future::join;
use io::wait::{Wait, told};
use io::{Buf, BufMut, Drive, Durability, Env, join_all};
use layout::StripeShape;

use crate::array::{Array, ArrayError, Inner, WriteHole};
use crate::checksum_log::Logged;
use crate::grid::{Piece, Redundancy, Share};
use crate::limits::{PAGE, TRIES_MAX};
use crate::log::{PageSum, Record, Taken, encode, slot_place};
use crate::member::{Lost, Member};
use crate::mend::Unread;
use crate::partial::{Parities, partial, with_edges, with_new};
use crate::plan::{Plan, Read, Way, hull, plan};
use crate::sums::VOID;

/// New bytes of a piece.
#[derive(Clone)]
struct New {
    piece: Piece,
    /// What of it changes: the rest is there to fill a unit of the drives.
    exact: Piece,
    bytes: Buf,
    /// What is there now, if it had to be read.
    old: Option<Buf>,
    /// They are zeroes, and drives need not keep room for them.
    hole: bool,
}

impl New {
    /// The bytes that change.
    fn exact(&self) -> (Piece, &[u8]) {
        let New { piece, exact, bytes, .. } = self;
        let own = (exact.start - piece.start) as usize..(exact.end - piece.start) as usize;
        (*exact, &bytes[own])
    }
}

/// What a record tells of a write.
struct Change<'a> {
    pieces: &'a [Piece],
    partial: &'a Parities,
    sums: &'a [PageSum],
}

/// Slots of the log that a write has, on drives of its parity.
#[derive(Default)]
struct Slots {
    taken: Vec<Taken>,
    /// Of each, which of the parities.
    parities: Vec<usize>,
    /// Nothing of the hull is left alone.
    whole: bool,
    /// Of the record.
    sequence: u64,
}

/// Up to so many bytes the old content of a piece is read as a whole if any of it is: it is needed
/// for the parity, too.
const WHOLE_MAX: u64 = 2 * PAGE;

impl<E: Env> Array<E> {
    /// Writes and, if `fua`, makes it durable before it returns.
    pub async fn write(&self, offset: u64, data: Buf, fua: bool) -> Result<(), ArrayError> {
        let inner = &self.inner;
        inner.check_range(offset, data.len() as u64)?;
        let shares = inner.grid.split(offset, data.len() as u64);
        let writes = shares.iter().map(|share| inner.write_share(share, &data, fua, false));
        join_all(writes).await.into_iter().collect()
    }
}

/// To a drive, as bytes or as a hole.
async fn put<D: Drive>(
    (drive, offset): (&Member<D>, u64),
    bytes: Buf,
    how: Durability,
    hole: bool,
) -> Result<(), Lost> {
    match hole {
        true => drive.write_zeroes(offset, bytes.len() as u64, how).await,
        false => drive.write(offset, bytes, how).await,
    }
}

impl<E: Env> Inner<E> {
    pub async fn write_share(
        self: &Rc<Self>,
        share: &Share,
        data: &Buf,
        fua: bool,
        hole: bool,
    ) -> Result<(), ArrayError> {
        let stripe = share.stripe;
        let new = share.pieces.iter().map(|&(piece, at)| {
            let bytes = data.slice(at as usize..(at + piece.len()) as usize);
            New { piece, exact: piece, bytes, old: None, hole }
        });
        let new: Vec<New> = new.collect();
        let _lock = told(&self.env, Wait::Lock, self.lock(stripe)).await;
        let bytes: u64 = new.iter().map(|new| new.piece.len()).sum();
        let whole = bytes == self.grid.stripe_bytes();
        if !whole {
            self.settle(stripe).await?;
        }
        let new = told(&self.env, Wait::Drives, self.round_up(stripe, new)).await?;
        let intent = told(&self.env, Wait::Journal, self.begin_intent(stripe));
        let done = match intent.await {
            Ok(()) => self.write_stripe(stripe, &new, fua).await,
            Err(error) => Err(error),
        };
        self.intents.end(stripe, self.env.now());
        if whole && done.is_ok() {
            self.pay(stripe);
        }
        self.commit_beside();
        done
    }

    /// Pieces that drives can take: what of a drive's unit is not written is read.
    async fn round_up(&self, stripe: u64, new: Vec<New>) -> Result<Vec<New>, ArrayError> {
        let mut rounded = Vec::with_capacity(new.len());
        for New { piece, bytes, hole, .. } in new {
            let exact = piece;
            let (start, end) =
                (piece.start / self.align * self.align, piece.end.next_multiple_of(self.align));
            let wide = Piece { start, end, ..piece };
            if wide == piece {
                rounded.push(New { piece, exact, bytes, old: None, hole });
                continue;
            }
            let mut whole = BufMut::with_len(wide.len() as usize);
            let mut old = None;
            if wide.len() <= WHOLE_MAX {
                let all = self.old_bytes(stripe, wide).await?;
                whole.copy_from_slice(&all);
                old = Some(all);
            } else {
                for (from, to) in [(start, piece.start), (piece.end, end)] {
                    if from < to {
                        let edge = Piece { start: from, end: to, ..piece };
                        let edge = self.old_bytes(stripe, edge).await?;
                        whole[(from - start) as usize..(to - start) as usize]
                            .copy_from_slice(&edge);
                    }
                }
            }
            let lead = (piece.start - start) as usize;
            whole[lead..lead + bytes.len()].copy_from_slice(&bytes);
            rounded.push(New { piece: wide, exact, bytes: whole.freeze(), old, hole: false });
        }
        Ok(rounded)
    }

    async fn old_bytes(&self, stripe: u64, piece: Piece) -> Result<Buf, ArrayError> {
        let range = (piece.start, piece.end);
        if self.grid.redundancy == Redundancy::Mirror {
            let mut copies: Vec<usize> = (0..self.grid.width).collect();
            copies.sort_by_key(|copy| self.sits_out(stripe, *copy));
            for copy in copies {
                match self.read_member(stripe, copy, range).await {
                    Ok(old) => return Ok(old),
                    Err(Unread::Absent) => {}
                    Err(_) => return self.fetch(stripe, copy, range).await,
                }
            }
            return Err(self.unreadable(stripe));
        }
        self.fetch(stripe, piece.position, range).await
    }

    async fn write_stripe(&self, stripe: u64, new: &[New], fua: bool) -> Result<(), ArrayError> {
        let Some(shape) = self.shape() else {
            return self.write_plain(stripe, new, fua).await;
        };
        let mut new = new.to_vec();
        for _ in 0..TRIES_MAX {
            if let Some(error) = self.too_many_lost() {
                return Err(error);
            }
            let lost = self.lost_members(stripe);
            // A lost chunk is known only by the parity: written together with others, a crash could
            // leave it a mixture of old and new. So each has a turn of its own; those on a drive
            // that is being rebuilt, too, since a crash makes it lost again.
            let (gone, there): (Vec<New>, Vec<New>) = new.iter().cloned().partition(|new| {
                let (drive, _) = self.grid.place(stripe, new.piece.position);
                self.members[drive].is_lost()
            });
            let turns = [there].into_iter().chain(gone.into_iter().map(|one| vec![one]));
            let mut done = true;
            for turn in turns.filter(|turn| !turn.is_empty()) {
                done = done && self.update(stripe, shape, &lost, &turn, fua).await?;
            }
            self.record_losses().await?;
            if done {
                return Ok(());
            }
            // A part may be written: what was read before is not what is there now.
            new.iter_mut().for_each(|new| new.old = None);
        }
        Err(self.unreadable(stripe))
    }

    /// Mirrors and chunks without redundancy: to every drive that has them.
    async fn write_plain(&self, stripe: u64, new: &[New], fua: bool) -> Result<(), ArrayError> {
        let how = if fua { Durability::Durable } else { Durability::Cached };
        let copies = match self.grid.redundancy {
            Redundancy::Mirror => self.grid.width,
            Redundancy::Parity(_) | Redundancy::ParityDrive => 1,
        };
        if copies > 1 {
            self.tell_before(stripe, new).await?;
        }
        let pages: u64 = new.iter().map(|new| new.piece.len() / PAGE).sum();
        let reserved = self.reserve_log(pages as usize * copies);
        let room = told(&self.env, Wait::Journal, reserved).await?;
        let mut logged = Logged::default();
        for New { piece, bytes, .. } in new {
            let news = self.sums_of(bytes);
            for copy in 0..copies {
                let member = piece.position + copy;
                logged.join(self.set_sums(stripe, member, piece.start, &news));
            }
        }
        drop(room);
        // Of a page that is written in part the rest must be known again whatever becomes of it: no
        // record tells of it. Of a stripe that is still to be looked at copies may differ already.
        let in_part = new.iter().any(|new| new.exact != new.piece);
        if copies > 1 && (in_part || self.is_owed(stripe)) {
            self.commit(logged.end()).await?;
        }
        let how = if logged.urgent { Durability::Durable } else { how };
        let writes = new.iter().flat_map(|New { piece, bytes, hole, .. }| {
            let there = move |copy: &usize| !self.is_lost(stripe, piece.position + copy);
            (0..copies).filter(there).map(move |copy| {
                let place = self.address(stripe, piece.position + copy, piece.start);
                put(place, bytes.clone(), how, *hole)
            })
        });
        self.finish(join_all(writes), &logged, how, fua).await
    }

    /// What copies hold that are about to be written over is known to the drives: else two contents
    /// could be there after a crash that nothing vouches for, and nobody could tell them from rot.
    async fn tell_before(&self, stripe: u64, new: &[New]) -> Result<(), ArrayError> {
        let runs = new.iter().flat_map(|New { piece, .. }| {
            (0..self.grid.width).map(|copy| {
                let (drive, first) = self.page_of(stripe, piece.position + copy, piece.start);
                (drive, first..first + piece.len() / PAGE)
            })
        });
        self.tell_pages(&runs.collect::<Vec<_>>()).await
    }

    /// Until data is written whose sums were set, and with FUA, or if pages were lost, they are
    /// committed beside it.
    async fn finish<T>(
        &self,
        writes: impl Future<Output = T>,
        logged: &Logged,
        how: Durability,
        fua: bool,
    ) -> Result<(), ArrayError> {
        let end = if fua || logged.urgent { logged.end() } else { 0 };
        let commit = told(&self.env, Wait::Journal, self.commit(end));
        let (_, committed) = join(told(&self.env, Wait::Drives, writes), commit).await;
        self.written(logged, how);
        committed?;
        self.record_losses().await
    }

    /// Writes pieces and the parity that follows. False: a drive could not read what was needed,
    /// and is lost now; nothing was written.
    async fn update(
        &self,
        stripe: u64,
        shape: StripeShape,
        lost: &[usize],
        new: &[New],
        fua: bool,
    ) -> Result<bool, ArrayError> {
        let pieces: Vec<Piece> = new.iter().map(|new| new.piece).collect();
        let avoided = self.avoided_members(stripe);
        let plan = plan(&pieces, shape.data(), shape.parity(), lost, &avoided);
        let read = self.read_planned(stripe, &plan, new);
        let read = told(&self.env, Wait::Drives, read).await;
        if self.lost_members(stripe) != lost {
            return Ok(false);
        }
        let (plan, read) = match read {
            Ok(read) => (plan, read),
            Err(ArrayError::PageLost { .. }) if self.sums.is_some() => {
                self.read_around(stripe, shape, &pieces).await?
            }
            Err(error) => return Err(error),
        };
        let views: Vec<&[u8]> = read.iter().map(|bytes| &bytes[..]).collect();
        let mut partial = partial(&plan, shape, lost, &pieces, &views);
        for New { piece, exact, bytes, .. } in new {
            with_edges(&mut partial, &plan.hull, (*piece, *exact), bytes);
        }
        let bytes: Vec<(Piece, &[u8])> = new.iter().map(New::exact).collect();
        let parities = with_new(&partial, &plan.hull, &bytes);
        let pieces: Vec<Piece> = new.iter().map(|new| new.exact).collect();
        let closed = self.write_hole == WriteHole::Closed;
        let how = if fua || closed { Durability::Durable } else { Durability::Cached };
        let sums = self.new_sums(stripe, shape, new, (&plan, &parities));
        let reserved = self.reserve_log(sums.len());
        let room = told(&self.env, Wait::Journal, reserved).await?;
        let change = Change { pieces: &pieces, partial: &partial, sums: &sums };
        let slots = match closed {
            true => {
                let taken = self.take_slots(stripe, shape, (&plan, lost), &change);
                told(&self.env, Wait::Journal, taken).await
            }
            false => Slots::default(),
        };
        let done = async {
            let logged = self.write_record(stripe, &plan, &change, &slots).await?;
            drop(room);
            slots.taken.iter().for_each(|taken| self.log.logged(taken, logged.end()));
            self.write_all(stripe, shape, new, (&plan, &parities), &logged, (how, fua)).await
        };
        let done = done.await;
        slots.taken.into_iter().for_each(|taken| self.log.release(taken));
        self.log.over(slots.sequence);
        done?;
        Ok(true)
    }

    /// What the sums of the pages that are about to change are, and will be.
    fn new_sums(
        &self,
        stripe: u64,
        shape: StripeShape,
        new: &[New],
        (plan, parities): (&Plan, &Parities),
    ) -> Vec<PageSum> {
        let mut all = Vec::new();
        if self.sums.is_none() {
            return all;
        }
        let mut add = |member: usize, start: u64, news: Vec<u32>| {
            for (start, new) in (start..).step_by(PAGE as usize).zip(news) {
                all.push(PageSum { member, start, old: self.sum(stripe, member, start), new });
            }
        };
        for New { piece, bytes, .. } in new {
            add(piece.position, piece.start, self.sums_of(bytes));
        }
        for (at, bytes) in parities.iter().enumerate() {
            let member = shape.data() + at;
            let news = match bytes {
                Some(bytes) => self.sums_of(bytes),
                None => self.forgotten(stripe, member, plan.hull.clone()),
            };
            add(member, plan.hull.start, news);
        }
        all
    }

    fn set_page_sums(&self, stripe: u64, sums: &[PageSum]) -> Logged {
        let mut logged = Logged::default();
        let follows = |a: &PageSum, b: &PageSum| a.member == b.member && a.start + PAGE == b.start;
        for run in sums.chunk_by(follows) {
            let news: Vec<u32> = run.iter().map(|sum| sum.new).collect();
            logged.join(self.set_sums(stripe, run[0].member, run[0].start, &news));
        }
        logged
    }

    async fn read_planned(
        &self,
        stripe: u64,
        plan: &Plan,
        new: &[New],
    ) -> Result<Vec<Buf>, ArrayError> {
        let reads = plan.reads.iter().map(async |read| {
            let piece = Piece { position: read.member, start: read.start, end: read.end };
            match new.iter().find(|n| n.piece == piece).and_then(|n| n.old.clone()) {
                Some(old) => Ok(old),
                None => self.fetch(stripe, read.member, (read.start, read.end)).await,
            }
        });
        join_all(reads).await.into_iter().collect()
    }

    /// All data over the hull, zeroes for pages that are lost: of these the drives know that
    /// nothing passes for them before the parity counts on zeroes.
    async fn read_around(
        &self,
        stripe: u64,
        shape: StripeShape,
        pieces: &[Piece],
    ) -> Result<(Plan, Vec<Buf>), ArrayError> {
        let hull = hull(pieces);
        let zeroes = |_| BufMut::zeroed((hull.end - hull.start) as usize);
        let mut columns: Vec<BufMut> = (0..shape.data()).map(zeroes).collect();
        let mut logged = Logged::default();
        for row in self.mended(stripe, hull.clone()).await {
            if row.absent() > self.grid.tolerance() {
                return Err(self.unreadable(stripe));
            }
            let page = row.start..row.start + PAGE;
            for (position, column) in columns.iter_mut().enumerate() {
                let written =
                    pieces.iter().any(|piece| piece.position == position && piece.covers(&page));
                match &row.solved[position] {
                    Some(bytes) => {
                        column[(page.start - hull.start) as usize..][..PAGE as usize]
                            .copy_from_slice(bytes);
                    }
                    None if written => {}
                    None => logged.join(self.note_lost(stripe, position, row.start, VOID)),
                }
            }
        }
        self.commit(logged.end()).await?;
        let whole = |member| Read { member, start: hull.start, end: hull.end };
        let reads = (0..shape.data()).map(whole).collect();
        let read = columns.into_iter().map(BufMut::freeze).collect();
        Ok((Plan { way: Way::Recover, reads, hull }, read))
    }

    /// Data and parity together. A drive that fails is lost, and the stripe is what the others say.
    async fn write_all(
        &self,
        stripe: u64,
        shape: StripeShape,
        new: &[New],
        (plan, parities): (&Plan, &Parities),
        logged: &Logged,
        (how, fua): (Durability, bool),
    ) -> Result<(), ArrayError> {
        let how = if logged.urgent { Durability::Durable } else { how };
        // A new drive's rows are written when their turn comes.
        let there = new.iter().filter(|new| !self.is_lost(stripe, new.piece.position));
        let data = there.map(|New { piece, bytes, hole, .. }| {
            put(self.address(stripe, piece.position, piece.start), bytes.clone(), how, *hole)
        });
        let holes = new.iter().all(|new| new.hole);
        let parity = parities.iter().enumerate().filter_map(|(at, bytes)| {
            let bytes = Buf::from_slice(bytes.as_ref()?);
            let hole = holes && bytes.iter().all(|byte| *byte == 0);
            let place = self.address(stripe, shape.data() + at, plan.hull.start);
            Some(put(place, bytes, how, hole))
        });
        self.finish(join_all(data.chain(parity)), logged, how, fua).await
    }

    /// Slots on the drives of the parity for what is about to be left alone; none where all of a
    /// stripe is written and nothing is to be superseded.
    async fn take_slots(
        &self,
        stripe: u64,
        shape: StripeShape,
        (plan, lost): (&Plan, &[usize]),
        change: &Change<'_>,
    ) -> Slots {
        let there = |at: &usize| change.partial[*at].is_some();
        let mut drives: Vec<(usize, usize)> = (0..change.partial.len())
            .filter(there)
            .map(|at| (self.grid.place(stripe, shape.data() + at).0, at))
            .collect();
        let numbers: Vec<usize> = drives.iter().map(|(drive, _)| *drive).collect();
        // None of the hull is left alone.
        let changed: u64 = change.pieces.iter().map(Piece::len).sum();
        let hull = plan.hull.end - plan.hull.start;
        let whole = plan.way == Way::Full && changed == hull * shape.data() as u64;
        let needless = whole && lost.is_empty() && !self.log.tells_of(stripe, &numbers);
        // With checksums every write has a record.
        if needless && self.sums.is_none() {
            return Slots::default();
        }
        // In the drives' order, so that two writes never wait for each other.
        drives.sort_unstable();
        let mut taken = Vec::with_capacity(drives.len());
        for (drive, _) in &drives {
            taken.push(self.log.take(*drive, stripe).await);
        }
        let sequence = self.log.next_sequence();
        let parities = drives.into_iter().map(|(_, at)| at).collect();
        Slots { taken, parities, whole, sequence }
    }

    /// Tells the drives of the parity of the write that follows; durable when this returns. Memory
    /// has the new sums then.
    async fn write_record(
        &self,
        stripe: u64,
        plan: &Plan,
        change: &Change<'_>,
        slots: &Slots,
    ) -> Result<Logged, ArrayError> {
        if slots.taken.is_empty() {
            return Ok(self.set_page_sums(stripe, change.sums));
        }
        let needed = slots.taken.iter().map(|taken| taken.needed_until).max();
        self.commit(needed.unwrap_or(0)).await?;
        let mut sums = change.sums.to_vec();
        self.add_uncommitted(stripe, &mut sums);
        let sums_logged = sums.len() > Record::room(change.pieces.len());
        let early = match sums_logged {
            true => {
                sums.clear();
                let logged = self.set_page_sums(stripe, change.sums);
                self.commit(self.log_end()).await?;
                Some(logged)
            }
            false => None,
        };
        let (pool, epoch) = {
            let label = self.label.borrow();
            (label.pool, label.epoch)
        };
        let record = Record {
            epoch,
            sequence: slots.sequence,
            stripe,
            start: plan.hull.start,
            end: plan.hull.end,
            pieces: change.pieces.to_vec(),
            sums,
            sums_logged,
        };
        let writes = slots.taken.iter().zip(&slots.parities).map(|(taken, parity)| {
            let partial = change.partial[*parity].as_deref().filter(|_| !slots.whole);
            let mut slot = encode(&pool, &record, *parity, partial.unwrap_or_default());
            slot.resize(slot.len().next_multiple_of(PAGE as usize), 0);
            let offset = slot_place(&self.label.borrow(), taken.slot as u64);
            self.members[taken.drive].write(offset, Buf::from_slice(&slot), Durability::Durable)
        });
        told(&self.env, Wait::Journal, join_all(writes)).await;
        slots.taken.iter().for_each(|taken| self.log.written(taken, stripe, slots.sequence));
        self.record_losses().await?;
        Ok(early.unwrap_or_else(|| self.set_page_sums(stripe, change.sums)))
    }

    /// Pages of a stripe that the checksum log does not have yet, and whose record is about to be
    /// overwritten.
    fn add_uncommitted(&self, stripe: u64, sums: &mut Vec<PageSum>) {
        let Some(own) = &self.sums else { return };
        let state = own.log.state.borrow();
        let known = sums.len();
        for member in 0..self.grid.width {
            let (drive, row) = self.grid.place(stripe, member);
            let pages = self.pages_of_row(row);
            for page in state.uncommitted_of(drive, pages.clone()) {
                let start = (page - pages.start) * PAGE;
                let is_it = |sum: &PageSum| (sum.member, sum.start) == (member, start);
                if !sums[..known].iter().any(is_it) {
                    let now = self.sum(stripe, member, start);
                    sums.push(PageSum { member, start, old: now, new: now });
                }
            }
        }
    }
}

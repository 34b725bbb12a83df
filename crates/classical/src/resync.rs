//! After a crash: the drives are made to agree where they may differ.
//!
//! ```text
//!  intents: marked regions          log: the last whole record of each stripe, of this epoch
//!        │                               │
//!  all drives of the group there    one is lost, and the stripe has a record
//!   └─ parity from the data          └─ lost chunk from the partial parity, parity from all
//!      (mirrors: from the first)
//! ```
//! Stripes with a record come at opening, before the epoch is raised, which voids the records. The
//! others of marked regions are owed (`owed`). A crash before the marks are taken back does it all
//! again, to the same end.

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use io::{Buf, Durability, Env, join_all};
use layout::StripeShape;

use crate::array::{Array, ArrayError, Inner};
use crate::grid::{Piece, Redundancy};
use crate::intents::{self, Intents, Page};
use crate::limits::{LOG_SLOTS, PAGE, RESYNC_AT_ONCE};
use crate::log::{Record, decode, slot_bytes};
use crate::mend::Unread;
use crate::owed::Owed;
use crate::partial::after_crash;
use crate::row::ZEROES;
use crate::row::without;
use crate::sums::{LOST, VOID, is_lost};

/// A record, and the partial parity that each drive's copy of it holds.
struct Told {
    record: Record,
    partial: BTreeMap<usize, Vec<u8>>,
}

impl<E: Env> Array<E> {
    /// Makes some of the stripes agree that a crash may have left different. False: all do.
    pub async fn resync(&self) -> Result<bool, ArrayError> {
        let some = self.inner.owed.borrow().some(RESYNC_AT_ONCE);
        let each = some.iter().map(async |&stripe| {
            let _lock = self.inner.lock(stripe).await;
            self.inner.settle(stripe).await
        });
        join_all(each).await.into_iter().collect::<Result<Vec<()>, _>>()?;
        Ok(!some.is_empty())
    }

    /// Stripes that are still to be looked at, and all there are.
    pub fn owed_stripes(&self) -> (u64, u64) {
        (self.inner.owed.borrow().left(), self.inner.grid.stripes())
    }
}

impl<E: Env> Inner<E> {
    pub async fn recover(&self) -> Result<(), ArrayError> {
        let marked = self.marked_regions().await;
        self.load_sums().await;
        self.doubt_sums(&marked);
        let told = self.read_log().await;
        let stripes: Vec<u64> = told.keys().copied().collect();
        for some in stripes.chunks(RESYNC_AT_ONCE) {
            let each = some.iter().map(|stripe| self.agree(*stripe, told.get(stripe)));
            join_all(each).await.into_iter().collect::<Result<Vec<()>, _>>()?;
        }
        marked.iter().for_each(|&region| self.intents.owe(region));
        let all = self.grid.stripes();
        let owed = Owed::new(marked.into_iter(), intents::region_stripes(all), all);
        self.owed.replace(Rc::new(owed));
        stripes.iter().for_each(|&stripe| self.pay(stripe));
        // Drives that were not there, or could not take what they should hold, are written off;
        // what was read from a cache must not be lost after it was trusted.
        join_all(self.members.iter().map(|member| member.flush())).await;
        self.label.borrow_mut().epoch += 1;
        self.write_label().await;
        self.record_losses().await?;
        self.write_intents().await
    }

    /// Of the newest page of intents. Without any page everything is marked.
    async fn marked_regions(&self) -> Vec<u64> {
        let (pool, at) = {
            let label = self.label.borrow();
            (label.pool, label.meta.offset)
        };
        let stripes = self.grid.stripes();
        let each = intents::region_stripes(stripes);
        let regions = stripes.div_ceil(each) as usize;
        let mut newest: Option<Page> = None;
        for member in self.members.iter().filter(|member| !member.is_lost()) {
            for place in [0, 1].map(Intents::place) {
                let Ok(page) = member.read(at + place, PAGE).await else { continue };
                let Some(found) = intents::decode(&pool, &page, regions) else { continue };
                if newest.as_ref().is_none_or(|newest| newest.sequence < found.sequence) {
                    newest = Some(found);
                }
            }
        }
        let all = || Page { sequence: 0, opening: 0, kept: 0, bits: vec![true; regions] };
        let page = newest.unwrap_or_else(all);
        self.intents.sequence.set(page.sequence + 1);
        self.load_kept(&page).await;
        (0..regions as u64).filter(|region| page.bits[*region as usize]).collect()
    }

    /// For each stripe the last record that is on the drives of all its parity that is there: of
    /// one that is not the write never began.
    async fn read_log(&self) -> BTreeMap<u64, Told> {
        let (pool, epoch, at) = {
            let label = self.label.borrow();
            (label.pool, label.epoch, label.journal.offset)
        };
        let chunk = self.grid.chunk;
        let mut found: BTreeMap<(u64, u64), Told> = BTreeMap::new();
        if self.grid.parity() == 0 {
            return BTreeMap::new();
        }
        for (drive, member) in self.members.iter().enumerate() {
            for slot in 0..LOG_SLOTS as u64 {
                let place = at + slot * slot_bytes(chunk);
                let Ok(bytes) = member.read(place, slot_bytes(chunk)).await else { continue };
                let Some((record, partial)) = decode(&pool, &bytes, chunk) else { continue };
                let aligned = |byte: u64| byte.is_multiple_of(self.align);
                let whole = self.sums.is_none() || aligned(record.start) && aligned(record.end);
                if record.epoch != epoch || record.stripe >= self.grid.stripes() || !whole {
                    continue;
                }
                let key = (record.stripe, record.sequence);
                let told = found.entry(key);
                let told = told.or_insert_with(|| Told { record, partial: BTreeMap::new() });
                told.partial.insert(drive, partial);
            }
        }
        let whole = |told: &Told| {
            let parities = (self.grid.data()..self.grid.width)
                .map(|member| self.grid.place(told.record.stripe, member).0)
                .filter(|&drive| !self.members[drive].is_lost());
            let mut parities = parities.peekable();
            parities.peek().is_some() && parities.all(|drive| told.partial.contains_key(&drive))
        };
        // In the order of their sequences: the last of a stripe stays.
        let kept = found.into_iter().filter(|(_, told)| whole(told));
        kept.map(|((stripe, _), told)| (stripe, told)).collect()
    }

    pub fn is_owed(&self, stripe: u64) -> bool {
        self.owed.borrow().is_owed(stripe)
    }

    pub fn pay(&self, stripe: u64) {
        if self.owed.borrow().pay(stripe) {
            self.intents.paid(stripe);
        }
    }

    /// Makes a stripe agree if that is owed. The stripe is locked.
    pub async fn settle(&self, stripe: u64) -> Result<(), ArrayError> {
        if self.is_owed(stripe) {
            self.agree(stripe, None).await?;
            self.record_losses().await?;
            self.pay(stripe);
        }
        Ok(())
    }

    async fn agree(&self, stripe: u64, told: Option<&Told>) -> Result<(), ArrayError> {
        match (self.grid.redundancy, self.shape()) {
            (Redundancy::Mirror, _) => {
                self.parts(|range, alone| self.copies_again(stripe, range, alone)).await
            }
            (_, Some(shape)) => {
                self.parts(|range, alone| self.parity_again(stripe, shape, told, range, alone))
                    .await
            }
            (_, None) => {
                self.learn_again(stripe).await;
                Ok(())
            }
        }
    }

    /// Page by page, if a drive does not give a part of its chunk.
    async fn parts<F>(&self, over: impl Fn(Range<u64>, bool) -> F) -> Result<(), ArrayError>
    where
        F: Future<Output = Result<bool, ArrayError>>,
    {
        let chunk = self.grid.chunk;
        if over(0..chunk, false).await? {
            return Ok(());
        }
        for start in (0..chunk).step_by(PAGE as usize) {
            over(start..start + PAGE, true).await?;
        }
        Ok(())
    }

    /// Whichever copy is first is as good as any: it is the old or the new bytes. False: some can't
    /// be read, and were not looked at `alone`.
    async fn copies_again(
        &self,
        stripe: u64,
        range: Range<u64>,
        alone: bool,
    ) -> Result<bool, ArrayError> {
        let read = |copy| self.read_member(stripe, copy, (range.start, range.end));
        let copies = join_all((0..self.grid.width).map(read)).await;
        let is_bad = |copy: &Result<Buf, Unread>| matches!(copy, Err(e) if *e != Unread::Absent);
        if !alone && copies.iter().any(is_bad) {
            return Ok(false);
        }
        let Some(first) = copies.iter().find_map(|copy| copy.clone().ok()) else {
            let gone = copies.iter().map(|copy| copy.as_ref().err().copied()).collect();
            return self.give_up(stripe, range.start, gone).await;
        };
        let mut told = Vec::new();
        for (copy, held) in copies.iter().enumerate() {
            match held {
                Ok(held) if held[..] == first[..] => {}
                Ok(_) => {
                    let (drive, offset) = self.address(stripe, copy, range.start);
                    let _ = drive.write(offset, first.clone(), Durability::Durable).await;
                }
                Err(Unread::Absent) => {}
                Err(bad) => {
                    self.rewrite(stripe, copy, range.start, &first, *bad).await;
                }
            }
            told.extend(self.learn(stripe, copy, range.start, &first));
        }
        self.store_sums(&told).await?;
        Ok(true)
    }

    /// A page that nothing gives, with these members missing: it is lost, alone. Without sums
    /// nothing could say so.
    async fn give_up(
        &self,
        stripe: u64,
        start: u64,
        missing: Vec<Option<Unread>>,
    ) -> Result<bool, ArrayError> {
        let absent = missing.iter().filter(|why| **why == Some(Unread::Absent)).count();
        if self.sums.is_none() || absent > self.grid.tolerance() {
            return Err(self.unreadable(stripe));
        }
        let mut told = Vec::new();
        for (member, why) in missing.into_iter().enumerate() {
            let Some(why) = why else { continue };
            told.extend(self.note_lost(stripe, member, start, LOST));
            self.tell_lost(stripe, member, start, why);
        }
        self.store_sums(&told).await?;
        Ok(true)
    }

    async fn parity_again(
        &self,
        stripe: u64,
        shape: StripeShape,
        told: Option<&Told>,
        range: Range<u64>,
        alone: bool,
    ) -> Result<bool, ArrayError> {
        let mut gone = self.lost_members(stripe);
        'again: loop {
            for doubt in in_doubt(shape, told, &gone, &range) {
                let read = (0..self.grid.width).map(|member| {
                    self.read_member(stripe, member, (doubt.range.start, doubt.range.end))
                });
                let members = join_all(read).await;
                let is_bad = |m: &Result<Buf, Unread>| matches!(m, Err(e) if *e != Unread::Absent);
                let lost = |member| self.has_lost(stripe, member, &doubt.range);
                if !alone && (members.iter().any(is_bad) || (0..self.grid.width).any(lost)) {
                    return Ok(false);
                }
                let void = |member| self.sum(stripe, member, doubt.range.start) == VOID;
                let missing: Vec<usize> = (0..members.len())
                    .filter(|&member| members[member].is_err() && !void(member))
                    .collect();
                if missing.len() > shape.parity() {
                    let why = members.iter().map(|m| m.as_ref().err().copied()).collect();
                    return match alone {
                        true => self.give_up(stripe, range.start, why).await,
                        false => Err(self.unreadable(stripe)),
                    };
                }
                // A drive that failed meanwhile changes what has to be looked at.
                if !missing.iter().all(|member| gone.contains(member)) {
                    gone = missing;
                    continue 'again;
                }
                self.part_again(stripe, shape, told, &doubt, &members).await?;
            }
            return Ok(true);
        }
    }

    /// Parity follows from the data, or from what was logged; then what is missing from both.
    async fn part_again(
        &self,
        stripe: u64,
        shape: StripeShape,
        told: Option<&Told>,
        doubt: &Doubt,
        members: &[Result<Buf, Unread>],
    ) -> Result<(), ArrayError> {
        let Doubt { range, pieces, told_from } = doubt;
        let len = (range.end - range.start) as usize;
        let logged: Vec<Option<&[u8]>> = (shape.data()..shape.width())
            .map(|member| {
                let drive = self.grid.place(stripe, member).0;
                let bytes = told?.partial.get(&drive)?;
                let from = (range.start - (*told_from)?) as usize;
                // None was logged: all of the hull was being written.
                bytes.get(from..from + len)
            })
            .collect();
        let sum = |member| self.sum(stripe, member, range.start);
        let mut views: Vec<Option<&[u8]>> = members.iter().map(|m| m.as_deref().ok()).collect();
        let void = views.iter_mut().enumerate().filter(|(member, _)| sum(*member) == VOID);
        void.for_each(|(_, page)| *page = Some(&ZEROES[..len]));
        let parities = after_crash(shape, range, pieces, &views, &logged);
        let mut full: Vec<Option<&[u8]>> = views[..shape.data()].to_vec();
        full.extend(parities.iter().map(Option::as_deref));
        let missing: Vec<usize> = (0..full.len()).filter(|&at| full[at].is_none()).collect();
        let solved = without(shape, &full, &missing);
        let missed = |member: usize| {
            let found = solved.iter().find(|(at, _)| *at == member);
            &found.expect("it was missing").1[..]
        };
        let mut told = Vec::new();
        for (member, read) in members.iter().enumerate() {
            let right = full[member].unwrap_or_else(|| missed(member));
            let lost = is_lost(sum(member));
            match read {
                // What it should hold does not follow from what was made to agree without it.
                Err(bad) if lost => self.tell_lost(stripe, member, range.start, *bad),
                Ok(_) if lost => {}
                Err(Unread::Absent) => {}
                Err(bad) => {
                    self.rewrite(stripe, member, range.start, &Buf::from_slice(right), *bad).await;
                }
                Ok(held) if held[..] == *right => {}
                Ok(_) => {
                    let (drive, offset) = self.address(stripe, member, range.start);
                    let _ = drive.write(offset, Buf::from_slice(right), Durability::Durable).await;
                }
            }
            if !lost {
                told.extend(self.learn(stripe, member, range.start, right));
            }
        }
        self.store_sums(&told).await
    }

    /// Without redundancy whatever is there counts.
    async fn learn_again(&self, stripe: u64) {
        for row in self.look(stripe, 0..self.grid.chunk).await {
            for (member, seen) in row.seen.iter().enumerate() {
                if let Ok(page) = seen {
                    self.learn(stripe, member, row.start, page);
                }
            }
        }
    }
}

/// What of a stripe the crash may have left half written: a range, and the pieces of it.
struct Doubt {
    range: Range<u64>,
    pieces: Vec<Piece>,
    /// What was logged covers it, and begins here.
    told_from: Option<u64>,
}

fn in_doubt(
    shape: StripeShape,
    told: Option<&Told>,
    gone: &[usize],
    range: &Range<u64>,
) -> Vec<Doubt> {
    // With a data chunk lost only a record tells what it was. Without one it was being written, or
    // nothing was: it is what P says, and Q is made to say the same.
    let as_p_says = |range: Range<u64>| {
        let all = |position| Piece { position, start: range.start, end: range.end };
        let pieces = (0..shape.data()).map(all).collect();
        Doubt { range, pieces, told_from: None }
    };
    let gone_data = gone.iter().any(|&member| member < shape.data());
    match told {
        Some(Told { record, .. }) if gone_data => {
            let start = record.start.clamp(range.start, range.end);
            let end = record.end.clamp(start, range.end);
            let clip = |piece: &Piece| Piece {
                start: piece.start.clamp(start, end),
                end: piece.end.clamp(start, end),
                ..*piece
            };
            let pieces = record.pieces.iter().map(clip).filter(|piece| piece.start < piece.end);
            let within = Doubt {
                range: start..end,
                pieces: pieces.collect(),
                told_from: Some(record.start),
            };
            let parts = [as_p_says(range.start..start), within, as_p_says(end..range.end)];
            parts.into_iter().filter(|part| !part.range.is_empty()).collect()
        }
        _ if gone_data => vec![as_p_says(range.clone())],
        _ => vec![Doubt { range: range.clone(), pieces: Vec::new(), told_from: None }],
    }
}

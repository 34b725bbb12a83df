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

use futures_util::future::join_all;
use io::{Buf, Durability, Env};
use layout::StripeShape;

use crate::array::{Array, ArrayError, Inner};
use crate::grid::{Piece, Redundancy};
use crate::intents::{self, Intents};
use crate::limits::{LOG_SLOTS, PAGE, RESYNC_AT_ONCE};
use crate::log::{Record, decode, slot_bytes};
use crate::owed::Owed;
use crate::partial::after_crash;

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
        let mut newest: Option<(u64, Vec<bool>)> = None;
        for member in self.members.iter().filter(|member| !member.is_lost()) {
            for place in [0, 1].map(Intents::place) {
                let Ok(page) = member.read(at + place, PAGE).await else { continue };
                let Some(found) = intents::decode(&pool, &page, regions) else { continue };
                if newest.as_ref().is_none_or(|newest| newest.0 < found.0) {
                    newest = Some(found);
                }
            }
        }
        let (sequence, bits) = newest.unwrap_or((0, vec![true; regions]));
        self.intents.sequence.set(sequence + 1);
        (0..regions as u64).filter(|region| bits[*region as usize]).collect()
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
                if record.epoch != epoch || record.stripe >= self.grid.stripes() {
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
            (Redundancy::Mirror, _) => self.copy_first(stripe).await,
            (_, Some(shape)) => self.parity_again(stripe, shape, told).await,
            (_, None) => Ok(()),
        }
    }

    /// Whichever copy is first is as good as any: it is the old or the new bytes.
    async fn copy_first(&self, stripe: u64) -> Result<(), ArrayError> {
        let mut first: Option<Buf> = None;
        for copy in 0..self.grid.width {
            let held = self.read_member(stripe, copy, (0, self.grid.chunk)).await.ok();
            match (&first, held) {
                (None, held) => first = held,
                (Some(first), held) if held.as_deref() != Some(&first[..]) => {
                    let (drive, offset) = self.address(stripe, copy, 0);
                    let _ = drive.write(offset, first.clone(), Durability::Durable).await;
                }
                _ => {}
            }
        }
        match first {
            Some(_) => Ok(()),
            None => Err(self.unreadable(stripe)),
        }
    }

    /// What of a stripe the crash may have left half written: a range, and the pieces of it.
    fn in_doubt(
        &self,
        shape: StripeShape,
        told: Option<&Told>,
        gone: &[usize],
    ) -> (Range<u64>, Vec<Piece>) {
        let end = self.grid.chunk;
        let gone_data = gone.iter().any(|&member| member < shape.data());
        // With a data chunk lost only a record tells what it was. Without one it was being
        // written, or nothing was: it is what P says, and Q is made to say the same.
        match told {
            Some(Told { record, .. }) if gone_data => {
                (record.start..record.end, record.pieces.clone())
            }
            _ if gone_data => {
                let all = (0..shape.data()).map(|position| Piece { position, start: 0, end });
                (0..end, all.collect())
            }
            _ => (0..end, Vec::new()),
        }
    }

    async fn parity_again(
        &self,
        stripe: u64,
        shape: StripeShape,
        told: Option<&Told>,
    ) -> Result<(), ArrayError> {
        let mut gone = self.lost_members(stripe);
        let (hull, pieces, members) = loop {
            let (hull, pieces) = self.in_doubt(shape, told, &gone);
            let range = (hull.start, hull.end);
            let read = (0..self.grid.width).map(|member| self.read_member(stripe, member, range));
            let members: Vec<Option<Buf>> =
                join_all(read).await.into_iter().map(Result::ok).collect();
            let missing: Vec<usize> =
                (0..members.len()).filter(|&member| members[member].is_none()).collect();
            if missing.len() > shape.parity() {
                return Err(self.unreadable(stripe));
            }
            // A drive that failed meanwhile changes what has to be looked at.
            if missing.iter().all(|member| gone.contains(member)) {
                break (hull, pieces, members);
            }
            gone = missing;
        };
        let logged: Vec<Option<&[u8]>> = (shape.data()..shape.width())
            .map(|member| {
                let drive = self.grid.place(stripe, member).0;
                let bytes = told?.partial.get(&drive)?;
                // None was logged: all of the hull was being written.
                (!bytes.is_empty()).then_some(&bytes[..])
            })
            .collect();
        let views: Vec<Option<&[u8]>> = members.iter().map(Option::as_deref).collect();
        let parities = after_crash(shape, &hull, &pieces, &views, &logged);
        let wrong = parities.iter().enumerate().filter(|(at, parity)| {
            parity.as_deref().is_some_and(|right| views[shape.data() + at] != Some(right))
        });
        let writes = wrong.map(|(at, parity)| {
            let bytes = Buf::from_slice(parity.as_ref().expect("only what is there is wrong"));
            let (drive, offset) = self.address(stripe, shape.data() + at, hull.start);
            drive.write(offset, bytes, Durability::Durable)
        });
        join_all(writes).await;
        Ok(())
    }
}

//! After a crash: the drives are made to agree where they may differ.
//!
//! ```text
//!  intents: marked regions     checksum area and log     log: the last whole record of each stripe
//!        │                               │                        │
//!        └── page by page of every member: what it is, what it may be ── verdict
//!              forward, back      a row as its checksums say, after or before the last write
//!              mixed              parity from the data, what is missing from the partial parity
//!              copies             the newest that equals a checksum, else what they agree on
//! ```
//! Stripes with a record, and those with checksums that are not settled, come at opening, before
//! the epoch is raised, which voids the records. The others of marked regions are owed (`owed`). A
//! crash before the marks are taken back does it all again, to the same end.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;

use io::{Buf, Durability, Env, join_all};

use crate::announced::Announced;
use crate::array::{Array, ArrayError, Inner};
use crate::checksum_log::Logged;
use crate::intents::{self, Doubted, Intents, Page};
use crate::label::{self, set_log_counts};
use crate::limits::{LOG_SLOTS, PAGE, RESYNC_AT_ONCE};
use crate::log::{self, PageSum, Record, Slot, decode, is_empty, slot_bytes};
use crate::mend::Unread;
use crate::owed::Owed;
use crate::planted::{self, Bug};
use crate::sums::{UNKNOWN, vouches};
use crate::verdict::{self, Copy, Known, Right, Told};

/// A record, and the partial parity that each drive's copy of it holds.
pub struct Recorded {
    pub record: Record,
    partial: BTreeMap<usize, Vec<u8>>,
}

impl Recorded {
    fn touches(&self, position: usize, is_parity: bool, start: u64) -> bool {
        let Record { start: from, end: to, pieces, .. } = &self.record;
        let meets = |from: u64, to: u64| from < start + PAGE && start < to;
        let own = |piece: &crate::grid::Piece| {
            piece.position == position && meets(piece.start, piece.end)
        };
        if is_parity { meets(*from, *to) } else { pieces.iter().any(own) }
    }

    fn sum_of(&self, member: usize, start: u64) -> Option<&PageSum> {
        self.record.sums.iter().find(|sum| (sum.member, sum.start) == (member, start))
    }
}

/// What the pages of a row should be, and which of them may have been on their way.
struct Verdict {
    right: Vec<Right>,
    touched: Vec<bool>,
}

/// What the drives' logs tell.
#[derive(Default)]
struct Records {
    /// Of each stripe the last record that is on the drives of all its parity that is there: of one
    /// that is not the write never began.
    last: BTreeMap<u64, Recorded>,
    /// Drives of which a record may be missing: these are lost, rotten or out of date.
    doubtful: BTreeSet<usize>,
    /// Drives, and slots of theirs that are not what was written there.
    damaged: Vec<(usize, u64)>,
}

impl<E: Env> Array<E> {
    /// Makes some of the stripes agree that a crash may have left different; when all do, takes
    /// back marks of regions that are at rest. False: there is nothing to do.
    pub async fn resync(&self) -> Result<bool, ArrayError> {
        let some = self.inner.owed.borrow().some(RESYNC_AT_ONCE);
        if some.is_empty() {
            return self.rest().await;
        }
        self.inner.resync_stripes(some).await?;
        // Else the next write would have to, for thousands of pages.
        self.inner.commit(self.inner.log_end()).await?;
        Ok(true)
    }

    /// Whoever is above wrote nothing but these ranges of bytes since the array was flushed last.
    /// What is not what its checksum says elsewhere has rotted: it is lost if nothing gives it
    /// again. Told after opening, it holds for stripes that nobody has looked at before, until all
    /// agree.
    pub fn only_written(&self, ranges: Vec<Range<u64>>) {
        self.inner.announced.replace(Some(Announced::new(ranges)));
    }

    /// Stripes that are still to be looked at, and all there are.
    pub fn owed_stripes(&self) -> (u64, u64) {
        (self.inner.owed.borrow().left(), self.inner.grid.stripes())
    }
}

impl<E: Env> Inner<E> {
    /// Makes each of these stripes agree, if a crash may have left it different.
    pub async fn resync_stripes(
        self: &Rc<Self>,
        stripes: impl IntoIterator<Item = u64>,
    ) -> Result<(), ArrayError> {
        let each = stripes.into_iter().map(async |stripe| {
            let _lock = self.lock(stripe).await;
            self.settle(stripe).await
        });
        join_all(each).await.into_iter().collect()
    }

    pub async fn recover(&self) -> Result<(), ArrayError> {
        let page = self.newest_intents().await?;
        self.intents.sequence.set(page.sequence + 1);
        self.intents.doubted.set(page.doubted);
        self.load_kept(&page).await;
        let marked: Vec<u64> =
            (0..page.bits.len() as u64).filter(|region| page.bits[*region as usize]).collect();
        if !marked.is_empty() {
            let drives = intents::drives_of(page.doubted.unrecorded, self.members.len());
            self.unrecorded.borrow_mut().extend(drives);
        }
        self.load_sums().await;
        self.load_checksum_log(&page, &marked).await;
        let mut records = self.read_log(&page.bits).await;
        self.unrecorded.replace(std::mem::take(&mut records.doubtful));
        self.leave_outdated(&mut records).await;
        self.believe_newest(&records.last);
        let mut stripes: BTreeSet<u64> = records.last.keys().copied().collect();
        stripes.extend(self.open_stripes());
        let stripes: Vec<u64> = stripes.into_iter().collect();
        for some in stripes.chunks(RESYNC_AT_ONCE) {
            let each = some.iter().map(|stripe| self.agree(*stripe, records.last.get(stripe)));
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
        let left = self.owed.borrow().left();
        match left {
            0 => drop(self.intents.doubted.take()),
            _ => self.write_doubted(&page).await,
        }
        // The checksums of what was made to agree are durable before the records are void, and in
        // this opening's name before any page of intents is.
        self.begin_log().await?;
        {
            let mut label = self.label.borrow_mut();
            label.epoch += 1;
            set_log_counts(&mut label, true);
        }
        self.write_label().await;
        // Refused, it leaves the records in force.
        self.check_losses()?;
        self.blank_slots(&records.damaged).await;
        self.record_losses().await?;
        // Two pages: of a drive's image of before, one is missed that all the others have whole.
        self.write_intents().await?;
        self.sums.iter().for_each(|sums| sums.log.state.borrow_mut().serves());
        self.write_intents().await
    }

    /// Says which drives are doubted, as long as anything is owed: once this opening has written to
    /// them nobody can tell any more.
    pub async fn write_doubted(&self, newest: &Page) {
        let doubted = Doubted {
            suspect: intents::bits_of(&*self.suspects.borrow()),
            unrecorded: intents::bits_of(&*self.unrecorded.borrow()),
        };
        if self.intents.doubted.replace(doubted) == doubted {
            return;
        }
        let pool = self.label.borrow().pool;
        let sequence = self.intents.sequence.replace(self.intents.sequence.get() + 1);
        let page = Page { sequence, doubted, ..newest.clone() };
        let there = self.members.iter().filter(|member| !member.is_lost());
        self.write_intents_to(there, sequence, &intents::encode(&pool, &page)).await;
    }

    /// The newest page of intents. Without any page everything is marked. A drive whose newest page
    /// is older than the one before that has missed a whole one: it is out of date, and lost. One
    /// without any where others have some has rotted.
    async fn newest_intents(&self) -> Result<Page, ArrayError> {
        let (pool, at) = {
            let label = self.label.borrow();
            (label.pool, label.meta.offset)
        };
        let stripes = self.grid.stripes();
        let regions = stripes.div_ceil(intents::region_stripes(stripes)) as usize;
        let mut pages: Vec<(usize, Page)> = Vec::new();
        for (drive, member) in self.members.iter().enumerate().filter(|(_, own)| !own.is_lost()) {
            let mut newest: Option<Page> = None;
            for place in [0, 1].map(Intents::place) {
                let Ok(page) = member.read(at + place, PAGE).await else { continue };
                let Some(found) = intents::decode(&pool, &page, regions) else { continue };
                newest = newest.filter(|own| own.sequence > found.sequence).or(Some(found));
            }
            match newest {
                Some(page) => pages.push((drive, page)),
                None => drop(self.suspects.borrow_mut().insert(drive)),
            }
        }
        if pages.is_empty() {
            self.suspects.borrow_mut().clear();
        }
        let all = Page::new(0, 0, 0, vec![true; regions]);
        let newest = pages.iter().map(|(_, page)| page).max_by_key(|page| page.sequence);
        let newest = newest.cloned().unwrap_or(all);
        if newest.bits.contains(&true) {
            let drives = intents::drives_of(newest.doubted.suspect, self.members.len());
            self.suspects.borrow_mut().extend(drives);
        }
        for (drive, page) in &pages {
            if page.sequence + 1 < newest.sequence && !planted::is(Bug::KeepStale) {
                self.members[*drive].lose();
            }
        }
        // A crash may have left the newest on some: if the next one is cut short, too, those that
        // have neither must not seem out of date. One that has none at all gets a page that says
        // that it is doubted, or the next opening would not know.
        let behind = pages.iter().filter(|(_, page)| *page != newest);
        let behind = behind.map(|(drive, _)| &self.members[*drive]).filter(|own| !own.is_lost());
        self.write_intents_to(behind, newest.sequence, &intents::encode(&pool, &newest)).await;
        self.too_many_lost().map_or(Ok(newest), Err)
    }

    /// Of stripes in regions that are marked: in others nothing was under way.
    async fn read_log(&self, marked: &[bool]) -> Records {
        let (pool, epoch, blanks) = {
            let label = self.label.borrow();
            (label.pool, label.epoch, label::has_blank_slots(&label))
        };
        let chunk = self.grid.chunk;
        // Who lacks pages of the checksum log may lack records as well.
        let doubtful = &*self.suspects.borrow() | &*self.unrecorded.borrow();
        let mut records = Records { doubtful, ..Records::default() };
        if self.grid.parity() == 0 {
            return records;
        }
        let mut found = BTreeMap::<_, Recorded>::new();
        for (drive, member) in self.members.iter().enumerate() {
            let mut newest = 0;
            for number in 0..LOG_SLOTS as u64 {
                let place = log::slot_place(&self.label.borrow(), number);
                let read = member.read(place, slot_bytes(chunk)).await.ok();
                let whole = read.as_ref().and_then(|bytes| decode(&pool, bytes, chunk));
                let unused = || !blanks && read.as_ref().is_some_and(|bytes| is_empty(bytes));
                let is_own = |slot: &Slot| {
                    !slot.is_blank_of_other(drive) || planted::is(Bug::BelieveOthersRecords)
                };
                if !whole.as_ref().map_or_else(unused, is_own) {
                    records.doubtful.insert(drive);
                    records.damaged.push((drive, number));
                }
                let Some(slot) = whole.filter(|slot| slot.record.epoch == epoch) else { continue };
                let parity = self.grid.parity_on(drive, slot.record.stripe);
                let is_its_own = parity.is_some_and(|parity| slot.is_of(parity));
                if !is_its_own && !planted::is(Bug::BelieveOthersRecords) {
                    // It was written to another drive: what this one had there is gone.
                    records.doubtful.insert(drive);
                    records.damaged.push((drive, number));
                    continue;
                }
                let Slot { record, partial, .. } = slot;
                newest = newest.max(record.sequence);
                let aligned = |byte: u64| byte.is_multiple_of(self.align);
                let whole = self.sums.is_none() || aligned(record.start) && aligned(record.end);
                let of_row = |sum: &PageSum| sum.member < self.grid.width && sum.start < chunk;
                let known = record.stripe < self.grid.stripes() && record.sums.iter().all(of_row);
                if !known || !whole || !marked[self.intents.region(record.stripe)] {
                    continue;
                }
                let told = found.entry((record.stripe, record.sequence));
                let told = told.or_insert_with(|| Recorded { record, partial: BTreeMap::new() });
                told.partial.insert(drive, partial);
            }
            if newest < self.last_record_of(drive) {
                records.doubtful.insert(drive);
            }
        }
        let whole = |told: &Recorded| {
            let parities = (self.grid.data()..self.grid.width)
                .map(|member| self.grid.place(told.record.stripe, member));
            // What such a drive does not tell it may have told.
            let mut tell = parities.filter(|&(drive, row)| {
                !self.members[drive].is_lost_at(row) && !records.doubtful.contains(&drive)
            });
            tell.all(|(drive, _)| told.partial.contains_key(&drive))
        };
        // In the order of their sequences: the last of a stripe stays.
        let kept = found.into_iter().filter(|(_, told)| whole(told));
        records.last = kept.map(|((stripe, _), told)| (stripe, told)).collect();
        records
    }

    /// Records are void: slots that are damaged are like those that were never used, or their
    /// drives would be doubted at the next opening as well.
    async fn blank_slots(&self, damaged: &[(usize, u64)]) {
        let label = self.label.borrow().clone();
        let each = damaged.iter().filter(|(drive, _)| !self.members[*drive].is_lost());
        let writes = each.map(|&(drive, slot)| {
            let place = log::slot_place(&label, slot);
            self.members[drive].write(place, log::unused(&label, drive), Durability::Cached)
        });
        join_all(writes).await;
    }

    /// Leaves aside what counts as the last of its stripe and is not.
    async fn leave_outdated(&self, records: &mut Records) {
        let each = records
            .last
            .iter()
            .map(async |(stripe, told)| self.is_outdated(told).await.then_some(*stripe));
        for stripe in join_all(each).await.into_iter().flatten() {
            records.last.remove(&stripe);
        }
    }

    /// The record of a later write is gone with its drive: a page that the record tells of got
    /// another checksum after that write's, or is what another one says that is later. A drive
    /// that lacks none has the last one of a stripe.
    async fn is_outdated(&self, told: &Recorded) -> bool {
        let lacks = {
            let doubtful = self.unrecorded.borrow();
            told.partial.keys().all(|drive| doubtful.contains(drive))
        };
        if !lacks {
            return false;
        }
        for sum in &told.record.sums {
            let may_be = self.may_be(told.record.stripe, sum.member, sum.start);
            let (newest, before) = (may_be[0], &may_be[1..]);
            if newest == sum.old || newest == sum.new {
                continue;
            }
            // A write that never began may have a checksum, too: what is there tells.
            if before.contains(&sum.new) || self.holds(told.record.stripe, sum, newest).await {
                return true;
            }
        }
        false
    }

    /// What a page holds is what a checksum says.
    async fn holds(&self, stripe: u64, of: &PageSum, sum: u32) -> bool {
        let page = self.read_raw(stripe, of.member, (of.start, of.start + PAGE)).await;
        page.is_ok_and(|page| vouches(sum, &page))
    }

    pub fn stripe_of_page(&self, drive: usize, page: u64) -> u64 {
        self.stripe_of(drive, page / (self.grid.chunk / PAGE))
    }

    fn open_stripes(&self) -> Vec<u64> {
        let open = self.open_sums.borrow();
        open.keys().map(|&(drive, page)| self.stripe_of_page(drive, page)).collect()
    }

    pub fn is_owed(&self, stripe: u64) -> bool {
        self.owed.borrow().is_owed(stripe)
    }

    pub fn pay(&self, stripe: u64) {
        let owed = self.owed.borrow().clone();
        if owed.pay(stripe) {
            self.intents.paid(stripe);
        }
        if owed.left() == 0 {
            self.announced.take();
            self.believed.take();
            self.intents.doubted.take();
            let sums = self.sums.iter();
            sums.for_each(|sums| sums.log.state.borrow_mut().doubts_nothing());
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

    async fn agree(&self, stripe: u64, told: Option<&Recorded>) -> Result<(), ArrayError> {
        let see = |member| self.see_raw(stripe, member);
        let members = join_all((0..self.grid.width).map(see)).await;
        let pages = self.grid.width * (self.grid.chunk / PAGE) as usize;
        let _room = self.reserve_log(pages).await?;
        let mut logged = Logged::default();
        for (at, start) in (0..self.grid.chunk).step_by(PAGE as usize).enumerate() {
            let seen: Vec<&Result<Buf, Unread>> = members.iter().map(|own| &own[at]).collect();
            let verdict = self.judge(stripe, start, &seen, told)?;
            logged.join(self.put_right(stripe, start, &seen, verdict).await);
        }
        match logged.urgent {
            true => self.commit(logged.end()).await,
            false => Ok(()),
        }
    }

    /// What a member's drive gives of its chunk, page by page, whatever its checksums say.
    async fn see_raw(&self, stripe: u64, member: usize) -> Vec<Result<Buf, Unread>> {
        let pages = (0..self.grid.chunk).step_by(PAGE as usize);
        match self.read_raw(stripe, member, (0, self.grid.chunk)).await {
            Ok(bytes) => {
                pages.map(|at| Ok(bytes.slice(at as usize..(at + PAGE) as usize))).collect()
            }
            Err(Unread::Absent) => pages.map(|_| Err(Unread::Absent)).collect(),
            Err(_) => {
                join_all(pages.map(|at| self.read_raw(stripe, member, (at, at + PAGE)))).await
            }
        }
    }

    /// What the pages of a row should be.
    fn judge(
        &self,
        stripe: u64,
        start: u64,
        seen: &[&Result<Buf, Unread>],
        told: Option<&Recorded>,
    ) -> Result<Verdict, ArrayError> {
        let views: Vec<Option<&[u8]>> = seen.iter().map(|seen| seen.as_deref().ok()).collect();
        if verdict::is_mirror(&self.grid) {
            let mut copies = Vec::with_capacity(views.len());
            for (copy, seen) in views.iter().enumerate() {
                let may_be = self.may_be(stripe, copy, start);
                copies.push(Copy { seen: *seen, may_be, suspect: self.is_suspect(stripe, copy) });
            }
            let right = verdict::copies(&copies, self.tears);
            let all_gone = seen.iter().all(|seen| seen.is_err());
            let width = self.grid.width;
            return match right.page.is_none() && all_gone && self.sums.is_none() {
                true => Err(self.unreadable(stripe)),
                false => Ok(Verdict { right: vec![right; width], touched: vec![true; width] }),
            };
        }
        let row: Vec<Known<'_>> = (0..self.grid.width)
            .map(|member| self.known(stripe, member, start, views[member], told))
            .collect();
        let touched = row.iter().map(|known| known.touched).collect();
        let partial: Vec<Option<&[u8]>> = (self.grid.data()..self.grid.width)
            .map(|member| {
                let drive = self.grid.place(stripe, member).0;
                told?.partial.get(&drive).map(|bytes| &bytes[..]).filter(|bytes| !bytes.is_empty())
            })
            .collect();
        let suspects = self.suspects.borrow();
        let later = self.later_row((stripe, start), &row, told);
        let told = told.map(|Recorded { record, partial: from }| Told {
            pieces: &record.pieces,
            hull: (record.start, record.end),
            partial: &partial,
            last: from.keys().any(|drive| !suspects.contains(drive)),
        });
        let recorded = || verdict::as_recorded(&self.grid, &row, start, told?);
        let right = later.or_else(recorded);
        let right = right.or_else(|| verdict::row(&self.grid, &row, start, told));
        let other = self.unrecorded_row((stripe, start), &row, right.as_deref());
        if let Some(mut right) = other.or(right) {
            self.record_unvouched((stripe, start), &row, &mut right);
            return Ok(Verdict { right, touched });
        }
        let is_absent = |seen: &&&Result<Buf, Unread>| matches!(seen, Err(Unread::Absent));
        let absent = seen.iter().filter(is_absent).count();
        match self.sums.is_none() || absent > self.grid.tolerance() {
            true => Err(self.unreadable(stripe)),
            false => Ok(Verdict { right: verdict::given_up(&row), touched }),
        }
    }

    fn is_suspect(&self, stripe: u64, member: usize) -> bool {
        let drive = self.grid.place(stripe, member).0;
        self.suspects.borrow().contains(&drive) && !planted::is(Bug::ForgetSuspects)
    }

    /// Checksums that a page may have, the newest first.
    pub fn may_be(&self, stripe: u64, member: usize, start: u64) -> Vec<u32> {
        if planted::is(Bug::ForgetMarked) {
            return vec![UNKNOWN];
        }
        let key = self.page_of(stripe, member, start);
        let open = self.open_sums.borrow();
        let open = open.get(&key).into_iter().flatten().rev().copied();
        open.chain([self.sum(stripe, member, start)]).collect()
    }

    fn known<'a>(
        &self,
        stripe: u64,
        member: usize,
        start: u64,
        seen: Option<&'a [u8]>,
        told: Option<&Recorded>,
    ) -> Known<'a> {
        let may_be = self.may_be(stripe, member, start);
        let (new, old) = (may_be[0], may_be.get(1).copied().unwrap_or(may_be[0]));
        let is_parity = member >= self.grid.data();
        let touched =
            !is_parity && !self.is_recorded(stripe) && self.is_announced(stripe, member, start);
        let suspect = self.is_suspect(stripe, member);
        let Some(told) = told.filter(|told| !self.is_over(told)) else {
            return Known { seen, old, new, touched, recorded: false, suspect };
        };
        let recorded = told.touches(member, is_parity, start);
        let touched = touched || recorded;
        match told.sum_of(member, start) {
            Some(sum) => Known { seen, old: sum.old, new: sum.new, touched, recorded, suspect },
            None if recorded && !told.record.sums_logged => {
                Known { seen, old: new, new, touched, recorded, suspect }
            }
            None => Known { seen, old, new, touched, recorded, suspect },
        }
    }

    fn is_announced(&self, stripe: u64, position: usize, start: u64) -> bool {
        let chunk = stripe * self.grid.data() as u64 + position as u64;
        let announced = self.announced.borrow();
        announced.as_ref().is_none_or(|all| all.touches(chunk * self.grid.chunk + start))
    }

    /// Writes what differs, and knows its checksums.
    async fn put_right(
        &self,
        stripe: u64,
        start: u64,
        seen: &[&Result<Buf, Unread>],
        Verdict { right, touched }: Verdict,
    ) -> Logged {
        let mut logged = Logged::default();
        for (member, Right { page, sum }) in right.into_iter().enumerate() {
            let before = self.sum(stripe, member, start);
            self.close_sum(stripe, member, start);
            match (&page, seen[member]) {
                (Some(page), Ok(held)) if held[..] == page[..] => {}
                (Some(_), Err(Unread::Absent)) => {}
                (Some(page), held) => {
                    let page = Buf::from_slice(page);
                    let rotten = !touched[member] && vouches(before, &page);
                    let unread = match held {
                        Err(unread) => Some(*unread),
                        Ok(_) => Some(Unread::Wrong).filter(|_| rotten),
                    };
                    self.restore_page(stripe, member, start, &page, unread).await;
                }
                (None, held) => {
                    let unread = held.as_ref().err().copied().unwrap_or(Unread::Wrong);
                    let lost = self.note_lost(stripe, member, start, sum);
                    logged.join(lost);
                    self.tell_lost(stripe, member, start, unread);
                    continue;
                }
            }
            let own = self.set_sums(stripe, member, start, &[sum]);
            self.written(&own, Durability::Durable);
            logged.join(own);
        }
        logged
    }

    /// A page is not open any more. What the log says of it last is what memory says, so that the
    /// log is told of the verdict if that is another.
    fn close_sum(&self, stripe: u64, member: usize, start: u64) {
        let (drive, page) = self.page_of(stripe, member, start);
        let open = self.open_sums.borrow_mut().remove(&(drive, page));
        if let Some((sums, newest)) =
            self.sums.as_ref().zip(open.and_then(|open| open.last().copied()))
        {
            sums.replace(drive, page, &[newest]);
        }
    }

    /// `unread`: it was bad, and that counts; else it was only not in step.
    async fn restore_page(
        &self,
        stripe: u64,
        member: usize,
        start: u64,
        page: &Buf,
        unread: Option<Unread>,
    ) {
        match unread {
            Some(unread) => drop(self.rewrite(stripe, member, start, page, unread).await),
            None => {
                let (drive, offset) = self.address(stripe, member, start);
                let _ = drive.write(offset, page.clone(), Durability::Durable).await;
            }
        }
    }
}

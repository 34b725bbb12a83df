//! The checksum log on the drives: read when an array is opened, written with FLUSH and FUA.

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use io::wait::{Wait, told};
use io::{Buf, Durability, Env, join_all};

use crate::array::{ArrayError, Inner};
use crate::checksum_log::page::{Entry, Header, LAST_RECORD, decode, encode, entries_of};
use crate::checksum_log::state::State;
use crate::checksum_log::{Found, Room, chain, head};
use crate::intents;
use crate::limits::{LOG_READ, PAGE};
use crate::sums::{Sums, UNKNOWN};

/// Of a drive's page what it may be after a crash beside what its checksum says, oldest first:
/// entries of the log whose data may have been on its way.
pub type OpenSums = BTreeMap<(usize, u64), Vec<u32>>;

impl<E: Env> Inner<E> {
    // ---- read

    /// Replays the log over what the checksum area has, which is not believed in marked regions if
    /// there is no log that counts, or a page of it is missing. `page`: the newest one of intents.
    pub async fn load_checksum_log(&self, page: &intents::Page, marked: &[u64]) {
        let Some(sums) = &self.sums else { return };
        let before = page.opening;
        let found = self.find_log_pages(sums).await;
        let head = head(&found, before);
        head.iter().for_each(|head| self.suspect_drives(sums, &found, head, before));
        let pages = head.and_then(|head| chain(&found, &head));
        let read = match &pages {
            Some(pages) => self.read_chain(pages).await,
            None => None,
        };
        let by = (self.kept.opening.get(), before);
        let Some((head, read)) = head.zip(read) else {
            // Behind whatever is there: no number is used twice.
            let behind = found.iter().map(|own| own.header).max_by_key(|own| own.number);
            // Of a new array there is nothing to doubt.
            sums.log.state.replace(State::new(by, behind.as_ref(), !sums.is_blank()));
            return self.doubt_sums(marked);
        };
        if head.doubted {
            self.doubt_sums(marked);
        }
        let mut state = State::new(by, Some(&head), head.doubted);
        // An opening that a crash cut short may have made all of them agree.
        let cut_short = head.opening != before;
        self.records_over.set(if cut_short && head.agreed { u64::MAX } else { head.records });
        state.goes_on_from(self.records_over.get());
        sums.log.state.replace(state);
        read.iter().for_each(|page| self.replay(sums, &head, page));
        // What a suspect lacks it is given, and then nothing shows any more what it is.
        if !marked.is_empty() {
            self.write_doubted(page).await;
        }
        if let Some((places, bytes)) = pages.iter().flatten().last().zip(read.last()) {
            self.complete_head(sums, &head, places, bytes).await;
        }
    }

    /// A crash may have left the head on some of its drives. What goes on from it needs it: without
    /// these the next crash must not find a gap.
    async fn complete_head(&self, sums: &Sums, head: &Header, places: &[Found], page: &Buf) {
        let lacks = |drive: usize| places.iter().all(|own| own.drive != drive);
        let others = sums.log.ring.places(head.number, head.version);
        let writes = others
            .filter(|(drive, _)| lacks(*drive))
            .map(|(drive, at)| self.members[drive].write(at, page.clone(), Durability::Durable));
        join_all(writes).await;
    }

    /// Drives that lack pages of the log which others have: they rotted, or are out of date. Of
    /// pages before the tail one that is new was given none.
    fn suspect_drives(&self, sums: &Sums, found: &[Found], head: &Header, opening: u64) {
        let numbers = head.tail.min(head.number)..=head.number;
        let mut there: BTreeMap<(u64, u64), Vec<&Found>> = BTreeMap::new();
        for own in found.iter().filter(|own| numbers.contains(&own.header.number)) {
            there.entry((own.header.number, own.header.opening)).or_default().push(own);
        }
        let mut suspects = self.suspects.borrow_mut();
        let is_first = |number: u64, of: u64| {
            !found.iter().any(|own| (own.header.number + 1, own.header.opening) == (number, of))
        };
        for ((number, of), pages) in &there {
            // Nothing came after an opening's last version of a page before all had it, and no
            // write before all had its first page, which its page of intents tells. Of a page after
            // that one the crash may have left the first version on some.
            let newest = pages.iter().map(|own| own.header.version).max().unwrap_or(0);
            let least = match newest.checked_sub(1) {
                _ if there.contains_key(&(number + 1, *of)) => newest,
                Some(before) => before,
                None if *of == opening && is_first(*number, *of) => 0,
                None => continue,
            };
            let has = |drive: usize| {
                pages.iter().any(|own| own.drive == drive && own.header.version >= least)
            };
            let drives = sums.log.ring.places(*number, 0).map(|(drive, _)| drive);
            suspects.extend(drives.filter(|drive| !has(*drive)));
        }
    }

    /// One page of the log, after those before it.
    fn replay(&self, sums: &Sums, head: &Header, page: &[u8]) {
        let Some(header) = decode(&self.label.borrow().pool, page) else { return };
        let (mut state, mut open) = (sums.log.state.borrow_mut(), self.open_sums.borrow_mut());
        state.found(&header);
        for (at, entry) in (header.first..).zip(entries_of(&header, page)) {
            let Entry { drive, page, checksum } = entry;
            let is_ours = drive < sums.area.drives && page < sums.area.pages;
            let settled = if is_ours { sums.get(drive, page) } else { UNKNOWN };
            // One of no drive of ours is nobody's checksum.
            let known = is_ours || page == LAST_RECORD;
            let entry = if known { entry } else { Entry { page: LAST_RECORD, ..entry } };
            state.found_entry(at, entry, settled);
            if page == LAST_RECORD && header.opening == head.opening {
                self.last_records.borrow_mut().insert(drive, checksum);
            }
            if !is_ours {
                continue;
            }
            match at < head.settled {
                true => drop(sums.replace(drive, page, &[checksum])),
                false => open.entry((drive, page)).or_default().push(checksum),
            }
        }
    }

    /// The last record of the partial-parity log that a drive had when the checksum log was last
    /// written; 0: nobody knows.
    pub fn last_record_of(&self, drive: usize) -> u64 {
        self.last_records.borrow().get(&drive).map_or(0, |last| u64::from(*last))
    }

    async fn find_log_pages(&self, sums: &Sums) -> Vec<Found> {
        let (base, len) = sums.log.ring.extent();
        let mut found = Vec::new();
        for from in (0..len).step_by(LOG_READ as usize) {
            let (at, len) = (base + from, LOG_READ.min(len - from));
            let drives = (0..self.members.len()).filter(|drive| !self.members[*drive].is_lost());
            let each = drives.map(|drive| self.find_log_pages_of(drive, at, len));
            found.extend(join_all(each).await.into_iter().flatten());
        }
        found
    }

    async fn find_log_pages_of(&self, drive: usize, base: u64, len: u64) -> Vec<Found> {
        let pool = self.label.borrow().pool;
        let whole = self.members[drive].read(base, len).await.ok();
        let mut found = Vec::new();
        for from in (0..len).step_by(PAGE as usize) {
            let at = base + from;
            let page = match &whole {
                Some(whole) => whole.slice(from as usize..(from + PAGE) as usize),
                // Something in it can't be read: the rest can.
                None => match self.members[drive].read(at, PAGE).await {
                    Ok(page) => page,
                    Err(_) => continue,
                },
            };
            found.extend(decode(&pool, &page).map(|header| Found { header, drive, at }));
        }
        found
    }

    /// Each from any of the places where it was found. `None`: one can't be read any more.
    async fn read_chain(&self, pages: &[Vec<Found>]) -> Option<Vec<Buf>> {
        let pool = self.label.borrow().pool;
        let mut read = Vec::with_capacity(pages.len());
        for places in pages {
            let mut page = None;
            for Found { header, drive, at } in places {
                let again = self.members[*drive].read(*at, PAGE).await.ok();
                page = again.filter(|page| decode(&pool, page) == Some(*header));
                if page.is_some() {
                    break;
                }
            }
            read.push(page?);
        }
        Some(read)
    }

    // ---- written

    /// Waits until there is room for so many more entries that are not settled, which is kept until
    /// what is returned is dropped.
    pub async fn reserve_log(&self, entries: usize) -> Result<Option<Room<'_>>, ArrayError> {
        let Some(sums) = &self.sums else { return Ok(None) };
        // One at a time, so that they don't all flush.
        let _turn = sums.log.room_turn.lock().await;
        loop {
            if let Some(room) = sums.log.reserve(entries) {
                return Ok(Some(room));
            }
            let progress = sums.log.progress.wait();
            let (has_cached, end) = {
                let state = sums.log.state.borrow();
                (state.has_cached(), state.next())
            };
            match has_cached {
                true => self.flush_members(end).await?,
                false if self.is_uncommitted() => self.commit(end).await?,
                false => progress.await,
            }
        }
    }

    fn is_uncommitted(&self) -> bool {
        self.sums.as_ref().is_some_and(|sums| sums.log.state.borrow().uncommitted() > 0)
    }

    /// Flushes the drives, and commits the log up to an entry beside it.
    pub async fn flush_members(&self, end: u64) -> Result<(), ArrayError> {
        let cached = self.sums.as_ref().map(|sums| sums.log.state.borrow().flush_begins());
        let flushes = join_all(self.members.iter().map(|member| member.flush()));
        let flushes = told(&self.env, Wait::Drives, flushes);
        let commit = told(&self.env, Wait::Journal, self.commit(end));
        let (_, committed) = futures_util::future::join(flushes, commit).await;
        if let Some((sums, cached)) = self.sums.as_ref().zip(cached) {
            sums.log.state.borrow_mut().flushed(&cached);
            sums.log.progress.notify_all();
        }
        committed
    }

    /// The next entry of the log.
    pub fn log_end(&self) -> u64 {
        self.sums.as_ref().map_or(0, |sums| sums.log.state.borrow().next())
    }

    /// The entries before this one are durable when this returns.
    pub async fn commit(&self, end: u64) -> Result<(), ArrayError> {
        let Some(sums) = &self.sums else { return Ok(()) };
        if sums.log.state.borrow().committed() < end {
            let _turn = sums.log.turn.lock().await;
            while sums.log.state.borrow().committed() < end {
                self.write_log_page(sums).await?;
            }
        }
        self.record_losses().await
    }

    /// The drives know the checksums of these pages of drives when this returns.
    pub async fn tell_pages(&self, runs: &[(usize, Range<u64>)]) -> Result<(), ArrayError> {
        let Some(sums) = &self.sums else { return Ok(()) };
        let told = || {
            let state = sums.log.state.borrow();
            runs.iter().all(|(drive, pages)| state.is_told(*drive, pages.clone()))
        };
        if told() {
            return Ok(());
        }
        let _turn = sums.log.turn.lock().await;
        while !told() {
            self.write_log_page(sums).await?;
        }
        Ok(())
    }

    /// The log goes on in this opening's name, whether there is an entry or not.
    pub async fn begin_log(&self) -> Result<(), ArrayError> {
        let Some(sums) = &self.sums else { return Ok(()) };
        let _turn = sums.log.turn.lock().await;
        // No page calls settled what only one after it tells: a crash may come between them.
        while sums.log.state.borrow().has_more() {
            self.write_log_page(sums).await?;
        }
        {
            let mut state = sums.log.state.borrow_mut();
            state.recovered();
            state.agreed();
        }
        self.write_log_page(sums).await
    }

    /// The turn is held.
    async fn write_log_page(&self, sums: &Sums) -> Result<(), ArrayError> {
        // What failed because of it is not over, and must not be told to be: the drives may come
        // back.
        if let Some(error) = self.too_many_lost() {
            return Err(error);
        }
        while sums.log.state.borrow().is_full(sums.log.ring.slots()) {
            let tail = sums.log.state.borrow().tail();
            self.move_tail(sums).await?;
            let mut state = sums.log.state.borrow_mut();
            // Crashes have cut recovery short so often that the log is full of what it did.
            if state.is_recovering() && state.tail() == tail {
                state.recovered();
            }
        }
        let pool = self.label.borrow().pool;
        let (header, entries) = {
            let mut state = sums.log.state.borrow_mut();
            for (drive, sequence) in self.log.news() {
                state.note_record(drive, sequence);
            }
            state.take_page(self.log.all_over_before())
        };
        let page = Buf::from_slice(&encode(&pool, &header, &entries));
        let writes =
            sums.log.ring.places(header.number, header.version).map(|(drive, at)| {
                self.members[drive].write(at, page.clone(), Durability::Durable)
            });
        join_all(writes).await;
        // A drive that could not take it is lost, which the others know before anything counts on
        // the copies there are.
        self.record_losses().await?;
        sums.log.state.borrow_mut().page_written(&header);
        sums.log.progress.notify_all();
        Ok(())
    }

    /// The checksum area gets what keeps the log's tail where it is.
    async fn move_tail(&self, sums: &Sums) -> Result<(), ArrayError> {
        let which = sums.log.state.borrow().at_tail();
        which.iter().for_each(|(drive, number)| sums.set_dirty(*drive, *number));
        self.store_sums(&which).await
    }

    /// The drives know what is settled, if all is. False: they did, or it is not.
    pub async fn tell_settled(&self) -> Result<bool, ArrayError> {
        let Some(sums) = &self.sums else { return Ok(false) };
        if !sums.log.state.borrow().is_untold(self.log.all_over_before()) {
            return Ok(false);
        }
        let _turn = sums.log.turn.lock().await;
        self.write_log_page(sums).await?;
        Ok(true)
    }

    /// Gives a new drive its copies of the pages that count: those of a page may all be on it and
    /// on a drive that is lost next.
    pub async fn copy_log_to(&self, place: usize) -> Result<(), ArrayError> {
        self.copy_log(|drive| drive == place).await.map(drop)
    }

    /// Pages of the log that some drive does not have as the others do; it has them now.
    pub async fn scrub_log(&self) -> Result<u64, ArrayError> {
        self.copy_log(|drive| !self.members[drive].is_lost()).await
    }

    /// Writes the newest version of each page that counts to such of these drives as have others.
    /// How many there were.
    async fn copy_log(&self, to: impl Fn(usize) -> bool) -> Result<u64, ArrayError> {
        let Some(sums) = &self.sums else { return Ok(0) };
        let _turn = sums.log.turn.lock().await;
        let (numbers, mut copied) = (sums.log.state.borrow().numbers(), 0);
        for number in numbers {
            let sides = [0, 1].map(|side| sums.log.ring.places(number, side));
            let mut newest: Option<(Header, Buf)> = None;
            for (drive, at) in sides.into_iter().flatten() {
                let Some((header, page)) = self.read_log_page(drive, at).await else { continue };
                let newer = newest.as_ref().is_none_or(|(own, _)| own.version < header.version);
                if header.number == number && newer && !self.members[drive].is_lost() {
                    newest = Some((header, page));
                }
            }
            // Of one that no drive has the checksums are known to memory alone.
            let Some((header, page)) = newest else { continue };
            for (drive, at) in sums.log.ring.places(number, header.version) {
                let own = self.read_log_page(drive, at).await;
                if to(drive) && own.is_none_or(|(own, _)| own != header) {
                    copied += 1;
                    let _ = self.members[drive].write(at, page.clone(), Durability::Durable).await;
                }
            }
        }
        // And the one that is being filled.
        self.write_log_page(sums).await?;
        Ok(copied)
    }

    async fn read_log_page(&self, drive: usize, at: u64) -> Option<(Header, Buf)> {
        let page = self.members[drive].read(at, PAGE).await.ok()?;
        Some((decode(&self.label.borrow().pool, &page)?, page))
    }

    /// Moves the tail of a log that is half full. False: it is not.
    pub async fn relieve_log(&self) -> Result<bool, ArrayError> {
        let Some(sums) = self.sums.as_ref().filter(|sums| sums.log.is_half_full()) else {
            return Ok(false);
        };
        let before = sums.log.state.borrow().used();
        self.move_tail(sums).await?;
        Ok(sums.log.state.borrow().used() < before)
    }

    /// Commits entries for which nobody waits, if they are many.
    pub fn commit_beside(self: &Rc<Self>) {
        let Some(sums) = self.sums.as_ref().filter(|sums| sums.log.is_due()) else { return };
        sums.log.committing.set(true);
        let inner = self.clone();
        self.env.spawn(async move {
            // If too many drives are lost by it the next request says so.
            let _ = inner.commit(inner.log_end()).await;
            inner.sums.iter().for_each(|sums| sums.log.committing.set(false));
        });
    }
}

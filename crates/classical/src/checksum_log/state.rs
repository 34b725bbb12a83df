//! What the checksum log knows in memory. Pure: no I/O.
//!
//! ```text
//!   entries     0 ......... window ......... committed ....... put ........ next
//!               | settled   | durable in a   | in a page that  | waits for
//!               |           | page           | is being written| a page
//!
//!   an entry leaves the window when it is committed and everything before it is settled: its
//!   page's data is durable. Until then the value before it is the page's *settled* checksum.
//! ```
//! Invariants: `window_first <= committed <= put <= next`; `settled` has a value for exactly the
//! pages that have an entry in the window; a page of checksums with an entry in page n of the log
//! that the checksum area lacks is `unstored` under a number of at most n.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

use super::page::{ENTRIES, Entry, Header, LAST_RECORD};
use crate::sums::{PER_PAGE, UNKNOWN};

/// A page of checksums in the checksum area: a drive, and its number there.
pub type AreaPage = (usize, u64);

#[derive(Clone, Copy)]
struct Settled {
    /// What the page's checksum was before the first entry of the window.
    checksum: u32,
    /// The last entry of the page.
    last: u64,
}

#[derive(Default)]
pub struct State {
    opening: u64,
    before: u64,
    /// Whose page the first one of this opening follows.
    onto: u64,
    /// The page that is being filled: its number, version, first entry and entries.
    number: u64,
    version: u64,
    first: u64,
    entries: Vec<Entry>,
    /// The page must not get any more entries: it was written by an opening before.
    closed: bool,
    /// The page as it is now is not known to be durable: no other is begun.
    unwritten: bool,
    window: VecDeque<Entry>,
    window_first: u64,
    put: u64,
    committed: u64,
    /// First entries of those whose data is on its way, and of those in a drive's cache.
    in_flight: BTreeSet<u64>,
    cached: BTreeSet<u64>,
    settled: BTreeMap<(usize, u64), Settled>,
    /// Pages whose first checksum is settled, and its entry: the drives have not been told that.
    untold: BTreeMap<(usize, u64), u64>,
    /// By the number of a page of the log, and the other way round.
    unstored: BTreeMap<u64, BTreeSet<AreaPage>>,
    oldest: BTreeMap<AreaPage, u64>,
    /// On their way to the checksum area: under which number they were unstored.
    storing: BTreeMap<AreaPage, u64>,
    /// First entries of the pages from the tail on.
    firsts: VecDeque<(u64, u64)>,
    /// Recovery has not looked yet at what was not settled from here on.
    recovering: Option<u64>,
    /// Stripes of marked regions are still to be looked at whose checksums nobody knows.
    doubted: bool,
    /// The drives know that the entries before this one are settled.
    told_settled: u64,
    /// [`Header::records`] of the page that was taken last.
    records: u64,
    telling: Telling,
}

/// What pages say of the partial-parity log's records.
#[derive(Clone, Copy, Default)]
enum Telling {
    /// Which of this opening are over.
    #[default]
    Own,
    /// Which of the opening before were when it ended.
    Before(u64),
    /// All of the opening before are: they were made to agree.
    Agreed,
}

impl State {
    /// Of a new log, or one that goes on behind a page that was found: until
    /// [`State::recovered`] the drives are told that what was not settled then is not.
    pub fn new((opening, before): (u64, u64), head: Option<&Header>, doubted: bool) -> State {
        let next = head.map_or(0, Header::end);
        let number = head.map_or(0, |head| head.number);
        State {
            opening,
            before,
            onto: head.map_or(0, |head| head.opening),
            number,
            version: head.map_or(0, |head| head.version + 1),
            first: next,
            closed: head.is_some(),
            recovering: head.map(|head| head.settled.min(next)),
            doubted,
            window_first: next,
            put: next,
            committed: next,
            ..State::default()
        }
    }

    /// Of the opening before, whose records count until there is a page of intents, those before
    /// this one are over.
    pub fn goes_on_from(&mut self, records: u64) {
        self.telling = Telling::Before(records);
    }

    /// All others are over by now, too.
    pub fn agreed(&mut self) {
        self.telling = Telling::Agreed;
    }

    /// There is a page of intents of this opening.
    pub fn serves(&mut self) {
        self.telling = Telling::Own;
    }

    /// What was not settled has been looked at, and is what memory says.
    pub fn recovered(&mut self) {
        self.recovering = None;
        self.advance();
    }

    pub fn is_recovering(&self) -> bool {
        self.recovering.is_some()
    }

    /// Stripes of marked regions are to be looked at whose checksums nobody knows.
    pub fn is_doubted(&self) -> bool {
        self.doubted
    }

    /// Every stripe has been looked at.
    pub fn doubts_nothing(&mut self) {
        self.doubted = false;
    }

    /// The index of the next entry.
    pub fn next(&self) -> u64 {
        self.window_first + self.window.len() as u64
    }

    pub fn committed(&self) -> u64 {
        self.committed
    }

    /// Entries of which the drives don't know yet that they count alone.
    pub fn unsettled(&self) -> usize {
        self.window.len()
    }

    /// Entries that a write has to wait for, if they are too many. What recovery found goes when it
    /// is over.
    pub fn held_up(&self) -> usize {
        match self.recovering {
            Some(_) => self.uncommitted() as usize,
            None => self.unsettled(),
        }
    }

    pub fn uncommitted(&self) -> u64 {
        self.next() - self.committed
    }

    pub fn has_cached(&self) -> bool {
        !self.cached.is_empty()
    }

    /// Of a range of pages, those of which the drives may not know the checksum yet.
    pub fn uncommitted_of(
        &self,
        drive: usize,
        pages: Range<u64>,
    ) -> impl Iterator<Item = u64> + '_ {
        let own = self.settled.range((drive, pages.start)..(drive, pages.end));
        own.filter(|(_, own)| own.last >= self.committed).map(|((_, page), _)| *page)
    }

    /// Of all of a range of pages the drives know the checksum, and of none that they know nothing
    /// of before it: a crash would make them think that nothing was there yet.
    pub fn is_told(&self, drive: usize, pages: Range<u64>) -> bool {
        let untold = self.untold.range((drive, pages.start)..(drive, pages.end)).next();
        untold.is_none() && self.uncommitted_of(drive, pages).next().is_none()
    }

    // ---- entries

    /// Pages of a drive from one on have other checksums: before and from now on. Their data is on
    /// its way until [`State::durable`] or [`State::cached`].
    pub fn append(&mut self, drive: usize, first: u64, news: &[(u32, u32)]) -> Range<u64> {
        let start = self.next();
        for (page, (old, new)) in (first..).zip(news).filter(|(_, (old, new))| old != new) {
            let last = self.next();
            let own = self.settled.entry((drive, page));
            own.or_insert(Settled { checksum: *old, last }).last = last;
            self.window.push_back(Entry { drive, page, checksum: *new });
        }
        if self.next() > start {
            self.in_flight.insert(start);
        }
        start..self.next()
    }

    /// The last record of the partial-parity log on a drive is this one. A page of the log tells it
    /// once of each.
    pub fn note_record(&mut self, drive: usize, sequence: u64) {
        let news = Entry { drive, page: LAST_RECORD, checksum: sequence as u32 };
        let is_it = |own: &Entry| (own.drive, own.page) == (drive, LAST_RECORD);
        // One that waits for its page comes after what is in one.
        let put = (self.put - self.window_first) as usize;
        let waits = (put..self.window.len()).rev().find(|at| is_it(&self.window[*at]));
        if let Some(at) = waits {
            self.window[at] = news;
            return;
        }
        let here = self.entries.iter().rposition(is_it).filter(|_| !self.next_number().1);
        match here {
            Some(at) => self.entries[at] = news,
            None => self.window.push_back(news),
        }
    }

    /// The data of these entries is durable.
    pub fn durable(&mut self, entries: &Range<u64>) {
        if !entries.is_empty() {
            self.in_flight.remove(&entries.start);
            self.advance();
        }
    }

    /// The data of these entries is durable after the next flush of the drives.
    pub fn cached(&mut self, entries: &Range<u64>) {
        if !entries.is_empty() {
            self.in_flight.remove(&entries.start);
            self.cached.insert(entries.start);
        }
    }

    /// What was cached when a flush of all drives began is durable, now that it is over.
    pub fn flushed(&mut self, cached: &[u64]) {
        cached.iter().for_each(|start| {
            self.cached.remove(start);
        });
        self.advance();
    }

    /// What a flush that begins now makes durable, for [`State::flushed`].
    pub fn flush_begins(&self) -> Vec<u64> {
        self.cached.iter().copied().collect()
    }

    fn watermark(&self) -> u64 {
        let [flying, cached] = [&self.in_flight, &self.cached].map(|own| own.first().copied());
        [self.recovering, flying, cached].into_iter().flatten().min().unwrap_or(self.next())
    }

    fn advance(&mut self) {
        let to = self.watermark().min(self.committed);
        while self.window_first < to {
            let entry = self.window.pop_front().expect("it is before the next");
            let key = (entry.drive, entry.page);
            if self.settled.get(&key).is_some_and(|own| own.checksum == UNKNOWN) {
                self.untold.entry(key).or_insert(self.window_first);
            }
            match self.settled.get_mut(&key) {
                Some(own) if own.last > self.window_first => own.checksum = entry.checksum,
                _ => {
                    self.settled.remove(&key);
                }
            }
            self.window_first += 1;
        }
    }

    // ---- pages

    /// The number that the next entry to be put goes to, and whether that page is begun then.
    fn next_number(&self) -> (u64, bool) {
        let full = !self.unwritten && (self.closed || self.entries.len() == ENTRIES);
        (self.number + u64::from(full), full)
    }

    /// The log has no room for one more page: its tail must move first. A page must tell of a tail
    /// that leaves room for the one after it: that may be torn, and this one the head again.
    pub fn is_full(&self, slots: u64) -> bool {
        let (number, begins) = self.next_number();
        begins && (number + 1).saturating_sub(self.tail()) >= slots
    }

    /// The next page to be written: what of the entries is not in one yet, as far as it has room.
    /// `records`: writes with earlier records are over.
    pub fn take_page(&mut self, records: u64) -> (Header, Vec<Entry>) {
        let (number, begins) = self.next_number();
        if begins {
            (self.number, self.version, self.first) = (number, 0, self.put);
            self.entries.clear();
            self.closed = false;
        }
        if self.firsts.back().is_none_or(|(last, _)| *last < number) {
            self.firsts.push_back((number, self.first));
        }
        let from = (self.put - self.window_first) as usize;
        let room = ENTRIES - self.entries.len();
        let news: Vec<Entry> = self.window.iter().skip(from).take(room).copied().collect();
        for entry in news.iter().filter(|entry| entry.page != LAST_RECORD) {
            self.note_unstored((entry.drive, entry.page / PER_PAGE), number);
        }
        self.put += news.len() as u64;
        self.entries.extend(news);
        // Of those whose entries wait for the next page it does not tell.
        self.records = if self.has_more() { self.records } else { records };
        let (agreed, records) = match self.telling {
            Telling::Own => (false, self.records),
            Telling::Before(records) => (false, records),
            Telling::Agreed => (true, self.records),
        };
        let header = Header {
            number,
            version: self.version,
            tail: self.tail(),
            first: self.first,
            entries: self.entries.len(),
            settled: self.watermark(),
            opening: self.opening,
            before: self.before,
            onto: self.onto,
            doubted: self.doubted,
            agreed,
            records,
        };
        self.version += 1;
        self.unwritten = true;
        (header, self.entries.clone())
    }

    /// There are entries that no page has.
    pub fn has_more(&self) -> bool {
        self.put < self.next()
    }

    /// Everything is settled, and the drives don't know it, or not that these records are over.
    pub fn is_untold(&self, records: u64) -> bool {
        let told = self.told_settled == self.next() && self.records == records;
        self.window.is_empty() && !told
    }

    /// A page that was taken is durable.
    pub fn page_written(&mut self, header: &Header) {
        self.told_settled = header.settled;
        self.untold.retain(|_, first| *first >= header.settled);
        self.committed = self.committed.max(header.end());
        self.unwritten = false;
        self.advance();
    }

    // ---- the checksum area

    /// Recovery needs the log from this number on; from the next one on if the checksum area has
    /// everything.
    pub fn tail(&self) -> u64 {
        let first = self.unstored.keys().next().copied();
        let storing = self.storing.values().min().copied();
        [first, storing].into_iter().flatten().min().unwrap_or(self.number + 1)
    }

    fn note_unstored(&mut self, page: AreaPage, number: u64) {
        if let std::collections::btree_map::Entry::Vacant(own) = self.oldest.entry(page) {
            own.insert(number);
            self.unstored.entry(number).or_default().insert(page);
        }
    }

    /// A page of the log was found when the array was opened: those from tail to head in order,
    /// each before its entries.
    pub fn found(&mut self, header: &Header) {
        self.firsts.push_back((header.number, header.first));
    }

    /// So was an entry of it; its page's checksum had been settled as this. Until recovery has
    /// looked what is not settled is in the window, as it was before the crash: the next crash must
    /// find it again.
    pub fn found_entry(&mut self, at: u64, entry: Entry, checksum: u32) {
        let Some((number, _)) = self.firsts.back().copied() else { return };
        let is_open = self.recovering.is_some_and(|settled| at >= settled);
        if entry.page != LAST_RECORD {
            self.note_unstored((entry.drive, entry.page / PER_PAGE), number);
        }
        if !is_open {
            return;
        }
        if self.window.is_empty() {
            self.window_first = at;
        }
        self.window.push_back(entry);
        if entry.page != LAST_RECORD {
            let own = self.settled.entry((entry.drive, entry.page));
            own.or_insert(Settled { checksum, last: at }).last = at;
        }
    }

    /// The pages that recovery needs, but for the one that is being filled.
    pub fn numbers(&self) -> Range<u64> {
        self.tail().min(self.number)..self.number
    }

    /// Pages of checksums that keep the tail where it is.
    pub fn at_tail(&self) -> Vec<AreaPage> {
        self.unstored.values().next().into_iter().flatten().copied().collect()
    }

    /// So many numbers of the log are in use.
    pub fn used(&self) -> u64 {
        (self.number + 1).saturating_sub(self.tail())
    }

    /// A page of checksums goes to the checksum area, with settled checksums.
    pub fn store_begins(&mut self, page: AreaPage) {
        if let Some(number) = self.forget_unstored(page) {
            self.storing.insert(page, number);
        }
        if self.has_unsettled(page) {
            // What is stored lacks them: the page where the window begins has the first of them.
            let first = self.window_first;
            let at = self.firsts.iter().rev().find(|(_, from)| *from <= first);
            let number = at.map_or(self.number, |(number, _)| *number);
            self.note_unstored(page, number);
        }
    }

    pub fn store_ended(&mut self, page: AreaPage) {
        self.storing.remove(&page);
        let tail = self.tail();
        while self.firsts.front().is_some_and(|(number, _)| *number < tail) {
            self.firsts.pop_front();
        }
    }

    /// Whether a page of checksums has entries that are not settled.
    pub fn has_unsettled(&self, page: AreaPage) -> bool {
        self.settled_in(page).next().is_some()
    }

    /// Of a page of checksums those that are not what memory says, as they were settled.
    pub fn settled_in(&self, (drive, number): AreaPage) -> impl Iterator<Item = (u64, u32)> + '_ {
        let first = number * PER_PAGE;
        let own = self.settled.range((drive, first)..(drive, first + PER_PAGE));
        own.map(|((_, page), own)| (*page, own.checksum))
    }

    fn forget_unstored(&mut self, page: AreaPage) -> Option<u64> {
        let number = self.oldest.remove(&page)?;
        let pages = self.unstored.get_mut(&number).expect("both know it");
        pages.remove(&page);
        if pages.is_empty() {
            self.unstored.remove(&number);
        }
        Some(number)
    }
}

#[cfg(test)]
mod tests;

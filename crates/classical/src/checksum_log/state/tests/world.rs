//! An array's checksums as the oracle sees them: what memory, the drives and the log hold, whole
//! lists of everything instead of marks and bounds. Reading and recovery go as `checksum_store` and
//! `resync` do.

use super::*;
use crate::sums::LOST;

type Key = (usize, u64);

/// An entry of the log.
struct Told {
    key: Key,
    value: u32,
    /// So is its page's data.
    durable: bool,
}

pub struct World {
    slots: u64,
    state: State,
    /// Of the newest page of intents, and of openings that were begun.
    intents: u64,
    opening: u64,
    /// What memory says of each page, and what the checksum area does.
    memory: BTreeMap<Key, u32>,
    area: BTreeMap<Key, u32>,
    /// Places of the ring, and the newest version of each number that is whole.
    ring: BTreeMap<(u64, u64), (Header, Vec<Entry>)>,
    newest: BTreeMap<u64, (Header, Vec<Entry>)>,
    /// On its way to the ring, and pages of checksums on their way to the area.
    taken: Option<(Header, Vec<Entry>)>,
    /// The last one that was taken.
    last: Option<Header>,
    /// The one before it failed: its place may have what the next one is put beside.
    failed: bool,
    storing: BTreeMap<AreaPage, (Vec<(Key, u32)>, u64)>,
    /// What the area has of a page of checksums: entries before this one.
    stored: BTreeMap<AreaPage, u64>,
    /// Writes on their way, with the sequences of their records; in caches; flushes.
    in_flight: Vec<(Range<u64>, u64)>,
    cached: Vec<Range<u64>>,
    flushes: Vec<(Vec<u64>, Vec<Range<u64>>)>,
    entries: Vec<Told>,
    by_key: BTreeMap<Key, Vec<u64>>,
    /// On which page each entry was put.
    put: Vec<u64>,
    committed: u64,
    /// Entries before this one were ever settled.
    sure: u64,
    /// What of the area was newer than the head of the log knew when this opening began.
    ahead: BTreeMap<Key, u32>,
    /// Recovery began with these settled and is not over.
    recovering: Option<u64>,
    /// Where the writes of each record ended in the log.
    records: Vec<u64>,
    /// Every page that was ever taken.
    names: BTreeSet<(u64, u64, u64)>,
    values: u32,
}

impl World {
    pub fn new(slots: u64) -> World {
        let mut world = World {
            slots,
            state: State::new((1, 0), None, false),
            intents: 1,
            opening: 1,
            memory: BTreeMap::new(),
            area: BTreeMap::new(),
            ring: BTreeMap::new(),
            newest: BTreeMap::new(),
            taken: None,
            failed: false,
            last: None,
            storing: BTreeMap::new(),
            stored: BTreeMap::new(),
            in_flight: Vec::new(),
            cached: Vec::new(),
            flushes: Vec::new(),
            entries: Vec::new(),
            by_key: BTreeMap::new(),
            put: Vec::new(),
            committed: 0,
            sure: 0,
            ahead: BTreeMap::new(),
            recovering: None,
            records: Vec::new(),
            names: BTreeSet::new(),
            values: LOST,
        };
        assert!(world.take());
        world.written();
        world
    }

    pub fn step(&mut self, step: Step) {
        match step {
            Step::Append { drive, first, count } => self.write(drive, first, count),
            Step::Durable(which) if !self.in_flight.is_empty() => {
                let (run, _) = self.in_flight.remove(which % self.in_flight.len());
                self.set_durable(&run);
                self.state.durable(&run);
            }
            Step::Cached(which) if !self.in_flight.is_empty() => {
                let (run, _) = self.in_flight.remove(which % self.in_flight.len());
                self.state.cached(&run);
                self.cached.push(run);
            }
            Step::FlushBegins => {
                self.flushes.push((self.state.flush_begins(), self.cached.clone()));
            }
            Step::Flushed(which) if !self.flushes.is_empty() => {
                let (told, runs) = self.flushes.remove(which % self.flushes.len());
                runs.iter().for_each(|run| self.set_durable(run));
                self.cached.retain(|run| !runs.contains(run));
                self.state.flushed(&told);
            }
            Step::Record(drive) => self.note_record(drive),
            Step::Take => drop(self.take()),
            Step::Written => self.written(),
            Step::Failed(lands) => {
                let page = self.taken.take();
                self.failed |= page.is_some();
                page.filter(|_| lands).into_iter().for_each(|(header, own)| self.land(header, own));
            }
            Step::StoreBegins(which) => {
                let page = (which % DRIVES, which as u64 % 2);
                if !self.storing.contains_key(&page) {
                    self.store_begins(page);
                }
            }
            Step::StoreEnded(which) => {
                let pages = self.storing.keys().copied().collect::<Vec<_>>();
                if !pages.is_empty() {
                    self.store_ended(pages[which % pages.len()]);
                }
            }
            Step::Crash(seed) => self.crash(&mut Rng::new(seed)),
            Step::Durable(_) | Step::Cached(_) | Step::Flushed(_) => {}
        }
    }

    // ---- entries

    fn next(&self) -> u64 {
        self.entries.len() as u64
    }

    fn value(&mut self) -> u32 {
        self.values += 1;
        self.values
    }

    fn window_max(&self) -> usize {
        self.slots as usize * ENTRIES / 4
    }

    /// As `reserve_log` lets it.
    fn write(&mut self, drive: usize, first: u64, count: u64) {
        let used = self.state.unsettled();
        if used > 0 && used + count as usize > self.window_max() {
            return;
        }
        let news: Vec<u32> = (first..first + count)
            .map(|page| match page % 7 == 3 {
                // The same bytes as before.
                true => self.memory.get(&(drive, page)).copied().unwrap_or(0),
                false => self.value(),
            })
            .collect();
        let run = self.append(drive, first, &news);
        self.in_flight.push((run.clone(), self.records.len() as u64));
        self.records.push(run.end);
    }

    fn append(&mut self, drive: usize, first: u64, news: &[u32]) -> Range<u64> {
        let start = self.next();
        let mut pairs = Vec::new();
        for (page, new) in (first..).zip(news) {
            let old = self.memory.insert((drive, page), *new).unwrap_or(0);
            pairs.push((old, *new));
            if old != *new {
                self.told((drive, page), *new, false);
            }
        }
        let run = self.state.append(drive, first, &pairs);
        assert_eq!(run, start..self.next());
        run
    }

    fn told(&mut self, key: Key, value: u32, durable: bool) {
        let at = self.next();
        self.by_key.entry(key).or_default().push(at);
        self.entries.push(Told { key, value, durable });
    }

    fn set_durable(&mut self, run: &Range<u64>) {
        run.clone().for_each(|at| self.entries[at as usize].durable = true);
    }

    fn note_record(&mut self, drive: usize) {
        let (key, value, before) = ((drive, LAST_RECORD), self.value(), self.state.next());
        self.state.note_record(drive, u64::from(value));
        if self.state.next() > before {
            return self.told(key, value, true);
        }
        // In its place, which waits for its page, or is in the one that is being filled.
        let at = *self.by_key[&key].last().expect("it was told before");
        let header = self.last.expect("a log begins with a page");
        let is_here = |number: &u64| *number == header.number && at >= header.first;
        assert!(self.put.get(at as usize).is_none_or(is_here));
        self.entries[at as usize].value = value;
    }

    // ---- pages

    /// What is settled: nothing before it waits for its data.
    fn watermark(&self) -> u64 {
        let waits = self.entries.iter().position(|own| !own.durable);
        self.recovering.unwrap_or(waits.map_or(self.next(), |at| at as u64))
    }

    fn over(&self) -> u64 {
        let first = self.in_flight.iter().map(|(_, sequence)| *sequence).min();
        first.unwrap_or(self.records.len() as u64)
    }

    /// False: one is on its way, or the tail can't move.
    pub fn take(&mut self) -> bool {
        if self.taken.is_some() {
            return false;
        }
        while self.state.is_full(self.slots) {
            let tail = self.state.tail();
            // One writes the checksum area at a time.
            let busy: Vec<AreaPage> = self.storing.keys().copied().collect();
            busy.into_iter().for_each(|page| self.store_ended(page));
            for page in self.state.at_tail() {
                self.store_begins(page);
                self.store_ended(page);
            }
            if self.state.tail() == tail {
                assert!(self.recovering.is_some(), "the window leaves room");
                return false;
            }
        }
        let over = self.over();
        let (header, entries) = self.state.take_page(over);
        for _ in self.put.len() as u64..header.end() {
            self.put.push(header.number);
        }
        self.check_page(&header, &entries);
        for (at, end) in self.records.iter().enumerate() {
            assert!(at as u64 >= header.records || *end <= header.end(), "its sums are not there");
        }
        self.last = Some(header);
        self.taken = Some((header, entries));
        true
    }

    fn check_page(&mut self, header: &Header, entries: &[Entry]) {
        assert_eq!(header.entries, entries.len());
        for (at, entry) in (header.first..).zip(entries) {
            let own = &self.entries[at as usize];
            assert_eq!((own.key, own.value), ((entry.drive, entry.page), entry.checksum));
        }
        assert_eq!(header.settled, self.watermark());
        assert!(header.tail <= self.needed(), "the area lacks what is before the tail");
        let name = (header.opening, header.number, header.version);
        assert!(self.names.insert(name), "{name:?} is there twice");
        let newest = self.newest.values().next_back().map(|(header, _)| *header);
        let Some(last) = newest else { return };
        assert_eq!(
            header.number - last.number,
            u64::from(header.first != last.first || { header.opening != last.opening })
        );
        assert!(header.first == if header.number == last.number { last.first } else { last.end() });
    }

    /// The first page of the log that has something which the checksum area lacks.
    fn needed(&self) -> u64 {
        let lacking = |((drive, page), ats): (&Key, &Vec<u64>)| {
            let stored = self.stored.get(&(*drive, page / PER_PAGE)).copied().unwrap_or(0);
            ats.get(ats.partition_point(|at| *at < stored)).copied()
        };
        let keys = self.by_key.iter().filter(|((_, page), _)| *page != LAST_RECORD);
        let first = keys.filter_map(lacking).min();
        first.and_then(|at| self.put.get(at as usize)).copied().unwrap_or(u64::MAX)
    }

    pub fn written(&mut self) {
        let Some((header, entries)) = self.taken.take() else { return };
        (self.committed, self.failed) = (self.committed.max(header.end()), false);
        self.land(header, entries);
        self.state.page_written(&header);
    }

    fn place(&self, header: &Header) -> (u64, u64) {
        (header.number % self.slots, header.version % 2)
    }

    fn land(&mut self, header: Header, entries: Vec<Entry>) {
        self.ring.insert(self.place(&header), (header, entries.clone()));
        self.newest.insert(header.number, (header, entries));
    }

    // ---- the checksum area

    fn area_keys((drive, number): AreaPage) -> Range<Key> {
        (drive, number * PER_PAGE)..(drive, (number + 1) * PER_PAGE)
    }

    /// As `Sums::begin` does.
    fn store_begins(&mut self, page: AreaPage) {
        self.state.store_begins(page);
        let memory = self.memory.range(World::area_keys(page));
        let mut sums: BTreeMap<Key, u32> = memory.map(|(key, sum)| (*key, *sum)).collect();
        sums.extend(self.state.settled_in(page).map(|(at, sum)| ((page.0, at), sum)));
        let upto = self.window();
        self.sure = self.sure.max(upto);
        for (key, sum) in &sums {
            assert_eq!(*sum, self.settled_value(*key, upto), "{key:?} is not settled");
        }
        self.storing.insert(page, (sums.into_iter().collect(), upto));
    }

    fn store_ended(&mut self, page: AreaPage) {
        let (sums, upto) = self.storing.remove(&page).expect("it began");
        self.area.extend(sums);
        self.stored.insert(page, upto);
        self.state.store_ended(page);
    }

    /// Where the window begins.
    fn window(&self) -> u64 {
        self.watermark().min(self.committed)
    }

    /// What a page was before the window.
    fn settled_value(&self, key: Key, window: u64) -> u32 {
        match self.ahead.get(&key).filter(|_| self.recovering.is_some()) {
            Some(ahead) => *ahead,
            None => self.value_before(key, window),
        }
    }

    fn value_before(&self, key: Key, end: u64) -> u32 {
        let Some(ats) = self.by_key.get(&key) else { return 0 };
        let before = ats.partition_point(|at| *at < end);
        before.checked_sub(1).map_or(0, |last| self.entries[ats[last] as usize].value)
    }

    // ---- checked

    /// What it says of itself is what the lists say.
    pub fn check(&self) {
        let state = &self.state;
        let window = self.window();
        assert_eq!((state.next(), state.committed()), (self.next(), self.committed));
        assert_eq!(state.unsettled() as u64, self.next() - window, "the window");
        assert_eq!(state.has_more(), self.put.len() < self.entries.len());
        assert_eq!(state.has_cached(), self.cached.iter().any(|run| !run.is_empty()));
        let last_of = |ats: &Vec<u64>| *ats.last().expect("it has some");
        for drive in 0..DRIVES {
            let (mut open, mut settled) = (Vec::new(), Vec::new());
            for (key, ats) in self.by_key.range((drive, 0)..(drive, PAGES)) {
                if last_of(ats) >= self.committed {
                    open.push(key.1);
                }
                if last_of(ats) >= window {
                    settled.push((key.1, self.settled_value(*key, window)));
                }
            }
            assert_eq!(state.uncommitted_of(drive, 0..PAGES).collect::<Vec<_>>(), open);
            let told = (0..2).flat_map(|number| state.settled_in((drive, number)));
            assert_eq!(told.collect::<Vec<_>>(), settled, "before the window");
        }
        assert!(state.tail() <= self.needed());
        let number = self.last.expect("a log begins with a page").number;
        assert_eq!(state.used(), (number + 1).saturating_sub(state.tail()));
    }

    /// When everything is settled and stored, nothing of the log is needed, and the drives know it.
    pub fn comes_to_rest(&mut self) {
        self.written();
        while let Some((run, _)) = self.in_flight.first().cloned() {
            self.in_flight.remove(0);
            self.set_durable(&run);
            self.state.durable(&run);
        }
        self.step(Step::FlushBegins);
        while !self.flushes.is_empty() {
            self.step(Step::Flushed(0));
        }
        while self.state.has_more() || self.state.is_untold(self.over()) {
            assert!(self.take());
            self.written();
        }
        assert_eq!(self.state.unsettled(), 0);
        let number = self.last.expect("a log begins with a page").number;
        while self.state.tail() <= number {
            for page in self.state.at_tail() {
                self.store_begins(page);
                self.store_ended(page);
            }
        }
        assert_eq!((self.state.numbers().count(), self.state.used()), (0, 0));
        self.check();
    }
}

mod crashes;

//! Crashes of the oracle's world, and the openings after them.

use super::*;

/// Beside what a page's checksum is after replay, what it may be, oldest first.
type Open = BTreeMap<Key, Vec<u32>>;

impl World {
    /// The page that is on its way is torn, and nothing else is.
    pub fn tear(&mut self) {
        let (header, _) = self.taken.take().expect("one is on its way");
        self.ring.remove(&self.place(&header));
        let before = self.opening;
        assert!(self.open(&mut Rng::new(0)) || self.opening > before);
    }

    /// Everything that is on its way comes or does not; so with every crash of an opening after it.
    pub fn crash(&mut self, rng: &mut Rng) {
        self.lose(rng);
        while !self.open(rng) {
            self.lose(rng);
        }
    }

    fn lose(&mut self, rng: &mut Rng) {
        if let Some((header, entries)) = self.taken.take() {
            match rng.below(3) {
                0 => self.land(header, entries),
                1 if !self.failed => drop(self.ring.remove(&self.place(&header))),
                _ => {}
            }
        }
        for (page, (sums, upto)) in std::mem::take(&mut self.storing) {
            if rng.chance(1, 2) {
                self.area.extend(sums);
                self.stored.insert(page, upto);
            }
        }
        (self.in_flight, self.cached, self.flushes) = Default::default();
        self.failed = false;
    }

    /// False: a crash came before it was open.
    fn open(&mut self, rng: &mut Rng) -> bool {
        let found = |(place, (header, _)): (&(u64, u64), &(Header, Vec<Entry>))| Found {
            header: *header,
            drive: 0,
            at: place.0 * 2 + place.1,
        };
        let found: Vec<Found> = self.ring.iter().map(found).collect();
        let head = head(&found, self.intents).expect("a log begins before the intents");
        let newest = self.newest.values().next_back().expect("there is one").0;
        assert_eq!(head, newest);
        assert!(head.end() >= self.committed, "what was committed is there");
        let chain = chain(&found, &head).expect("no page is missing");
        let chain: Vec<Header> = chain.iter().map(|page| page[0].header).collect();
        let own = self.newest.range(head.tail..head.number + 1);
        assert_eq!(chain, own.map(|(_, (header, _))| *header).collect::<Vec<_>>());
        self.opening += 1;
        self.last = Some(head);
        self.records.clear();
        let (open, last) = self.replay(&head, &chain);
        self.forget(&head);
        self.check_replay(&head, &open);
        self.check_last_records(&head, &last);
        self.recovering = Some(head.settled.min(head.end()));
        self.check();
        self.settle(rng, open) && self.begin_log(rng)
    }

    /// As `checksum_store` does it.
    fn replay(&mut self, head: &Header, chain: &[Header]) -> (Open, BTreeMap<usize, u32>) {
        self.state = State::new((self.opening, self.intents), Some(head), false);
        self.memory = self.area.clone();
        let (mut open, mut last) = (Open::new(), BTreeMap::new());
        for header in chain {
            let (_, entries) = &self.ring[&self.place(header)];
            self.state.found(header);
            for (at, entry) in (header.first..).zip(entries) {
                let key = (entry.drive, entry.page);
                let settled = self.memory.get(&key).copied().unwrap_or(0);
                self.state.found_entry(at, *entry, settled);
                if entry.page == LAST_RECORD {
                    if header.opening == head.opening {
                        last.insert(entry.drive, entry.checksum);
                    }
                    continue;
                }
                match at < head.settled {
                    true => drop(self.memory.insert(key, entry.checksum)),
                    false => open.entry(key).or_default().push(entry.checksum),
                }
            }
        }
        (open, last)
    }

    /// Entries that no page on the drives has never were.
    fn forget(&mut self, head: &Header) {
        let end = head.end() as usize;
        self.entries.truncate(end);
        self.put.truncate(end);
        self.by_key.values_mut().for_each(|ats| ats.retain(|at| (*at as usize) < end));
        self.by_key.retain(|_, ats| !ats.is_empty());
        self.committed = head.end();
    }

    /// A page is what it was settled to be, or any of what came after it.
    fn check_replay(&mut self, head: &Header, open: &Open) {
        self.ahead.clear();
        let mut all: BTreeSet<Key> = self.by_key.keys().chain(open.keys()).copied().collect();
        all.extend(self.memory.keys());
        for key in all.into_iter().filter(|key| key.1 != LAST_RECORD) {
            let base = self.memory.get(&key).copied().unwrap_or(0);
            let own = self.by_key.get(&key).into_iter().flatten();
            let later: Vec<u64> = own.copied().filter(|at| *at >= head.settled).collect();
            let values = |ats: &[u64]| -> Vec<u32> {
                ats.iter().map(|at| self.entries[*at as usize].value).collect()
            };
            assert_eq!(open.get(&key).cloned().unwrap_or_default(), values(&later), "{key:?}");
            // The area may have had what was settled after the head was written.
            let sure = later.iter().filter(|at| **at < self.sure).count();
            if base != self.value_before(key, head.settled) {
                assert!(
                    values(&later[..sure]).contains(&base),
                    "{key:?} was never settled as {base}"
                );
                self.ahead.insert(key, base);
            }
        }
    }

    fn check_last_records(&self, head: &Header, last: &BTreeMap<usize, u32>) {
        let own = self.newest.range(head.tail..head.number + 1);
        let own = own.filter(|(_, (header, _))| header.opening == head.opening);
        let mut right = BTreeMap::new();
        for entry in own.flat_map(|(_, (_, entries))| entries) {
            if entry.page == LAST_RECORD {
                right.insert(entry.drive, entry.checksum);
            }
        }
        assert_eq!(*last, right, "the last records");
    }

    /// Recovery finds what each page holds that may hold several things, or that it is lost.
    fn settle(&mut self, rng: &mut Rng, open: Open) -> bool {
        let crash = rng.index(4 * open.len() + 1);
        for (at, ((drive, page), values)) in open.into_iter().enumerate() {
            let newest = *values.last().expect("an entry is there");
            let base = self.memory.get(&(drive, page)).copied().unwrap_or(0);
            let all: Vec<u32> = [base, newest, LOST].into_iter().chain(values).collect();
            let right = all[rng.index(all.len())];
            // `close_sum`, then `put_right`.
            self.memory.insert((drive, page), newest);
            let run = self.append(drive, page, &[right]);
            self.set_durable(&run);
            self.state.durable(&run);
            // That a page is lost is committed at once.
            if rng.chance(1, 64) && self.take() {
                if rng.chance(1, 8) {
                    return false;
                }
                self.written();
                self.check();
            }
            if at == crash {
                return false;
            }
        }
        true
    }

    fn begin_log(&mut self, rng: &mut Rng) -> bool {
        self.entries.iter_mut().for_each(|own| own.durable = true);
        self.recovering = None;
        self.state.recovered();
        self.check();
        loop {
            assert!(self.take());
            if rng.chance(1, 6) {
                return false;
            }
            self.written();
            if !self.state.has_more() {
                break;
            }
        }
        if rng.chance(1, 6) {
            return false;
        }
        self.intents = self.opening;
        true
    }
}

//! Sums on the drives: read when an array is opened, written before a region's mark is taken back
//! and when the tail of the checksum log has to move.

use std::ops::Range;

use io::{Buf, Durability, Env, Nanos, join_all};

use crate::array::{ArrayError, Inner};
use crate::checksum_log::Logged;
use crate::intents::{self, BYTES as INTENTS_BYTES};
use crate::limits::{PAGE, REGIONS_AT_ONCE, SUMS_AT_ONCE, SUMS_READ};
use crate::sums::{Header, LOST, Sums, UNKNOWN, VOID, decode, is_lost, sum_of};

/// The newest that was found of a page of sums, and on how many drives.
#[derive(Clone, Copy, Default)]
struct Best {
    age: (u64, u64),
    holders: usize,
}

impl<E: Env> Inner<E> {
    fn sum_area(&self) -> u64 {
        self.label.borrow().meta.offset + INTENTS_BYTES
    }

    /// Numbers of the pages of a row of chunks on a drive.
    pub fn pages_of_row(&self, row: u64) -> Range<u64> {
        let each = self.grid.chunk / PAGE;
        row * each..(row + 1) * each
    }

    /// A drive, and the number of its page that holds this byte of a member's chunk.
    pub fn page_of(&self, stripe: u64, member: usize, start: u64) -> (usize, u64) {
        let (drive, row) = self.grid.place(stripe, member);
        (drive, self.pages_of_row(row).start + start / PAGE)
    }

    /// What a page of a member should be; unknown without sums.
    pub fn sum(&self, stripe: u64, member: usize, start: u64) -> u32 {
        let (drive, page) = self.page_of(stripe, member, start);
        self.sums.as_ref().map_or(UNKNOWN, |sums| sums.get(drive, page))
    }

    /// Sums of whole pages; none without sums.
    pub fn sums_of(&self, bytes: &[u8]) -> Vec<u32> {
        match self.sums {
            Some(_) => bytes.chunks_exact(PAGE as usize).map(sum_of).collect(),
            None => Vec::new(),
        }
    }

    /// Whole pages of a member are about to be what these sums say, until [`Inner::written`] says
    /// that they are.
    pub fn set_sums(&self, stripe: u64, member: usize, start: u64, news: &[u32]) -> Logged {
        let Some(sums) = &self.sums else { return Logged::default() };
        let (drive, first) = self.page_of(stripe, member, start);
        let pairs = sums.replace(drive, first, news);
        let changed = |(old, new): &(u32, u32)| old != new && (is_lost(*old) || is_lost(*new));
        let urgent = pairs.iter().any(changed);
        let run = sums.log.state.borrow_mut().append(drive, first, &pairs);
        Logged { runs: vec![run], urgent }
    }

    /// The pages are what their sums say: durable, or in the caches of drives.
    pub fn written(&self, logged: &Logged, how: Durability) {
        let Some(sums) = &self.sums else { return };
        let mut state = sums.log.state.borrow_mut();
        for run in &logged.runs {
            match how {
                Durability::Durable => state.durable(run),
                Durability::Cached => state.cached(run),
            }
        }
        drop(state);
        sums.log.progress.notify_all();
    }

    /// Pages that are there, or follow from others, are these. Where another array has the same
    /// data, what has no checksum there gets none here: who has more is believed rather
    /// ([`crate::Array::known_only_to`]).
    pub fn know(&self, stripe: u64, member: usize, start: u64, bytes: &[u8]) -> Logged {
        let mut news = self.sums_of(bytes);
        if self.mending.elsewhere {
            for (at, new) in (start..).step_by(PAGE as usize).zip(&mut news) {
                if self.sum(stripe, member, at) == UNKNOWN {
                    *new = UNKNOWN;
                }
            }
        }
        let logged = self.set_sums(stripe, member, start, &news);
        self.written(&logged, Durability::Durable);
        logged
    }

    /// Nobody knows any more what a page should hold: LOST, or VOID. To be committed before
    /// anything counts on it.
    pub fn note_lost(&self, stripe: u64, member: usize, start: u64, how: u32) -> Logged {
        // What a drive that is away has there is not what the parity counts on.
        self.kept.touch(self.intents.region(stripe));
        // What the parity counts on stays true.
        let how = if self.sum(stripe, member, start) == VOID { VOID } else { how };
        let logged = self.set_sums(stripe, member, start, &[how]);
        self.written(&logged, Durability::Durable);
        logged
    }

    /// Sums of pages of which nothing is known but whether they are lost.
    pub fn forgotten(&self, stripe: u64, member: usize, range: Range<u64>) -> Vec<u32> {
        let forgotten = |start| match self.sum(stripe, member, start) {
            sum @ (LOST | VOID) => sum,
            _ => UNKNOWN,
        };
        range.step_by(PAGE as usize).map(forgotten).collect()
    }

    // ---- read

    /// What the drives have. Regions are not looked at yet.
    pub async fn load_sums(&self) {
        let Some(sums) = &self.sums else { return };
        let area = sums.area;
        let mut best = vec![vec![Best::default(); area.numbers as usize]; area.drives];
        let at_once = SUMS_READ / (2 * PAGE);
        for copy in 0..area.copies {
            for first in (0..area.numbers).step_by(at_once as usize) {
                let numbers = first..area.numbers.min(first + at_once);
                let hosts = (0..area.drives).filter(|host| !self.members[*host].is_lost());
                let reads = hosts.map(|host| self.read_hosted(sums, host, copy, numbers.clone()));
                for found in join_all(reads).await.into_iter().flatten() {
                    let (header, page) = found;
                    let best = &mut best[header.drive][header.number as usize];
                    if header.age > best.age {
                        *best = Best { age: header.age, holders: 0 };
                        sums.load(&header, &page);
                    }
                    best.holders += usize::from(header.age == best.age);
                }
            }
        }
        for (drive, best) in best.iter().enumerate() {
            let there = |copy: &usize| !self.members[area.host(drive, *copy)].is_lost();
            let there = (0..area.copies).filter(there).count();
            let behind = |(_, best): &(usize, &Best)| (1..there).contains(&best.holders);
            let behind = best.iter().enumerate().filter(behind);
            behind.for_each(|(number, _)| sums.set_dirty(drive, number as u64));
        }
    }

    /// The newer of both places of each page of sums that a drive has.
    async fn read_hosted(
        &self,
        sums: &Sums,
        host: usize,
        copy: usize,
        numbers: Range<u64>,
    ) -> Vec<(Header, Buf)> {
        let (area, pool) = (sums.area, self.label.borrow().pool);
        let (drive, at) = (area.hosted(host, copy), self.sum_area());
        let len = (numbers.end - numbers.start) * 2 * PAGE;
        let place = at + area.place(copy, numbers.start, 0);
        let whole = self.members[host].read(place, len).await.ok();
        let mut found = Vec::new();
        for number in numbers.clone() {
            let mut newest: Option<(Header, Buf)> = None;
            for side in [0, 1] {
                let page = match &whole {
                    Some(whole) => {
                        let from = ((number - numbers.start) * 2 + side as u64) * PAGE;
                        whole.slice(from as usize..(from + PAGE) as usize)
                    }
                    // Something in it can't be read: the rest can.
                    None => {
                        let place = at + area.place(copy, number, side);
                        let Ok(page) = self.members[host].read(place, PAGE).await else { continue };
                        page
                    }
                };
                let header = decode(&pool, &page).filter(|header| {
                    (header.drive, header.number) == (drive, number) && header.age > (0, 0)
                });
                let Some(header) = header else { continue };
                if newest.as_ref().is_none_or(|(newest, _)| newest.age < header.age) {
                    sums.set_side(drive, number, copy, side);
                    newest = Some((header, page));
                }
            }
            found.extend(newest);
        }
        found
    }

    fn rows_of_region(&self, region: u64) -> Range<u64> {
        let (stripes, groups) = (self.grid.stripes(), self.grid.groups() as u64);
        let each = intents::region_stripes(stripes);
        let end = stripes.min((region + 1) * each);
        region * each / groups..end.div_ceil(groups)
    }

    fn pages_of_region(&self, region: u64) -> Range<u64> {
        let rows = self.rows_of_region(region);
        self.pages_of_row(rows.start).start..self.pages_of_row(rows.end).start
    }

    /// What the area has of these regions is not believed, but that pages are lost: nothing tells
    /// what was written after it.
    pub fn doubt_sums(&self, regions: &[u64]) {
        let Some(sums) = self.sums.as_ref().filter(|sums| !sums.is_blank()) else { return };
        let each = intents::region_stripes(self.grid.stripes());
        for region in regions {
            for stripe in region * each..self.grid.stripes().min((region + 1) * each) {
                for member in 0..self.grid.width {
                    let (drive, first) = self.page_of(stripe, member, 0);
                    let news = self.forgotten(stripe, member, 0..self.grid.chunk);
                    sums.replace(drive, first, &news);
                }
            }
            let pages = self.pages_of_region(*region);
            // Also where nothing changes by that: the drives must have it before the mark goes.
            let numbers = sums.area.over(pages);
            let all = (0..sums.area.drives).flat_map(|d| numbers.clone().map(move |n| (d, n)));
            all.for_each(|(drive, number)| sums.set_dirty(drive, number));
        }
    }

    // ---- written

    /// The drives have the sums of a region's pages.
    pub fn sums_stored(&self, region: u64) -> bool {
        let Some(sums) = &self.sums else { return true };
        let numbers = sums.area.over(self.pages_of_region(region));
        (0..sums.area.drives).all(|drive| sums.is_stored(drive, numbers.clone()))
    }

    /// Writes the sums of some of the regions whose marks could be taken back.
    pub async fn store_rested_sums(&self, now: Nanos) -> Result<(), ArrayError> {
        let Some(sums) = &self.sums else { return Ok(()) };
        let mut which = Vec::new();
        for region in self.intents.rested(now).into_iter().take(REGIONS_AT_ONCE) {
            let pages = self.pages_of_region(region);
            let dirty = (0..sums.area.drives).map(|drive| sums.dirty_over(drive, pages.clone()));
            which.extend(dirty.flatten());
        }
        which.sort_unstable();
        which.dedup();
        self.store_sums(&which).await
    }

    pub async fn store_all_sums(&self) -> Result<(), ArrayError> {
        let Some(sums) = &self.sums else { return Ok(()) };
        self.store_sums(&sums.dirty()).await?;
        // What is doubted, too: the area says so.
        sums.log.state.borrow_mut().doubts_nothing();
        Ok(())
    }

    /// These pages of sums are durable when this returns, as they are now or newer.
    pub async fn store_sums(&self, which: &[(usize, u64)]) -> Result<(), ArrayError> {
        let Some(sums) = self.sums.as_ref().filter(|_| !which.is_empty()) else { return Ok(()) };
        {
            let _turn = self.sums_turn.lock().await;
            for some in which.chunks(SUMS_AT_ONCE) {
                let news = some.iter().filter(|(drive, n)| !sums.is_stored(*drive, *n..*n + 1));
                join_all(news.map(|&(drive, number)| self.store_page(sums, drive, number))).await;
            }
        }
        self.record_losses().await
    }

    async fn store_page(&self, sums: &Sums, drive: usize, number: u64) {
        let (pool, epoch) = {
            let label = self.label.borrow();
            (label.pool, label.epoch)
        };
        let page = Buf::from_slice(&sums.begin(&pool, epoch, drive, number));
        let at = self.sum_area();
        // Of one drive both places, one after the other: if the only newest one rotted, one from
        // before would pass for it.
        let places = if sums.area.copies == 1 { 2 } else { 1 };
        let writes = (0..sums.area.copies).map(async |copy| {
            for _ in 0..places {
                let side = 1 - sums.side(drive, number, copy);
                let place = at + sums.area.place(copy, number, side);
                let host = &self.members[sums.area.host(drive, copy)];
                if host.write(place, page.clone(), Durability::Durable).await.is_ok() {
                    sums.set_side(drive, number, copy, side);
                }
            }
        });
        join_all(writes).await;
        sums.written(drive, number);
    }

    // ---- looked at

    /// Pages of sums on a drive that are not as memory has them; they are dirty from now on.
    pub async fn check_sums(&self, host: usize, numbers: Range<u64>) -> u64 {
        let Some(sums) = self.sums.as_ref().filter(|_| !self.members[host].is_lost()) else {
            return 0;
        };
        let (area, pool, at) = (sums.area, self.label.borrow().pool, self.sum_area());
        let mut bad = 0;
        for copy in 0..area.copies {
            let drive = area.hosted(host, copy);
            for number in numbers.clone() {
                // Nothing that is known: it need never have been written.
                let begun = sums.is_known(drive, number);
                if !begun || !sums.is_stored(drive, number..number + 1) {
                    continue;
                }
                let place = at + area.place(copy, number, sums.side(drive, number, copy));
                let right = match self.members[host].read(place, PAGE).await {
                    Ok(page) => {
                        let header = decode(&pool, &page);
                        let own = header.is_some_and(|h| (h.drive, h.number) == (drive, number));
                        own && sums.agrees(drive, number, &page)
                    }
                    Err(error) => !error.is_refusal(),
                };
                // Written meanwhile, it may lie at the other place.
                if !right && sums.is_stored(drive, number..number + 1) {
                    sums.set_dirty(drive, number);
                    bad += 1;
                }
            }
        }
        bad
    }
}

//! Space: segments that hold little are emptied, what died is given back when that is safe.

use std::rc::Rc;

use io::wait::{Wait, told};
use io::{Buf, Env, join_all};

use super::bytes::{BLOCKS_MAX, Held, PAGE};
use super::head::{Full, Waiting};
use super::medium::Medium;
use super::table::{Place, State};
use super::{BLOCK, Inner, Stuck};
use crate::store::StoreError;

/// Blocks of a segment that are read at once when it is emptied: they are in memory until written.
const MOVED_AT_ONCE: usize = 2 * BLOCKS_MAX;

/// What emptying a segment gains, in pages of copies where there is little room; `None`: nothing.
fn benefit(pages: u32, live: u32, gain: u32, cost: u32) -> Option<u64> {
    // A header for every long record, and what does not fit the end of a segment.
    let written = u64::from(live) + u64::from(live).div_ceil(BLOCKS_MAX as u64) + 1;
    let spent = u64::from(cost) * written;
    (u64::from(gain) * u64::from(pages)).checked_sub(spent).filter(|gain| *gain > 0)
}

impl<E: Env, M: Medium> Inner<E, M> {
    /// A place for a segment. Writers leave some to the cleaner, and clean when there are no more.
    pub async fn acquire(self: &Rc<Self>, cleaner: bool) -> Result<(u32, u32), StoreError> {
        loop {
            if let Some(taken) = self.medium.take(cleaner) {
                return Ok(taken);
            }
            if cleaner {
                return Err(self.no_space());
            }
            self.bump(|count| count.waits += 1);
            told(&self.env, Wait::Space, self.make_room()).await?;
        }
    }

    fn no_space(&self) -> StoreError {
        let room = self.medium.room();
        let what = format!("no place for a segment of the log, {room} for writers");
        StoreError::Shape { what, hint: "this is a bug: please report it" }
    }

    /// One step towards another place that writers may take; it is another's turn meanwhile.
    pub(super) async fn make_room(self: &Rc<Self>) -> Result<(), StoreError> {
        let _turn = self.clean_turn.lock().await;
        if self.medium.room() > 0 {
            return Ok(());
        }
        if self.table.borrow().has_dead() {
            return self.flush().await;
        }
        // They may be the ones to empty.
        if !self.closing.borrow().is_empty() {
            self.close_all().await?;
        }
        if let Some(victim) = self.victim() {
            return self.empty(victim).await;
        }
        if self.table.borrow().is_awaited() {
            self.freed.wait().await;
            return Ok(());
        }
        if self.table.borrow().has_dead() {
            return self.flush().await;
        }
        Err(self.no_space())
    }

    /// Background work: room for bursts, then copies of what lost one.
    pub async fn work(self: &Rc<Self>) -> Result<bool, StoreError> {
        let Some(_turn) = self.clean_turn.try_lock() else { return Ok(false) };
        let may_copy = self.medium.room() > 0;
        let victim = self.victim().or_else(|| self.degraded().filter(|_| may_copy));
        match victim {
            Some(victim) => self.empty(victim).await.map(|()| true),
            None => Ok(false),
        }
    }

    /// The segment whose emptying gains most.
    fn victim(&self) -> Option<u32> {
        let (table, stuck) = (self.table.borrow(), self.stuck.borrow());
        let cost = self.medium.cost();
        let gains = table.closed().filter(|(number, _)| !stuck.contains_key(number));
        let gains = gains.filter_map(|(number, live)| {
            Some((benefit(self.shape.pages, live, self.medium.gain(number), cost)?, number))
        });
        gains.max_by_key(|(gain, number)| (*gain, u32::MAX - number)).map(|(_, number)| number)
    }

    /// One that a drive's loss left with fewer copies than it could have.
    fn degraded(&self) -> Option<u32> {
        let table = self.table.borrow();
        let mut closed = table.closed().map(|(number, _)| number);
        closed.find(|number| self.is_degraded(*number))
    }

    /// It can be emptied, and what it holds has more copies then.
    pub(super) fn is_degraded(&self, number: u32) -> bool {
        let closed = self.table.borrow().state(number) == State::Closed;
        let stuck = self.stuck.borrow().contains_key(&number);
        closed && !stuck && !self.medium.is_whole(number)
    }

    /// Segments with fewer copies than they could have. What nothing gives has no copy to make.
    pub fn degraded_segments(&self) -> u64 {
        let (table, stuck) = (self.table.borrow(), self.stuck.borrow());
        let numbers = 0..self.medium.numbers();
        let holds =
            |number: &u32| table.live(*number) > 0 && stuck.get(number) != Some(&Stuck::OnlyLost);
        let held = numbers.filter(holds);
        held.filter(|number| !self.medium.is_whole(*number)).count() as u64
    }

    /// Moves what counts in a segment to the cleaner's head, and gives its place back.
    pub(super) async fn empty(self: &Rc<Self>, segment: u32) -> Result<(), StoreError> {
        // What is read here must not be something else meanwhile: a block that came back to the
        // same place would be taken for the one that was read.
        let pin = self.pin(segment);
        let summary = match self.summary_of(segment).await {
            Ok(summary) => summary,
            Err(error) => return self.give_up(segment, error),
        };
        let live = self.live_in(segment, &summary);
        let mut lost = false;
        for some in live.chunks(MOVED_AT_ONCE) {
            let read = match self.read_live(segment, some).await {
                Ok(read) => read,
                Err(error) => return self.give_up(segment, error),
            };
            let mut moved = Vec::new();
            for (&(page, held), read) in some.iter().zip(read) {
                let Held { block, version, .. } = held;
                let from = Some((version, Place { segment, page }));
                match read {
                    Ok(data) => moved.push(Waiting { block, data, moved: from, durable: false }),
                    // Told by whoever looked for it.
                    Err(_) => lost = true,
                }
            }
            if !moved.is_empty() {
                self.join(self.cleaner(), moved).done().await?;
            }
        }
        if lost {
            self.set_stuck(segment, Stuck::OnlyLost);
        }
        drop(pin);
        self.bump(|count| count.cleaned += 1);
        self.flush().await
    }

    /// Others can be emptied.
    fn give_up(&self, segment: u32, error: StoreError) -> Result<(), StoreError> {
        self.set_stuck(segment, Stuck::Unread);
        Err(error)
    }

    /// Unless clients have written the rest of it elsewhere meanwhile.
    fn set_stuck(&self, segment: u32, why: Stuck) {
        if self.table.borrow().live(segment) > 0 {
            self.stuck.borrow_mut().insert(segment, why);
        }
    }

    /// The blocks at these pages, but for those that are lost; neighbours are read together.
    async fn read_live(
        &self,
        segment: u32,
        live: &[(u32, Held)],
    ) -> Result<Vec<Result<Buf, StoreError>>, StoreError> {
        let mut runs: Vec<(u32, Vec<u32>)> = Vec::new();
        for (page, held) in live {
            match runs.last_mut().filter(|(first, sums)| first + sums.len() as u32 == *page) {
                Some((_, sums)) => sums.push(held.sum),
                None => runs.push((*page, vec![held.sum])),
            }
        }
        let reads = runs.iter().map(|(first, sums)| self.read_run(segment, *first, sums));
        let read: Vec<Vec<_>> = join_all(reads).await.into_iter().collect::<Result<_, _>>()?;
        Ok(read.into_iter().flatten().collect())
    }

    /// Blocks in a row. One that is lost leaves the others.
    async fn read_run(
        &self,
        segment: u32,
        first: u32,
        sums: &[u32],
    ) -> Result<Vec<Result<Buf, StoreError>>, StoreError> {
        let (at, len) = (u64::from(first) * PAGE, sums.len() as u64 * PAGE);
        match self.medium.read(segment, at, len, sums).await {
            Ok(run) => {
                Ok((0..run.len()).step_by(BLOCK).map(|at| Ok(run.slice(at..at + BLOCK))).collect())
            }
            Err(error) if error.is_page_lost() => {
                let mut each = Vec::new();
                for (at, sum) in (0..).zip(sums) {
                    let at = u64::from(first + at) * PAGE;
                    match self.medium.read(segment, at, PAGE, &[*sum]).await {
                        Err(error) if !error.is_page_lost() => return Err(error),
                        read => each.push(read),
                    }
                }
                Ok(each)
            }
            Err(error) => Err(error),
        }
    }

    /// Every full segment has its summary, or is dead, when this returns.
    pub async fn close_all(&self) -> Result<(), StoreError> {
        let _turn = self.close_turn.lock().await;
        if self.closing.borrow().iter().any(|full| !full.durable) {
            self.flush().await?;
        }
        loop {
            let next = {
                let mut closing = self.closing.borrow_mut();
                match closing.front().is_some_and(|full| full.durable) {
                    true => closing.pop_front(),
                    false => None,
                }
            };
            let Some(full) = next else { return Ok(()) };
            if let Err(error) = self.write_summary(&full).await {
                if self.table.borrow().state(full.head.number) == State::Full {
                    self.closing.borrow_mut().push_front(full);
                }
                return Err(error);
            }
        }
    }

    async fn write_summary(&self, full: &Full) -> Result<(), StoreError> {
        let number = full.head.number;
        // One that died may be another's by now.
        if self.table.borrow().state(number) != State::Full {
            return Ok(());
        }
        debug_assert!(full.summary.held().next().is_some());
        let end = self.shape.end();
        let bytes = full.summary.encode(&self.pool, &full.head, self.shape);
        self.table.borrow_mut().pin(number);
        let written =
            self.medium.write(number, u64::from(end) * PAGE, Buf::from_slice(&bytes), true).await;
        let free = {
            let mut table = self.table.borrow_mut();
            if written.is_ok() {
                table.close(number);
            }
            table.unpin(number)
        };
        if free {
            self.give_back(&[number]);
        }
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn emptying_must_gain_more_than_it_writes() {
        assert_eq!(benefit(100, 0, 2, 2), Some(200 - 2));
        assert_eq!(benefit(100, 98, 2, 2), None);
        assert_eq!(benefit(100, 97, 2, 2), Some(2));
        // One drive is short of places: what is copied elsewhere costs nothing there.
        assert_eq!(benefit(100, 100, 1, 0), Some(100));
        assert_eq!(benefit(100, 50, 1, 2), None);
        assert_eq!(benefit(100, 40, 1, 2), Some(100 - 84));
        assert_eq!(benefit(100, 3, 0, 2), None);
    }
}

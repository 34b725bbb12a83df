//! Carries out what the table decides: reads, writes, moves, and making the map durable.
//!
//! ```text
//!   write that stays   [writers + 1] ── write in place ──────────────────────── [writers - 1]
//!   write that moves   [moving] ── writers are done ── read the rest ── write all to the new
//!                      place ── the table names it, the old place is in limbo ── [not moving]
//!   flush              the table's pages as they are now ── flush both tiers ── write the pages,
//!                      durable ── limbo as it was then is free
//! ```
//! Many writes that stay may be in one stripe at once; who moves it has it alone. A page never
//! speaks of bytes that are not durable, because the flush begins after the page was taken, and the
//! table names a place after all of its bytes are written.

use std::cell::RefCell;
use std::collections::BTreeMap;

use classical::Array;
use futures_util::future::join;
use io::sync::{Event, EventWait};
use io::{Buf, BufMut, Env, join_all};

use super::decide::Cover;
use super::offline::{Offline, Step};
use super::place::{Place, Tier};
use super::shape::{Shape, Share, Tuning};
use super::table::{Choice, Move, Table};
use crate::page_map::PageMap;
use crate::part::PartEnv;
use crate::store::StoreError;

/// Who is at work in a stripe. Bounded by the requests there are.
#[derive(Default)]
struct Busy {
    writers: u32,
    moving: bool,
    change: Event,
}

enum Begun {
    Wait(EventWait),
    Choice(Choice),
}

pub struct Inner<E: Env> {
    pub mirrors: Array<PartEnv<E>>,
    pub parity: Array<PartEnv<E>>,
    pub shape: Shape,
    pub tuning: Tuning,
    pub table: RefCell<Table>,
    pub map: PageMap<PartEnv<E>>,
    busy: RefCell<BTreeMap<u32, Busy>>,
    /// Places may have become free, or entered limbo.
    places: Event,
    offline: RefCell<Offline>,
}

impl<E: Env> Inner<E> {
    pub fn new(
        (mirrors, parity): (Array<PartEnv<E>>, Array<PartEnv<E>>),
        (shape, tuning): (Shape, Tuning),
        table: Table,
        map: PageMap<PartEnv<E>>,
    ) -> Inner<E> {
        Inner {
            mirrors,
            parity,
            shape,
            tuning,
            table: RefCell::new(table),
            map,
            busy: RefCell::default(),
            places: Event::new(),
            offline: RefCell::default(),
        }
    }

    /// The array of a place, and the byte where it begins.
    pub fn locate(&self, place: Place) -> (&Array<PartEnv<E>>, u64) {
        let array = match place.tier {
            Tier::Mirrors => &self.mirrors,
            Tier::Parity => &self.parity,
        };
        (array, self.shape.first(place.tier) + u64::from(place.number) * self.shape.stripe)
    }

    async fn read_at(&self, place: Place, start: u64, len: u64) -> Result<Buf, StoreError> {
        let (array, offset) = self.locate(place);
        Ok(array.read(offset + start, len).await?)
    }

    async fn write_at(
        &self,
        place: Place,
        start: u64,
        data: Buf,
        fua: bool,
    ) -> Result<(), StoreError> {
        let (array, offset) = self.locate(place);
        Ok(array.write(offset + start, data, fua).await?)
    }

    /// A stripe that was never written is zero.
    pub async fn read_share(&self, share: &Share) -> Result<Buf, StoreError> {
        let place = self.table.borrow_mut().begin_read(share.stripe);
        let Some(place) = place else { return Ok(Buf::zeroed(share.len as usize)) };
        let read = self.read_at(place, share.start, share.len).await;
        if self.table.borrow_mut().space.end_read(place) {
            self.places.notify_all();
        }
        read
    }

    pub async fn write_share(&self, share: &Share, data: Buf, fua: bool) -> Result<(), StoreError> {
        let whole = share.len == self.shape.stripe;
        let cover = if whole { Cover::Full } else { Cover::Partial };
        loop {
            let begun = self.begin(share.stripe, cover);
            match begun {
                Begun::Wait(wait) => wait.await,
                Begun::Choice(Choice::NoRoom) => self.make_room().await?,
                Begun::Choice(Choice::Stay(place)) => {
                    let done = self.write_at(place, share.start, data, fua).await;
                    self.end(share.stripe, |busy| busy.writers -= 1);
                    return done;
                }
                Begun::Choice(Choice::Move(made)) => {
                    return self.carry(share.stripe, made, Some((share.start, data, fua))).await;
                }
            }
        }
    }

    /// Nobody needs what is in a stripe.
    pub async fn discard_stripe(&self, stripe: u32) -> Result<(), StoreError> {
        while let Some(change) = self.being_moved(stripe) {
            change.await;
        }
        self.busy.borrow_mut().entry(stripe).or_default().writers += 1;
        let place = self.table.borrow().place(stripe);
        let done = match place.map(|place| self.locate(place)) {
            Some((array, offset)) => array.discard(offset, self.shape.stripe).await,
            None => Ok(()),
        };
        self.end(stripe, |busy| busy.writers -= 1);
        Ok(done?)
    }

    /// Somebody has the stripe alone, until something changes at least.
    fn being_moved(&self, stripe: u32) -> Option<EventWait> {
        let busy = self.busy.borrow();
        busy.get(&stripe).filter(|held| held.moving).map(|held| held.change.wait())
    }

    /// Nothing happens between what is decided here and that the others know of it.
    fn begin(&self, stripe: u32, cover: Cover) -> Begun {
        if let Some(change) = self.being_moved(stripe) {
            return Begun::Wait(change);
        }
        let mut busy = self.busy.borrow_mut();
        let choice = self.table.borrow_mut().choose(stripe, cover);
        match choice {
            Choice::NoRoom => (),
            Choice::Stay(_) => busy.entry(stripe).or_default().writers += 1,
            Choice::Move(_) => busy.entry(stripe).or_default().moving = true,
        }
        Begun::Choice(choice)
    }

    fn end(&self, stripe: u32, change: impl FnOnce(&mut Busy)) {
        let event = {
            let mut busy = self.busy.borrow_mut();
            let held = busy.get_mut(&stripe).expect("it is held");
            change(held);
            let event = held.change.clone();
            if held.writers == 0 && !held.moving {
                busy.remove(&stripe);
            }
            event
        };
        event.notify_all();
    }

    /// Those that were writing in place when the stripe was taken to be moved are done.
    async fn drain(&self, stripe: u32) {
        loop {
            let wait = {
                let busy = self.busy.borrow();
                let held = &busy[&stripe];
                if held.writers == 0 {
                    return;
                }
                held.change.wait()
            };
            wait.await;
        }
    }

    /// Moves a stripe, which is marked as moving, with what is written to it if anything is.
    async fn carry(
        &self,
        stripe: u32,
        made: Move,
        write: Option<(u64, Buf, bool)>,
    ) -> Result<(), StoreError> {
        self.drain(stripe).await;
        let by_write = write.is_some();
        let (start, data, fua) = write.unwrap_or((0, Buf::zeroed(0), false));
        let whole = self.whole(made.from, start, data.clone()).await;
        let (done, moved) = match (whole, made.from) {
            (Ok(bytes), _) => (self.write_at(made.to, 0, bytes, fua).await, true),
            // A page of the rest is lost: it can't be elsewhere, and what is written need not be.
            (Err(error), Some(from)) if by_write && error.is_page_lost() => {
                (self.write_at(from, start, data, fua).await, false)
            }
            (Err(error), _) => (Err(error), false),
        };
        {
            let mut table = self.table.borrow_mut();
            if moved && done.is_ok() {
                table.arrive(stripe, made, by_write);
                self.map.touch(stripe as usize);
            } else {
                table.space.give_back(made.to);
            }
        }
        self.end(stripe, |busy| busy.moving = false);
        self.places.notify_all();
        done
    }

    /// All bytes of a stripe with new ones at `start`: the others as they are, or zero.
    async fn whole(&self, from: Option<Place>, start: u64, data: Buf) -> Result<Buf, StoreError> {
        let (stripe, end) = (self.shape.stripe, start + data.len() as u64);
        if data.len() as u64 == stripe {
            return Ok(data);
        }
        let mut bytes = BufMut::zeroed(stripe as usize);
        bytes[start as usize..end as usize].copy_from_slice(&data);
        if let Some(place) = from {
            let rest = [(0, start), (end, stripe)].into_iter().filter(|(from, to)| from < to);
            let rest: Vec<(u64, u64)> = rest.collect();
            let reads = rest.iter().map(|(from, to)| self.read_at(place, *from, to - from));
            for ((from, to), read) in rest.iter().zip(join_all(reads).await) {
                bytes[*from as usize..*to as usize].copy_from_slice(&read?);
            }
        }
        Ok(bytes.freeze())
    }

    /// Returns when there may be a place for a stripe that has none. As there are as many places as
    /// stripes, one is in limbo, read from, or part of a move.
    async fn make_room(&self) -> Result<(), StoreError> {
        let change = self.places.wait();
        let (room, limbo) = {
            let table = self.table.borrow();
            (table.has_room(), table.space.has_limbo())
        };
        match (room, limbo) {
            (true, _) => Ok(()),
            (false, true) => self.commit().await,
            (false, false) => {
                change.await;
                Ok(())
            }
        }
    }

    /// Everything answered before, and where it lies, is durable when this returns.
    pub async fn commit(&self) -> Result<(), StoreError> {
        let left = || self.table.borrow().space.left();
        let take = |some: &[u32]| self.map.take(some, self.table.borrow().entries());
        let done = self.map.commit(left, take, async || self.flush_tiers().await).await?;
        if let Some(left) = done {
            self.table.borrow_mut().space.settle(left);
            self.places.notify_all();
        }
        Ok(())
    }

    pub async fn flush_tiers(&self) -> Result<(), StoreError> {
        let (mirrors, parity) = join(self.mirrors.flush(), self.parity.flush()).await;
        mirrors?;
        Ok(parity?)
    }

    /// Offline migration, one piece of it.
    pub async fn reclaim(&self) -> Result<bool, StoreError> {
        let step = self.offline.borrow_mut().step(&self.table.borrow(), &self.tuning);
        match step {
            Step::Rest => return Ok(false),
            Step::Searched => (),
            Step::Commit => self.commit().await?,
            Step::Move(from, stripes) => {
                let moves = stripes.iter().map(|stripe| self.evict(*stripe, from));
                join_all(moves).await.into_iter().collect::<Result<Vec<()>, _>>()?;
            }
        }
        Ok(true)
    }

    /// A stripe leaves its tier, unless somebody is at work in it: then it is not a victim.
    async fn evict(&self, stripe: u32, from: Tier) -> Result<(), StoreError> {
        let made = {
            let mut busy = self.busy.borrow_mut();
            if busy.contains_key(&stripe) {
                return Ok(());
            }
            let made = self.table.borrow_mut().choose_offline(stripe, from);
            let Some(made) = made else { return Ok(()) };
            busy.entry(stripe).or_default().moving = true;
            made
        };
        self.carry(stripe, made, None).await
    }
}

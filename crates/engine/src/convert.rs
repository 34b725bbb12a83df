//! Conversion: a tuple becomes one RAID stripe in place (FusionRAID §4.2, Figure 7).
//!
//! ```text
//!  stripe 0  [ 2 ][ 17 ][ x ][ 95 ][  ?   ]        [ 2 ][ 17 ][ x ][ 95 ][ P ]   kept
//!  stripe 1  [ x ][ 95 ][ 2 ][ 17 ][  ?   ]   =>   free
//! ```
//! Blocks that are dead (x) stay and count into parity. Parts of a slot that were never
//! written are zeroed first: a drive may return anything for them, and something else later.

use std::rc::Rc;

use format::{Place, Record};
use io::slice::{self, Work};
use io::{Buf, BufMut, Durability, Env, PAGE, join_all};

use crate::api::RequestError;
use crate::geometry::Class;
use crate::limits::{COMPACT_BYTES_MAX, CONVERT_BATCH, STRIPES_AT_ONCE};
use crate::planted::{self, Bug};
use crate::shard::{Claim, Shard};
use crate::tuple::TupleKey;
use crate::write::parity_in_turns;

/// Tuples made busy, with their classes.
type Chosen = Vec<(TupleKey, Rc<Class>)>;

impl<E: Env> Shard<E> {
    /// Converts the least recently accessed tuples. Those that hold little are emptied by
    /// compaction instead. Returns how many stripes this makes free (after a flush).
    pub async fn convert_batch(&self) -> Result<usize, RequestError> {
        slice::of(Work::Conversion, self.convert_oldest()).await
    }

    async fn convert_oldest(&self) -> Result<usize, RequestError> {
        let (convert, empty) = self.choose_tuples();
        let mut freed = 0;
        if !convert.is_empty() {
            freed += self.convert_tuples(&convert).await?;
        }
        if !empty.is_empty() {
            freed += self.empty_tuples(&empty).await?;
        }
        Ok(freed)
    }

    fn choose_tuples(&self) -> (Chosen, Chosen) {
        let mut state = self.state.borrow_mut();
        let (mut convert, mut empty) = (Vec::new(), Vec::new());
        let mut bytes = 0;
        while convert.len() + empty.len() < CONVERT_BATCH && bytes < COMPACT_BYTES_MAX {
            let Some(key) = state.space.lru_next() else { break };
            let class = state.space.class_of_zone(key.zone).expect("assigned").clone();
            bytes += class.width() * self.geometry.block_size as usize;
            let sectors = class.data() as u64 * u64::from(self.geometry.block_sectors());
            let live = u64::from(state.space.live(key));
            if live < policy::background::worth_converting(sectors) {
                empty.push((key, class));
            } else {
                convert.push((key, class));
            }
        }
        (convert, empty)
    }

    pub(crate) async fn convert_tuples(&self, tuples: &Chosen) -> Result<usize, RequestError> {
        let done = self.write_parities(tuples).await;
        // Parity and zeroes are durable before the record that makes them count.
        if !planted::is(Bug::ConvertBeforeDurable) {
            self.flush().await?;
        }
        self.journal.reserve().await;
        let mut freed = 0;
        let mut state = self.state.borrow_mut();
        for ((key, class), done) in done {
            if done.is_ok() {
                self.journal.append(&Record::Convert { stripe: *key });
                state.space.tuple_converted(*key, self.journal.latest(), self.reads.close());
                freed += class.parity();
                self.count(|counters| counters.conversions += 1);
                self.expose_stripe(&state.space, class, *key);
            } else {
                state.space.tuple_release_busy(*key, self.journal.latest(), self.reads.close());
            }
        }
        Ok(freed)
    }

    /// Parity of a batch, some stripes at a time. The batch is the least recently accessed; those
    /// of it whose drives have least to do come first.
    async fn write_parities<'a>(
        &self,
        tuples: &'a Chosen,
    ) -> Vec<(&'a (TupleKey, Rc<Class>), Result<(), RequestError>)> {
        let queue =
            |(key, class): &&(TupleKey, Rc<Class>)| self.queue_of(class.drives(*key).into_iter());
        let mut done = Vec::with_capacity(tuples.len());
        let mut rest: Vec<&(TupleKey, Rc<Class>)> = tuples.iter().collect();
        while !rest.is_empty() {
            let turn = self.pace(|| rest.iter().map(queue).min().unwrap_or(0)).await;
            rest.sort_by_cached_key(queue);
            let group: Vec<_> = rest.drain(..rest.len().min(STRIPES_AT_ONCE)).collect();
            let write = |(key, class): &(TupleKey, Rc<Class>)| {
                turn.moved(class.width() * self.geometry.block_size as usize);
                self.write_parity(*key, class.clone())
            };
            let written = join_all(group.iter().map(|tuple| write(tuple))).await;
            done.extend(group.into_iter().zip(written));
            drop(turn);
            self.env.yield_now().await;
        }
        done
    }

    async fn write_parity(&self, key: TupleKey, class: Rc<Class>) -> Result<(), RequestError> {
        let filled: Vec<u16> = {
            let state = self.state.borrow();
            state.space.tuple(key).expect("a busy tuple stays").filled.to_vec()
        };
        self.cover_unwritten(key, &class, &filled);
        if self.inactive_members(&class, key) > class.parity() {
            return Err(RequestError::Io("too many drives of the stripe are gone".into()));
        }
        let read = |slot: usize| self.read_slot(key, &class, slot, filled[slot]);
        let blocks: Result<Vec<Buf>, RequestError> =
            join_all((0..class.data()).map(read)).await.into_iter().collect();
        let blocks = blocks?;
        let parity = parity_in_turns(&class, &blocks, self.geometry.block_size as usize).await;
        let mut writes = Vec::new();
        for (at, block) in parity.into_iter().enumerate() {
            let address = self.address(&class, key, class.data() + at);
            writes.push((address.drive, address.offset, block));
        }
        for (slot, block) in blocks.iter().enumerate() {
            let start = usize::from(filled[slot]) * PAGE;
            if start < block.len() {
                let address = self.address(&class, key, slot);
                let zeroes = block.slice(start..block.len());
                writes.push((address.drive, address.offset + start as u64, zeroes));
            }
        }
        let write = |(drive, at, block)| self.array.write(drive, at, block, Durability::Cached);
        let failed = join_all(writes.into_iter().map(write)).await.iter().any(Result::is_err);
        // A member lost on the way is what parity is for, as long as it can be.
        if failed && self.inactive_members(&class, key) > class.parity() {
            return Err(RequestError::Io("too many drives of the stripe are gone".into()));
        }
        Ok(())
    }

    /// Blocks of the stripe that hold nothing yet lie on drives that are there.
    fn cover_unwritten(&self, key: TupleKey, class: &Rc<Class>, filled: &[u16]) {
        let mut state = self.state.borrow_mut();
        for position in 0..class.width() {
            if filled.get(position).is_none_or(|&pages| pages == 0) {
                let at = position..position + 1;
                self.cover(&mut state, class, key, at, [&[]; 2], Claim::Background);
            }
        }
    }

    /// A slot's block as stripe 0 will hold it: what was written, then zeroes.
    async fn read_slot(
        &self,
        key: TupleKey,
        class: &Class,
        slot: usize,
        filled: u16,
    ) -> Result<Buf, RequestError> {
        let block_size = self.geometry.block_size as usize;
        let len = usize::from(filled) * PAGE;
        if len == 0 {
            return Ok(Buf::zeroed(block_size));
        }
        let data = self.read_own(key, class, slot, len).await?;
        if len == block_size {
            return Ok(data);
        }
        let mut padded = BufMut::zeroed(block_size);
        padded[..len].copy_from_slice(&data);
        Ok(padded.freeze())
    }

    /// Bytes of a slot as they lie in stripe 0. Copies may differ where a write came to nothing
    /// (a crash in the middle of it); parity has to be of the block that stays.
    async fn read_own(
        &self,
        key: TupleKey,
        class: &Class,
        slot: usize,
        len: usize,
    ) -> Result<Buf, RequestError> {
        // Read, and compared with its sums.
        slice::spend((2 * len) >> 10).await;
        let own = self.address(class, key, slot);
        if let Ok(data) = self.array.read(own.drive, own.offset, len).await
            && self.state.borrow().sums.wrong_page(class, (key, slot), 0, &data).is_none()
        {
            return Ok(data);
        }
        let flbn = self.geometry.flbn(class, key, slot);
        let found = self.slot_as_it_is(class, key, slot, len / PAGE).await;
        let data = match found {
            Some(data) => data,
            None => self.read_place(Place { flbn, replicated: true, sector: 0 }, len).await?,
        };
        // Unreadable now is not unreadable for ever. A drive that refuses this fails.
        let _ = self.array.write(own.drive, own.offset, data.clone(), Durability::Cached).await;
        Ok(data)
    }

    /// Moves the live data of tuples elsewhere; they die. Ends their being busy.
    async fn empty_tuples(&self, tuples: &[(TupleKey, Rc<Class>)]) -> Result<usize, RequestError> {
        let mut freed = 0;
        // One class at a time: a destination stripe has one shape.
        let mut rest = tuples;
        while let Some((_, class)) = rest.first() {
            let run = rest.iter().take_while(|(_, other)| other.id == class.id).count();
            let keys: Vec<TupleKey> = rest[..run].iter().map(|(key, _)| *key).collect();
            freed += self.compact_stripes(class, &keys, class.copies()).await?;
            rest = &rest[run..];
        }
        let mut state = self.state.borrow_mut();
        for (key, _) in tuples {
            state.space.tuple_release_busy(*key, self.journal.latest(), self.reads.close());
        }
        Ok(freed)
    }
}

//! Requests on a volume, grain by grain.

use std::ops::Range;
use std::rc::Rc;

use io::sync::Permit;
use io::wait::{Wait, told};
use io::{Buf, BufMut, Env, Operation, join_all};

use super::grains::Owner;
use super::{Inner, Volume, VolumeError};
use crate::store::Store;

/// A part of a request that lies in one grain.
#[derive(Clone, Copy)]
struct Part {
    owner: Owner,
    /// Bytes within the grain.
    start: u64,
    len: u64,
    /// Bytes of the request before it.
    before: u64,
}

/// A run of bytes that is wholly mapped, or not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    pub len: u64,
    pub mapped: bool,
}

/// A grain that a request is under way on.
struct Hold<E: Env, S> {
    inner: Rc<Inner<E, S>>,
    grain: u32,
}

impl<E: Env, S> Drop for Hold<E, S> {
    fn drop(&mut self) {
        if self.inner.grains.borrow_mut().release(self.grain) {
            self.inner.freed.notify_all();
        }
    }
}

/// The right to be the first to write a grain.
struct FirstWrite<E: Env, S> {
    inner: Rc<Inner<E, S>>,
    owner: Owner,
    _permit: Permit,
}

impl<E: Env, S> Drop for FirstWrite<E, S> {
    fn drop(&mut self) {
        let mut turns = self.inner.first_writes.borrow_mut();
        let (_, users) = turns.get_mut(&self.owner).expect("it is taken");
        *users -= 1;
        if *users == 0 {
            turns.remove(&self.owner);
        }
    }
}

impl<E: Env, S: Store> Volume<E, S> {
    pub fn size(&self) -> u64 {
        let table = self.inner.table.borrow();
        let own = table.volumes.iter().find(|volume| volume.number == self.number);
        own.map_or(0, |own| own.size)
    }

    fn parts(&self, offset: u64, len: u64) -> Result<Vec<Part>, VolumeError> {
        let fits = offset.checked_add(len).is_some_and(|end| end <= self.size());
        if !fits || !(offset | len).is_multiple_of(512) {
            return Err(VolumeError::OutOfRange);
        }
        let (grain, mut at, mut parts) = (self.inner.grain(), offset, Vec::new());
        while at < offset + len {
            let start = at % grain;
            let owner = Owner { volume: self.number, at: (at / grain) as u32 };
            let part = (grain - start).min(offset + len - at);
            parts.push(Part { owner, start, len: part, before: at - offset });
            at += part;
        }
        Ok(parts)
    }

    /// Carries out a request of so many bytes, and counts it.
    async fn counted<T>(
        &self,
        operation: Operation,
        bytes: u64,
        request: impl Future<Output = Result<T, VolumeError>>,
    ) -> Result<T, VolumeError> {
        let under_way = self.tally.begin(&self.inner.env);
        let result = request.await;
        self.tally.end(&self.inner.env, (operation, bytes), under_way, &result);
        result
    }

    pub async fn read(&self, offset: u64, len: u64) -> Result<Vec<Buf>, VolumeError> {
        self.counted(Operation::Read, len, self.read_parts(offset, len)).await
    }

    async fn read_parts(&self, offset: u64, len: u64) -> Result<Vec<Buf>, VolumeError> {
        let parts = self.parts(offset, len)?;
        self.inner.count(|requests| {
            requests.reads += 1;
            requests.read_bytes += len;
        });
        let reads = parts.iter().map(|part| self.inner.read(*part));
        join_all(reads).await.into_iter().collect()
    }

    pub async fn write(&self, offset: u64, data: Buf, fua: bool) -> Result<(), VolumeError> {
        let len = data.len() as u64;
        self.counted(Operation::Write, len, self.write_parts(offset, data, fua)).await
    }

    async fn write_parts(&self, offset: u64, data: Buf, fua: bool) -> Result<(), VolumeError> {
        let len = data.len() as u64;
        let parts = self.parts(offset, len)?;
        self.inner.count(|requests| {
            requests.writes += 1;
            requests.write_bytes += len;
        });
        self.inner.last_write.set(Some(self.inner.env.recent()));
        let writes = parts.iter().map(|part| {
            let bytes = data.slice(part.before as usize..(part.before + part.len) as usize);
            self.inner.write(*part, bytes, fua)
        });
        join_all(writes).await.into_iter().collect()
    }

    pub async fn flush(&self) -> Result<(), VolumeError> {
        let commit = async {
            self.inner.count(|requests| requests.flushes += 1);
            Ok(self.inner.commit().await?)
        };
        self.counted(Operation::Flush, 0, commit).await
    }

    /// Grains that lie in the range as a whole become holes; the rest stays as it is.
    pub async fn trim(&self, offset: u64, len: u64, fua: bool) -> Result<(), VolumeError> {
        self.counted(Operation::Discard, len, self.trim_parts(offset, len, fua)).await
    }

    async fn trim_parts(&self, offset: u64, len: u64, fua: bool) -> Result<(), VolumeError> {
        let parts = self.parts(offset, len)?;
        self.inner.count(|requests| requests.trims += 1);
        for part in parts.iter().filter(|part| self.is_whole(part)) {
            self.inner.grains.borrow_mut().unmap(part.owner);
        }
        self.inner.last_write.set(Some(self.inner.env.recent()));
        match fua {
            true => Ok(self.inner.commit().await?),
            false => Ok(()),
        }
    }

    /// Also to the end of the volume, if that is in the middle of a grain.
    fn is_whole(&self, part: &Part) -> bool {
        let end = u64::from(part.owner.at) * self.inner.grain() + part.start + part.len;
        part.start == 0 && (part.len == self.inner.grain() || end == self.size())
    }

    /// Zeroes: holes where `may_trim` and a whole grain is meant, or nothing was there; bytes
    /// elsewhere.
    pub async fn write_zeroes(
        &self,
        offset: u64,
        len: u64,
        fua: bool,
        may_trim: bool,
    ) -> Result<(), VolumeError> {
        let zeroes = self.zero_parts(offset, len, fua, may_trim);
        self.counted(Operation::Write, len, zeroes).await
    }

    async fn zero_parts(
        &self,
        offset: u64,
        len: u64,
        fua: bool,
        may_trim: bool,
    ) -> Result<(), VolumeError> {
        let parts = self.parts(offset, len)?;
        self.inner.count(|requests| requests.writes += 1);
        self.inner.last_write.set(Some(self.inner.env.recent()));
        let (holes, bytes): (Vec<Part>, Vec<Part>) = parts.into_iter().partition(|part| {
            let unmapped = self.inner.grains.borrow().find(part.owner).is_none();
            may_trim && (unmapped || self.is_whole(part))
        });
        // Where nothing is mapped there are zeroes already; a first write that is under way there
        // counts as later than this.
        for hole in holes.iter().filter(|hole| self.is_whole(hole)) {
            self.inner.grains.borrow_mut().unmap(hole.owner);
        }
        for part in bytes {
            let zeroes = Buf::zeroed(part.len as usize);
            self.inner.write(part, zeroes, fua).await?;
        }
        match fua && !holes.is_empty() {
            true => Ok(self.inner.commit().await?),
            false => Ok(()),
        }
    }

    /// What is mapped from `offset` on, in at most `most` runs.
    pub fn extents(&self, offset: u64, len: u64, most: usize) -> Vec<Extent> {
        let Ok(parts) = self.parts(offset, len) else { return Vec::new() };
        let grains = self.inner.grains.borrow();
        let mut extents: Vec<Extent> = Vec::new();
        for part in parts {
            let mapped = grains.find(part.owner).is_some();
            let count = extents.len();
            match extents.last_mut() {
                Some(last) if last.mapped == mapped => last.len += part.len,
                _ if count == most => break,
                _ => extents.push(Extent { len: part.len, mapped }),
            }
        }
        extents
    }
}

impl<E: Env, S: Store> Inner<E, S> {
    fn count(&self, how: impl FnOnce(&mut super::Requests)) {
        let mut requests = self.requests.get();
        how(&mut requests);
        self.requests.set(requests);
        self.last_request.set(self.env.recent());
    }

    /// Where a grain's byte lies in the store.
    fn place(&self, grain: u32, start: u64) -> u64 {
        self.table.borrow().place(grain) + start
    }

    /// Where a grain of a volume should lie, if there is room.
    fn region(&self, owner: Owner) -> Range<u32> {
        let bytes = self.store.region(owner.volume, owner.at);
        self.table.borrow().grains_within(bytes)
    }

    fn hold(self: &Rc<Self>, owner: Owner) -> Option<Hold<E, S>> {
        let mut grains = self.grains.borrow_mut();
        let grain = grains.find(owner)?;
        grains.hold(grain);
        Some(Hold { inner: self.clone(), grain })
    }

    async fn read(self: &Rc<Self>, part: Part) -> Result<Buf, VolumeError> {
        let Some(hold) = self.hold(part.owner) else { return Ok(Buf::zeroed(part.len as usize)) };
        Ok(self.store.read(self.place(hold.grain, part.start), part.len).await?)
    }

    async fn write(self: &Rc<Self>, part: Part, data: Buf, fua: bool) -> Result<(), VolumeError> {
        let grain = match self.hold(part.owner) {
            Some(hold) => self.overwrite(hold, part, data, fua).await?,
            None => self.write_first(part, data, fua).await?,
        };
        let durable = self.grains.borrow().is_durable(grain);
        match fua && !durable {
            true => Ok(self.commit().await?),
            false => Ok(()),
        }
    }

    async fn overwrite(
        &self,
        hold: Hold<E, S>,
        part: Part,
        data: Buf,
        fua: bool,
    ) -> Result<u32, VolumeError> {
        self.store.write(self.place(hold.grain, part.start), data, fua).await?;
        Ok(hold.grain)
    }

    async fn write_first(
        self: &Rc<Self>,
        part: Part,
        data: Buf,
        fua: bool,
    ) -> Result<u32, VolumeError> {
        let _first = self.first_write(part.owner).await;
        if let Some(hold) = self.hold(part.owner) {
            return self.overwrite(hold, part, data, fua).await;
        }
        let grain = self.take_grain(part.owner).await?;
        let len = self.grain() as usize;
        let whole = match data.len() == len {
            true => data,
            false => {
                let mut whole = BufMut::zeroed(len);
                whole[part.start as usize..][..data.len()].copy_from_slice(&data);
                whole.freeze()
            }
        };
        let written = self.store.write(self.place(grain, 0), whole, fua).await;
        let mut grains = self.grains.borrow_mut();
        match written {
            Ok(()) => grains.map(part.owner, grain),
            Err(_) => grains.give_back(grain),
        }
        drop(grains);
        written?;
        Ok(grain)
    }

    async fn first_write(self: &Rc<Self>, owner: Owner) -> FirstWrite<E, S> {
        let turn = {
            let mut turns = self.first_writes.borrow_mut();
            let (turn, users) = turns.entry(owner).or_default();
            *users += 1;
            turn.clone()
        };
        let permit = told(&self.env, Wait::Lock, turn.lock()).await;
        FirstWrite { inner: self.clone(), owner, _permit: permit }
    }

    /// A free grain; waits for those that will be free as soon as the drives know.
    async fn take_grain(&self, owner: Owner) -> Result<u32, VolumeError> {
        let region = self.region(owner);
        loop {
            let taken = self.grains.borrow_mut().take(region.clone());
            if let Some(grain) = taken {
                return Ok(grain);
            }
            if self.grains.borrow().in_limbo() == 0 {
                self.count(|requests| requests.space_refusals += 1);
                return Err(VolumeError::NoSpace);
            }
            self.count(|requests| requests.space_waits += 1);
            // Freed by the commit, or by the requests that still hold them.
            let freed = self.freed.wait();
            let dirty = self.grains.borrow().is_dirty();
            match dirty {
                true => self.commit().await?,
                false => told(&self.env, Wait::Space, freed).await,
            }
        }
    }
}

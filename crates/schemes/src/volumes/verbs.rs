//! Making, resizing and deleting volumes. Each is one durable writing of the table.

use format::{SECTOR, Uuid, valid_new_name};
use io::tally::Tally;
use io::{Buf, Env};

use super::grains::Owner;
use super::table::{Further, TABLE_SLOT, Table, VOLUMES_MAX, Volume as Entry};
use super::{GRAINS_MIN, Volume, VolumeError, VolumeInfo, Volumes};
use crate::store::{Store, StoreError};

impl<E: Env, S: Store> Volumes<E, S> {
    pub fn list(&self) -> Vec<VolumeInfo> {
        let (table, grains) = (self.inner.table.borrow(), self.inner.grains.borrow());
        let tallies = self.inner.tallies.borrow();
        let info = |entry: &Entry| {
            let tally = tallies.get(&entry.number).map(|tally| &**tally);
            VolumeInfo {
                name: entry.name.clone(),
                size: entry.size,
                mapped: grains.of_volume(entry.number).count() as u64 * table.grain,
                latency: tally.map(Tally::latencies).unwrap_or_default(),
                counters: tally.map(Tally::counters).unwrap_or_default(),
                under_way: tally.map_or(0, Tally::under_way),
            }
        };
        table.volumes.iter().map(info).collect()
    }

    /// Name and size of each volume, for lists: unlike [`Volumes::list`] in no time.
    pub fn sizes(&self) -> Vec<(String, u64)> {
        let table = self.inner.table.borrow();
        table.volumes.iter().map(|entry| (entry.name.clone(), entry.size)).collect()
    }

    pub fn count(&self) -> usize {
        self.inner.table.borrow().volumes.len()
    }

    pub fn volume(&self, name: &str) -> Option<Volume<E, S>> {
        let number = self.find(name).ok()?.number;
        Some(Volume::new(&self.inner, number))
    }

    fn find(&self, name: &str) -> Result<Entry, VolumeError> {
        let table = self.inner.table.borrow();
        let found = table.volumes.iter().find(|volume| volume.name == name);
        found.cloned().ok_or_else(|| VolumeError::NotFound(name.to_owned()))
    }

    /// A volume has as many grains as a number has room for.
    fn check_size(&self, size: u64) -> Result<(), VolumeError> {
        let sense = size > 0 && size.is_multiple_of(512);
        let most = u64::from(u32::MAX) * self.inner.grain();
        if sense && size <= most { Ok(()) } else { Err(VolumeError::Size(size)) }
    }

    pub async fn create(&self, name: &str, size: u64) -> Result<(), VolumeError> {
        if !valid_new_name(name) {
            return Err(VolumeError::Name(name.to_owned()));
        }
        self.check_size(size)?;
        let _turn = self.inner.table_turn.lock().await;
        if self.find(name).is_ok() {
            return Err(VolumeError::Exists(name.to_owned()));
        }
        let mut next = self.inner.table.borrow().clone();
        if next.volumes.len() >= VOLUMES_MAX || next.next == u32::MAX {
            return Err(VolumeError::TooMany);
        }
        next.volumes.push(Entry { number: next.next, name: name.to_owned(), size });
        next.next += 1;
        Ok(self.write_table(next).await?)
    }

    pub async fn resize(&self, name: &str, size: u64) -> Result<(), VolumeError> {
        self.check_size(size)?;
        let _turn = self.inner.table_turn.lock().await;
        let entry = self.find(name)?;
        if let Some(used) = self.used_beyond(&entry, size).await? {
            return Err(VolumeError::ShrinkBelowData { used });
        }
        // What is written meanwhile beyond the new end must not come back when it grows again.
        let end = entry.size.min(size.next_multiple_of(self.inner.grain()));
        if let Some(volume) = self.volume(name).filter(|_| size < end) {
            volume.write_zeroes(size, end - size, true, true).await?;
        }
        let mut next = self.inner.table.borrow().clone();
        let own = next.volumes.iter_mut().find(|volume| volume.number == entry.number);
        own.expect("it was found").size = size;
        Ok(self.write_table(next).await?)
    }

    /// Where what a volume holds beyond `size` ends; `None` if there is nothing but zeroes. A grain
    /// has all of its bytes once any is written, so of the one that is cut through they are read.
    async fn used_beyond(&self, entry: &Entry, size: u64) -> Result<Option<u64>, VolumeError> {
        let grain = self.inner.grain();
        let last = self.inner.grains.borrow().of_volume(entry.number).next_back();
        let Some((Owner { at, .. }, _)) = last else { return Ok(None) };
        let used = (u64::from(at) * grain + grain).min(entry.size);
        if used <= size {
            return Ok(None);
        }
        if used > size.next_multiple_of(grain) {
            return Ok(Some(used));
        }
        let volume = self.volume(&entry.name).ok_or(VolumeError::NotFound(entry.name.clone()))?;
        let bytes = volume.read(size, used - size).await?.concat();
        let last = bytes.iter().rposition(|&byte| byte != 0);
        Ok(last.map(|last| size + (last as u64 + 1).next_multiple_of(SECTOR as u64)))
    }

    /// Somebody has it open.
    pub fn in_use(&self, name: &str) -> bool {
        let used = |number| self.inner.users.borrow().contains_key(&number);
        self.find(name).is_ok_and(|entry| used(entry.number))
    }

    pub async fn delete(&self, name: &str) -> Result<(), VolumeError> {
        let _turn = self.inner.table_turn.lock().await;
        let number = self.find(name)?.number;
        if self.inner.users.borrow().contains_key(&number) {
            return Err(VolumeError::InUse(name.to_owned()));
        }
        let mut next = self.inner.table.borrow().clone();
        next.volumes.retain(|volume| volume.number != number);
        // From then on its grains are nobody's, whatever the map on the drives says.
        self.write_table(next).await?;
        self.inner.tallies.borrow_mut().remove(&number);
        let mut grains = self.inner.grains.borrow_mut();
        let owners: Vec<Owner> = grains.of_volume(number).map(|(owner, _)| owner).collect();
        owners.into_iter().for_each(|owner| grains.unmap(owner));
        Ok(())
    }

    /// Arrays that the table knows the store grew by.
    pub fn further(&self) -> usize {
        self.inner.table.borrow().further.len()
    }

    /// Bytes that the stripes of an array have to divide that the store grows by.
    pub fn grain(&self) -> u64 {
        self.inner.grain()
    }

    /// The store has grown by this array, which begins at `base`: its grains are there for all
    /// volumes when this returns.
    pub async fn grow(&self, id: Uuid, base: u64) -> Result<(), StoreError> {
        let _turn = self.inner.table_turn.lock().await;
        let mut next = self.inner.table.borrow().clone();
        let size = self.inner.store.size() - base;
        let grains = Table::fit(size, next.grain);
        if grains < GRAINS_MIN {
            let least = u64::from(GRAINS_MIN + 1) * next.grain;
            return Err(StoreError::Small { size, least });
        }
        next.further.push(Further { id, base, grains });
        if !next.is_sound() {
            let (what, hint) = ("a pool of so many arrays".to_owned(), "it can't be larger");
            return Err(StoreError::Shape { what, hint });
        }
        let own = next.stretches().last().expect("there is one");
        self.write_table(next).await?;
        self.inner.sequences.borrow_mut().resize(own.pages().end as usize, 0);
        self.inner.grains.borrow_mut().grow(own.range());
        self.inner.freed.notify_all();
        Ok(())
    }

    /// The table in the other slot; the one in memory changes when it is durable.
    async fn write_table(&self, mut next: Table) -> Result<(), StoreError> {
        next.generation += 1;
        let at = next.generation % 2 * TABLE_SLOT;
        self.inner.store.write(at, Buf::from_slice(&next.encode()), true).await?;
        self.inner.table.replace(next);
        Ok(())
    }
}

//! Stores side by side that share no drives: volumes apart.
//!
//! ```text
//!   offset   |──── first store ────|──── second ────|──── third ────|
//!   drives   0 .. width             .. 2 width       .. 3 width
//! ```

use std::rc::Rc;

use io::{Buf, join_all};

use crate::care::AllKept;
use crate::store::{Counters, Store, StoreError, add_up, check_range};

/// A handle: clones name the same.
pub struct Apart<S, D> {
    stores: Rc<Vec<S>>,
    /// Drives of each.
    width: usize,
    /// What is known of all drives.
    drives: Rc<D>,
}

impl<S, D> Clone for Apart<S, D> {
    fn clone(&self) -> Apart<S, D> {
        let (stores, width, drives) = (self.stores.clone(), self.width, self.drives.clone());
        Apart { stores, width, drives }
    }
}

impl<S: Store, D: 'static> Apart<S, D> {
    pub fn new(stores: Vec<S>, width: usize, drives: D) -> Apart<S, D> {
        assert!(!stores.is_empty(), "there is one at least");
        Apart { stores: Rc::new(stores), width, drives: Rc::new(drives) }
    }

    pub fn drives(&self) -> &D {
        &self.drives
    }

    /// The store that a drive is of, and its place there.
    pub fn store_of(&self, place: usize) -> (&S, usize) {
        (&self.stores[place / self.width], place % self.width)
    }

    pub fn stores(&self) -> &[S] {
        &self.stores
    }

    /// The smallest's: all count as that large.
    fn each(&self) -> u64 {
        self.stores.iter().map(S::size).min().unwrap_or(0)
    }

    /// A request, array by array: which, where in it, and bytes of the request before it.
    fn split(&self, offset: u64, len: u64) -> Result<Vec<(usize, u64, u64, u64)>, StoreError> {
        check_range(offset, len, self.size())?;
        let (each, mut at, mut parts) = (self.each(), offset, Vec::new());
        while at < offset + len {
            let here = (each - at % each).min(offset + len - at);
            parts.push(((at / each) as usize, at % each, here, at - offset));
            at += here;
        }
        Ok(parts)
    }
}

impl<S: Store, D: 'static> Store for Apart<S, D> {
    fn size(&self) -> u64 {
        self.each() * self.stores.len() as u64
    }

    fn unit(&self) -> u64 {
        self.stores[0].unit()
    }

    fn regions(&self) -> u64 {
        self.stores.len() as u64
    }

    async fn read(&self, offset: u64, len: u64) -> Result<Buf, StoreError> {
        let parts = self.split(offset, len)?;
        let reads = parts.iter().map(|&(array, at, len, _)| self.stores[array].read(at, len));
        let mut read: Vec<Buf> = join_all(reads).await.into_iter().collect::<Result<_, _>>()?;
        if read.len() == 1 {
            return Ok(read.remove(0));
        }
        let bytes: Vec<&[u8]> = read.iter().map(|buf| &buf[..]).collect();
        Ok(Buf::from_slice(&bytes.concat()))
    }

    async fn write(&self, offset: u64, data: Buf, fua: bool) -> Result<(), StoreError> {
        let parts = self.split(offset, data.len() as u64)?;
        let writes = parts.iter().map(|&(array, at, len, before)| {
            let bytes = data.slice(before as usize..(before + len) as usize);
            self.stores[array].write(at, bytes, fua)
        });
        join_all(writes).await.into_iter().collect::<Result<Vec<()>, _>>()?;
        Ok(())
    }

    async fn discard(&self, offset: u64, len: u64) -> Result<(), StoreError> {
        for (array, at, len, _) in self.split(offset, len)? {
            self.stores[array].discard(at, len).await?;
        }
        Ok(())
    }

    async fn flush(&self) -> Result<(), StoreError> {
        let flushes = self.stores.iter().map(S::flush);
        join_all(flushes).await.into_iter().collect::<Result<Vec<()>, _>>()?;
        Ok(())
    }

    async fn close(&self) -> Result<(), StoreError> {
        for store in self.stores.iter() {
            store.close().await?;
        }
        Ok(())
    }

    async fn work(&self) -> Result<bool, StoreError> {
        for store in self.stores.iter() {
            if store.work().await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn owed(&self) -> u64 {
        self.stores.iter().map(S::owed).sum()
    }

    fn marks(&self) -> u64 {
        self.stores.iter().map(S::marks).sum()
    }

    fn sit_out(&self, drive: usize, out: bool) {
        let (store, at) = self.store_of(drive);
        store.sit_out(at, out);
    }

    fn lost(&self) -> Vec<usize> {
        let all = self.stores.iter().zip((0..).step_by(self.width));
        all.flat_map(|(store, first)| store.lost().into_iter().map(move |at| first + at)).collect()
    }

    fn margin(&self) -> usize {
        self.stores.iter().map(S::margin).min().unwrap_or(0)
    }

    fn shape(&self) -> String {
        format!("{} arrays, each {}", self.stores.len(), self.stores[0].shape())
    }

    /// Of all together.
    fn counters(&self) -> Counters {
        add_up(self.stores.iter().flat_map(S::counters))
    }

    fn kept(&self) -> AllKept {
        self.stores.iter().flat_map(S::kept).collect()
    }

    async fn audit(&self, offset: u64, len: u64) -> Vec<String> {
        let Ok(parts) = self.split(offset, len) else { return vec!["out of range".into()] };
        let mut wrong = Vec::new();
        for (array, at, len, _) in parts {
            let found = self.stores[array].audit(at, len).await;
            wrong.extend(found.iter().map(|what| format!("array {array}: {what}")));
        }
        wrong
    }
}

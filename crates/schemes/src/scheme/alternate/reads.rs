//! Reading: from memory what waits there, the rest from a replica that is not being written to.

use std::rc::Rc;

use classical::ArrayError;
use io::{Buf, BufMut, Env, join_all};

use super::Inner;
use super::replica::Replica;
use crate::log::record::PAGE;
use crate::store::StoreError;

/// What a replica had.
pub struct Answer {
    pub side: usize,
    /// So many could not give it.
    tried: usize,
    pub bytes: Buf,
}

impl<E: Env> Inner<E> {
    /// Who is asked, in order: those that read, in turn; then the one that writes, unless there is
    /// nothing to write; last those with a drive that sits out.
    pub fn readers(&self) -> Vec<(usize, Rc<Replica<E>>)> {
        let (writer, idle) = (self.roles.borrow().writer(), self.is_idle());
        let mut readers = self.whole();
        let turn = self.next_read.get();
        self.next_read.set((turn + 1) % readers.len());
        let first = turn % readers.len();
        readers.rotate_left(first);
        let sitting = self.sitting.borrow();
        let sits_out = |side| sitting.iter().any(|drive| drive / self.drives == side);
        readers.sort_by_key(|(side, _)| (sits_out(*side), !idle && *side == writer));
        readers
    }

    /// Bytes of the replicas. The range is not in the cache: all have it. If each has lost
    /// something of it, page by page.
    async fn read_place(&self, offset: u64, len: u64) -> Result<Buf, StoreError> {
        let whole = self.read_one(offset, len).await;
        let lost = matches!(whole, Err(StoreError::Array(ArrayError::PageLost { .. })));
        if !lost || len <= PAGE {
            return whole;
        }
        let (mut pages, mut at) = (BufMut::with_len(len as usize), offset);
        while at < offset + len {
            let end = (at / PAGE + 1) * PAGE;
            let page = self.read_one(at, end.min(offset + len) - at).await?;
            let from = (at - offset) as usize;
            pages[from..from + page.len()].copy_from_slice(&page);
            at += page.len() as u64;
        }
        Ok(pages.freeze())
    }

    /// From one replica, the others if it fails.
    async fn read_one(&self, offset: u64, len: u64) -> Result<Buf, StoreError> {
        let writer = self.roles.borrow().writer();
        let Answer { side, tried, bytes } = self.read_any(offset, len).await?;
        self.see(|seen| {
            seen.writer_reads += u64::from(side == writer);
            seen.reader_reads += u64::from(side != writer);
            seen.second_reads += tried as u64;
        });
        Ok(bytes)
    }

    /// The same, whoever it is for.
    pub async fn read_any(&self, offset: u64, len: u64) -> Result<Answer, StoreError> {
        let mut failed = StoreError::NoLabel;
        for (tried, (side, replica)) in self.readers().into_iter().enumerate() {
            if !self.alive.get()[side] {
                continue;
            }
            match replica.array.read(self.base + offset, len).await {
                Ok(bytes) => return Ok(Answer { side, tried, bytes }),
                Err(error) => failed = error.into(),
            }
        }
        Err(failed)
    }

    pub async fn read(&self, offset: u64, len: u64) -> Result<Buf, StoreError> {
        // As it is now: what leaves the cache meanwhile is on both replicas, but newer bytes may
        // come to one of them.
        let cached = self.cache.borrow().find(offset..offset + len);
        let mut whole = BufMut::with_len(len as usize);
        let (mut at, mut gaps) = (offset, Vec::new());
        for (start, bytes) in &cached {
            gaps.extend((at < *start).then_some((at, start - at)));
            at = start + bytes.len() as u64;
            whole[(start - offset) as usize..(at - offset) as usize].copy_from_slice(bytes);
        }
        gaps.extend((at < offset + len).then_some((at, offset + len - at)));
        self.see(|seen| seen.cache_reads += u64::from(!cached.is_empty()));
        let reads = gaps.iter().map(|(at, len)| self.read_place(*at, *len));
        for ((at, len), bytes) in gaps.iter().zip(join_all(reads).await) {
            let at = (at - offset) as usize;
            whole[at..at + *len as usize].copy_from_slice(&bytes?);
        }
        Ok(whole.freeze())
    }

    /// The paper's invariant: the cache with any replica is all data.
    pub async fn audit(&self, offset: u64, len: u64) -> Vec<String> {
        let mut wrong = self.cache.borrow().audit();
        let cached = self.cache.borrow().find(offset..offset + len);
        let mut views: Vec<Vec<u8>> = Vec::new();
        for (_, replica) in self.whole() {
            let own = replica.array.disagreeing(self.base + offset, len).await;
            wrong.extend(own.iter().map(|stripe| format!("stripe {stripe}: its drives disagree")));
            // One whose drives fail is lost when it is written to.
            let Ok(bytes) = replica.array.read(self.base + offset, len).await else { continue };
            let mut bytes = bytes.to_vec();
            for (start, own) in &cached {
                bytes[(start - offset) as usize..][..own.len()].copy_from_slice(own);
            }
            views.push(bytes);
        }
        for pair in views.windows(2) {
            let pairs = pair[0].iter().zip(&pair[1]).zip(offset..);
            let differ = pairs.filter(|((first, second), _)| first != second);
            if let Some((_, at)) = { differ }.next() {
                wrong.push(format!("the replicas differ at {at}, beside what is in the cache"));
            }
        }
        wrong
    }
}

//! Reads that give what was written: a copy that is not, or that its drive refuses, is put right
//! from the other.
//!
//! ```text
//!   read ── the copy whose drive has less to do ── passes ──> answered
//!              └ wrong, or refused: each page of both copies, one after the other
//!                   one passes ── written over the other ──> answered      none: lost
//! ```
//! What is written of a segment does not change: what passes is right whoever reads it meanwhile.

use std::collections::BTreeMap;

use classical::sums::{UNKNOWN, passes};
use classical::{ArrayError, Note, Unread};
use format::Uuid;
use io::{Buf, BufMut, Drive, Durability, join_all};

use super::mirrors::{Kept, Mirrors, owners, places_of};
use crate::part::Part;
use crate::segments::bytes::{Head, NO_MATE, PAGE, Summary};
use crate::store::StoreError;

/// Places without the head that should be there, of which summaries are read at once.
const HEADLESS_AT_ONCE: usize = 32;

impl<D: Drive> Mirrors<D> {
    /// From the copy whose drive has least to do, if that is right.
    pub(super) async fn read_right(
        &self,
        number: u32,
        at: u64,
        len: u64,
        wanted: &[u32],
    ) -> Result<Buf, StoreError> {
        for place in self.by_load(number) {
            // Its drive may have been replaced while another copy was tried.
            if !self.copies(number).contains(&place) {
                continue;
            }
            match self.see(place, at, len, wanted).await {
                Ok(bytes) => return Ok(bytes),
                Err(Unread::Absent) => {}
                Err(_) => return self.salvage(number, at, len, wanted).await,
            }
        }
        self.record_losses().await?;
        Err(StoreError::Damaged(format!("all copies of segment {number}")))
    }

    /// Bytes of one copy, if every page passes for its sum.
    pub(super) async fn see(
        &self,
        place: u32,
        at: u64,
        len: u64,
        wanted: &[u32],
    ) -> Result<Buf, Unread> {
        let (member, at) = self.address(place, at);
        let bytes = member.read(at, len).await.map_err(|error| match error.is_refusal() {
            true => Unread::Refused,
            false => Unread::Absent,
        })?;
        let mut pages = wanted.iter().zip(bytes.chunks_exact(PAGE as usize));
        match pages.all(|(sum, page)| passes(*sum, page)) {
            true => Ok(bytes),
            false => Err(Unread::Wrong),
        }
    }

    /// Each page from whichever copy has it.
    async fn salvage(
        &self,
        number: u32,
        at: u64,
        len: u64,
        wanted: &[u32],
    ) -> Result<Buf, StoreError> {
        let mut whole = BufMut::with_len(len as usize);
        for (page, out) in whole.chunks_exact_mut(PAGE as usize).enumerate() {
            let sum = wanted.get(page).copied().unwrap_or(UNKNOWN);
            let right = self.mended(number, at + page as u64 * PAGE, sum).await?;
            out.copy_from_slice(&right);
        }
        Ok(whole.freeze())
    }

    /// One page; copies that are not right are written again. One such page at a time: who comes
    /// later finds it right, and does not count it once more.
    async fn mended(&self, number: u32, at: u64, sum: u32) -> Result<Buf, StoreError> {
        let _turn = self.heal_turn.lock().await;
        let mut right: Option<Buf> = None;
        let mut bad = Vec::new();
        for place in self.copies(number) {
            match self.see(place, at, PAGE, &[sum]).await {
                Ok(page) => right = right.or(Some(page)),
                Err(Unread::Absent) => {}
                Err(unread) => bad.push((place, unread)),
            }
        }
        if let Some(page) = right {
            for (place, unread) in bad {
                self.rewrite(number, place, at, page.clone(), unread).await;
            }
            return Ok(page);
        }
        let Some(&(place, unread)) = bad.first() else {
            self.record_losses().await?;
            return Err(StoreError::Damaged(format!("all copies of segment {number}")));
        };
        self.tell_lost(place, at, sum, unread);
        let (name, byte) = self.device(place, at);
        Err(ArrayError::PageLost { name, byte }.into())
    }

    pub(super) async fn rewrite(
        &self,
        number: u32,
        place: u32,
        at: u64,
        page: Buf,
        unread: Unread,
    ) {
        // On a drive that came meanwhile the place is another segment's.
        if self.copies(number).contains(&place) {
            self.write_again(place, at, page, unread).await;
        }
    }

    /// True: it is there again.
    async fn write_again(&self, place: u32, at: u64, page: Buf, unread: Unread) -> bool {
        let (member, offset) = self.address(place, at);
        let repaired = member.write(offset, page, Durability::Durable).await.is_ok();
        let (drive, byte) = member.device(offset);
        self.mending().tell_rewritten(unread, Note { drive, byte, repaired });
        if !repaired {
            // Nothing is written to it any more; the next write tells if too many are lost.
            let _ = self.record_losses().await;
        }
        repaired
    }

    /// Heads that rotted are written again, where the rest is a copy: a closed segment's, which the
    /// same summary shows. What a new drive holds, or a segment that was appended to, is none.
    pub(super) async fn restore_heads(&self, pool: &Uuid, heads: &mut BTreeMap<u32, Head>) {
        let is_owner = |(place, head): &(u32, Head)| heads.get(place) != Some(head);
        let headless: Vec<(u32, Head)> = owners(heads).into_iter().filter(is_owner).collect();
        for some in headless.chunks(HEADLESS_AT_ONCE) {
            let restored = some.iter().map(|(place, head)| self.restore_head(pool, *place, head));
            let restored = join_all(restored).await;
            heads.extend(some.iter().zip(restored).filter(|own| own.1).map(|own| *own.0));
        }
    }

    /// Which of these segments, that lack a copy and stay where they are, a drive that comes back
    /// has a copy of: the same head and summary show that. Of one that was not full when it went it
    /// has none.
    pub(super) async fn kept_on(
        &self,
        pool: &Uuid,
        (drive, part): (usize, &Part),
        numbers: &[u32],
    ) -> Vec<Kept> {
        let mut kept = Vec::new();
        for some in numbers.chunks(HEADLESS_AT_ONCE) {
            let own = some.iter().map(|number| self.kept_copy(pool, (drive, part), *number));
            kept.extend(join_all(own).await.into_iter().flatten());
        }
        kept
    }

    async fn kept_copy(
        &self,
        pool: &Uuid,
        (drive, part): (usize, &Part),
        number: u32,
    ) -> Option<Kept> {
        let other = *self.copies(number).first()?;
        let (end, pages) = (u64::from(self.shape.end()) * PAGE, u64::from(self.shape.pages) * PAGE);
        let summary_len = pages - end;
        let head = self.see(other, 0, PAGE, &[]).await.ok()?;
        let decoded = Head::decode(pool, &head).filter(|head| head.number == number)?;
        let place = places_of(&decoded).find(|place| self.drive(*place) == drive)?;
        let begin = self.address(place, 0).1;
        let own_head = part.read(begin, PAGE as usize).await.ok()?;
        let own = part.read(begin + end, summary_len as usize).await.ok()?;
        let summary = self.see(other, end, summary_len, &[]).await.ok()?;
        let is_copy = *own_head == *head && self.is_copy(pool, &decoded, &own, &summary);
        is_copy.then_some(Kept { number, place })
    }

    /// Whether summaries of two places show that both have all of a segment, which is closed.
    fn is_copy(&self, pool: &Uuid, head: &Head, own: &Buf, other: &Buf) -> bool {
        **own == **other && Summary::decode(pool, head, self.shape, own).is_some()
    }

    async fn restore_head(&self, pool: &Uuid, place: u32, head: &Head) -> bool {
        let other = if place == head.number { head.mate } else { head.number };
        if other == NO_MATE {
            return false;
        }
        let (at, pages) = (self.shape.end(), self.shape.pages);
        let len = u64::from(pages - at) * PAGE;
        let own = self.see(place, u64::from(at) * PAGE, len, &[]).await;
        let others = self.see(other, u64::from(at) * PAGE, len, &[]).await;
        let (Ok(own), Ok(others)) = (own, others) else { return false };
        let is_copy = self.is_copy(pool, head, &own, &others);
        let page = || Buf::from_slice(&head.encode(pool));
        is_copy && self.write_again(place, 0, page(), Unread::Wrong).await
    }

    pub(super) fn tell_lost(&self, place: u32, at: u64, sum: u32, unread: Unread) {
        let device = self.device(place, at);
        self.mending().tell_lost((place as usize, at, sum), unread, device);
    }

    /// The drive's name, and where on it a byte is: for people.
    fn device(&self, place: u32, at: u64) -> (String, u64) {
        let (member, at) = self.address(place, at);
        member.device(at)
    }
}

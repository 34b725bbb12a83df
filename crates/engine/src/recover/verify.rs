//! Did the data of a record arrive? What of it is missing or torn is made whole from the rest.

use futures_util::future::join_all;
use io::{Buf, BufMut, Drive, Durability};
use layout::StripeShape;

use super::{Recovery, Verdict};
use crate::geometry::BlockAddress;
use crate::planted::{self, Bug};

impl<D: Drive> Recovery<'_, D> {
    /// A replicated write is good if any copy is; the others are made like it. Of one whose
    /// copies can't be read at all nobody knows: a later read that fails is right, and one that
    /// finds what was there before would not be.
    pub(super) async fn verify_copies(
        &self,
        places: Vec<BlockAddress>,
        len: usize,
        crc: u32,
    ) -> (Verdict, u64, u64) {
        let read = |at: &BlockAddress| self.array.read(at.drive, at.offset, len);
        let copies = join_all(places.iter().map(read)).await;
        let good = |bytes: &Buf| crc32c::crc32c(bytes) == crc;
        let Some(data) = copies.iter().flatten().find(|bytes| good(bytes)).cloned() else {
            let readable = copies.iter().any(|copy| copy.is_ok());
            let torn = readable && !planted::is(Bug::IgnoreTornSector);
            return (if torn { Verdict::Dropped } else { Verdict::Trusted }, 1, 0);
        };
        let mut healed = 0;
        let heals = !self.read_only && !planted::is(Bug::KeepTornCopy);
        for (at, copy) in places.iter().zip(&copies) {
            if !copy.as_ref().is_ok_and(good) && heals && self.array.is_active(at.drive) {
                let heal = self.array.write(at.drive, at.offset, data.clone(), Durability::Cached);
                healed += u64::from(heal.await.is_ok());
            }
        }
        (Verdict::Trusted, 1, healed)
    }

    /// A stripe is good if every block that can be read is what was written. If more are missing
    /// than parity makes up for, reads of those fail. Others that can't be read just now may never
    /// have been written: they are written again.
    pub(super) async fn verify_stripe(
        &self,
        members: &[BlockAddress],
        crcs: &[u32],
        shape: StripeShape,
    ) -> (Verdict, u64, u64) {
        let len = self.geometry.block_size as usize;
        let read = |at: &BlockAddress| self.array.read(at.drive, at.offset, len);
        let blocks = join_all(members.iter().map(read)).await;
        let matches = |(block, crc): (&Buf, &u32)| crc32c::crc32c(block) == *crc;
        let readable = blocks.iter().zip(crcs).filter_map(|(b, c)| Some((b.as_ref().ok()?, c)));
        if !readable.into_iter().all(matches) {
            return (Verdict::Dropped, 1, 0);
        }
        let views: Vec<Option<&[u8]>> = blocks.iter().map(|block| block.as_deref().ok()).collect();
        let mut healed = 0;
        for (position, at) in members.iter().enumerate() {
            let absent = self.read_only || !self.array.is_active(at.drive);
            if views[position].is_some() || absent {
                continue;
            }
            let mut bytes = BufMut::with_len(len);
            let mut wanted = [(position, &mut bytes[..])];
            if layout::parity::reconstruct(shape, &views, &mut wanted).is_ok() {
                let heal =
                    self.array.write(at.drive, at.offset, bytes.freeze(), Durability::Cached);
                healed += u64::from(heal.await.is_ok());
            }
        }
        (Verdict::Trusted, 1, healed)
    }
}

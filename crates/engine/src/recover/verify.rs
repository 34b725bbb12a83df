//! Did the data of a record arrive? What of it is missing or torn is made whole from the rest.

use io::{Buf, BufMut, Drive, DriveError, DriveErrorKind, Durability, Operation, join_all};
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
        let good = |bytes: &Buf| io::crc::crc32c(bytes) == crc;
        let Some(data) = copies.iter().flatten().find(|bytes| good(bytes)).cloned() else {
            let readable = copies.iter().any(|copy| copy.is_ok());
            let torn = readable && !planted::is(Bug::IgnoreTornSector);
            return (if torn { Verdict::Dropped } else { Verdict::Trusted }, 1, 0);
        };
        let mut healed = 0;
        for (at, copy) in places.iter().zip(&copies) {
            if !copy.as_ref().is_ok_and(good) && !planted::is(Bug::KeepTornCopy) {
                healed += self.heal(at, &data).await;
            }
        }
        (Verdict::Trusted, 1, healed)
    }

    /// A stripe is good if no more blocks are wrong, or can't be read, than parity makes up for.
    /// Those are made whole from the rest: a drive that hung while the others were flushed may
    /// have lost its block. If only too many can't be read, nothing says that the others are not
    /// what was written, and reads of those fail.
    pub(super) async fn verify_stripe(
        &self,
        members: &[BlockAddress],
        crcs: &[u32],
        shape: StripeShape,
    ) -> (Verdict, u64, u64) {
        let len = self.geometry.block_size as usize;
        let read = |at: &BlockAddress| self.array.read(at.drive, at.offset, len);
        let mut blocks = join_all(members.iter().map(read)).await;
        let unreadable = blocks.iter().filter(|block| block.is_err()).count();
        for (block, &crc) in blocks.iter_mut().zip(crcs) {
            if block.as_ref().is_ok_and(|bytes| io::crc::crc32c(bytes) != crc) {
                *block = Err(DriveError {
                    operation: Operation::Read,
                    offset: 0,
                    len: len as u64,
                    kind: DriveErrorKind::Stale,
                });
            }
        }
        let missing: Vec<usize> = (0..blocks.len()).filter(|&at| blocks[at].is_err()).collect();
        if missing.len() > usize::from(shape.parity) {
            let wrong = missing.len() > unreadable;
            return (if wrong { Verdict::Dropped } else { Verdict::Trusted }, 1, 0);
        }
        let views: Vec<Option<&[u8]>> = blocks.iter().map(|block| block.as_deref().ok()).collect();
        let mut healed = 0;
        for position in missing {
            let mut bytes = BufMut::with_len(len);
            let mut wanted = [(position, &mut bytes[..])];
            let rebuilt = layout::parity::reconstruct(shape, &views, &mut wanted);
            rebuilt.expect("no more are missing than parity makes up for");
            healed += self.heal(&members[position], &bytes.freeze()).await;
        }
        (Verdict::Trusted, 1, healed)
    }

    /// Writes what should be there; where nothing may be written, nobody is to read what is.
    async fn heal(&self, at: &BlockAddress, data: &Buf) -> u64 {
        if self.read_only {
            self.array.distrust(at.drive, at.offset, data.len());
            return 0;
        }
        if !self.array.is_active(at.drive) {
            return 0;
        }
        let write = self.array.write(at.drive, at.offset, data.clone(), Durability::Cached);
        u64::from(write.await.is_ok())
    }
}

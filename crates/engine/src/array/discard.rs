//! Drives are told what they need not keep.

use io::{Drive, DriveError, Operation};
use layout::DriveIndex;

use super::Array;

impl<D: Drive> Array<D> {
    /// Tells a drive that a range holds nothing.
    pub async fn discard(
        &self,
        index: DriveIndex,
        offset: u64,
        len: u64,
    ) -> Result<(), DriveError> {
        let drive = self.handle(index, Operation::Discard)?;
        self.answer(index, Operation::Discard, drive.discard(offset, len)).await?;
        let member = self.member(index);
        // Who takes none says that it is done.
        if member.takes_discards() == Some(true) {
            member.count(|counters| {
                counters.discards += 1;
                counters.discard_bytes += len;
            });
        }
        Ok(())
    }
}

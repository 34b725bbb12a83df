//! Drives are told what nobody needs any more.
//!
//! What a drive gives after a DISCARD is its own affair, and drives differ: parity would not follow
//! from the data any more, and copies would not be the same. So stripes are written with zeroes
//! that take no room: a write like any other to log, sums and parity, which is zero, too. What is
//! lost later is rebuilt, and a scrub finds nothing.
//!
//! ```text
//!  range of nobody      |······|··············|··············|···|
//!  stripes          |        s        |       s+1    |      s+2    |
//!                                     └ WRITE ZEROES ┘ to data and parity; edges stay
//! ```

use io::{Buf, Env};

use crate::array::{Array, ArrayError, Inner};

impl<E: Env> Array<E> {
    /// Whether all of its drives can be told.
    pub fn takes_discards(&self) -> bool {
        self.inner.members.iter().all(|member| member.takes_write_zeroes())
    }

    /// Nobody needs what is in the range. The stripes that it covers are zeroes afterwards, for
    /// which their drives need not keep room; those at the edges stay as they are, and those of
    /// which a drive can't do that. As durable as a write.
    pub async fn discard(&self, offset: u64, len: u64) -> Result<(), ArrayError> {
        let inner = &self.inner;
        inner.check_range(offset, len)?;
        let bytes = inner.grid.stripe_bytes();
        let (first, end) = (offset.div_ceil(bytes), (offset + len) / bytes);
        let zeroes = Buf::zeroed(bytes as usize);
        for stripe in (first..end).filter(|stripe| inner.takes_holes(*stripe)) {
            for share in inner.grid.split(stripe * bytes, bytes) {
                inner.write_share(&share, &zeroes, false, true).await?;
            }
        }
        Ok(())
    }
}

impl<E: Env> Inner<E> {
    fn takes_holes(&self, stripe: u64) -> bool {
        let takes = |member| self.members[self.grid.place(stripe, member).0].takes_write_zeroes();
        (0..self.grid.width).all(takes)
    }
}

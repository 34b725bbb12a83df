//! What nobody needs any more, on all replicas at one time.
//!
//! ```text
//!   entries of before, in place on all ─► the range in each log, durable ─► zeroes, replica by
//!                                                                           replica
//! ```
//! As with a batch: after a crash the replicas may differ there, and the logs say so. It is done
//! when there is nothing else to write, so that reads seldom meet it.

use std::ops::Range;
use std::rc::Rc;

use io::Env;

use super::Inner;
use super::replica::Replica;
use crate::store::StoreError;

impl<E: Env> Inner<E> {
    pub async fn discard(&self, range: Range<u64>) -> Result<(), StoreError> {
        let takes = |replica: &Rc<Replica<E>>| replica.array.takes_discards();
        if !self.living().iter().all(|(_, replica)| takes(replica)) {
            return Ok(());
        }
        let newest = self.cache.borrow().newest();
        loop {
            let applied = self.applied.get();
            if self.living().iter().all(|(side, _)| applied[*side] >= newest) {
                break;
            }
            self.turn_or_wait().await?;
        }
        let _turn = self.turn.lock().await;
        let (living, len) = (self.living(), range.end - range.start);
        // What is being filled would be given it again.
        if self.filling.get().is_some() {
            return Ok(());
        }
        self.kept.borrow_mut().mark([(range.start, len)]);
        for (side, replica) in &living {
            replica.array.hold_marks(true);
            if let Err(error) = replica.log_ranges(newest, newest, &[(range.start, len)]).await {
                self.lose(*side, error)?;
            }
        }
        for (side, replica) in living.iter().filter(|(side, _)| self.there()[*side]) {
            let done = async {
                replica.array.discard(self.base + range.start, len).await?;
                Ok::<(), StoreError>(replica.array.flush().await?)
            };
            if let Err(error) = done.await {
                self.lose(*side, error)?;
            }
        }
        self.trim(false).await
    }
}

//! What keeps the pages of a store whole: the sums of the arrays it lies on, and their scrub.
//!
//! ```text
//!   store ── kept: first array, second, ...     scrub: step by step through each, in this order
//! ```

use classical::{Array, Health, Note, Scrubbed};
use futures_util::future::LocalBoxFuture;
use io::Env;

use crate::store::StoreError;

/// What a step found, and the next one; `None`: there is none.
pub type Step = Result<(Scrubbed, Option<u64>), StoreError>;

/// Something that looks after its pages: an in-place array, whatever its drives are.
pub trait Kept {
    /// Pages have sums.
    fn has_sums(&self) -> bool;

    fn health(&self) -> Health;

    /// Pages that were bad, since somebody asked.
    fn take_notes(&self) -> Vec<Note>;

    /// Bytes of drives that a scrub reads.
    fn scrub_bytes(&self) -> u64;

    /// Looks at a part beside requests; the first is 0.
    fn scrub_some(&self, step: u64) -> LocalBoxFuture<'_, Step>;
}

/// All of a store, in a fixed order.
pub type AllKept = Vec<Box<dyn Kept>>;

impl<E: Env> Kept for Array<E> {
    fn has_sums(&self) -> bool {
        Array::has_sums(self)
    }

    fn health(&self) -> Health {
        Array::health(self)
    }

    fn take_notes(&self) -> Vec<Note> {
        Array::take_notes(self)
    }

    fn scrub_bytes(&self) -> u64 {
        Array::scrub_bytes(self)
    }

    fn scrub_some(&self, step: u64) -> LocalBoxFuture<'_, Step> {
        Box::pin(async move { Ok(Array::scrub_some(self, step).await?) })
    }
}

/// These arrays.
pub fn kept<'a, E: Env>(arrays: impl IntoIterator<Item = &'a Array<E>>) -> AllKept {
    let boxed = |array: &Array<E>| Box::new(array.clone()) as Box<dyn Kept>;
    arrays.into_iter().map(boxed).collect()
}

//! What keeps the pages of a store whole: the sums of the arrays it lies on, and their scrub.
//!
//! ```text
//!   store ── kept: first array, second, ...     scrub: step by step through each, in this order
//! ```
//! Where a map says which places of an array are used, pages of others hold nothing: none of them
//! is lost.

use std::ops::Range;
use std::rc::Rc;

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

/// An array whose scrub does this.
pub struct Around<E: Env, F> {
    pub array: Array<E>,
    pub scrub: F,
}

impl<E: Env, S: Future<Output = Step> + 'static, F: Fn(u64) -> S> Kept for Around<E, F> {
    fn has_sums(&self) -> bool {
        self.array.has_sums()
    }

    fn health(&self) -> Health {
        self.array.health()
    }

    fn take_notes(&self) -> Vec<Note> {
        self.array.take_notes()
    }

    fn scrub_bytes(&self) -> u64 {
        self.array.scrub_bytes()
    }

    fn scrub_some(&self, step: u64) -> LocalBoxFuture<'_, Step> {
        Box::pin((self.scrub)(step))
    }
}

/// An array, and who tells what of a range of it is not used.
pub fn partly<E: Env>(
    array: &Array<E>,
    unused: impl Fn(Range<u64>) -> Vec<Range<u64>> + 'static,
) -> Box<dyn Kept> {
    let (own, unused) = (array.clone(), Rc::new(unused));
    let scrub = move |step| {
        let (array, unused) = (own.clone(), unused.clone());
        async move { scrub_partly(&array, &*unused, step).await }
    };
    Box::new(Around { array: array.clone(), scrub })
}

async fn scrub_partly<E: Env>(
    array: &Array<E>,
    unused: &impl Fn(Range<u64>) -> Vec<Range<u64>>,
    step: u64,
) -> Step {
    let (mut found, next) = array.scrub_some(step).await?;
    let mut blanked = 0;
    if found.lost > 0 {
        for unused in unused(array.scrub_range(step)) {
            blanked += array.blank_lost(unused).await?;
        }
    }
    if blanked > 0 {
        found.lost = array.scrub_some(step).await?.0.lost;
    }
    Ok((found, next))
}

/// These arrays.
pub fn kept<'a, E: Env>(arrays: impl IntoIterator<Item = &'a Array<E>>) -> AllKept {
    let boxed = |array: &Array<E>| Box::new(array.clone()) as Box<dyn Kept>;
    arrays.into_iter().map(boxed).collect()
}

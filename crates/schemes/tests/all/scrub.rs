//! A scrub of all of a store.

use classical::Scrubbed;
use schemes::Store;

/// All of it, step by step.
pub async fn scrub(store: &impl Store) -> Scrubbed {
    let mut all = Scrubbed::default();
    for kept in store.kept() {
        let mut step = Some(0);
        while let Some(at) = step {
            let (found, next) = kept.scrub_some(at).await.expect("scrubs");
            all += found;
            step = next;
        }
    }
    all
}

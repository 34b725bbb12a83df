//! Files that are drives, and are deleted while they are used.
//!
//! ```text
//! rm d1.img ── noticed ── told ──┬─> failed: the others make up for it, as for any lost drive
//!                                └─> the pool can't do without it: used on, so that it can be
//!                                    copied, until it can
//! ```
//! Such a file can be read and written, and nothing of it is left when the server ends. A drive
//! that is used on would be missed only then, with all others of its kind at once.

use std::collections::BTreeSet;
use std::pin::pin;

use futures_util::future::select;
use io::sync::{Receiver, oneshot};
use io::uring::UringEnv;
use io::{Env, Nanos};

use super::Stop;
use super::exports::Catalogue;
use super::wrap::Wrapper;
use crate::pools::Pool;
use crate::pools::drive::{fail_deleted, tell_deleted};

/// A look costs a system call for each file.
const LOOK_EVERY: Nanos = Nanos::from_secs(2);

/// Looks until it is told to stop. What it returns completes when nothing is done any more.
pub(crate) fn watch(
    env: &UringEnv,
    catalogue: &Catalogue,
    wrapper: &Wrapper,
    stop: &Stop,
) -> Receiver<()> {
    let (ended, over) = oneshot();
    let looks = look(env.clone(), catalogue.clone(), wrapper.clone(), stop.clone());
    env.spawn(async move {
        looks.await;
        ended.send(());
    });
    over
}

async fn look(env: UringEnv, catalogue: Catalogue, wrapper: Wrapper, stop: Stop) {
    let mut told = BTreeSet::new();
    loop {
        select(pin!(env.sleep_until(env.now() + LOOK_EVERY)), pin!(stop.told())).await;
        if stop.is_told() {
            return;
        }
        let deleted = wrapper.deleted();
        told.retain(|name| deleted.contains(name));
        if deleted.is_empty() {
            continue;
        }
        for pool in catalogue.pools() {
            give_up(&pool, &deleted, &mut told).await;
        }
    }
}

async fn give_up(pool: &Pool, deleted: &BTreeSet<String>, told: &mut BTreeSet<String>) {
    for drive in pool.view().drives {
        let used = matches!(drive.state.as_str(), "active" | "restoring");
        if !used || !deleted.contains(&drive.name) {
            continue;
        }
        if told.insert(drive.name) {
            tell_deleted(pool, drive.index);
        }
        // One that is copied is soon needed no more. Refused, it is tried again: something may have
        // been rebuilt meanwhile. Why is no news.
        if drive.replacing.is_none() {
            let _refused = fail_deleted(pool, drive.index).await;
        }
    }
}

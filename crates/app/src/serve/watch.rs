//! What happens to drives in use beside what they are asked, and to the space of pools.
//!
//! ```text
//! drive ── looked at every LOOK_EVERY, on a thread of its own ──> found (Wrapper)
//!                                                                    │
//!  rm d1.img, truncate d1.img,
//!  dd of=d1.img ── noticed ── told ──┬─> failed: the others make up for it
//!                                                  └─> the pool can't do without it: used on, so
//!                                                      that it can be copied, until it can
//!  requests to it keep the server ── told
//! ```
//! A file that was deleted can be read and written, and nothing of it is left when the server ends.
//! A drive that is used on would be missed only then, with all others of its kind at once.

use std::collections::BTreeMap;
use std::pin::pin;

use futures_util::future::select;
use io::sync::{Receiver, oneshot};
use io::uring::{DriveWatch, Found, UringEnv};
use io::{Env, Nanos};

use super::Stop;
use super::exports::Catalogue;
use super::fullness;
use super::own_label::OwnLabel;
use super::wrap::Wrapper;
use crate::pools::Pool;
use crate::pools::trouble::{Trouble, give_up, tell};
use crate::render::view;

/// A look costs some system calls for each drive.
const LOOK_EVERY: Nanos = Nanos::from_secs(2);

/// A drive that keeps the server is told of no more often.
const TELL_EVERY: Nanos = Nanos::from_secs(60);

/// What is known of a drive that is used.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    found: Found,
    is_overwritten: bool,
}

/// Looks at one drive until it is closed. One that is silent keeps nobody else waiting.
pub(super) async fn keep_looking(env: UringEnv, watch: DriveWatch, to: impl Fn(Seen)) {
    let mut label = OwnLabel::default();
    while let Some(found) = watch.look().await {
        let Some(drive) = watch.drive() else { return };
        let is_overwritten = label.is_overwritten(&drive).await;
        drop(drive);
        to(Seen { found, is_overwritten });
        env.sleep_until(env.now() + LOOK_EVERY).await;
    }
}

/// Acts on what is found, until it is told to stop. What it returns completes when nothing is done
/// any more.
pub(crate) fn watch(
    env: &UringEnv,
    catalogue: &Catalogue,
    wrapper: &Wrapper,
    stop: &Stop,
) -> Receiver<()> {
    let (ended, over) = oneshot();
    let (own, catalogue, wrapper, stop) =
        (env.clone(), catalogue.clone(), wrapper.clone(), stop.clone());
    env.spawn(async move {
        let mut told = Told::default();
        let mut fullness = fullness::Told::default();
        loop {
            select(pin!(own.sleep_until(own.now() + LOOK_EVERY)), pin!(stop.told())).await;
            if stop.is_told() {
                break;
            }
            let found = wrapper.found();
            told.0.retain(|name, _| found.contains_key(name));
            let pools = catalogue.pools();
            fullness.look(&pools, own.now());
            for pool in pools {
                act(&pool, &found, &mut told, own.now()).await;
            }
        }
        ended.send(());
    });
    over
}

/// What was last said of drives, by name.
#[derive(Default)]
struct Told(BTreeMap<String, (Trouble, Nanos)>);

impl Told {
    fn is_news(&mut self, name: &str, trouble: Trouble, now: Nanos) -> bool {
        let news = match self.0.get(name) {
            Some((before, _)) if *before == trouble => false,
            Some((Trouble::Blocks(_), at)) => trouble.fatal().is_some() || now >= *at + TELL_EVERY,
            Some(_) | None => true,
        };
        if news {
            self.0.insert(name.to_owned(), (trouble, now));
        }
        news
    }
}

async fn act(pool: &Pool, found: &BTreeMap<String, Seen>, told: &mut Told, now: Nanos) {
    if found.values().all(|found| trouble(found).is_none()) {
        return;
    }
    for drive in pool.view().drives {
        let used = matches!(drive.state.as_str(), "active" | "restoring");
        let Some(trouble) = found.get(&drive.name).and_then(trouble).filter(|_| used) else {
            continue;
        };
        act_on(pool, &drive, trouble, told.is_news(&drive.name, trouble, now)).await;
    }
}

async fn act_on(pool: &Pool, drive: &view::Drive, trouble: Trouble, is_news: bool) {
    if is_news {
        tell(pool, drive.index, &drive.name, trouble);
    }
    // One that is copied is soon needed no more. Refused, it is tried again: something may have
    // been rebuilt meanwhile. Why is no news.
    if let Some(reason) = trouble.fatal()
        && drive.replacing.is_none()
    {
        let _refused = give_up(pool, drive.index, reason).await;
    }
}

fn trouble(seen: &Seen) -> Option<Trouble> {
    match &seen.found {
        Found { is_deleted: true, .. } => Some(Trouble::Deleted),
        Found { shrunk_to: Some(size), .. } => Some(Trouble::Shrunk(*size)),
        _ if seen.is_overwritten => Some(Trouble::Overwritten),
        Found { is_elsewhere: true, .. } => Some(Trouble::Elsewhere),
        Found { blocked, .. } => (blocked.count > 0).then_some(Trouble::Blocks(*blocked)),
    }
}

//! Requests while this machine has no room for what is written to drives that are files: its disk
//! is full.
//!
//! ```text
//! write ── pool ── drives ── ENOSPC, again and again (io::shortage)
//!   │        no room for REFUSE_AFTER
//!   ◄─ ENOSPC ─┘─ ─ ─ goes on by itself until there is room, or the server ends
//! ```
//! As long as one of these is left, further ones wait for it, so that none is done after a later
//! one; and they are refused at once as long as there is no room. Drives stay, and it goes on when
//! there is some.

use std::cell::Cell;
use std::convert::Infallible;
use std::pin::pin;
use std::rc::Rc;

use export::VolumeError;
use futures_util::StreamExt;
use futures_util::future::{Either, pending, select};
use futures_util::stream::FuturesUnordered;
use io::sync::Event;
use io::uring::UringEnv;
use io::{Env, Nanos, Short};

use super::exports::Catalogue;
use crate::pools::Pool;
use crate::pools::held::Hold;
use crate::pools::trouble::tell_of_room;

/// Longer than it takes to make room by a program that watches for it, shorter than clients wait
/// before they think that the server is gone.
const REFUSE_AFTER: Nanos = Nanos::from_secs(2);

/// A pool's; clones are the same.
#[derive(Clone)]
pub(crate) struct Room {
    env: UringEnv,
    hold: Hold,
    left: Rc<Left>,
}

/// Requests whose clients have been answered, and that go on.
#[derive(Default)]
struct Left {
    count: Cell<usize>,
    over: Event,
}

impl Room {
    /// From now on the pool's drives wait for room.
    pub(crate) fn new(env: &UringEnv, hold: &Hold) -> Room {
        hold.shortage().wait();
        Room { env: env.clone(), hold: hold.clone(), left: Rc::default() }
    }

    /// What comes of a request that needs room, or what is lacking.
    pub(crate) async fn request<T: 'static>(
        &self,
        request: impl Future<Output = Result<T, VolumeError>> + 'static,
    ) -> Result<T, VolumeError> {
        self.after_those_left().await.map_err(|short| refused(&short))?;
        match select(Box::pin(request), pin!(self.runs_out())).await {
            Either::Left((done, _)) => done,
            Either::Right((short, request)) => {
                let left = self.left.clone();
                left.count.set(left.count.get() + 1);
                self.env.spawn(async move {
                    drop(request.await);
                    left.count.set(left.count.get() - 1);
                    left.over.notify_all();
                });
                Err(refused(&short))
            }
        }
    }

    /// Nothing comes before what was left of earlier requests: it would lie over what is written
    /// now.
    pub(crate) async fn after_those_left(&self) -> Result<(), Short> {
        while self.left.count.get() > 0 {
            match select(pin!(self.left.over.wait()), pin!(self.runs_out())).await {
                Either::Left(_) => {}
                Either::Right((short, _)) => return Err(short),
            }
        }
        Ok(())
    }

    /// What there has been no room for, for a while.
    pub(crate) fn lacking(&self) -> Option<Short> {
        let short = self.hold.shortage().now();
        short.filter(|short| self.env.now() >= short.since + REFUSE_AFTER)
    }

    /// Tells of each time that there is none, until nobody asks.
    pub(crate) async fn keep_telling(&self, pool: &Pool) -> Infallible {
        loop {
            tell_of_room(pool, Some(self.runs_out().await));
            self.hold.shortage().ends().await;
            tell_of_room(pool, None);
        }
    }

    /// Waits until there has been no room for a while.
    pub(crate) async fn runs_out(&self) -> Short {
        let shortage = self.hold.shortage();
        loop {
            let short = shortage.begins().await;
            let until = short.since + REFUSE_AFTER;
            if self.env.now() >= until {
                return short;
            }
            self.env.sleep_until(until).await;
        }
    }
}

/// Waits for `work`, unless a pool has had no room for a while: it might wait for that.
pub(crate) async fn unless_out<T>(catalogue: &Catalogue, work: impl Future<Output = T>) {
    let rooms: Vec<Room> = catalogue.held().into_iter().filter_map(|held| held.room).collect();
    let mut out: FuturesUnordered<_> = rooms.iter().map(Room::runs_out).collect();
    let any_out = async {
        // There may be no such pool.
        if out.next().await.is_none() {
            pending::<()>().await;
        }
    };
    select(pin!(work), pin!(any_out)).await;
}

fn refused(short: &Short) -> VolumeError {
    if short.is_space() { VolumeError::NoSpace } else { VolumeError::Io(short.to_string()) }
}

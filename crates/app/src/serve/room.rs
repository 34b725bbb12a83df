//! Requests while this machine has no room for what is written to drives that are files: its disk
//! is full.
//!
//! ```text
//! write ── pool ── drives ── ENOSPC, again and again (io::shortage)
//!   │        no room for PATIENCE
//!   ◄─ ENOSPC ─┘─ ─ ─ goes on by itself until there is room, or the server ends
//! ```
//! As long as one of these is left, further ones are refused at once: they would only wait as well.
//! Drives stay, and it goes on when there is room.

use std::cell::Cell;
use std::convert::Infallible;
use std::pin::pin;
use std::rc::Rc;

use export::VolumeError;
use futures_util::future::{Either, select};
use io::uring::UringEnv;
use io::{Env, Nanos, Short};

use crate::pools::Pool;
use crate::pools::held::Hold;
use crate::pools::trouble::tell_of_room;

/// Longer than it takes to make room by a program that watches for it, shorter than clients wait
/// before they think that the server is gone.
const PATIENCE: Nanos = Nanos::from_secs(2);

/// A pool's; clones are the same.
#[derive(Clone)]
pub(crate) struct Room {
    env: UringEnv,
    hold: Hold,
    /// Requests whose clients have been answered, and that go on.
    left: Rc<Cell<usize>>,
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
        if let Some(short) = self.hold.shortage().now()
            && self.left.get() > 0
        {
            return Err(refused(&short));
        }
        match select(Box::pin(request), pin!(self.runs_out())).await {
            Either::Left((done, _)) => done,
            Either::Right((short, request)) => {
                let left = self.left.clone();
                left.set(left.get() + 1);
                self.env.spawn(async move {
                    drop(request.await);
                    left.set(left.get() - 1);
                });
                Err(refused(&short))
            }
        }
    }

    /// What there has been no room for, for a while.
    pub(crate) fn lacking(&self) -> Option<Short> {
        let short = self.hold.shortage().now();
        short.filter(|short| self.env.now() >= short.since + PATIENCE)
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
            let until = short.since + PATIENCE;
            if self.env.now() >= until {
                return short;
            }
            self.env.sleep_until(until).await;
        }
    }
}

fn refused(short: &Short) -> VolumeError {
    if short.is_space() { VolumeError::NoSpace } else { VolumeError::Io(short.to_string()) }
}

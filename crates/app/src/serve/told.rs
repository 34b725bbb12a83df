//! What signals tell a server while it waits for something else.

use std::cell::Cell;
use std::pin::pin;

use futures_util::future::{Either, select};
use io::signal::{Signal, Signals};

pub(crate) struct Told<'a> {
    signals: &'a Signals,
    /// The configuration is to be read again, and has not been yet.
    reread: Cell<bool>,
}

impl Told<'_> {
    pub(crate) fn by(signals: &Signals) -> Told<'_> {
        Told { signals, reread: Cell::new(false) }
    }

    /// What comes of `work`; `None` if it is told to stop before. Being told to read the
    /// configuration again is kept for later.
    pub(crate) async fn unless_to_stop<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let to_stop = async {
            while self.signals.next().await == Signal::Hangup {
                self.reread.set(true);
            }
        };
        match select(pin!(work), pin!(to_stop)).await {
            Either::Left((done, _)) => Some(done),
            Either::Right(_) => None,
        }
    }

    /// Waits until it is told something: true if that is to read the configuration again.
    pub(crate) async fn to_reread(&self) -> bool {
        self.reread.take() || self.signals.next().await == Signal::Hangup
    }
}

//! One client's byte stream, and what the client owes us.
//!
//! Nothing here has a timer: a watcher looks from time to time whether the same debt is still
//! open, so the usual case pays for two counters only.

use std::cell::{Cell, OnceCell};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use io::net::ByteStream;
use io::sync::Event;
use io::{Buf, BufMut};
use rustls::ServerConfig;

use super::places::Guest;
use super::tls::Tls;
use super::window::Window;
use crate::limits::RECEIVE_BYTES_MAX;

/// Why we closed a connection that the client would have kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    HandshakeTimeout,
    Stalled,
    /// Others needed its place.
    Crowded,
    Shutdown,
}

/// Something the client has to do for us to go on.
#[derive(Default)]
pub struct Debt {
    /// How many there have been, and whether the last one is still open.
    count: Cell<u64>,
    open: Cell<bool>,
}

impl Debt {
    pub fn begin(&self) {
        if !self.open.replace(true) {
            self.count.set(self.count.get() + 1);
        }
    }

    pub fn end(&self) {
        self.open.set(false);
    }

    /// Names the open debt.
    fn current(&self) -> Option<u64> {
        self.open.get().then(|| self.count.get())
    }
}

pub struct Link<S> {
    stream: Rc<S>,
    /// Once the client has asked for it.
    tls: OnceCell<Tls<S>>,
    /// The rest of a message that has begun.
    pub message: Debt,
    /// Taking the bytes we send.
    uptake: Debt,
    /// Its requests between their arrival and the end of sending their reply.
    pub window: Rc<Window>,
    pub in_handshake: Cell<bool>,
    has_spoken: Cell<bool>,
    pub ended: Cell<bool>,
    /// It has ended.
    pub over: Event,
    closed: Cell<Option<Closed>>,
}

/// What a client owed at some moment.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Debts {
    message: Option<u64>,
    uptake: Option<u64>,
}

impl<S: ByteStream> Link<S> {
    pub fn new(stream: S, window: Rc<Window>) -> Link<S> {
        Link {
            stream: Rc::new(stream),
            tls: OnceCell::new(),
            message: Debt::default(),
            uptake: Debt::default(),
            window,
            in_handshake: Cell::new(true),
            has_spoken: Cell::new(false),
            ended: Cell::new(false),
            over: Event::new(),
            closed: Cell::new(None),
        }
    }

    pub async fn recv(&self, buf: BufMut, range: Range<usize>) -> (BufMut, std::io::Result<usize>) {
        let range = range.start..range.end.min(range.start + RECEIVE_BYTES_MAX);
        let received = match self.tls.get() {
            Some(tls) => tls.recv(buf, range).await,
            None => self.stream.recv(buf, range).await,
        };
        self.has_spoken.set(true);
        received
    }

    pub async fn send(&self, pieces: Vec<Buf>) -> std::io::Result<()> {
        self.uptake.begin();
        let sent = match self.tls.get() {
            Some(tls) => tls.send(pieces).await,
            None => self.stream.send(pieces).await,
        };
        self.uptake.end();
        sent
    }

    /// From now on what is sent and received is encrypted.
    pub async fn start_tls(&self, config: Arc<ServerConfig>) -> std::io::Result<()> {
        let tls = Tls::accept(self.stream.clone(), config).await?;
        assert!(self.tls.set(tls).is_ok(), "the handshake lets it begin once");
        Ok(())
    }

    /// Ends every receive and send, also those under way.
    pub fn close(&self) {
        self.stream.close();
    }

    /// Nothing of it is used any more.
    pub fn end(&self) {
        self.close();
        self.ended.set(true);
        self.over.notify_all();
    }

    pub fn close_because(&self, reason: Closed) {
        self.closed.set(Some(reason));
        self.stream.close();
    }

    pub fn closed(&self) -> Option<Closed> {
        self.closed.get()
    }

    pub fn debts(&self) -> Debts {
        Debts { message: self.message.current(), uptake: self.uptake.current() }
    }

    /// Whether one of the debts of back then is still open.
    pub fn still_owes(&self, then: Debts) -> bool {
        let now = self.debts();
        let same = |now: Option<u64>, then| now.is_some() && now == then;
        same(now.message, then.message) || same(now.uptake, then.uptake)
    }
}

impl<S: ByteStream> Guest for Link<S> {
    fn is_silent(&self) -> bool {
        !self.has_spoken.get()
    }

    fn put_out(&self, why: Closed) {
        self.close_because(why);
    }
}

//! The server: connections, what they share, and how they end.

use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;

use futures_util::future::select;
use io::net::ByteStream;
use io::sync::Event;
use io::{Buf, Env, Nanos};
use rustls::ServerConfig;

use super::handshake::{Agreement, Encryption, Handshake, Step};
use super::inbox::Inbox;
use super::link::{Closed, Link};
use super::places::{Counted, Peer, Place, Transport};
use super::proto::{ProtocolError, options};
use super::session::Session;
use super::window::{Crowd, Lanes, Window};
use crate::limits::{FAREWELL, Limits, REQUEST_BYTES_MAX, SMALL_BYTES_MAX};
use crate::volume::Exports;

#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    #[error(transparent)]
    Io(#[from] std::io::Error),
    #[error("TLS: {0}")]
    Tls(std::io::Error),
    #[error("there are {0} connections already")]
    TooMany(usize),
    #[error("it had not chosen an export when others needed its place")]
    Crowded,
    #[error("the server is shutting down")]
    ShuttingDown,
    #[error("the client took too long to choose an export")]
    HandshakeTimeout,
    #[error("the client stopped in the middle of a message")]
    Stalled,
}

/// What all connections of a server share.
pub struct Shared {
    pub limits: Limits,
    /// What the volumes work on.
    pub lanes: Lanes,
    crowd: Rc<Crowd>,
    /// Those whose end is not over yet, too.
    connections: Cell<usize>,
    stopping: Cell<bool>,
    /// The server stops.
    stopped: Event,
    /// A connection has ended, or the server stops.
    changed: Event,
}

impl Shared {
    pub fn stopping(&self) -> bool {
        self.stopping.get()
    }

    /// There is more than one client.
    pub fn is_crowded(&self) -> bool {
        self.crowd.places.established() > 1
    }
}

/// Serves the exports to any number of clients. A handle: clones are the same server.
#[derive(Clone)]
pub struct Server<E, X> {
    env: E,
    exports: X,
    shared: Rc<Shared>,
}

impl<E: Env, X: Exports> Server<E, X> {
    pub fn new(env: E, exports: X, limits: Limits) -> Server<E, X> {
        assert!(limits.long >= u64::from(REQUEST_BYTES_MAX), "the longest request must fit");
        assert!(limits.small >= u64::from(SMALL_BYTES_MAX), "any small request must fit");
        assert!(limits.requests > 0, "a connection serves at least one request at a time");
        assert!(limits.handshakes > 0, "a newcomer takes a place");
        let shared = Shared {
            limits,
            lanes: Lanes::new(&limits),
            crowd: Rc::new(Crowd::new(&limits)),
            connections: Cell::new(0),
            stopping: Cell::new(false),
            stopped: Event::new(),
            changed: Event::new(),
        };
        Server { env, exports, shared: Rc::new(shared) }
    }

    pub fn connections(&self) -> usize {
        self.shared.connections.get()
    }

    /// Connections that came this way.
    pub fn counted(&self, transport: Transport) -> Counted {
        self.shared.crowd.places.counted(transport)
    }

    /// Payload bytes of requests that are not answered yet.
    pub fn bytes_in_flight(&self) -> u64 {
        self.shared.crowd.bytes.get()
    }

    /// Requests that have arrived are carried out, later ones are refused, then connections
    /// are closed. [`Server::stopped`] waits for that.
    pub fn shut_down(&self) {
        self.shared.stopping.set(true);
        self.shared.stopped.notify_all();
        self.shared.changed.notify_all();
    }

    /// Completes when the server has been told to shut down and no connection is left.
    pub async fn stopped(&self) {
        while !self.shared.stopping() || self.connections() > 0 {
            self.shared.changed.wait().await;
        }
    }

    /// Serves one client of this machine until it leaves or must go. All of its requests have ended
    /// then.
    pub async fn serve<S: ByteStream>(&self, stream: S) -> Result<(), ConnectionError> {
        self.serve_with(stream, None).await
    }

    /// The same for a client that has to encrypt, if `tls` is there.
    pub async fn serve_with<S: ByteStream>(
        &self,
        stream: S,
        tls: Option<Arc<ServerConfig>>,
    ) -> Result<(), ConnectionError> {
        self.serve_peer(stream, tls, Peer::default()).await
    }

    /// The same for one that comes from there.
    pub async fn serve_peer<S: ByteStream>(
        &self,
        stream: S,
        tls: Option<Arc<ServerConfig>>,
        peer: Peer,
    ) -> Result<(), ConnectionError> {
        let shared = &self.shared;
        if shared.stopping() || shared.crowd.places.is_full(peer.transport) {
            stream.close();
            return Err(match shared.stopping() {
                true => ConnectionError::ShuttingDown,
                false => ConnectionError::TooMany(shared.limits.connections),
            });
        }
        shared.connections.set(self.connections() + 1);
        let link = Rc::new(Link::new(stream, Window::new(&shared.limits, &shared.crowd)));
        let place = shared.crowd.places.enter(peer, link.clone());
        let watch = watch(self.env.clone(), shared.clone(), link.clone(), self.exports.clone());
        self.env.spawn(watch);
        let outcome = self.converse(&link, tls, &place).await;
        drop(place);
        link.end();
        shared.connections.set(self.connections() - 1);
        shared.changed.notify_all();
        explain(outcome, link.closed())
    }

    async fn converse<S: ByteStream>(
        &self,
        link: &Rc<Link<S>>,
        tls: Option<Arc<ServerConfig>>,
        place: &Place,
    ) -> Result<(), ConnectionError> {
        let mut inbox = Inbox::new();
        let Some(agreement) = self.shake_hands(link, tls, &mut inbox).await? else {
            return Ok(());
        };
        link.in_handshake.set(false);
        if !place.establish() {
            return Err(ConnectionError::TooMany(self.shared.limits.connections));
        }
        let (env, shared) = (self.env.clone(), self.shared.clone());
        let session = Session::new(env, shared, link.clone(), agreement);
        session.run(inbox.widened()).await
    }

    /// `None` if the client left without choosing an export.
    async fn shake_hands<S: ByteStream>(
        &self,
        link: &Link<S>,
        tls: Option<Arc<ServerConfig>>,
        inbox: &mut Inbox,
    ) -> Result<Option<Agreement<X::Volume>>, ConnectionError> {
        link.send(vec![Buf::from_slice(&options::greeting())]).await?;
        let Some(flags) = inbox.array(link).await? else { return Ok(None) };
        let client = options::parse_client_flags(flags)?;
        let encryption = if tls.is_some() { Encryption::Awaited } else { Encryption::NotOffered };
        let mut handshake = Handshake::new(self.exports.clone(), client, encryption);
        let mut replies = Vec::new();
        while let Some(header) = inbox.array(link).await? {
            let header = options::parse_header(&header)?;
            let len = header.len as usize;
            if len > 0 && !inbox.wait_for(link, len).await? {
                return Err(ProtocolError::Truncated.into());
            }
            if self.shared.stopping() {
                handshake.shut_down();
            }
            let step = handshake.option(header, &inbox.bytes()[..len], &mut replies)?;
            inbox.consume(len);
            link.send(vec![Buf::from_slice(&replies)]).await?;
            replies.clear();
            match step {
                Step::NextOption => {}
                Step::Close => return Ok(None),
                Step::StartTls => encrypt(link, inbox, tls.as_ref()).await?,
                Step::Transmit(agreement) => return Ok(Some(agreement)),
            }
        }
        Ok(None)
    }
}

/// Encrypts what follows. A client waits for our answer before it begins: what is there already
/// was sent by somebody else, for us to take it as the client's.
async fn encrypt<S: ByteStream>(
    link: &Link<S>,
    inbox: &Inbox,
    tls: Option<&Arc<ServerConfig>>,
) -> Result<(), ConnectionError> {
    if !inbox.bytes().is_empty() {
        return Err(ProtocolError::ClearText.into());
    }
    let config = tls.expect("the handshake offers it only then");
    link.start_tls(config.clone()).await.map_err(ConnectionError::Tls)
}

/// Our reason for closing explains whatever error the closing then caused. A client that was
/// gone before it had our last reply has left like any other.
fn explain(
    outcome: Result<(), ConnectionError>,
    closed: Option<Closed>,
) -> Result<(), ConnectionError> {
    use std::io::ErrorKind::{BrokenPipe, ConnectionReset};
    match closed {
        None => match outcome {
            Err(ConnectionError::Io(error))
                if matches!(error.kind(), BrokenPipe | ConnectionReset) =>
            {
                Ok(())
            }
            outcome => outcome,
        },
        Some(Closed::HandshakeTimeout) => Err(ConnectionError::HandshakeTimeout),
        Some(Closed::Stalled) => Err(ConnectionError::Stalled),
        Some(Closed::Crowded) => Err(ConnectionError::Crowded),
        Some(Closed::Shutdown) => Ok(()),
    }
}

/// Closes a connection whose client dawdles, or when the server stops. It only ever closes:
/// receives and sends then end by themselves, none is dropped half-way.
async fn watch<E: Env, S: ByteStream>(
    env: E,
    shared: Rc<Shared>,
    link: Rc<Link<S>>,
    exports: impl Exports,
) {
    let begun = env.now();
    let mut look_at = begun + shared.limits.handshake;
    let mut debts = link.debts();
    loop {
        let (over, stopped) = (link.over.wait(), shared.stopped.wait());
        if link.ended.get() {
            return;
        }
        if shared.stopping() {
            return farewell(env, shared, link).await;
        }
        select(pin!(env.sleep_until(look_at)), select(over, stopped)).await;
        if env.now() < look_at || link.ended.get() {
            continue;
        }
        if link.in_handshake.get() {
            look_at = begun + handshake_time(&shared.limits, &exports);
            if env.now() >= look_at {
                return link.close_because(Closed::HandshakeTimeout);
            }
            continue;
        }
        if link.still_owes(debts) {
            return link.close_because(Closed::Stalled);
        }
        debts = link.debts();
        look_at = env.now() + shared.limits.stall;
    }
}

fn handshake_time(limits: &Limits, exports: &impl Exports) -> Nanos {
    let further = exports.count().saturating_sub(1) as u64;
    Nanos(limits.handshake.0.saturating_add(limits.handshake_per_export.0.saturating_mul(further)))
}

/// Lets requests end and the client hear of it. Volumes are waited for, since they end what they
/// work on; the client is for a moment only.
async fn farewell<E: Env, S: ByteStream>(env: E, shared: Rc<Shared>, link: Rc<Link<S>>) {
    link.window.worked().await;
    let patience = env.sleep_until(env.now() + shared.limits.last_stall);
    select(pin!(link.window.answered()), pin!(patience)).await;
    env.sleep_until(env.now() + FAREWELL).await;
    if !link.ended.get() {
        link.close_because(Closed::Shutdown);
    }
}

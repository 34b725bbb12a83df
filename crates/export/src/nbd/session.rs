//! The transmission phase of one connection.

use std::cell::RefCell;
use std::convert::Infallible;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Waker};

use futures_util::future::{Either, select};
use io::net::ByteStream;
use io::sync::Event;
use io::{Buf, Env, PAGE};

use super::answer::{self, Content, Outcome};
use super::handshake::Agreement;
use super::inbox::Inbox;
use super::link::Link;
use super::outbox::Outbox;
use super::proto::request::{self, Command, Request, Terms, flags};
use super::proto::{Errno, ProtocolError};
use super::server::{ConnectionError, Shared};
use super::window::Ticket;
use crate::limits::{
    BATCH_ALONE_BYTES, BATCH_BYTES, TURN_ALONE_BYTES, TURN_ALONE_REQUESTS, TURN_BYTES,
    TURN_REQUESTS,
};
use crate::volume::Volume;

pub struct Session<E, S, V> {
    env: E,
    shared: Rc<Shared>,
    link: Rc<Link<S>>,
    volume: V,
    terms: Terms,
    outbox: RefCell<Outbox>,
    /// A reply was put into the outbox.
    ready: Event,
}

impl<E: Env, S: ByteStream, V: Volume> Session<E, S, V> {
    pub fn new(
        env: E,
        shared: Rc<Shared>,
        link: Rc<Link<S>>,
        agreement: Agreement<V>,
    ) -> Rc<Session<E, S, V>> {
        let Agreement { volume, terms } = agreement;
        let (outbox, ready) = Default::default();
        Rc::new(Session { env, shared, link, volume, terms, outbox, ready })
    }

    /// Serves requests until the client leaves; returns when all of them are answered.
    pub async fn run(self: Rc<Self>, inbox: Inbox) -> Result<(), ConnectionError> {
        // In this order: the replies of requests that complete at once are sent in the same
        // poll that received them.
        let receiving = pin!(self.clone().receive(inbox));
        let sending = pin!(self.send());
        match select(receiving, sending).await {
            Either::Left((outcome, _)) => outcome,
            Either::Right((never, _)) => match never {},
        }
    }

    async fn receive(self: Rc<Self>, mut inbox: Inbox) -> Result<(), ConnectionError> {
        let outcome = self.receive_requests(&mut inbox).await;
        self.link.window.answered().await;
        outcome
    }

    async fn receive_requests(self: &Rc<Self>, inbox: &mut Inbox) -> Result<(), ConnectionError> {
        let (mut requests, mut bytes) = (0, 0);
        while let Some(header) = inbox.array(&self.link).await? {
            let request = request::parse(&header)?;
            match request.command {
                Command::Disconnect => return Ok(()),
                Command::Write if request.len > self.terms.blocks.max => {
                    return Err(ProtocolError::PayloadLength(request.len).into());
                }
                _ => self.receive_request(request, inbox).await?,
            }
            (requests, bytes) = (requests + 1, bytes + request.payload_len() as usize);
            let (requests_max, bytes_max) = match self.shared.is_crowded() {
                true => (TURN_REQUESTS, TURN_BYTES),
                false => (TURN_ALONE_REQUESTS, TURN_ALONE_BYTES),
            };
            if requests >= requests_max || bytes >= bytes_max {
                // A client with many requests at hand would keep the thread until they all were
                // begun.
                self.env.yield_now().await;
                (requests, bytes) = (0, 0);
            }
        }
        Ok(())
    }

    async fn receive_request(
        self: &Rc<Self>,
        request: Request,
        inbox: &mut Inbox,
    ) -> Result<(), ConnectionError> {
        let valid = request.check(&self.terms);
        let payload = if valid.is_ok() { request.payload_len() } else { 0 };
        let ticket = self.link.window.admit(payload.into()).await;
        let valid = if self.shared.stopping() { Err(Errno::Shutdown) } else { valid };
        let len = request.len as usize;
        let mut data = None;
        if request.command == Command::Write {
            if valid.is_ok() {
                // In memory as on the volume: whole pages stay whole pages.
                let pad = (request.offset % PAGE as u64) as usize;
                data = Some(inbox.payload(&self.link, len, pad).await?);
            } else {
                inbox.skip(&self.link, len).await?;
            }
        }
        match valid {
            Ok(()) => self.start(request, data, ticket),
            Err(errno) => self.answer(&request, Err(errno.into()), ticket),
        }
        Ok(())
    }

    /// Runs a request. What completes at once needs no task; what doesn't goes on as one.
    fn start(self: &Rc<Self>, request: Request, data: Option<Buf>, ticket: Ticket) {
        let mut task = Box::pin(self.clone().execute(request, data, ticket));
        // The task is polled again when it is spawned, so no wake can get lost here.
        let mut context = Context::from_waker(Waker::noop());
        if Future::poll(task.as_mut(), &mut context).is_pending() {
            self.env.spawn(task);
        }
    }

    async fn execute(self: Rc<Self>, request: Request, data: Option<Buf>, ticket: Ticket) {
        let outcome = {
            let _work = self.link.window.work();
            let _place = self.shared.lanes.enter(request.payload_len()).await;
            self.perform(&request, data).await
        };
        self.answer(&request, outcome, ticket);
    }

    async fn perform(&self, request: &Request, data: Option<Buf>) -> Outcome {
        let (volume, offset, fua) = (&self.volume, request.offset, request.fua());
        let len = u64::from(request.len);
        match request.command {
            Command::Flush => volume.flush().await?,
            _ if len == 0 => {}
            Command::Read => return self.read(request).await,
            Command::BlockStatus => return Ok(Content::Extents(volume.extents(offset, len))),
            Command::Write => {
                let data = data.expect("a write that is performed has its payload");
                volume.write(offset, data, fua).await?;
            }
            Command::Trim => volume.trim(offset, len, fua).await?,
            Command::WriteZeroes => {
                let may_trim = !request.has(flags::NO_HOLE);
                if request.has(flags::FAST_ZERO) && !may_trim {
                    return Err(Errno::NotSupported.into());
                }
                volume.write_zeroes(offset, len, fua, may_trim).await?;
            }
            Command::Disconnect | Command::Unknown => return Err(Errno::Invalid.into()),
        }
        Ok(Content::Nothing)
    }

    async fn read(&self, request: &Request) -> Outcome {
        let pieces = self.volume.read(request.offset, request.len).await?;
        let len: usize = pieces.iter().map(|piece| piece.len()).sum();
        if len != request.len as usize {
            // More or fewer bytes than the header says would garble all replies behind.
            return Err(Errno::Io.into());
        }
        Ok(Content::Data(pieces))
    }

    fn answer(&self, request: &Request, outcome: Outcome, ticket: Ticket) {
        let structured = self.terms.structured;
        let reply = |out: &mut Vec<u8>| answer::write(out, request, structured, outcome);
        let batch = if self.shared.is_crowded() { BATCH_BYTES } else { BATCH_ALONE_BYTES };
        self.outbox.borrow_mut().push(batch, ticket, reply);
        self.ready.notify_all();
    }

    /// Sends replies as long as this is polled. When the client is gone they are dropped, so
    /// that requests still under way can end.
    async fn send(&self) -> Infallible {
        let mut gone = false;
        loop {
            let taken = self.outbox.borrow_mut().take();
            let Some(batch) = taken else {
                self.ready.wait().await;
                continue;
            };
            if !gone && self.link.send(batch.pieces).await.is_err() {
                gone = true;
                // Also ends the receive that waits for this client.
                self.link.close();
            }
            drop(batch.tickets);
        }
    }
}

//! The server's side of the control socket (see [`crate::control`] for the protocol).
//!
//! The socket's mode keeps other users out; what is bounded here is what a broken script of
//! our own user can take: connections, line length, time.

use std::cell::Cell;
use std::rc::{Rc, Weak};

use io::net::{ByteStream, Stream};
use io::sync::Event;
use io::uring::UringEnv;
use io::{Buf, BufMut, Env, Nanos};

use super::add;
use super::events::Followers;
use super::exports::Catalogue;
use super::faults;
use super::replace;
use super::wrap::Wrapper;
use crate::control::{Answer, REQUEST_BYTES_MAX, Request};
use crate::error::{Failure, Outcome};
use crate::pools::{self, Pool};

/// Connections at once. People and scripts ask one thing at a time.
const CONNECTIONS_MAX: usize = 16;
/// A connection without a request for one to two of these is closed, so that forgotten ones
/// don't use up the places.
const IDLE: Nanos = Nanos::from_secs(30);

struct Shared {
    connections: Cell<usize>,
    /// Requests being carried out.
    busy: Cell<usize>,
    changed: Event,
}

/// A handle on the control server.
#[derive(Clone)]
pub struct Control {
    env: UringEnv,
    catalogue: Catalogue,
    wrapper: Wrapper,
    followers: Followers,
    shared: Rc<Shared>,
}

impl Control {
    pub fn new(
        env: UringEnv,
        catalogue: Catalogue,
        wrapper: Wrapper,
        followers: Followers,
    ) -> Control {
        let shared =
            Shared { connections: Cell::new(0), busy: Cell::new(0), changed: Event::new() };
        Control { env, catalogue, wrapper, followers, shared: Rc::new(shared) }
    }

    /// Completes when no request is being carried out.
    pub async fn idle(&self) {
        while self.shared.busy.get() > 0 {
            self.shared.changed.wait().await;
        }
    }

    /// Takes one connection over.
    pub fn take(&self, stream: Stream) {
        let count = self.shared.connections.get();
        if count >= CONNECTIONS_MAX {
            return stream.close();
        }
        self.shared.connections.set(count + 1);
        let (control, stream) = (self.clone(), Rc::new(stream));
        let served = Rc::new(Served::default());
        self.env.spawn(close_when_idle(self.env.clone(), Rc::downgrade(&stream), served.clone()));
        self.env.spawn(async move {
            control.converse(&stream, &served).await;
            stream.close();
            control.shared.connections.set(control.shared.connections.get() - 1);
        });
    }

    async fn converse(&self, stream: &Stream, served: &Served) {
        let mut lines = Lines::new();
        loop {
            let answer = match lines.next(stream).await {
                Next::Line(line) => self.answer(&line, served).await,
                Next::TooLong => Answer::Error(Failure::usage(
                    "control request",
                    format!("longer than {REQUEST_BYTES_MAX} bytes"),
                )),
                Next::End => return,
            };
            let sent = stream.send(vec![Buf::from_slice(answer.to_line().as_bytes())]).await;
            // After a line that was too long nobody knows where the next one begins.
            if sent.is_err() || lines.lost {
                return;
            }
        }
    }

    async fn answer(&self, line: &[u8], served: &Served) -> Answer {
        served.requests.set(served.requests.get() + 1);
        self.shared.busy.set(self.shared.busy.get() + 1);
        let answer = self.carry_out(line).await.unwrap_or_else(Answer::Error);
        self.shared.busy.set(self.shared.busy.get() - 1);
        served.requests.set(served.requests.get() + 1);
        self.shared.changed.notify_all();
        answer
    }

    async fn change(&self, pool: &Pool, request: &Request) -> Outcome<Answer> {
        let (env, wrapper) = (&self.env, &self.wrapper);
        if let Some(answer) = faults::carry_out(env, wrapper, pool, request) {
            return answer;
        }
        if let Some(answer) = replace::carry_out(env, wrapper, pool, request).await {
            return answer;
        }
        match request {
            Request::DriveAdd { new, force, .. } => {
                add::drives(env, wrapper, pool, new, *force).await.map(Answer::Done)
            }
            _ => pools::apply(pool, request).await,
        }
    }

    async fn carry_out(&self, line: &[u8]) -> Outcome<Answer> {
        let request = Request::parse(line)?;
        let pools = match request.pool() {
            None => self.catalogue.pools(),
            Some(name) => std::slice::from_ref(self.catalogue.pool(name).ok_or_else(|| {
                Failure::new(name, "no such pool is served here")
                    .hint("'steadyraid list' shows what is")
            })?),
        };
        match (&request, pools) {
            (Request::Status { .. }, _) => {
                Ok(Answer::Pools(pools.iter().map(Pool::view).collect()))
            }
            (Request::Events { after, wait_millis, .. }, _) => {
                self.followers.events(pools, after, *wait_millis).await
            }
            (_, [pool]) => self.change(pool, &request).await,
            _ => Err(Failure::usage("control request", "is about one pool, and names none")),
        }
    }
}

/// What the watcher of a connection sees of it.
#[derive(Default)]
struct Served {
    /// Raised when a request begins and when it has ended: odd while one is being carried out.
    requests: Cell<u64>,
}

/// Only ever closes; the receive that waits then ends by itself. Holds the stream weakly: this
/// task outlives its connection by a while, which must not cost a descriptor.
async fn close_when_idle(env: UringEnv, stream: Weak<Stream>, served: Rc<Served>) {
    loop {
        let before = served.requests.get();
        env.sleep_until(env.now() + IDLE).await;
        let Some(stream) = stream.upgrade() else { return };
        if served.requests.get() == before && before.is_multiple_of(2) {
            return stream.close();
        }
    }
}

enum Next {
    Line(Vec<u8>),
    TooLong,
    End,
}

/// Lines of bounded length from a stream.
struct Lines {
    bytes: Vec<u8>,
    lost: bool,
}

impl Lines {
    fn new() -> Lines {
        Lines { bytes: Vec::new(), lost: false }
    }

    async fn next(&mut self, stream: &Stream) -> Next {
        loop {
            if let Some(end) = self.bytes.iter().position(|&byte| byte == b'\n') {
                let rest = self.bytes.split_off(end + 1);
                return Next::Line(std::mem::replace(&mut self.bytes, rest));
            }
            if self.bytes.len() >= REQUEST_BYTES_MAX {
                self.lost = true;
                return Next::TooLong;
            }
            let room = REQUEST_BYTES_MAX - self.bytes.len();
            let (buf, count) = stream.recv(BufMut::with_len(room), 0..room).await;
            match count {
                Ok(count) if count > 0 => self.bytes.extend_from_slice(&buf[..count]),
                _ => return Next::End,
            }
        }
    }
}

//! Time that a connection may take for a request. There are few places, and whoever has one and
//! says nothing keeps others out.
//!
//! ```text
//!   head ── body ── carried out ── answer ── head ...
//!   IDLE    BODY    as it takes      IDLE
//! ```

use std::cell::Cell;
use std::pin::pin;
use std::rc::{Rc, Weak};

use futures_util::future::{Either, select};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use io::net::ByteStream;
use io::{Env, Nanos};

use crate::control::REQUEST_BYTES_MAX;
use crate::error::Failure;

/// A connection without a whole head of a request for one to two of these is closed, so that
/// forgotten ones, and those that stop in the middle of a head, don't use up the places.
const IDLE: Nanos = Nanos::from_secs(30);
/// How long a body may take to come: it is small, and clients send it with the head.
const BODY: Nanos = Nanos::from_secs(10);

/// Why a body was not had.
#[derive(Debug)]
pub enum Unread {
    TooLong(Failure),
    TooSlow(Failure),
    Broken(Failure),
}

/// The whole body of a request, if it is short enough and comes in time.
pub async fn receive<E: Env>(env: &E, body: Incoming) -> Result<Bytes, Unread> {
    let whole = pin!(Limited::new(body, REQUEST_BYTES_MAX).collect());
    match select(whole, pin!(env.sleep_until(env.now() + BODY))).await {
        Either::Left((Ok(body), _)) => Ok(body.to_bytes()),
        Either::Left((Err(error), _)) if error.is::<LengthLimitError>() => {
            let what = format!("longer than {REQUEST_BYTES_MAX} bytes");
            Err(Unread::TooLong(Failure::usage("request", what)))
        }
        Either::Left((Err(error), _)) => Err(Unread::Broken(Failure::usage("request", error))),
        Either::Right(_) => {
            let what = format!("its body did not come within {BODY}");
            Err(Unread::TooSlow(Failure::usage("request", what)))
        }
    }
}

/// What the watcher of a connection sees of it.
#[derive(Default)]
pub struct Served {
    /// Raised when a request begins and when it has ended: odd while one is being carried out.
    requests: Cell<u64>,
}

impl Served {
    /// Its head has come.
    pub fn begin(&self) {
        self.requests.set(self.requests.get() + 1);
    }

    pub fn end(&self) {
        self.requests.set(self.requests.get() + 1);
    }
}

/// Only ever closes; the receive that waits then ends by itself. Holds the stream weakly: this
/// task outlives its connection by a while, which must not cost a descriptor.
pub async fn close_when_idle<E: Env, S: ByteStream>(env: E, stream: Weak<S>, served: Rc<Served>) {
    loop {
        let before = served.requests.get();
        env.sleep_until(env.now() + IDLE).await;
        let Some(stream) = stream.upgrade() else { return };
        if served.requests.get() == before && before.is_multiple_of(2) {
            return stream.close();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http_body_util::Full;
    use hyper::server::conn::http1;
    use hyper::service::service_fn;
    use hyper::{Request, Response};
    use io::net::duplex;
    use io::virt::VirtEnv;
    use io::{Buf, BufMut};

    use super::super::stream::HttpStream;
    use super::*;

    /// What a client is told that sends these pieces, a second after one another, and then waits;
    /// and when the connection ended, in seconds.
    fn told(pieces: &[&str]) -> (String, u64) {
        let env = VirtEnv::new(1);
        let (server, client) = duplex(4096);
        let (server, served) = (Rc::new(server), Rc::new(Served::default()));
        env.spawn(close_when_idle(env.clone(), Rc::downgrade(&server), served.clone()));
        let own = env.clone();
        env.spawn(async move {
            let answer = async |request: Request<Incoming>| {
                served.begin();
                let body = receive(&own, request.into_body()).await;
                served.end();
                let text = body.map_or_else(|unread| format!("{unread:?}"), |_| "well".to_owned());
                Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(text))))
            };
            let stream = HttpStream::new(server.clone());
            let _ = http1::Builder::new().serve_connection(stream, service_fn(answer)).await;
            server.close();
        });
        let (own, client) = (env.clone(), Rc::new(client));
        let pieces: Vec<Buf> = pieces.iter().map(|text| Buf::from_slice(text.as_bytes())).collect();
        let sender = client.clone();
        env.spawn(async move {
            for piece in pieces {
                // It may have been closed meanwhile.
                let _ = sender.send(vec![piece]).await;
                own.sleep_until(own.now() + Nanos::from_secs(1)).await;
            }
        });
        let own = env.clone();
        env.block_on(async move {
            let mut said = Vec::new();
            loop {
                let (bytes, count) = client.recv(BufMut::with_len(1000), 0..1000).await;
                match count.unwrap_or(0) {
                    0 => break,
                    count => said.extend_from_slice(&bytes[..count]),
                }
            }
            (String::from_utf8_lossy(&said).into_owned(), own.now().0 / 1_000_000_000)
        })
    }

    const HEAD: &str = "GET / HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\n";

    /// A head that promises a body counted as a request being carried out, which takes as long as
    /// it takes: 32 of them kept everybody else out for ever.
    #[test]
    fn a_body_that_does_not_come_is_not_waited_for() {
        for pieces in [&[HEAD][..], &[HEAD, "1"], &[HEAD, "1", "2", "3", "4", "5"]] {
            let (said, seconds) = told(pieces);
            assert!(said.contains("TooSlow"), "{said}");
            assert!((10..=60).contains(&seconds), "{seconds} s");
        }
        let (said, _) = told(&[HEAD, "12345", "67890"]);
        assert!(said.ends_with("well"), "{said}");
    }

    #[test]
    fn nor_is_a_head_that_comes_in_part_or_byte_by_byte() {
        let slow = vec!["x"; 300];
        let drips = [&["GET / HTTP/1.1\r\nhost: a\r\nx: "][..], &slow].concat();
        for pieces in [&["GET /metr"][..], &drips, &[]] {
            let (said, seconds) = told(pieces);
            assert!(!said.contains("200 OK"), "{said}");
            assert!((30..=60).contains(&seconds), "{seconds} s");
        }
    }

    #[test]
    fn a_body_that_is_too_long_is_refused_before_it_has_come() {
        let head = HEAD.replace("10", &(REQUEST_BYTES_MAX + 1).to_string());
        let body = "x".repeat(REQUEST_BYTES_MAX + 1);
        assert!(told(&[&head, &body]).0.contains("TooLong"));
    }
}

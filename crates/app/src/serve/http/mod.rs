//! HTTP on our own executor: the control socket, and a loopback port if asked for.
//!
//! ```text
//! stream ── hyper ── guard ─┬─ assets: the console
//!                           └─ api::route ─┬─ control ── pools
//!                                          ├─ metrics
//!                                          └─ description
//! ```
//! What is bounded here is what a broken script of our own user, or a stranger, can take:
//! connections, bytes of a request, requests a second, time.

mod assets;
pub mod guard;
mod limits;
mod seats;
mod stream;

use std::convert::Infallible;
use std::rc::Rc;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{
    ACCEPT, ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderMap,
    HeaderValue, X_CONTENT_TYPE_OPTIONS,
};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use io::Env;
use io::net::{ByteStream, Stream};
use io::slice::{self, Work};
use io::uring::UringEnv;

use self::assets::Asset;
use self::guard::{Guard, Refusal};
use self::limits::{Served, Unread};
use self::seats::{Seat, Seats, Stage};
use self::stream::HttpStream;
use super::control::Control;
use super::metrics::{self, Facts};
use crate::api::openapi;
use crate::api::route::{self, Method, Target, Wrong};
use crate::control::Answer;
use crate::error::Failure;

/// Longest head of a request: a browser's has a few KiB.
const HEAD_BYTES_MAX: usize = 16 << 10;

const JSON: &str = "application/json";

type Reply = Response<Full<Bytes>>;

/// One socket's server. A handle.
#[derive(Clone)]
pub struct Http {
    env: UringEnv,
    control: Control,
    guard: Rc<Guard>,
    seats: Rc<Seats<Stream>>,
}

impl Http {
    pub(super) fn new(
        env: UringEnv,
        control: Control,
        guard: Rc<Guard>,
        connections_max: usize,
    ) -> Http {
        Http { env, control, guard, seats: Seats::new(connections_max) }
    }

    /// Takes one connection over.
    pub(super) fn take(&self, stream: Stream) {
        let (own, stream) = (self.clone(), Rc::new(stream));
        let Some((seat, somebody_left)) = self.seats.take(&stream) else {
            self.control.doings.http_busy();
            return stream.close();
        };
        if somebody_left {
            self.control.doings.http_busy();
        }
        let served = Rc::new(Served::default());
        let weak = Rc::downgrade(&stream);
        self.env.spawn(limits::close_when_idle(self.env.clone(), weak, served.clone()));
        self.env.spawn_apart(async move {
            let service = service_fn(|request| own.counted(request, &served, &seat));
            let served = http1::Builder::new()
                .max_buf_size(HEAD_BYTES_MAX)
                .auto_date_header(false)
                .serve_connection(HttpStream::new(stream.clone()), service);
            // A client that breaks off, or speaks something else, has had its answer.
            let _ = served.await;
            stream.close();
        });
    }

    async fn counted(
        &self,
        request: Request<Incoming>,
        served: &Served,
        seat: &Seat<Stream>,
    ) -> Result<Reply, Infallible> {
        served.begin();
        seat.is_at(Stage::Body);
        let head = request.method() == hyper::Method::HEAD;
        let mut reply = slice::of(Work::Control, self.reply(request, seat)).await;
        if head {
            *reply.body_mut() = Full::default();
        }
        served.end();
        seat.is_at(Stage::Idle);
        Ok(reply)
    }

    async fn reply(&self, request: Request<Incoming>, seat: &Seat<Stream>) -> Reply {
        let (head, body) = request.into_parts();
        let method = head.method.as_str();
        let known = Method::parse(method);
        if let Err(refusal) = self.guard.check(self.env.now(), known, &head.headers) {
            self.control.doings.http_refused(&refusal);
            return refused(refusal);
        }
        let body = match limits::receive(&self.env, body).await {
            Ok(body) => body,
            Err(unread) => return of_unread(unread),
        };
        seat.is_at(Stage::Busy);
        let target = head.uri.path_and_query().map_or("/", |target| target.as_str());
        if let Some(asset) = assets::find(head.uri.path()).filter(|_| known == Some(Method::Get)) {
            return page(asset);
        }
        match route::read(method, target, &body) {
            Ok(Target::Request(request)) => match self.control.ask(request).await {
                Answer::Error(refusal) => refusal_of_pool(refusal),
                done @ Answer::Pools(_) => {
                    let server = self.control.server();
                    text(StatusCode::OK, JSON, done.to_line_with(server))
                }
                done => document(StatusCode::OK, &done),
            },
            Ok(Target::OpenApi) => text(StatusCode::OK, JSON, openapi::document()),
            Ok(Target::Metrics) => page_of_metrics(self.control.facts(), &head.headers),
            Err(Wrong::Path(wrong)) => failure(StatusCode::NOT_FOUND, wrong),
            Err(Wrong::Content(wrong)) => failure(StatusCode::BAD_REQUEST, wrong),
            Err(Wrong::Method(wrong)) => {
                let mut reply = failure(StatusCode::METHOD_NOT_ALLOWED, wrong);
                let allowed = HeaderValue::from_static("GET, HEAD, POST, PUT, DELETE");
                reply.headers_mut().insert(ALLOW, allowed);
                reply
            }
        }
    }
}

fn page(asset: &'static Asset) -> Reply {
    let mut reply = text(StatusCode::OK, asset.kind, asset.text.to_owned());
    let headers = reply.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(assets::POLICY));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    reply
}

/// In the format of OpenMetrics for those who say that they read it, as Prometheus does.
fn page_of_metrics(facts: Facts, headers: &HeaderMap) -> Reply {
    let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let said = metrics::text(facts);
    match accepted.flat_map(|value| value.split(',')).any(metrics::is_openmetrics) {
        true => text(StatusCode::OK, metrics::OPENMETRICS, said),
        false => text(StatusCode::OK, metrics::PLAIN, metrics::plain(&said)),
    }
}

fn refused(refusal: Refusal) -> Reply {
    match refusal {
        Refusal::Forbidden(what) => failure(StatusCode::FORBIDDEN, what),
        Refusal::NoToken(what) => failure(StatusCode::UNAUTHORIZED, what),
        Refusal::TooMany(what) => failure(StatusCode::TOO_MANY_REQUESTS, what),
    }
}

/// The rest of a body is not waited for, so that the connection ends with the answer.
fn of_unread(unread: Unread) -> Reply {
    let (status, what) = match unread {
        Unread::TooLong(what) => (StatusCode::PAYLOAD_TOO_LARGE, what),
        Unread::TooSlow(what) => (StatusCode::REQUEST_TIMEOUT, what),
        Unread::Broken(what) => (StatusCode::BAD_REQUEST, what),
    };
    let mut reply = failure(status, what);
    reply.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    reply
}

/// What makes no sense, and what can't be done as things are.
fn refusal_of_pool(refusal: Failure) -> Reply {
    let status = if refusal.usage { StatusCode::BAD_REQUEST } else { StatusCode::CONFLICT };
    failure(status, refusal)
}

fn failure(status: StatusCode, what: Failure) -> Reply {
    document(status, &Answer::Error(what))
}

fn document(status: StatusCode, answer: &Answer) -> Reply {
    text(status, JSON, answer.to_line())
}

fn text(status: StatusCode, kind: &'static str, text: String) -> Reply {
    let mut reply = Response::new(Full::new(Bytes::from(text)));
    *reply.status_mut() = status;
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    reply
}

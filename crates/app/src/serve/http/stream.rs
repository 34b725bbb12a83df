//! One of our streams as hyper sees one.
//!
//! Ours own the buffer while they wait, hyper's borrow it for a poll: so a piece of each
//! direction is kept here.

use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use ::io::net::ByteStream;
use ::io::{Buf, BufMut};
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use hyper::rt::{Read, ReadBufCursor, Write};

/// Received at a time: a request is smaller.
const RECEIVE: usize = 8 << 10;
/// Sent at a time.
const SEND: usize = 64 << 10;

pub struct HttpStream<S> {
    stream: Rc<S>,
    /// Received, and not taken yet.
    input: Option<(BufMut, Range<usize>)>,
    receiving: Option<LocalBoxFuture<'static, (BufMut, io::Result<usize>)>>,
    sending: Option<LocalBoxFuture<'static, io::Result<()>>>,
}

impl<S: ByteStream> HttpStream<S> {
    pub fn new(stream: Rc<S>) -> HttpStream<S> {
        HttpStream { stream, input: None, receiving: None, sending: None }
    }

    fn poll_sent(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(sending) = &mut self.sending else { return Poll::Ready(Ok(())) };
        let sent = ready!(sending.poll_unpin(context));
        self.sending = None;
        Poll::Ready(sent)
    }
}

impl<S: ByteStream> Read for HttpStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut to: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let own = &mut *self;
        loop {
            if let Some((bytes, range)) = &mut own.input {
                let count = range.len().min(to.remaining());
                to.put_slice(&bytes[range.start..range.start + count]);
                range.start += count;
                if Range::is_empty(range) {
                    own.input = None;
                }
                return Poll::Ready(Ok(()));
            }
            let stream = own.stream.clone();
            let receiving = own.receiving.get_or_insert_with(|| {
                async move { stream.recv(BufMut::with_len(RECEIVE), 0..RECEIVE).await }
                    .boxed_local()
            });
            let (bytes, count) = ready!(receiving.poll_unpin(context));
            own.receiving = None;
            match count? {
                0 => return Poll::Ready(Ok(())),
                count => own.input = Some((bytes, 0..count)),
            }
        }
    }
}

impl<S: ByteStream> Write for HttpStream<S> {
    /// Takes a piece as soon as the one before is sent.
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_sent(context))?;
        let count = bytes.len().min(SEND);
        if count == 0 {
            return Poll::Ready(Ok(0));
        }
        let (stream, piece) = (self.stream.clone(), Buf::from_slice(&bytes[..count]));
        self.sending = Some(async move { stream.send(vec![piece]).await }.boxed_local());
        Poll::Ready(Ok(count))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_sent(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let sent = ready!(self.poll_sent(context));
        self.stream.close();
        Poll::Ready(sent)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use ::io::net::duplex;
    use ::io::virt::VirtEnv;
    use http_body_util::{BodyExt, Full};
    use hyper::body::{Bytes, Incoming};
    use hyper::server::conn::http1;
    use hyper::service::service_fn;
    use hyper::{Request, Response};

    use ::io::Env;

    use super::*;

    /// Answers with the body that it was sent, twice over.
    async fn twice(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
        let body = request.into_body().collect().await.map(|body| body.to_bytes());
        let body = body.unwrap_or_default();
        Ok(Response::new(Full::new(Bytes::from([&body[..], &body[..]].concat()))))
    }

    #[test]
    fn requests_pass_through_pipes_of_any_width() {
        for capacity in [1, 7, 4096, 1 << 20] {
            let env = VirtEnv::new(1);
            let (server, client) = duplex(capacity);
            env.spawn(async move {
                let io = HttpStream::new(Rc::new(server));
                let _ = http1::Builder::new().serve_connection(io, service_fn(twice)).await;
            });
            let said = env.block_on(async move {
                let body = "x".repeat(100_000);
                let head = format!("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: {}", body.len());
                let text = format!("{head}\r\nconnection: close\r\n\r\n{body}");
                client.send(vec![Buf::from_slice(text.as_bytes())]).await.expect("sent");
                let mut said = Vec::new();
                loop {
                    let (bytes, count) = client.recv(BufMut::with_len(1000), 0..1000).await;
                    match count.expect("received") {
                        0 => return said,
                        count => said.extend_from_slice(&bytes[..count]),
                    }
                }
            });
            let text = String::from_utf8(said).expect("text");
            let (head, body) = text.split_once("\r\n\r\n").expect("a head");
            assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
            assert_eq!(body.len(), 200_000);
        }
    }
}

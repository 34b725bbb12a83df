//! A client that speaks the protocol byte by byte, and volumes that misbehave.
#![allow(dead_code, reason = "each test file uses its part")]

pub mod feed;
pub mod slow;

use std::future::Future;

use export::ram::{RamExports, RamVolume};
use export::{ConnectionError, Exports, Limits, Server};
use io::net::{ByteStream, DuplexEnd, duplex};
use io::sync::{Receiver, oneshot};
use io::virt::VirtEnv;
use io::{Buf, BufMut, Env, Nanos};

/// The test's socket buffer: smaller than many messages, so that they come in parts.
const SOCKET_BYTES: usize = 3000;

pub const MIB: u64 = 1 << 20;

pub mod option {
    pub const EXPORT_NAME: u32 = 1;
    pub const ABORT: u32 = 2;
    pub const LIST: u32 = 3;
    pub const STARTTLS: u32 = 5;
    pub const INFO: u32 = 6;
    pub const GO: u32 = 7;
    pub const STRUCTURED_REPLY: u32 = 8;
    pub const LIST_META_CONTEXT: u32 = 9;
    pub const SET_META_CONTEXT: u32 = 10;
    pub const EXTENDED_HEADERS: u32 = 11;
}

pub const ACK: u32 = 1;
pub const SERVER: u32 = 2;
pub const INFO: u32 = 3;
pub const META_CONTEXT: u32 = 4;
pub const ERR_UNSUP: u32 = 0x8000_0001;
pub const ERR_POLICY: u32 = 0x8000_0002;
pub const ERR_INVALID: u32 = 0x8000_0003;
pub const ERR_UNKNOWN: u32 = 0x8000_0006;
pub const ERR_SHUTDOWN: u32 = 0x8000_0007;

pub mod command {
    pub const READ: u16 = 0;
    pub const WRITE: u16 = 1;
    pub const DISC: u16 = 2;
    pub const FLUSH: u16 = 3;
    pub const TRIM: u16 = 4;
    pub const CACHE: u16 = 5;
    pub const WRITE_ZEROES: u16 = 6;
    pub const BLOCK_STATUS: u16 = 7;
}

pub const EPERM: u32 = 1;
pub const EIO: u32 = 5;
pub const EINVAL: u32 = 22;
pub const ENOSPC: u32 = 28;
pub const ENOTSUP: u32 = 95;
pub const ESHUTDOWN: u32 = 108;

/// How `serve` ended.
pub type End = Receiver<Result<(), ConnectionError>>;

pub struct Client {
    stream: DuplexEnd,
}

/// A reply of either form.
#[derive(Debug, PartialEq, Eq)]
pub struct Reply {
    pub cookie: u64,
    pub error: u32,
    /// The chunk's type; `None` for a simple reply.
    pub kind: Option<u16>,
    /// What follows the header of a chunk.
    pub payload: Vec<u8>,
}

/// A server with one volume "disk" of 1 MiB in a fresh virtual world.
pub fn ram_server(env: &VirtEnv) -> (Server<VirtEnv, RamExports>, RamVolume) {
    let volume = RamVolume::new(MIB);
    let exports = RamExports::new([("disk", volume.clone())]);
    (Server::new(env.clone(), exports, Limits::default()), volume)
}

pub fn connect<X: Exports>(env: &VirtEnv, server: &Server<VirtEnv, X>) -> (Client, End) {
    connect_with(env, server, |server, stream| async move { server.serve(stream).await })
}

/// The same with a socket that takes many requests at once.
pub fn connect_wide<X: Exports>(env: &VirtEnv, server: &Server<VirtEnv, X>) -> (Client, End) {
    let (ours, theirs) = duplex(1 << 20);
    let (done, end) = oneshot();
    let server = server.clone();
    env.spawn(async move { done.send(server.serve(theirs).await) });
    (Client { stream: ours }, end)
}

/// The same, where `serve` says how the server takes the connection.
pub fn connect_with<X: Exports, F: Future<Output = Result<(), ConnectionError>> + 'static>(
    env: &VirtEnv,
    server: &Server<VirtEnv, X>,
    serve: impl FnOnce(Server<VirtEnv, X>, DuplexEnd) -> F + 'static,
) -> (Client, End) {
    let (ours, theirs) = duplex(SOCKET_BYTES);
    let (done, end) = oneshot();
    let server = server.clone();
    env.spawn(async move { done.send(serve(server, theirs).await) });
    (Client { stream: ours }, end)
}

/// Longer than any test waits. Connections set timers again and again, so a world in which
/// something hangs would go on for ever.
const WORLD_MAX: Nanos = Nanos::from_secs(1_000_000);

pub fn run<T>(env: &VirtEnv, test: impl Future<Output = T>) -> T {
    env.run_until(test, || env.now() > WORLD_MAX).expect("something waits for ever")
}

/// Runs a test in worlds with different interleavings.
pub fn in_worlds<F: Future<Output = ()>>(test: impl Fn(VirtEnv) -> F) {
    for seed in 0..20 {
        let env = VirtEnv::new(seed);
        run(&env, test(env.clone()));
        env.crash();
    }
}

pub fn fields(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

/// A string with its length.
pub fn string(text: &str) -> Vec<u8> {
    fields(&[&(text.len() as u32).to_be_bytes(), text.as_bytes()])
}

pub fn info_request(name: &str, items: &[u16]) -> Vec<u8> {
    let mut data = string(name);
    data.extend((items.len() as u16).to_be_bytes());
    data.extend(items.iter().flat_map(|item| item.to_be_bytes()));
    data
}

pub fn context_request(name: &str, queries: &[&str]) -> Vec<u8> {
    let mut data = string(name);
    data.extend((queries.len() as u32).to_be_bytes());
    data.extend(queries.iter().flat_map(|query| string(query)));
    data
}

pub fn option_bytes(code: u32, data: &[u8]) -> Vec<u8> {
    let len = (data.len() as u32).to_be_bytes();
    fields(&[b"IHAVEOPT", &code.to_be_bytes(), &len, data])
}

pub fn request_bytes(flags: u16, command: u16, cookie: u64, offset: u64, len: u32) -> Vec<u8> {
    let (flags, command) = (flags.to_be_bytes(), command.to_be_bytes());
    let (cookie, offset) = (cookie.to_be_bytes(), offset.to_be_bytes());
    fields(&[&0x2560_9513u32.to_be_bytes(), &flags, &command, &cookie, &offset, &len.to_be_bytes()])
}

impl Client {
    pub async fn send(&self, bytes: &[u8]) {
        self.stream.send(vec![Buf::from_slice(bytes)]).await.expect("the server listens");
    }

    pub async fn recv(&self, len: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        while bytes.len() < len {
            let part = self.recv_some(len - bytes.len()).await;
            assert!(!part.is_empty(), "the server left");
            bytes.extend(part);
        }
        bytes
    }

    async fn recv_some(&self, max: usize) -> Vec<u8> {
        let (buf, len) = self.stream.recv(BufMut::with_len(max), 0..max).await;
        buf[..len.expect("the stream works")].to_vec()
    }

    async fn array<const N: usize>(&self) -> [u8; N] {
        self.recv(N).await.try_into().expect("recv gives what it is asked for")
    }

    pub async fn u16(&self) -> u16 {
        u16::from_be_bytes(self.array().await)
    }

    pub async fn u32(&self) -> u32 {
        u32::from_be_bytes(self.array().await)
    }

    pub async fn u64(&self) -> u64 {
        u64::from_be_bytes(self.array().await)
    }

    /// True if the server has closed and nothing more comes.
    pub async fn is_closed(&self) -> bool {
        self.recv_some(1).await.is_empty()
    }

    pub fn into_stream(self) -> DuplexEnd {
        self.stream
    }

    pub fn close(&self) {
        self.stream.close();
    }

    pub async fn greet(&self, flags: u32) {
        assert_eq!(self.recv(18).await, *b"NBDMAGICIHAVEOPT\0\x03");
        self.send(&flags.to_be_bytes()).await;
    }

    /// Sends an option and takes the replies up to the final one.
    pub async fn option(&self, code: u32, data: &[u8]) -> Vec<(u32, Vec<u8>)> {
        self.send(&option_bytes(code, data)).await;
        let mut replies = Vec::new();
        loop {
            assert_eq!(self.u64().await, 0x3_e889_0455_65a9);
            assert_eq!(self.u32().await, code);
            let (kind, len) = (self.u32().await, self.u32().await);
            replies.push((kind, self.recv(len as usize).await));
            if kind == ACK || kind >= 1 << 31 {
                return replies;
            }
        }
    }

    /// The kind of the only reply.
    pub async fn verdict(&self, code: u32, data: &[u8]) -> u32 {
        let replies = self.option(code, data).await;
        assert_eq!(replies.len(), 1);
        replies[0].0
    }

    /// The whole handshake, up to transmission.
    pub async fn start(&self, structured: bool) {
        self.greet(3).await;
        if structured {
            assert_eq!(self.verdict(option::STRUCTURED_REPLY, &[]).await, ACK);
            let contexts = context_request("disk", &["base:allocation"]);
            assert_eq!(self.option(option::SET_META_CONTEXT, &contexts).await.len(), 2);
        }
        let replies = self.option(option::GO, &info_request("disk", &[])).await;
        assert_eq!(replies.last().map(|last| last.0), Some(ACK));
    }

    pub async fn request(&self, command: u16, offset: u64, len: u32) -> Reply {
        self.request_with(0, command, offset, len, &[]).await
    }

    pub async fn request_with(
        &self,
        flags: u16,
        command: u16,
        offset: u64,
        len: u32,
        payload: &[u8],
    ) -> Reply {
        let cookie = offset ^ 0xfeed_0000_0000_0000;
        self.send(&request_bytes(flags, command, cookie, offset, len)).await;
        self.send(payload).await;
        let simple_data = if command == command::READ { len } else { 0 };
        let reply = self.reply(simple_data).await;
        assert_eq!(reply.cookie, cookie);
        reply
    }

    pub async fn write(&self, offset: u64, data: &[u8]) -> u32 {
        self.request_with(0, command::WRITE, offset, data.len() as u32, data).await.error
    }

    /// The next reply; `simple_data` bytes follow it if it is simple and a success.
    pub async fn reply(&self, simple_data: u32) -> Reply {
        let magic = self.u32().await;
        if magic == 0x6744_6698 {
            let (error, cookie) = (self.u32().await, self.u64().await);
            let len = if error == 0 { simple_data } else { 0 };
            return Reply { cookie, error, kind: None, payload: self.recv(len as usize).await };
        }
        assert_eq!(magic, 0x668e_33ef);
        assert_eq!(self.u16().await, 1, "one chunk a reply");
        let (kind, cookie, len) = (self.u16().await, self.u64().await, self.u32().await);
        let payload = self.recv(len as usize).await;
        let is_error = kind == 0x8001;
        let error = if is_error { u32::from_be_bytes([0, 1, 2, 3].map(|i| payload[i])) } else { 0 };
        Reply { cookie, error, kind: Some(kind), payload }
    }
}

/// Waits on the virtual clock.
pub async fn pause(env: &VirtEnv, span: Nanos) {
    env.sleep_until(env.now() + span).await;
}

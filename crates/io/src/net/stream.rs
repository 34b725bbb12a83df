//! A connected socket, driven by the ring.

use std::io;
use std::mem;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::rc::Rc;

use super::{Address, ByteStream, NetError};
use crate::buf::{Buf, BufMut};
use crate::uring::{Handle, Message, Ring, UringEnv};

/// A client from which nothing has come for so long is asked whether it is there; so often again,
/// so many times. One whose machine is gone is given up after two minutes, long before anybody
/// wonders why its volume is in use, and a cable that is out for a minute ends nothing.
const KEEP_ALIVE_IDLE_SECS: libc::c_int = 60;
const KEEP_ALIVE_AGAIN_SECS: libc::c_int = 10;
const KEEP_ALIVE_TRIES: libc::c_int = 6;

/// One end of a connection. Dropping it closes it.
pub struct Stream {
    ring: Ring,
    socket: Rc<Handle>,
}

impl Stream {
    /// Takes over a connected stream socket; it must be in blocking mode (the usual one),
    /// for the ring does the waiting.
    pub fn new(env: &UringEnv, socket: impl Into<OwnedFd>) -> Stream {
        Stream::on_ring(env.ring(), socket.into())
    }

    pub(super) fn on_ring(ring: &Ring, socket: OwnedFd) -> Stream {
        Stream { ring: ring.clone(), socket: Rc::new(socket.into()) }
    }

    /// Connects to a listening Unix socket. It is done at once, or waits while the
    /// listener's backlog is full; so it is for clients, which have nothing else to do.
    pub fn connect_unix(env: &UringEnv, path: impl AsRef<Path>) -> Result<Stream, NetError> {
        let path = path.as_ref();
        match UnixStream::connect(path) {
            Ok(socket) => Ok(Stream::new(env, socket)),
            Err(source) => {
                let address = Address::Unix(path.into());
                Err(match source.kind() {
                    io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                        NetError::NobodyThere { address }
                    }
                    _ => NetError::Os { address, action: "connect to", source },
                })
            }
        }
    }

    /// Has the kernel ask a client that says nothing whether it is still there, and give it up if
    /// there is no answer: its machine may have gone without a word. For TCP.
    pub fn keep_alive(&self) -> io::Result<()> {
        self.set_option(libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1)?;
        self.set_option(libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, KEEP_ALIVE_IDLE_SECS)?;
        self.set_option(libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, KEEP_ALIVE_AGAIN_SECS)?;
        self.set_option(libc::IPPROTO_TCP, libc::TCP_KEEPCNT, KEEP_ALIVE_TRIES)?;
        // What was sent and is not acknowledged holds the questions up.
        let patience = KEEP_ALIVE_IDLE_SECS + KEEP_ALIVE_AGAIN_SECS * KEEP_ALIVE_TRIES;
        self.set_option(libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, patience * 1000)
    }

    fn set_option(
        &self,
        level: libc::c_int,
        name: libc::c_int,
        value: libc::c_int,
    ) -> io::Result<()> {
        // SAFETY: the kernel reads one int from `value`.
        let result = unsafe {
            libc::setsockopt(
                self.socket.as_raw_fd(),
                level,
                name,
                (&raw const value).cast(),
                mem::size_of_val(&value) as libc::socklen_t,
            )
        };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Whether [`Stream::keep_alive`] is in force.
    pub fn is_kept_alive(&self) -> io::Result<bool> {
        let on: libc::c_int = self.option(libc::SO_KEEPALIVE, 0)?;
        Ok(on != 0)
    }

    /// The process that connected, on a Unix socket; `None` if it can't be known.
    pub fn peer_process(&self) -> Option<u32> {
        let nobody = libc::ucred { pid: 0, uid: 0, gid: 0 };
        let found = self.option(libc::SO_PEERCRED, nobody).ok()?;
        u32::try_from(found.pid).ok().filter(|pid| *pid > 0)
    }

    /// An option of the socket, which is a `T` to the kernel.
    fn option<T: Copy>(&self, name: libc::c_int, mut value: T) -> io::Result<T> {
        let mut len = mem::size_of::<T>() as libc::socklen_t;
        // SAFETY: the kernel writes at most `len` bytes of numbers, which `value` has.
        let result = unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_SOCKET,
                name,
                (&raw mut value).cast(),
                &raw mut len,
            )
        };
        if result == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
    }

    /// TCP_NODELAY: send small messages at once instead of collecting them. Accepted TCP
    /// connections have it on already. An error on a socket that is not TCP.
    pub fn set_nodelay(&self, on: bool) -> io::Result<()> {
        self.set_option(libc::IPPROTO_TCP, libc::TCP_NODELAY, on.into())
    }

    /// Who is at the other end; `None` if it is not TCP.
    pub fn peer(&self) -> io::Result<Option<SocketAddr>> {
        let socket = TcpStream::from(self.socket.as_fd().try_clone_to_owned()?);
        match socket.peer_addr() {
            Ok(address) => Ok(Some(address)),
            // A socket of another family: the standard library can't say its address.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Ends one or both directions.
    pub fn shutdown(&self, direction: Shutdown) -> io::Result<()> {
        let how = match direction {
            Shutdown::Read => libc::SHUT_RD,
            Shutdown::Write => libc::SHUT_WR,
            Shutdown::Both => libc::SHUT_RDWR,
        };
        // SAFETY: a call without pointers on an open descriptor.
        let result = unsafe { libc::shutdown(self.socket.as_raw_fd(), how) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

impl ByteStream for Stream {
    async fn recv(&self, buf: BufMut, range: Range<usize>) -> (BufMut, io::Result<usize>) {
        self.ring.recv(&self.socket, buf, range).await
    }

    async fn send(&self, pieces: Vec<Buf>) -> io::Result<()> {
        let mut message = Message::new(pieces);
        while !message.is_sent() {
            let (back, count) = self.ring.send(&self.socket, message).await;
            message = back;
            message.advance(count?);
        }
        Ok(())
    }

    fn close(&self) {
        // Fails only if the other end was faster.
        let _ = self.shutdown(Shutdown::Both);
    }
}

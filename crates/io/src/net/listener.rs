//! Waiting for connections on a Unix path or a TCP port.

use std::fmt;
use std::fs;
use std::io;
use std::mem;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::{NetError, Stream};
use crate::uring::{Handle, Ring, UringEnv};

/// Connections the kernel completes before we accept them. Clients come rarely; the kernel's
/// own default.
const BACKLOG: libc::c_int = 128;

/// Longest path in a `sockaddr_un`, which has 108 bytes and ends with a NUL.
const UNIX_PATH_MAX: usize = 107;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    Unix(PathBuf),
    Tcp(SocketAddr),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Unix(path) => write!(f, "{}", path.display()),
            Address::Tcp(address) => write!(f, "{address}"),
        }
    }
}

/// The file of a Unix socket, removed with the listener.
struct SocketFile {
    path: PathBuf,
    /// Device and inode: what is at the path later may be another listener's.
    identity: Option<(u64, u64)>,
}

impl SocketFile {
    fn new(path: &Path) -> SocketFile {
        SocketFile { path: path.into(), identity: identity(path) }
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.identity.is_some() && self.identity == identity(&self.path) {
            // If it can't be removed, the next listener finds it stale and does it.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    fs::symlink_metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino()))
}

pub struct Listener {
    ring: Ring,
    socket: Rc<Handle>,
    address: Address,
    _file: Option<SocketFile>,
}

impl Listener {
    /// Listens. A Unix socket may be used by its owner only (mode 0600); the file of one
    /// that nobody listens on any more is replaced.
    pub fn bind(env: &UringEnv, address: &Address) -> Result<Listener, NetError> {
        let (socket, address, file) = match address {
            Address::Unix(path) => (bind_unix(path)?, address.clone(), Some(SocketFile::new(path))),
            Address::Tcp(wanted) => {
                let (socket, bound) = bind_tcp(*wanted)?;
                (socket, Address::Tcp(bound), None)
            }
        };
        let (ring, socket) = (env.ring().clone(), Rc::new(socket.into()));
        Ok(Listener { ring, socket, address, _file: file })
    }

    /// Where we listen: with the port that was chosen if port 0 was asked for.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// The next connection. An error leaves the listener usable; out of descriptors
    /// (EMFILE) for example passes when connections end.
    pub async fn accept(&self) -> io::Result<Stream> {
        loop {
            match self.ring.accept(&self.socket).await {
                // The client gave up before we came.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
                Ok(socket) => return Ok(self.prepare(Stream::on_ring(&self.ring, socket))),
            }
        }
    }

    fn prepare(&self, stream: Stream) -> Stream {
        if matches!(self.address, Address::Tcp(_)) {
            // We send whole messages. If the client is gone already, `recv` will say so.
            let _ = stream.set_nodelay(true);
            let _ = stream.keep_alive();
        }
        stream
    }
}

/// The standard library sets SO_REUSEADDR, so a restart need not wait for old connections.
fn bind_tcp(wanted: SocketAddr) -> Result<(OwnedFd, SocketAddr), NetError> {
    let bound = TcpListener::bind(wanted)
        .and_then(|listener| listener.local_addr().map(|bound| (OwnedFd::from(listener), bound)));
    bound.map_err(|error| explain(Address::Tcp(wanted), error))
}

fn bind_unix(path: &Path) -> Result<OwnedFd, NetError> {
    if path.as_os_str().len() > UNIX_PATH_MAX {
        return Err(NetError::PathTooLong { path: path.into(), max: UNIX_PATH_MAX });
    }
    let os = |error| explain(Address::Unix(path.into()), error);
    match listen_unix(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            remove_stale(path)?;
            listen_unix(path).map_err(os)
        }
        result => result.map_err(os),
    }
}

/// Two servers starting at the same moment could both find the file stale, and the second
/// remove the first one's; the claims on their drives stop the second.
fn remove_stale(path: &Path) -> Result<(), NetError> {
    let os = |error| explain(Address::Unix(path.into()), error);
    let metadata = fs::symlink_metadata(path).map_err(os)?;
    if !metadata.file_type().is_socket() {
        return Err(NetError::NotASocket { path: path.into() });
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(os)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(os(error)),
        Ok(_) => Err(NetError::InUse { address: Address::Unix(path.into()) }),
    }
}

/// Done by hand, because the mode must be right before anyone can connect.
fn listen_unix(path: &Path) -> io::Result<OwnedFd> {
    // SAFETY: a system call without pointers.
    let raw =
        check(unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: just opened, and nobody else has it.
    let socket = unsafe { OwnedFd::from_raw_fd(raw) };
    // SAFETY: a system call without pointers. Linux gives the file the mode of the socket.
    check(unsafe { libc::fchmod(raw, 0o600) })?;
    let address = unix_address(path);
    let len = mem::size_of_val(&address) as libc::socklen_t;
    // SAFETY: `address` is a `sockaddr_un` of `len` bytes whose path ends with a NUL.
    check(unsafe { libc::bind(raw, (&raw const address).cast(), len) })?;
    // SAFETY: a system call without pointers.
    check(unsafe { libc::listen(socket.as_raw_fd(), BACKLOG) })?;
    Ok(socket)
}

fn unix_address(path: &Path) -> libc::sockaddr_un {
    // SAFETY: all zeroes is a valid `sockaddr_un`, which holds only numbers.
    let mut address: libc::sockaddr_un = unsafe { mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    for (to, from) in address.sun_path[..UNIX_PATH_MAX].iter_mut().zip(path.as_os_str().as_bytes())
    {
        *to = *from as libc::c_char;
    }
    address
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn explain(address: Address, source: io::Error) -> NetError {
    match source.kind() {
        io::ErrorKind::AddrInUse => NetError::InUse { address },
        _ => NetError::Os { address, action: "listen on", source },
    }
}

//! Tells systemd (`Type=notify`) that we are ready, alive or stopping: one datagram each.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use io::uring::UringEnv;
use io::{Env, Nanos};
use rustix::time::{ClockId, clock_gettime};

use super::Log;

/// Where a service manager listens, if one asked for it.
pub struct Socket {
    socket: UnixDatagram,
    address: SocketAddr,
}

impl Socket {
    pub fn send(&self, state: &[u8]) -> std::io::Result<usize> {
        self.socket.send_to_addr(state, &self.address)
    }
}

/// Serving doesn't depend on it, so a name that can't be one is as good as none.
pub fn socket() -> Option<Socket> {
    let path = std::env::var_os("NOTIFY_SOCKET")?;
    let address = match path.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        _ => SocketAddr::from_pathname(&path),
    };
    Some(Socket { socket: UnixDatagram::unbound().ok()?, address: address.ok()? })
}

/// The configuration is being read again. systemd wants to know when that began, by the clock that
/// all processes share.
pub fn reloading() -> String {
    let now = clock_gettime(ClockId::Monotonic);
    let micros = now.tv_sec * 1_000_000 + now.tv_nsec / 1000;
    format!("RELOADING=1\nMONOTONIC_USEC={micros}")
}

/// Says that the loop turns, if systemd wants to know (`WatchdogSec=`), three times as often as it
/// has to hear it.
pub(crate) async fn keep_alive(env: UringEnv, log: Log) {
    let number = |name| std::env::var(name).ok()?.parse::<u64>().ok();
    let for_us = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
    let Some(micros) = number("WATCHDOG_USEC").filter(|micros| for_us && *micros > 0) else {
        return;
    };
    loop {
        env.sleep_until(env.now() + Nanos::from_micros(micros.div_ceil(3))).await;
        log.notify("WATCHDOG=1");
    }
}

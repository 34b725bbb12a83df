//! Tells systemd (`Type=notify`) that we are ready, alive or stopping: one datagram each.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use io::uring::UringEnv;
use io::{Env, Nanos};
use rustix::time::{ClockId, clock_gettime};

/// Sends `state` (`READY=1`, `STOPPING=1`) if a service manager asked for it. Serving doesn't
/// depend on it, so a failure is only said.
pub fn send(state: &str) {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let address = match path.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        _ => SocketAddr::from_pathname(&path),
    };
    let sent = address
        .and_then(|address| UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address));
    if let Err(error) = sent {
        eprintln!("warning: NOTIFY_SOCKET: {error}");
    }
}

/// Says that the configuration is being read again; `READY=1` ends it. systemd wants to know when
/// it began, by the clock that all processes share.
pub fn reloading() {
    let now = clock_gettime(ClockId::Monotonic);
    let micros = now.tv_sec * 1_000_000 + now.tv_nsec / 1000;
    send(&format!("RELOADING=1\nMONOTONIC_USEC={micros}"));
}

/// Says that the loop turns, if systemd wants to know (`WatchdogSec=`), three times as often as it
/// has to hear it.
pub(crate) async fn keep_alive(env: UringEnv) {
    let number = |name| std::env::var(name).ok()?.parse::<u64>().ok();
    let for_us = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
    let Some(micros) = number("WATCHDOG_USEC").filter(|micros| for_us && *micros > 0) else {
        return;
    };
    loop {
        env.sleep_until(env.now() + Nanos::from_micros(micros.div_ceil(3))).await;
        send("WATCHDOG=1");
    }
}

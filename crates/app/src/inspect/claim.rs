//! Which host has the drive's pool open, or had it last.

use format::{ClaimState, Holder, Seen};
use io::Drive;
use members::host;
use serde::Serialize;

#[derive(Serialize)]
pub struct Claim {
    /// `held`, `released`, or `taking`: it is being taken from another host.
    pub state: &'static str,
    pub host_name: String,
    pub host: String,
    pub boot: String,
    pub process: u32,
    /// One more with each sign of life.
    pub beat: u64,
    /// The last one, seconds since 1970 by that host's clock.
    pub seen_secs: u64,
}

/// `None` if nobody ever had it, or that can't be read.
pub async fn read<D: Drive>(drive: &D) -> Option<Claim> {
    let found = host::look(drive).await.ok().flatten();
    found.map(|Seen { claim, .. }| {
        let format::Claim { state, holder, beat, seen_secs, .. } = claim;
        let Holder { host, boot, process, name, .. } = holder;
        let state = match state {
            ClaimState::Held => "held",
            ClaimState::Released => "released",
            ClaimState::Taking => "taking",
        };
        let (host, boot) = (host.to_string(), boot.to_string());
        Claim { state, host_name: name, host, boot, process, beat, seen_secs }
    })
}

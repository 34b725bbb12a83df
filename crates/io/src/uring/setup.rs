//! Making a ring with the best the kernel has, or saying clearly what it lacks.

use std::io;

use io_uring::{IoUring, Probe, opcode};

/// Entries handed over in one system call. More than a busy shard starts between two waits;
/// when it is full we submit and go on, so it bounds batches, not operations.
const RING_ENTRIES: u32 = 1024;

/// Completions the kernel keeps in the shared ring before it falls back to a slower list of
/// its own (nothing is lost): operations in flight, idle connections included.
const COMPLETION_ENTRIES: u32 = 4 * RING_ENTRIES;

/// Kernel threads for what can't be done without blocking (flushes, discards, writes to new
/// extents of a file, everything on filesystems that can't do otherwise). The default is four per
/// processor: one drive that hangs with some requests would keep those of all others waiting. This
/// is enough for a large pool's drives with all requests that they are given at a time.
const BLOCKING_WORKERS_MAX: u32 = 1024;

const NEEDED: [(u8, &str); 8] = [
    (opcode::Read::CODE, "read"),
    (opcode::Write::CODE, "write"),
    (opcode::Fsync::CODE, "fsync"),
    (opcode::Fallocate::CODE, "fallocate"),
    (opcode::Recv::CODE, "recv"),
    (opcode::SendMsg::CODE, "sendmsg"),
    (opcode::Accept::CODE, "accept"),
    (opcode::AsyncCancel::CODE, "cancel"),
];

pub(super) fn ring() -> io::Result<IoUring> {
    let ring = build()?;
    check(&ring)?;
    // Only a matter of speed, so an older kernel's refusal is no error. Zero keeps the limit
    // of the unbounded workers as it is.
    let _ = ring.submitter().register_iowq_max_workers(&mut [BLOCKING_WORKERS_MAX, 0]);
    Ok(ring)
}

/// Since 6.1 completions can be left to the moment we ask for them; since 5.19 at least no
/// interrupt is sent for them; before that the plain ring works as well.
fn build() -> io::Result<IoUring> {
    let deferred = IoUring::builder()
        .setup_cqsize(COMPLETION_ENTRIES)
        .setup_submit_all()
        .setup_single_issuer()
        .setup_coop_taskrun()
        .setup_taskrun_flag()
        .setup_defer_taskrun()
        .build(RING_ENTRIES);
    let cooperative = || {
        IoUring::builder()
            .setup_cqsize(COMPLETION_ENTRIES)
            .setup_submit_all()
            .setup_coop_taskrun()
            .setup_taskrun_flag()
            .build(RING_ENTRIES)
    };
    let plain = || IoUring::builder().setup_cqsize(COMPLETION_ENTRIES).build(RING_ENTRIES);
    deferred.or_else(|_| cooperative()).or_else(|_| plain()).map_err(explain)
}

fn explain(error: io::Error) -> io::Error {
    let advice = match error.raw_os_error() {
        // A kernel without it says so, and so do seccomp profiles of containers that forbid it.
        Some(libc::ENOSYS) => {
            "io_uring is missing here: the kernel lacks it (Linux 5.11 or newer is needed), or a \
             container's seccomp profile forbids it"
        }
        Some(libc::EPERM | libc::EACCES) => {
            "io_uring is forbidden here, by the sysctl kernel.io_uring_disabled or by a \
             container's seccomp profile"
        }
        Some(libc::ENOMEM) => {
            "no memory may be locked for io_uring; raise the limit (ulimit -l, LimitMEMLOCK=)"
        }
        _ => "io_uring could not be set up",
    };
    io::Error::new(error.kind(), format!("{advice} ({error})"))
}

fn check(ring: &IoUring) -> io::Result<()> {
    let lacking = |what: &str| {
        let text = format!("io_uring of this kernel lacks {what}; Linux 5.11 or newer is needed");
        Err(io::Error::new(io::ErrorKind::Unsupported, text))
    };
    if !ring.params().is_feature_ext_arg() {
        return lacking("waiting with a timeout");
    }
    if !ring.params().is_feature_nodrop() {
        return lacking("lossless completions");
    }
    let mut probe = Probe::new();
    ring.submitter().register_probe(&mut probe)?;
    match NEEDED.iter().find(|(code, _)| !probe.is_supported(*code)) {
        Some((_, name)) => lacking(&format!("the operation `{name}`")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Profiles of containers answer with either error, and a look at the kernel's version helps
    /// nobody then.
    #[test]
    fn who_is_refused_a_ring_is_told_of_all_that_may_be_the_cause() {
        let told = |errno| explain(io::Error::from_raw_os_error(errno)).to_string();
        for errno in [libc::ENOSYS, libc::EPERM, libc::EACCES] {
            assert!(told(errno).contains("a container's seccomp profile"), "{}", told(errno));
        }
        assert!(told(libc::ENOSYS).contains("Linux 5.11 or newer"), "{}", told(libc::ENOSYS));
        assert!(told(libc::EPERM).contains("kernel.io_uring_disabled"), "{}", told(libc::EPERM));
        assert!(told(libc::ENOMEM).contains("LimitMEMLOCK"), "{}", told(libc::ENOMEM));
    }
}

//! What this process takes of memory, for those who want to see that it does not grow; and telling
//! the processor what will be looked at soon.

/// Bytes that are allocated now, all of them, as the C library's allocator counts them for the
/// main thread; `None` with another library. Exact, unlike [`resident_bytes`], which counts
/// what was freed and not given back as well.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub fn heap_bytes() -> Option<u64> {
    // SAFETY: it takes no argument, returns numbers by value, and locks what it reads.
    let info = unsafe { libc::mallinfo2() };
    Some((info.uordblks + info.hblkhd) as u64)
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn heap_bytes() -> Option<u64> {
    None
}

/// Bytes of this process that are in memory, if the kernel says.
pub fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

/// Has what lies there brought nearer, without waiting for it.
pub fn prefetch<T>(at: &T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: it reads nothing that anybody sees, and cannot fault.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(at).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_allocated_is_seen() {
        const BYTES: u64 = 64 << 20;
        let before = (heap_bytes(), resident_bytes());
        let much = vec![1u8; BYTES as usize];
        let (heap, resident) = (heap_bytes(), resident_bytes());
        let grown = |before: Option<u64>, after: Option<u64>| Some(after?.saturating_sub(before?));
        // Other tests come and go beside this one.
        assert!(grown(before.0, heap).is_none_or(|bytes| bytes > BYTES / 2));
        assert!(grown(before.1, resident).is_none_or(|bytes| bytes > BYTES / 2));
        assert_eq!(much.iter().map(|&byte| u64::from(byte)).sum::<u64>(), BYTES);
    }
}

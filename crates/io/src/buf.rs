//! Aligned, pooled, reference-counted buffers: the bytes of requests.
//!
//! A [`BufMut`] is filled by one owner, then frozen into a [`Buf`] that any number of writes
//! share. Both copies of a replicated block, its checksum and its parity therefore come from
//! the same bytes, and nothing is copied on the way to the drives.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::borrow::Borrow;
use std::cell::RefCell;
use std::ops::{Deref, DerefMut, Range};
use std::ptr::NonNull;
use std::rc::Rc;

/// Alignment of every buffer: satisfies O_DIRECT on every drive we accept.
pub const PAGE: usize = 4096;

/// Largest buffer that goes back to the pool, and how many bytes the pool keeps per size
/// class. More than that goes back to the allocator, larger ones to the kernel. Enough for the
/// requests in flight of a busy shard; small beside the maps.
const POOLED_BYTES_MAX: usize = 2 << 20;
const POOL_CLASS_BYTES_MAX: usize = 16 << 20;
const CLASSES: usize = 10;

struct Allocation {
    start: NonNull<u8>,
    capacity: usize,
}

thread_local! {
    static POOL: RefCell<[Vec<NonNull<u8>>; CLASSES]> =
        const { RefCell::new([const { Vec::new() }; CLASSES]) };
}

/// Size classes are powers of two from one page; `None` above the largest.
fn class_of(capacity: usize) -> Option<usize> {
    let class = (capacity / PAGE).ilog2() as usize;
    (class < CLASSES && capacity <= POOLED_BYTES_MAX).then_some(class)
}

/// Bytes of buffers that this thread keeps for the next requests: as many as were in use at once
/// at any time, up to a bound for each size.
pub fn pooled_bytes() -> u64 {
    let bytes = |class: usize, list: &Vec<NonNull<u8>>| list.len() * (PAGE << class);
    POOL.with_borrow(|pool| {
        pool.iter().enumerate().map(|(class, list)| bytes(class, list)).sum::<usize>() as u64
    })
}

impl Allocation {
    fn layout(capacity: usize) -> Layout {
        Layout::from_size_align(capacity, PAGE).expect("buffer sizes stay far below isize::MAX")
    }

    fn new(len: usize) -> Allocation {
        if len > POOLED_BYTES_MAX {
            return Allocation::mapped(len);
        }
        let capacity = len.max(PAGE).next_power_of_two();
        let pooled = class_of(capacity)
            .and_then(|class| POOL.try_with(|pool| pool.borrow_mut()[class].pop()).ok().flatten());
        let start = pooled.unwrap_or_else(|| {
            let layout = Allocation::layout(capacity);
            // SAFETY: the layout has a non-zero size (at least one page).
            let raw = unsafe { alloc(layout) };
            let start = NonNull::new(raw).unwrap_or_else(|| handle_alloc_error(layout));
            // SAFETY: `raw` was just allocated with `capacity` bytes. Writing them once makes
            // every later read of the buffer defined, also of recycled bytes.
            unsafe { start.as_ptr().write_bytes(0, capacity) };
            start
        });
        Allocation { start, capacity }
    }

    /// Whole pages of the kernel, which are zero and take memory as they are filled: what a client
    /// only announces takes none, and no thread stands still to clear 32 MiB.
    fn mapped(len: usize) -> Allocation {
        let capacity = len.next_multiple_of(PAGE);
        let layout = Allocation::layout(capacity);
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping at an address that the kernel chooses.
        let raw = unsafe { libc::mmap(std::ptr::null_mut(), capacity, access, kind, -1, 0) };
        if raw == libc::MAP_FAILED {
            handle_alloc_error(layout);
        }
        let start = NonNull::new(raw.cast()).unwrap_or_else(|| handle_alloc_error(layout));
        Allocation { start, capacity }
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        if self.capacity > POOLED_BYTES_MAX {
            // SAFETY: mapped in `mapped` with this length and owned by us alone.
            unsafe { libc::munmap(self.start.as_ptr().cast(), self.capacity) };
            return;
        }
        let kept = class_of(self.capacity).is_some_and(|class| {
            POOL.try_with(|pool| {
                let list = &mut pool.borrow_mut()[class];
                let room = (list.len() + 1) * self.capacity <= POOL_CLASS_BYTES_MAX;
                if room {
                    list.push(self.start);
                }
                room
            })
            .unwrap_or(false)
        });
        if !kept {
            // SAFETY: allocated in `new` with this same layout and owned by us alone.
            unsafe { dealloc(self.start.as_ptr(), Allocation::layout(self.capacity)) };
        }
    }
}

/// A buffer with one owner, to be filled.
pub struct BufMut {
    allocation: Allocation,
    len: usize,
}

impl BufMut {
    /// `len` bytes whose content is arbitrary but defined (a recycled buffer keeps old bytes).
    pub fn with_len(len: usize) -> BufMut {
        BufMut { allocation: Allocation::new(len), len }
    }

    pub fn zeroed(len: usize) -> BufMut {
        let mut buf = BufMut::with_len(len);
        buf.fill(0);
        buf
    }

    pub fn from_slice(bytes: &[u8]) -> BufMut {
        let mut buf = BufMut::with_len(bytes.len());
        buf.copy_from_slice(bytes);
        buf
    }

    /// Shortens the buffer; the allocation stays.
    pub fn truncate(&mut self, len: usize) {
        assert!(len <= self.len, "a buffer can't grow");
        self.len = len;
    }

    pub fn freeze(self) -> Buf {
        let len = self.len;
        Buf { shared: Rc::new(self), start: 0, len }
    }
}

impl Deref for BufMut {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: the allocation holds at least `len` initialised bytes and lives as long as us.
        unsafe { std::slice::from_raw_parts(self.allocation.start.as_ptr(), self.len) }
    }
}

impl DerefMut for BufMut {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `&mut self` makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.allocation.start.as_ptr(), self.len) }
    }
}

impl std::fmt::Debug for BufMut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BufMut({} bytes)", self.len)
    }
}

/// A range of immutable shared bytes.
#[derive(Clone)]
pub struct Buf {
    shared: Rc<BufMut>,
    start: usize,
    len: usize,
}

impl Buf {
    pub fn zeroed(len: usize) -> Buf {
        BufMut::zeroed(len).freeze()
    }

    pub fn from_slice(bytes: &[u8]) -> Buf {
        BufMut::from_slice(bytes).freeze()
    }

    /// A part of this buffer, sharing its bytes.
    pub fn slice(&self, range: Range<usize>) -> Buf {
        assert!(range.start <= range.end && range.end <= self.len, "slice outside the buffer");
        Buf { shared: self.shared.clone(), start: self.start + range.start, len: range.len() }
    }

    /// True when the first byte lies on a multiple of `align` in memory.
    pub fn is_aligned(&self, align: usize) -> bool {
        self.start.is_multiple_of(align)
    }
}

impl Deref for Buf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.shared[self.start..self.start + self.len]
    }
}

/// So that pieces of a read can be put together (`pieces.concat()`).
impl Borrow<[u8]> for Buf {
    fn borrow(&self) -> &[u8] {
        self
    }
}

impl std::fmt::Debug for Buf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buf({} bytes)", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_page_aligned_and_slices_share_bytes() {
        for len in [0, 1, 511, 4096, 4097, 65536, 3 << 20] {
            let buf = BufMut::with_len(len);
            assert_eq!(buf.as_ptr() as usize % PAGE, 0);
            assert_eq!(buf.len(), len);
        }
        let buf = Buf::from_slice(b"hello world");
        let world = buf.slice(6..11);
        assert_eq!(&*world, b"world");
        assert_eq!(world.as_ptr(), buf[6..].as_ptr());
    }

    /// A client announces 32 MiB and sends 4 KiB of it.
    #[test]
    fn a_long_buffer_takes_memory_as_it_is_filled() {
        let taken = |buffers: &[BufMut]| {
            let pages = |buf: &BufMut| {
                let mut there = vec![0u8; buf.len().div_ceil(PAGE)];
                let start = buf.as_ptr().cast_mut().cast();
                // SAFETY: the kernel writes one byte for each page of a mapping that is ours.
                let result = unsafe { libc::mincore(start, buf.len(), there.as_mut_ptr()) };
                assert_eq!(result, 0);
                there.iter().filter(|&&page| page & 1 == 1).count() * PAGE
            };
            buffers.iter().map(pages).sum::<usize>()
        };
        let mut buffers: Vec<BufMut> = (0..4).map(|_| BufMut::with_len(32 << 20)).collect();
        assert_eq!(taken(&buffers), 0);
        buffers.iter_mut().for_each(|buf| buf[..PAGE].fill(7));
        let all = taken(&buffers);
        // The kernel may give it in larger pieces, one each.
        assert!((4 * PAGE..=4 * (2 << 20)).contains(&all), "{all}");
        assert!(buffers.iter().all(|buf| buf[PAGE..].iter().all(|&byte| byte == 0)));
    }

    #[test]
    fn a_recycled_buffer_is_reused_and_zeroed_on_request() {
        let mut first = BufMut::with_len(8192);
        first.fill(7);
        let address = first.as_ptr();
        drop(first);
        let second = BufMut::zeroed(8192);
        assert_eq!(second.as_ptr(), address);
        assert!(second.iter().all(|&byte| byte == 0));
    }
}

//! Questions to the kernel about an open file or block device.

use std::fs::{self, File, Metadata};
use std::io::{Seek, SeekFrom};
use std::mem;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// The alignments the engine can work with; everything it writes is made of 4096-byte pages.
const ALIGN_MIN: u64 = 512;
const ALIGN_MAX: u64 = 4096;

/// Asks whether a block device is write-protected; not in the `libc` crate for every target.
const BLKROGET: libc::Ioctl = 0x125e;

/// Of loop devices, in their numbers.
const LOOP_MAJOR: u32 = 7;

pub(super) struct Alignment {
    /// Of offsets and lengths.
    pub(super) offset: u64,
    pub(super) memory: u64,
}

/// What transfers must be aligned to.
pub(super) fn alignment(file: &File, block: bool, direct: bool) -> Alignment {
    if block {
        let sector = logical_sector(file).unwrap_or(ALIGN_MAX);
        return Alignment { offset: sector, memory: sector };
    }
    if !direct {
        return Alignment { offset: ALIGN_MIN, memory: 1 };
    }
    // A kernel before 6.1 can't tell; what every filesystem takes is right then.
    direct_io_alignment(file).unwrap_or(Alignment { offset: ALIGN_MAX, memory: ALIGN_MAX })
}

/// The alignment we use where the drive wants `align`, if it is one we can keep.
pub(super) fn checked(align: u64) -> Option<u32> {
    let usable = align.is_power_of_two() && align <= ALIGN_MAX;
    usable.then(|| align.max(ALIGN_MIN) as u32)
}

/// Bytes that a power cut does not tear: of a file its filesystem's block, of which the disk below
/// may write less at a time. A disk tells its physical sector; a partition need not begin at one.
pub(super) fn atomic(device: libc::dev_t, block_of_file: Option<u64>) -> u32 {
    let physical = queue_limit(device, "physical_block_size");
    let least = physical.or(block_of_file).unwrap_or(ALIGN_MIN);
    let bytes = block_of_file.map_or(least, |block| block.min(least));
    let usable = bytes.is_power_of_two() && !is_misaligned(device);
    if usable { bytes.clamp(ALIGN_MIN, ALIGN_MAX) as u32 } else { ALIGN_MIN as u32 }
}

fn is_misaligned(device: libc::dev_t) -> bool {
    let (major, minor) = (libc::major(device), libc::minor(device));
    let path = format!("/sys/dev/block/{major}:{minor}/alignment_offset");
    fs::read_to_string(path).is_ok_and(|offset| offset.trim() != "0")
}

fn logical_sector(file: &File) -> Option<u64> {
    let mut size: libc::c_int = 0;
    // SAFETY: the kernel writes one int into `size`.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), libc::BLKSSZGET, &raw mut size) };
    (result == 0).then_some(u64::try_from(size).ok()?)
}

fn direct_io_alignment(file: &File) -> Option<Alignment> {
    let answer = ask(file, libc::STATX_DIOALIGN)?;
    (answer.stx_dio_offset_align != 0).then(|| Alignment {
        offset: u64::from(answer.stx_dio_offset_align),
        memory: u64::from(answer.stx_dio_mem_align),
    })
}

/// An open drive now.
pub(super) struct State {
    /// No directory has it any more, as far as its filesystem can tell.
    pub(super) is_deleted: bool,
    /// Its name leads to something, and that is not it.
    pub(super) is_elsewhere: bool,
    /// Bytes; `None` if nobody can tell.
    pub(super) size: Option<u64>,
}

pub(super) fn state(mut file: &File, path: &Path) -> State {
    let links = ask(file, libc::STATX_NLINK);
    // Of files and devices alike, and nobody reads or writes from where a descriptor stands.
    let size = file.seek(SeekFrom::End(0)).ok();
    let is_elsewhere = match (file.metadata(), fs::metadata(path)) {
        (Ok(own), Ok(named)) => identity(&own) != identity(&named),
        _ => false,
    };
    State { is_deleted: links.is_some_and(|answer| answer.stx_nlink == 0), is_elsewhere, size }
}

/// What tells files apart, and devices, of which one may have several nodes.
fn identity(of: &Metadata) -> (bool, u64, u64) {
    match of.file_type().is_block_device() {
        true => (true, of.rdev(), 0),
        false => (false, of.dev(), of.ino()),
    }
}

/// Filesystems of this machine: they ask nobody who might not answer.
const LOCAL: [i64; 10] = [
    0xef53,      // ext2, ext3, ext4
    0x5846_5342, // XFS
    0x9123_683e, // Btrfs
    0x0102_1994, // tmpfs
    0xf2f5_2010, // F2FS
    0x2fc1_2fc1, // ZFS
    0xca45_1a4e, // bcachefs
    0x794c_7630, // overlayfs
    0x4d44,      // FAT
    0x8584_58f6, // ramfs
];

/// Whether calls about it may wait for somebody who is not of this machine.
pub(super) fn may_hang(file: &File) -> bool {
    // SAFETY: all zeroes is a valid `statfs`, and the kernel writes one.
    let kind = unsafe {
        let mut answer: libc::statfs = mem::zeroed();
        (libc::fstatfs(file.as_raw_fd(), &raw mut answer) == 0).then_some(answer.f_type)
    };
    !kind.is_some_and(|kind| LOCAL.contains(&kind))
}

/// What `mask` names of an open file; `None` if the kernel or the filesystem can't tell.
fn ask(file: &File, mask: libc::c_uint) -> Option<libc::statx> {
    // SAFETY: all zeroes is a valid `statx`, which holds only numbers.
    let mut answer: libc::statx = unsafe { mem::zeroed() };
    let (fd, flags) = (file.as_raw_fd(), libc::AT_EMPTY_PATH);
    // SAFETY: the path is a NUL-terminated literal, and the kernel writes one `statx`.
    let result = unsafe { libc::statx(fd, c"".as_ptr(), flags, mask, &raw mut answer) };
    (result == 0 && answer.stx_mask & mask == mask).then_some(answer)
}

pub(super) fn is_write_protected(file: &File) -> bool {
    let mut protected: libc::c_int = 0;
    // SAFETY: the kernel writes one int into `protected`.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), BLKROGET, &raw mut protected) };
    result == 0 && protected != 0
}

/// Whether the disk behind a device number spins; a guess of "no" where nobody knows.
pub(super) fn is_rotational(device: libc::dev_t) -> bool {
    queue_limit(device, "rotational") == Some(1)
}

/// What the queue of a block device says of discards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DiscardLimits {
    /// Bytes of one discard at most; 0: the device has none.
    pub(super) max_bytes: u64,
    /// Space is freed in units of so many bytes.
    pub(super) granularity: u32,
}

/// `None` if there is no such queue, or no /sys.
pub(super) fn discard_limits(device: libc::dev_t) -> Option<DiscardLimits> {
    let granularity = queue_limit(device, "discard_granularity").unwrap_or(0);
    let granularity = u32::try_from(granularity).unwrap_or(u32::MAX);
    Some(DiscardLimits { max_bytes: queue_limit(device, "discard_max_bytes")?, granularity })
}

/// Whether a device that has discards frees what it is told to write zeroes to. Since Linux 6.17
/// its queue says so, but for loop devices, which do, since their file gets a hole. Of older
/// kernels: that it knows the command.
pub(super) fn unmaps_zeroes(device: libc::dev_t) -> bool {
    let knows = queue_limit(device, "write_zeroes_max_bytes").is_some_and(|most| most > 0);
    let says = queue_limit(device, "write_zeroes_unmap_max_hw_bytes");
    knows && (libc::major(device) == LOOP_MAJOR || says.is_none_or(|most| most > 0))
}

/// A number that the kernel tells of a device's queue.
fn queue_limit(device: libc::dev_t, name: &str) -> Option<u64> {
    let (major, minor) = (libc::major(device), libc::minor(device));
    // The queue of a partition is its disk's, one directory up.
    ["queue", "../queue"].iter().find_map(|queue| {
        let path = format!("/sys/dev/block/{major}:{minor}/{queue}/{name}");
        fs::read_to_string(path).ok()?.trim().parse().ok()
    })
}

//! The operations we use, each with the memory it lends to the kernel.

use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::rc::Rc;

use io_uring::squeue::Flags;
use io_uring::{opcode, types};

use super::handle::Handle;
use super::message::Message;
use super::ring::{Held, Ring};
use crate::buf::{Buf, BufMut};

/// Bytes of one transfer: fits the kernel's 32-bit length and its own limit (2 GiB - 4 KiB)
/// and is a multiple of every alignment. Callers loop anyway.
const TRANSFER_MAX: usize = 1 << 30;

/// From so many bytes on the kernel copies what is sent in a thread of its own, which takes it some
/// ten microseconds to wake: this one would copy for longer, and keep all others waiting.
const COPIED_APART_BYTES: usize = 128 << 10;

/// The kernel's `_IO(0x12, 0)`.
const BLOCK_URING_CMD_DISCARD: u32 = 0x1200;

type File = Rc<Handle>;

fn fd(file: &File) -> types::Fd {
    types::Fd(file.as_raw_fd())
}

/// The kernel's answer: a count, or a negated error number.
fn outcome(result: i32) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result))
}

fn transfer_len(range: &Range<usize>) -> u32 {
    range.len().min(TRANSFER_MAX) as u32
}

fn filled((result, held): (i32, Held)) -> (BufMut, io::Result<usize>) {
    match held {
        Held::Fill(buf) => (buf, outcome(result)),
        _ => unreachable!("an operation gives back what it was lent"),
    }
}

impl Ring {
    /// Reads at most `range.len()` bytes at `offset` into `buf[range]`.
    pub(crate) async fn read(
        &self,
        file: &File,
        mut buf: BufMut,
        range: Range<usize>,
        offset: u64,
    ) -> (BufMut, io::Result<usize>) {
        let len = transfer_len(&range);
        let entry = opcode::Read::new(fd(file), buf[range].as_mut_ptr(), len).offset(offset);
        // SAFETY: the entry points into `buf`, whose bytes are on the heap and given along.
        filled(unsafe { self.start(file, entry.build(), Held::Fill(buf)) }.await)
    }

    /// Writes at most `data[range]` at `offset`.
    pub(crate) async fn write(
        &self,
        file: &File,
        data: &Buf,
        range: Range<usize>,
        offset: u64,
        flags: i32,
    ) -> io::Result<usize> {
        let len = transfer_len(&range);
        let entry = opcode::Write::new(fd(file), data[range].as_ptr(), len);
        let entry = entry.offset(offset).rw_flags(flags).build();
        // SAFETY: the entry points into `data`, of which a reference is given along.
        outcome(unsafe { self.start(file, entry, Held::Bytes(data.clone())) }.await.0)
    }

    pub(crate) async fn fdatasync(&self, file: &File) -> io::Result<()> {
        let entry = opcode::Fsync::new(fd(file)).flags(types::FsyncFlags::DATASYNC).build();
        // SAFETY: no memory is involved.
        outcome(unsafe { self.start(file, entry, Held::Nothing) }.await.0).map(drop)
    }

    /// Frees the space of a range of a file; the size stays.
    pub(crate) async fn punch_hole(&self, file: &File, offset: u64, len: u64) -> io::Result<()> {
        self.fallocate(file, libc::FALLOC_FL_PUNCH_HOLE, (offset, len)).await
    }

    /// Reads give zeroes from now on; space and size stay.
    pub(crate) async fn zero_range(&self, file: &File, offset: u64, len: u64) -> io::Result<()> {
        self.fallocate(file, libc::FALLOC_FL_ZERO_RANGE, (offset, len)).await
    }

    async fn fallocate(&self, file: &File, how: i32, (offset, len): (u64, u64)) -> io::Result<()> {
        let mode = how | libc::FALLOC_FL_KEEP_SIZE;
        let entry = opcode::Fallocate::new(fd(file), len).offset(offset).mode(mode).build();
        // SAFETY: no memory is involved.
        outcome(unsafe { self.start(file, entry, Held::Nothing) }.await.0).map(drop)
    }

    /// Tells a block device that a range holds nothing. Linux 6.12 or newer.
    pub(crate) async fn discard(&self, file: &File, offset: u64, len: u64) -> io::Result<()> {
        let mut command = [0; 16];
        #[expect(clippy::disallowed_methods, reason = "the kernel reads in the machine's order")]
        command[..8].copy_from_slice(&len.to_ne_bytes());
        let entry = opcode::UringCmd16::new(fd(file), BLOCK_URING_CMD_DISCARD);
        let entry = entry.addr(Some(offset)).cmd(command).build();
        // SAFETY: no memory is involved: what looks like addresses are an offset and a length.
        outcome(unsafe { self.start(file, entry, Held::Nothing) }.await.0).map(drop)
    }

    /// Receives at least one byte into `buf[range]`, or 0 at the end of the stream.
    pub(crate) async fn recv(
        &self,
        socket: &File,
        mut buf: BufMut,
        range: Range<usize>,
    ) -> (BufMut, io::Result<usize>) {
        let len = transfer_len(&range);
        let entry = opcode::Recv::new(fd(socket), buf[range].as_mut_ptr(), len).build();
        // SAFETY: the entry points into `buf`, whose bytes are on the heap and given along.
        filled(unsafe { self.start(socket, entry, Held::Fill(buf)) }.await)
    }

    /// Sends what is left of the message, or the first part of it.
    pub(crate) async fn send(
        &self,
        socket: &File,
        mut message: Box<Message>,
    ) -> (Box<Message>, io::Result<usize>) {
        let flags = (libc::MSG_NOSIGNAL | libc::MSG_WAITALL) as u32;
        let entry = opcode::SendMsg::new(fd(socket), message.header()).flags(flags).build();
        let apart = message.left() >= COPIED_APART_BYTES;
        let entry = if apart { entry.flags(Flags::ASYNC) } else { entry };
        // SAFETY: the header is in the box, its vectors are on the heap and point to pieces
        // the message owns; the box is given along.
        let (result, held) = unsafe { self.start(socket, entry, Held::Message(message)) }.await;
        match held {
            Held::Message(message) => (message, outcome(result)),
            _ => unreachable!("an operation gives back what it was lent"),
        }
    }

    pub(crate) async fn accept(&self, socket: &File) -> io::Result<OwnedFd> {
        let entry = opcode::Accept::new(fd(socket), ptr::null_mut(), ptr::null_mut());
        let entry = entry.flags(libc::SOCK_CLOEXEC).build();
        // SAFETY: no memory is involved: the peer's address is not asked for.
        let result = unsafe { self.start(socket, entry, Held::Accept) }.await.0;
        outcome(result)?;
        // SAFETY: a successful accept returns a new descriptor that nobody else owns.
        Ok(unsafe { OwnedFd::from_raw_fd(result) })
    }
}

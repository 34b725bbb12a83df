//! A message of many pieces: the structures `sendmsg` points to, and what is still to be sent.

use std::mem;
use std::ptr;

use crate::buf::Buf;

/// Pieces the kernel takes in one call (`UIO_MAXIOV`); a longer message takes several.
const PIECES_MAX: usize = 1024;

/// Boxed, because the kernel gets its address.
pub(crate) struct Message {
    /// Keeps the bytes alive that `vectors` points to.
    _pieces: Vec<Buf>,
    vectors: Vec<libc::iovec>,
    /// The first vector with bytes left.
    first: usize,
    header: libc::msghdr,
}

impl Message {
    pub(crate) fn new(pieces: Vec<Buf>) -> Box<Message> {
        let vectors = pieces
            .iter()
            .filter(|piece| !piece.is_empty())
            .map(|piece| libc::iovec {
                iov_base: piece.as_ptr().cast_mut().cast(),
                iov_len: piece.len(),
            })
            .collect();
        // SAFETY: all zeroes is a valid `msghdr`: null pointers with zero lengths.
        let header = unsafe { mem::zeroed() };
        Box::new(Message { _pieces: pieces, vectors, first: 0, header })
    }

    pub(crate) fn is_sent(&self) -> bool {
        self.first == self.vectors.len()
    }

    /// Bytes that are left.
    pub(crate) fn left(&self) -> usize {
        self.vectors[self.first..].iter().map(|vector| vector.iov_len).sum()
    }

    /// The header of what is left; valid until the message is changed or dropped.
    pub(crate) fn header(&mut self) -> *const libc::msghdr {
        let rest = &mut self.vectors[self.first..];
        self.header.msg_iovlen = rest.len().min(PIECES_MAX);
        self.header.msg_iov = rest.as_mut_ptr();
        ptr::from_ref(&self.header)
    }

    /// Takes note that `count` more bytes are sent.
    pub(crate) fn advance(&mut self, mut count: usize) {
        while count > 0 {
            let vector = &mut self.vectors[self.first];
            let step = count.min(vector.iov_len);
            // SAFETY: `step` is at most the length of the piece behind the pointer.
            vector.iov_base = unsafe { vector.iov_base.cast::<u8>().add(step) }.cast();
            vector.iov_len -= step;
            count -= step;
            if vector.iov_len == 0 {
                self.first += 1;
            }
        }
    }
}

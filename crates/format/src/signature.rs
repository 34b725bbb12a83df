//! Whose drive is this? Signatures of other formats, so that making a pool never eats a
//! filesystem, and our own labels.
//!
//! ```text
//!   0          1 MiB                              size - 1 MiB        size
//!   | head ..... |                                    | ......... tail |
//! ```
//! `head` and `tail` are what the caller read: at least 1 MiB each, or the whole drive. Tails of
//! 2 MiB also hold our labels when the size is no multiple of 1 MiB. What lies outside is not
//! seen. `offset` is where the magic bytes are.

mod checks;
mod magic;

use crate::drive::{LABEL_LEN, LABEL_MAGIC, Superblock, label_offsets};
use crate::ids::Uuid;
use std::fmt;

/// Another format's signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Foreign {
    /// As an operator calls it: `ext4`, `LVM2 physical volume`.
    pub what: &'static str,
    /// Label, version or uuid, where cheap; may be empty.
    pub detail: String,
    pub offset: u64,
}

impl fmt::Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.what, self.offset)?;
        if self.detail.is_empty() { Ok(()) } else { write!(f, " ({})", self.detail) }
    }
}

/// A label of ours, whole or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Own {
    /// The pool, if the label can be read.
    pub pool: Option<Uuid>,
    /// Pool name and generation, or why it cannot be read.
    pub detail: String,
    pub offset: u64,
}

/// The first foreign signature, the most telling kinds first.
pub fn probe(head: &[u8], tail: &[u8], size: u64) -> Option<Foreign> {
    probe_all(head, tail, size).into_iter().next()
}

/// All foreign signatures: what is to be named to the operator, and wiped.
pub fn probe_all(head: &[u8], tail: &[u8], size: u64) -> Vec<Foreign> {
    let view = View { head, tail, size };
    let mut found = Vec::new();
    checks::probe(&view, &mut found);
    magic::probe(&view, &mut found);
    checks::probe_partitions(&view, &mut found);
    found
}

/// The first of our own labels that is there at all: a readable one, or else a damaged one.
pub fn own_label(head: &[u8], tail: &[u8], size: u64) -> Option<Own> {
    let view = View { head, tail, size };
    let mut damaged = None;
    for offset in label_offsets(size) {
        if view.at(offset, LABEL_MAGIC.len()) != Some(&LABEL_MAGIC) {
            continue;
        }
        match Superblock::decode(view.at(offset, LABEL_LEN).unwrap_or(&LABEL_MAGIC)) {
            Ok((label, _)) => {
                let detail = format!("pool '{}', generation {}", label.pool_name, label.generation);
                return Some(Own { pool: Some(label.pool), detail, offset });
            }
            Err(error) => {
                damaged.get_or_insert(Own { pool: None, detail: error.to_string(), offset });
            }
        }
    }
    damaged
}

/// What was read of a drive.
struct View<'a> {
    head: &'a [u8],
    tail: &'a [u8],
    size: u64,
}

impl<'a> View<'a> {
    /// `len` bytes at `offset` of the drive, if they were read.
    fn at(&self, offset: u64, len: usize) -> Option<&'a [u8]> {
        if offset.checked_add(len as u64)? > self.size {
            return None;
        }
        let part = |bytes: &'a [u8], start: u64| {
            let from = usize::try_from(offset.checked_sub(start)?).ok()?;
            bytes.get(from..from.checked_add(len)?)
        };
        let tail_start = self.size.checked_sub(self.tail.len() as u64);
        part(self.head, 0).or_else(|| part(self.tail, tail_start?))
    }

    fn array<const N: usize>(&self, offset: u64) -> Option<[u8; N]> {
        self.at(offset, N)?.try_into().ok()
    }

    fn is(&self, offset: u64, magic: &[u8]) -> bool {
        self.at(offset, magic.len()) == Some(magic)
    }

    fn u8(&self, offset: u64) -> Option<u8> {
        self.array::<1>(offset).map(|[byte]| byte)
    }

    fn u16(&self, offset: u64) -> Option<u16> {
        self.array(offset).map(u16::from_le_bytes)
    }

    fn u32(&self, offset: u64) -> Option<u32> {
        self.array(offset).map(u32::from_le_bytes)
    }

    fn u64(&self, offset: u64) -> Option<u64> {
        self.array(offset).map(u64::from_le_bytes)
    }

    fn uuid(&self, offset: u64) -> Option<Uuid> {
        self.array(offset).map(Uuid)
    }

    /// Text of a field padded with zeroes or spaces, if there is any.
    fn text(&self, offset: u64, len: usize) -> Option<String> {
        let bytes = self.at(offset, len)?;
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(len);
        let text = String::from_utf8_lossy(&bytes[..end]);
        let text: String = text.trim().chars().filter(|c| !c.is_control()).collect();
        (!text.is_empty()).then_some(text)
    }

    /// "label 'x'", or nothing.
    fn label(&self, offset: u64, len: usize) -> String {
        self.text(offset, len).map_or_else(String::new, |text| format!("label '{text}'"))
    }
}

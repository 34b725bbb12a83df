//! Replies of the transmission phase. The data of reads is not copied here: these functions
//! append the header that goes in front of it.

use super::{CONTEXT_ID, Errno, SIMPLE_REPLY_MAGIC, STRUCTURED_REPLY_MAGIC};
use crate::limits::{ERROR_TEXT_MAX, EXTENTS_MAX};
use crate::volume::Extent;

const FLAG_DONE: u16 = 1;

const NONE: u16 = 0;
const OFFSET_DATA: u16 = 1;
const BLOCK_STATUS: u16 = 5;
const ERROR: u16 = 1 << 15 | 1;

/// Hole, and reads as zeroes.
const STATE_HOLE_ZERO: u32 = 1 | 2;

/// Success without data, or success before the data of a read.
pub fn simple(out: &mut Vec<u8>, cookie: u64) {
    simple_header(out, cookie, 0);
}

pub fn simple_error(out: &mut Vec<u8>, cookie: u64, errno: Errno) {
    simple_header(out, cookie, errno as u32);
}

fn simple_header(out: &mut Vec<u8>, cookie: u64, error: u32) {
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&SIMPLE_REPLY_MAGIC.to_be_bytes());
    bytes[4..8].copy_from_slice(&error.to_be_bytes());
    bytes[8..].copy_from_slice(&cookie.to_be_bytes());
    out.extend_from_slice(&bytes);
}

/// Every structured reply we send is a single chunk, hence always the last one. One chunk
/// also satisfies "don't fragment".
fn chunk(out: &mut Vec<u8>, cookie: u64, kind: u16, len: u32) {
    let mut bytes = [0; 20];
    bytes[..4].copy_from_slice(&STRUCTURED_REPLY_MAGIC.to_be_bytes());
    bytes[4..6].copy_from_slice(&FLAG_DONE.to_be_bytes());
    bytes[6..8].copy_from_slice(&kind.to_be_bytes());
    bytes[8..16].copy_from_slice(&cookie.to_be_bytes());
    bytes[16..].copy_from_slice(&len.to_be_bytes());
    out.extend_from_slice(&bytes);
}

pub fn none(out: &mut Vec<u8>, cookie: u64) {
    chunk(out, cookie, NONE, 0);
}

/// Goes before `len` bytes of data. Not for empty reads: a data chunk has at least one byte.
pub fn offset_data(out: &mut Vec<u8>, cookie: u64, offset: u64, len: u32) {
    chunk(out, cookie, OFFSET_DATA, len + 8);
    out.extend_from_slice(&offset.to_be_bytes());
}

pub fn error(out: &mut Vec<u8>, cookie: u64, errno: Errno, text: &str) {
    let text = shortened(text);
    chunk(out, cookie, ERROR, 6 + text.len() as u32);
    out.extend_from_slice(&(errno as u32).to_be_bytes());
    out.extend_from_slice(&(text.len() as u16).to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}

fn shortened(text: &str) -> &str {
    let mut end = text.len().min(ERROR_TEXT_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Descriptors for at most `len` bytes. Neighbours in the same state become one; `one` asks
/// for a single descriptor.
pub fn block_status(out: &mut Vec<u8>, cookie: u64, len: u32, extents: &[Extent], one: bool) {
    let descriptors = describe(len, extents, if one { 1 } else { EXTENTS_MAX });
    chunk(out, cookie, BLOCK_STATUS, 4 + 8 * descriptors.len() as u32);
    out.extend_from_slice(&CONTEXT_ID.to_be_bytes());
    for (len, state) in descriptors {
        out.extend_from_slice(&len.to_be_bytes());
        out.extend_from_slice(&state.to_be_bytes());
    }
}

fn describe(len: u32, extents: &[Extent], max: usize) -> Vec<(u32, u32)> {
    let mut descriptors: Vec<(u32, u32)> = Vec::new();
    let mut left = len;
    for extent in extents {
        let covered = u32::try_from(extent.len).unwrap_or(u32::MAX).min(left);
        let state = if extent.allocated { 0 } else { STATE_HOLE_ZERO };
        let full = descriptors.len() == max;
        match descriptors.last_mut() {
            _ if covered == 0 => continue,
            Some((sum, last)) if *last == state => *sum += covered,
            _ if full => break,
            _ => descriptors.push((covered, state)),
        }
        left -= covered;
    }
    if descriptors.is_empty() {
        // The protocol demands one; "allocated" is always safe to say.
        descriptors.push((len, 0));
    }
    descriptors
}

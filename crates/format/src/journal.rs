//! A journal block: a header and records, written at 4 KiB steps of a drive's ring.
//!
//! ```text
//!       0        1        2        3        4        5        6        7
//!  0 | magic "STDYJRNL"                                                      |
//!  8 | version         | shard           | copies | 0                        |
//! 16 | pool uuid (16)                                                        |
//! 32 | epoch                                                                 |
//! 40 | sequence                                                              |
//! 48 | durable: all data of blocks up to this sequence is on its drives      |
//! 56 | records                           | length, header and records        |
//! 64 | crc32c of the records             | crc32c of bytes 0..68             |
//! 72 | 0                                                                     |
//! 80 | records (see record.rs), then zero up to a multiple of 4096           |
//! ```
//! The header has its own checksum, so its length can be trusted before the rest is read; the
//! records' checksum lies inside the header's.

use crate::VERSION;
use crate::cursor::{Reader, Writer, put_u32};
use crate::drive::{check_crc, check_magic, check_version};
use crate::error::{FormatError, check};
use crate::ids::Uuid;
use crate::record::{RECORD_HEADER_LEN, Record};

pub const JOURNAL_MAGIC: [u8; 8] = *b"STDYJRNL";
/// Blocks begin and end at multiples of this.
pub const JOURNAL_ALIGN: usize = 4096;
/// Longest block.
pub const JOURNAL_BLOCK_MAX: usize = 256 << 10;
pub const JOURNAL_HEADER_LEN: usize = 80;

const AT_HEADER_CRC: usize = 68;

/// What a journal block says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JournalHeader {
    pub pool: Uuid,
    pub shard: u16,
    pub epoch: u64,
    pub sequence: u64,
    /// Every record in blocks up to this one has its data on the drives.
    pub durable: u64,
    /// How many drives got this block.
    pub copies: u8,
    pub records: u32,
    /// Bytes of header and records, before padding.
    pub len: u32,
}

impl JournalHeader {
    /// Bytes this block takes in the ring.
    pub fn padded_len(&self) -> usize {
        (self.len as usize).next_multiple_of(JOURNAL_ALIGN)
    }
}

/// Collects records of one block. Pushing encodes in place; nothing is allocated per record.
#[derive(Clone, Debug)]
pub struct BlockBuilder {
    bytes: Vec<u8>,
    records: u32,
}

impl Default for BlockBuilder {
    fn default() -> Self {
        BlockBuilder::new()
    }
}

impl BlockBuilder {
    pub fn new() -> BlockBuilder {
        let mut bytes = Vec::with_capacity(JOURNAL_ALIGN);
        bytes.resize(JOURNAL_HEADER_LEN, 0);
        BlockBuilder { bytes, records: 0 }
    }

    /// Appends `record`, or returns false and changes nothing when the block would grow past
    /// `JOURNAL_BLOCK_MAX`. Panics on a record that could not be read back.
    #[must_use]
    pub fn push(&mut self, record: &Record) -> bool {
        let before = self.bytes.len();
        record.encode(&mut self.bytes);
        if self.bytes.len() > JOURNAL_BLOCK_MAX {
            self.bytes.truncate(before);
            return false;
        }
        self.records += 1;
        true
    }

    /// The same of several records: all of them, or none.
    #[must_use]
    pub fn push_all(&mut self, records: &[Record]) -> bool {
        let before = (self.bytes.len(), self.records);
        let fit = records.iter().all(|record| self.push(record));
        if !fit {
            self.bytes.truncate(before.0);
            self.records = before.1;
        }
        fit
    }

    /// Bytes of header and records so far.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes the block would take in the ring.
    pub fn padded_len(&self) -> usize {
        self.bytes.len().next_multiple_of(JOURNAL_ALIGN)
    }

    pub fn is_empty(&self) -> bool {
        self.records == 0
    }

    pub fn records(&self) -> u32 {
        self.records
    }

    /// Seals the block into `out` (at least `padded_len` bytes), empties the builder and returns
    /// how many bytes to write. `records` and `len` of `header` are not looked at.
    pub fn finish_into(&mut self, header: &JournalHeader, out: &mut [u8]) -> usize {
        let (len, padded) = (self.bytes.len(), self.padded_len());
        let mut head = Vec::with_capacity(JOURNAL_HEADER_LEN);
        let mut w = Writer(&mut head);
        w.bytes(&JOURNAL_MAGIC);
        w.u16(VERSION);
        w.u16(header.shard);
        w.u8(header.copies);
        w.zeros(3);
        w.uuid(&header.pool);
        w.u64(header.epoch);
        w.u64(header.sequence);
        w.u64(header.durable);
        w.u32(self.records);
        w.u32(len as u32);
        w.u32(crc32c::crc32c(&self.bytes[JOURNAL_HEADER_LEN..]));
        w.zeros(JOURNAL_HEADER_LEN - AT_HEADER_CRC);
        let crc = crc32c::crc32c(&head[..AT_HEADER_CRC]);
        put_u32(&mut head, AT_HEADER_CRC, crc);
        out[..JOURNAL_HEADER_LEN].copy_from_slice(&head);
        out[JOURNAL_HEADER_LEN..len].copy_from_slice(&self.bytes[JOURNAL_HEADER_LEN..]);
        out[len..padded].fill(0);
        self.bytes.truncate(JOURNAL_HEADER_LEN);
        self.records = 0;
        padded
    }

    /// As `finish_into`, into fresh bytes.
    pub fn finish(&mut self, header: &JournalHeader) -> Vec<u8> {
        let mut out = vec![0; self.padded_len()];
        self.finish_into(header, &mut out);
        out
    }
}

/// The header at the start of `bytes` (4 KiB are enough); the records are not looked at.
pub fn peek_header(bytes: &[u8]) -> Result<JournalHeader, FormatError> {
    read_header(bytes).map(|(header, _)| header)
}

fn read_header(bytes: &[u8]) -> Result<(JournalHeader, u32), FormatError> {
    let mut r = Reader::new(bytes);
    check_magic(&mut r, &JOURNAL_MAGIC)?;
    let head = bytes.get(..JOURNAL_HEADER_LEN).ok_or(FormatError::Truncated)?;
    let found = Reader::new(&head[AT_HEADER_CRC..]).u32()?;
    check_crc(crc32c::crc32c(&head[..AT_HEADER_CRC]), found)?;
    check_version(r.u16()?)?;
    let (shard, copies) = (r.u16()?, r.u8()?);
    r.zeros(3)?;
    let pool = r.uuid()?;
    let (epoch, sequence, durable) = (r.u64()?, r.u64()?, r.u64()?);
    let (records, len, body_crc) = (r.u32()?, r.u32()?, r.u32()?);
    r.take(4)?;
    r.zeros(JOURNAL_HEADER_LEN - AT_HEADER_CRC - 4)?;
    let fits = (JOURNAL_HEADER_LEN..=JOURNAL_BLOCK_MAX).contains(&(len as usize));
    check(fits, "journal block length", len.into())?;
    let header = JournalHeader { pool, shard, epoch, sequence, durable, copies, records, len };
    Ok((header, body_crc))
}

/// The block at the start of `bytes`: all of it, or an error.
pub fn decode_block(
    bytes: &[u8],
    pool: &Uuid,
) -> Result<(JournalHeader, Vec<Record>), FormatError> {
    let (header, body_crc) = read_header(bytes)?;
    if header.pool != *pool {
        return Err(FormatError::WrongPool { expected: *pool, found: header.pool });
    }
    let block = bytes.get(..header.len as usize).ok_or(FormatError::Truncated)?;
    let body = &block[JOURNAL_HEADER_LEN..];
    check_crc(crc32c::crc32c(body), body_crc)?;
    let mut r = Reader::new(body);
    let count = r.count(header.records as usize, RECORD_HEADER_LEN)?;
    let mut records = Vec::with_capacity(count);
    for _ in 0..count {
        records.push(Record::read(&mut r)?);
    }
    r.end()?;
    Ok((header, records))
}

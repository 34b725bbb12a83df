//! Journal blocks and their records.
//!
//! First byte 0: a block of which pool and checksums are made right; 1: also its length and the
//! number of its records; else one record.

use format::{
    BlockBuilder, JOURNAL_BLOCK_MAX, JOURNAL_HEADER_LEN, Record, decode_block, peek_header,
};

use crate::samples::{self, POOL};
use crate::{put, with_kind};

const AT_POOL: usize = 16;
const AT_RECORDS: usize = 56;
const AT_LEN: usize = 60;
const AT_BODY_CRC: usize = 64;
const AT_HEADER_CRC: usize = 68;
const RECORD_HEADER: usize = 3;

pub fn run(bytes: &[u8]) -> bool {
    match bytes.split_first() {
        None => false,
        Some((&kind @ 0..=1, block)) => check(&sealed(block, kind == 1)),
        Some((_, record)) => match Record::decode(record) {
            Ok((record, len)) => check_record(&record, &bytes[1..=len]),
            Err(_) => false,
        },
    }
}

fn count_records(mut body: &[u8]) -> u32 {
    let mut count = 0;
    while let Some(header) = body.get(..RECORD_HEADER) {
        let len = RECORD_HEADER + usize::from(u16::from_le_bytes([header[1], header[2]]));
        body = body.get(len..).unwrap_or_default();
        count += 1;
    }
    count
}

fn sealed(bytes: &[u8], with_length: bool) -> Vec<u8> {
    let mut block = bytes[..bytes.len().min(JOURNAL_BLOCK_MAX)].to_vec();
    block.resize(block.len().max(JOURNAL_HEADER_LEN), 0);
    put(&mut block, 0, b"STDYJRNL");
    put(&mut block, AT_POOL, &POOL.0);
    if with_length {
        let (len, records) = (block.len() as u32, count_records(&block[JOURNAL_HEADER_LEN..]));
        put(&mut block, AT_LEN, &len.to_le_bytes());
        put(&mut block, AT_RECORDS, &records.to_le_bytes());
    }
    let len = u32::from_le_bytes([block[60], block[61], block[62], block[63]]) as usize;
    let body = block.get(JOURNAL_HEADER_LEN..len).unwrap_or_default();
    let crc = crc32c::crc32c(body);
    put(&mut block, AT_BODY_CRC, &crc.to_le_bytes());
    let crc = crc32c::crc32c(&block[..AT_HEADER_CRC]);
    put(&mut block, AT_HEADER_CRC, &crc.to_le_bytes());
    block
}

fn check(block: &[u8]) -> bool {
    let peeked = peek_header(block);
    let Ok((header, records)) = decode_block(block, &POOL) else { return false };
    assert_eq!(peeked, Ok(header));
    let mut builder = BlockBuilder::new();
    assert!(records.iter().all(|record| builder.push(record)), "it was one block");
    let again = decode_block(&builder.finish(&header), &POOL);
    assert_eq!(again, Ok((header, records)));
    true
}

fn check_record(record: &Record, read: &[u8]) -> bool {
    let mut bytes = Vec::new();
    record.encode(&mut bytes);
    assert_eq!(bytes, read);
    assert!(!record.to_string().is_empty());
    true
}

pub fn seeds() -> Vec<Vec<u8>> {
    let mut builder = BlockBuilder::new();
    let mut all = Vec::new();
    for record in samples::records() {
        assert!(builder.push(&record), "few fit a block");
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        all.push(with_kind(2, &bytes));
    }
    let len = builder.len();
    let block = builder.finish(&samples::journal_header());
    all.push(with_kind(0, &block[..len]));
    all.push(with_kind(1, &block[..len]));
    all
}

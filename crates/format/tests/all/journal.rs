//! Journal blocks: building, limits, reading back.

use crate::samples::{self, POOL, any_record, journal_header};
use format::*;
use proptest::prelude::*;

proptest! {
    #[test]
    fn round_trip(records in proptest::collection::vec(any_record(), 0..40)) {
        let mut block = BlockBuilder::new();
        for record in &records {
            prop_assert!(block.push(record));
        }
        let (len, padded) = (block.len(), block.padded_len());
        prop_assert_eq!(block.records() as usize, records.len());
        let bytes = block.finish(&journal_header());
        prop_assert_eq!(bytes.len(), padded);
        prop_assert_eq!(bytes.len() % JOURNAL_ALIGN, 0);
        prop_assert!(bytes[len..].iter().all(|byte| *byte == 0));
        let expected =
            JournalHeader { records: records.len() as u32, len: len as u32, ..journal_header() };
        prop_assert_eq!(peek_header(&bytes[..JOURNAL_ALIGN]).unwrap(), expected);
        prop_assert_eq!(expected.padded_len(), padded);
        prop_assert_eq!(decode_block(&bytes, &POOL).unwrap(), (expected, records));
    }
}

#[test]
fn a_builder_is_empty_after_finishing() {
    let mut block = BlockBuilder::new();
    let record = &samples::records()[0];
    assert!(block.is_empty() && block.push(record) && !block.is_empty());
    let first = block.finish(&journal_header());
    assert!(block.is_empty());
    assert_eq!(block.len(), JOURNAL_HEADER_LEN);
    assert!(block.push(record));
    let mut out = vec![0xff; 3 * JOURNAL_ALIGN];
    assert_eq!(block.finish_into(&journal_header(), &mut out), JOURNAL_ALIGN);
    assert_eq!(out[..JOURNAL_ALIGN], first);
    assert!(out[JOURNAL_ALIGN..].iter().all(|byte| *byte == 0xff), "bytes past the block are kept");
}

#[test]
fn a_full_block_takes_no_more_and_stays_whole() {
    let mut block = BlockBuilder::new();
    let record = &samples::records()[1];
    let mut pushed = 0;
    while block.push(record) {
        pushed += 1;
    }
    assert!(block.len() <= JOURNAL_BLOCK_MAX);
    assert!(!block.push(record));
    assert_eq!(block.records(), pushed);
    let bytes = block.finish(&journal_header());
    assert_eq!(bytes.len(), JOURNAL_BLOCK_MAX);
    assert_eq!(decode_block(&bytes, &POOL).unwrap().1.len(), pushed as usize);
}

#[test]
fn an_empty_block_is_a_block() {
    let bytes = BlockBuilder::new().finish(&journal_header());
    assert_eq!(decode_block(&bytes, &POOL).unwrap().1, []);
}

#[test]
fn the_largest_record_fits_its_length() {
    let stripe = Record::Stripe {
        stripe: StripeId::default(),
        blocks: vec![Some((VolumeId(1), 1)); 256],
        crcs: vec![0; 256],
    };
    let mut bytes = Vec::new();
    stripe.encode(&mut bytes);
    assert_eq!(Record::decode(&bytes), Ok((stripe, bytes.len())));
}

#[test]
fn blocks_of_other_pools_are_not_ours() {
    let bytes = BlockBuilder::new().finish(&journal_header());
    let other = Uuid([1; 16]);
    let error = decode_block(&bytes, &other).unwrap_err();
    assert_eq!(error, FormatError::WrongPool { expected: other, found: POOL });
}

#[test]
fn blank_drives_have_no_blocks() {
    assert_eq!(peek_header(&[0; 4096]), Err(FormatError::BadMagic));
    assert_eq!(peek_header(&[]), Err(FormatError::Truncated));
}

#[test]
#[should_panic(expected = "must not be written")]
fn records_that_replay_would_refuse_are_not_written() {
    let range = SectorRange { start: 0, len: 0 };
    let _ = BlockBuilder::new().push(&Record::Unmap { volume: VolumeId(1), block: 0, range });
}

#[test]
fn pages_of_a_write() {
    let place = |sector| Place { flbn: Flbn(0), replicated: true, sector };
    assert_eq!(place(0).pages(8), 1);
    assert_eq!(place(3).pages(5), 1);
    assert_eq!(place(3).pages(6), 2);
    assert_eq!(place(8).pages(1), 1);
    assert_eq!(place(0).pages(2048), 256);
}

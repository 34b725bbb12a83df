//! The journal ring of a drive: every block that can be read, whatever its age.

use format::{JOURNAL_ALIGN, JOURNAL_HEADER_LEN, Superblock, decode_block, peek_header};
use io::Drive;
use serde::Serialize;

use super::{Windows, is_other_pool};
use crate::error::Outcome;

/// One block with its records as text.
#[derive(Serialize)]
pub struct Block {
    pub offset: u64,
    pub shard: u16,
    pub epoch: u64,
    pub sequence: u64,
    pub durable: u64,
    pub copies: u8,
    pub len: u32,
    pub records: Vec<String>,
    /// The header is good, the records aren't.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub damage: Option<String>,
}

#[derive(Serialize)]
pub struct Journal {
    pub offset: u64,
    pub len: u64,
    /// Oldest first.
    pub blocks: Vec<Block>,
}

pub(crate) async fn read<D: Drive>(drive: &D, label: &Superblock) -> Outcome<Journal> {
    let mut windows = Windows::new(drive, label.journal);
    let mut blocks = Vec::new();
    let mut at = label.journal.offset;
    while at < windows.end {
        let bytes = windows.at(at, JOURNAL_ALIGN).await?;
        let step = match peek_header(&bytes) {
            Ok(header) if header.pool == label.pool => {
                let bytes = windows.at(at, header.padded_len()).await?;
                let (block, step) = block(at, &bytes, label);
                blocks.extend(block);
                step
            }
            _ => JOURNAL_ALIGN,
        };
        at += step as u64;
    }
    blocks.sort_by_key(|block| (block.shard, block.epoch, block.sequence));
    Ok(Journal { offset: label.journal.offset, len: label.journal.len, blocks })
}

/// The block at `at`, and where the next one may begin. What follows a damaged block may be
/// older blocks that it was about to overwrite, so those are looked for page by page.
fn block(at: u64, bytes: &[u8], label: &Superblock) -> (Option<Block>, usize) {
    let Ok(header) = peek_header(bytes.get(..JOURNAL_HEADER_LEN.max(bytes.len())).unwrap_or(bytes))
    else {
        return (None, JOURNAL_ALIGN);
    };
    let (records, damage, step) = match decode_block(bytes, &label.pool) {
        Ok((_, records)) => {
            (records.iter().map(ToString::to_string).collect(), None, header.padded_len())
        }
        Err(error) if is_other_pool(&error, &label.pool) => return (None, JOURNAL_ALIGN),
        Err(error) => (Vec::new(), Some(error.to_string()), JOURNAL_ALIGN),
    };
    let block = Block {
        offset: at,
        shard: header.shard,
        epoch: header.epoch,
        sequence: header.sequence,
        durable: header.durable,
        copies: header.copies,
        len: header.len,
        records,
        damage,
    };
    (Some(block), step)
}

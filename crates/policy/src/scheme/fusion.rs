//! `fusion`: FusionRAID (§4.2), the default scheme.
//!
//! Idea: a small write is stored as p+1 copies in positions that already belong to stripes, so
//! that one copy becomes the RAID block later by writing parity alone. A large write goes to a
//! new RAID stripe at once. Nothing is ever updated in place, so no write reads.
//!
//! ```text
//!   write of one block (w = 4, p = 1)          write of a whole stripe
//!   stripe A  [ data ][    ][    ][parity?]    stripe C  [ data ][ data ][ data ][ parity ]
//!   stripe B  [    ][    ][ data ][   -   ]
//!              both copies at once, no parity
//! ```
//!
//! Durable at acknowledgement (FUA or after FLUSH): all copies, or all blocks and parity, and the
//! journal record on p+1 drives.
//! One failure: every block has a copy or its stripe. Two failures: with p = 2.
//! Device writes per user write: p+1 of its pages, later p/k of a block for parity; full
//! stripes w/k.
//! Source: Jiang et al., FusionRAID, FAST '21, §4.1, §4.2, §4.4.

/// What one part of a request becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// `count` whole blocks from `first` in one new RAID stripe; the rest of it is zero.
    Stripe { first: u64, count: u16 },
    /// A whole block, replicated.
    Block { block: u64 },
    /// Sectors `start..start+len` of a block, replicated, in pages shared with other blocks.
    Patch { block: u64, start: u16, len: u16 },
}

/// The shape of the volume a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub width: u16,
    pub data: u16,
    pub block_sectors: u16,
}

/// Largest write, in blocks, that replication serves with less I/O than a padded stripe: a
/// stripe costs about w blocks, replication 2x (FusionRAID §4.2, "break-even point").
pub fn break_even(width: u16) -> u16 {
    width / 2
}

/// Splits a write of `sectors` from `sector` of the volume, in order of address.
pub fn split_write(shape: Shape, sector: u64, sectors: u64) -> Vec<Part> {
    let mut parts = Vec::new();
    let block_sectors = u64::from(shape.block_sectors);
    let end = sector + sectors;
    let mut at = sector;
    while at < end {
        let (block, start) = (at / block_sectors, at % block_sectors);
        let whole = (end - at) / block_sectors;
        if start == 0 && whole > 0 {
            let count = whole.min(u64::from(shape.data)) as u16;
            let taken = if count > break_even(shape.width) { count } else { 1 };
            parts.push(match taken {
                1 if count <= break_even(shape.width) => Part::Block { block },
                _ => Part::Stripe { first: block, count: taken },
            });
            at += u64::from(taken) * block_sectors;
        } else {
            let len = (block_sectors - start).min(end - at) as u16;
            parts.push(Part::Patch { block, start: start as u16, len });
            at += u64::from(len);
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape { width: 7, data: 6, block_sectors: 128 };

    #[test]
    fn up_to_the_break_even_point_replicated_beyond_it_a_stripe() {
        let blocks = |count: u64| split_write(SHAPE, 0, count * 128);
        assert_eq!(blocks(1), [Part::Block { block: 0 }]);
        assert_eq!(blocks(3).len(), 3);
        assert_eq!(blocks(4), [Part::Stripe { first: 0, count: 4 }]);
        assert_eq!(
            blocks(8),
            [
                Part::Stripe { first: 0, count: 6 },
                Part::Block { block: 6 },
                Part::Block { block: 7 }
            ]
        );
    }

    #[test]
    fn a_two_drive_stripe_has_its_break_even_at_one_block() {
        let mirror = Shape { width: 2, data: 1, block_sectors: 8 };
        assert_eq!(split_write(mirror, 0, 8), [Part::Block { block: 0 }]);
        let triple = Shape { width: 3, data: 1, block_sectors: 8 };
        assert_eq!(split_write(triple, 0, 16).len(), 2);
    }

    #[test]
    fn parts_cover_the_request_exactly_once() {
        for (sector, sectors) in [(0, 1), (5, 3), (127, 2), (100, 2000), (128, 768), (1, 769)] {
            let mut at = sector;
            for part in split_write(SHAPE, sector, sectors) {
                let (start, len) = match part {
                    Part::Stripe { first, count } => (first * 128, u64::from(count) * 128),
                    Part::Block { block } => (block * 128, 128),
                    Part::Patch { block, start, len } => {
                        assert!(len < 128, "a whole block is not a patch");
                        (block * 128 + u64::from(start), u64::from(len))
                    }
                };
                assert_eq!(start, at);
                at += len;
            }
            assert_eq!(at, sector + sectors);
        }
    }
}

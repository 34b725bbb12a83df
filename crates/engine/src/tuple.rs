//! The block pairing table (FusionRAID §4.4), kept per tuple of stripes instead of per pair of
//! blocks: p+1 stripes whose data blocks are matched into slots.
//!
//! ```text
//!            position 0   1   2   3   parity         one slot = one column of the matching:
//! stripe 0   [ d4 ][ d7 ][ d1 ][ d9 ][ reserved ]     slots[t] = positions in stripes 1..=p
//! stripe 1   [ d7 ][ d2 ][ d4 ][ d0 ][ reserved ]     that hold the same bytes as position t
//! ```
//!
//! A tuple lives from the first slot handed out to its conversion or death:
//! ```text
//! open (slots left) ──> sealed, writes in flight ──> sealed, quiet ──> converted, emptied, dead
//! ```

use format::StripeId;
use smallvec::SmallVec;

/// Names a tuple: its stripe 0, the one conversion keeps.
pub type TupleKey = StripeId;

pub struct Tuple {
    pub stripes: SmallVec<[StripeId; 3]>,
    pub slots: Box<[[u8; 2]]>,
    /// Pages written, or being written, in each slot from its start. The rest was never
    /// written and is zeroed when parity is computed.
    pub filled: Box<[u16]>,
    /// Slots not handed out yet.
    pub unhanded: u16,
    /// Slots handed out that still take packed patches.
    pub packing: u16,
    /// Writes to it that have not completed.
    pub inflight: u32,
    /// Access tick of the last read or write (conversion takes the smallest first).
    pub last_access: u64,
    /// Tick under which the space's order of access lists it; brought up to date when that
    /// order is asked for.
    pub listed: u64,
    /// A conversion or compaction is working on it.
    pub busy: bool,
}

impl Tuple {
    pub fn new(stripes: SmallVec<[StripeId; 3]>, slots: Box<[[u8; 2]]>, now: u64) -> Tuple {
        let count = slots.len();
        Tuple {
            stripes,
            slots,
            filled: vec![0; count].into(),
            unhanded: count as u16,
            packing: 0,
            inflight: 0,
            last_access: now,
            listed: now,
            busy: false,
        }
    }

    pub fn key(&self) -> TupleKey {
        self.stripes[0]
    }

    /// Nothing more will be written to it.
    pub fn is_quiet(&self) -> bool {
        self.unhanded == 0 && self.packing == 0 && self.inflight == 0
    }

    /// Position in stripe `copy` of slot `slot`.
    pub fn position(&self, slot: usize, copy: usize) -> usize {
        if copy == 0 { slot } else { usize::from(self.slots[slot][copy - 1]) }
    }

    pub fn memory(&self) -> u64 {
        (size_of::<Tuple>() + self.slots.len() * 4 + 16) as u64
    }
}

//! How the redundancy of a tuple comes back after a drive was lost.

/// A tuple of which copies are lost.
#[derive(Clone, Copy, Debug)]
pub struct Wounded {
    pub data: u64,
    pub parity: u64,
    /// Slots whose own block, which conversion keeps, is lost; and lost copies of others.
    pub heads: u64,
    pub copies: u64,
    /// Conversion would take it soon whatever happened.
    pub due: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// Copy what is lost from another copy.
    Copy,
    /// Make it a RAID stripe: the copies are needed no more.
    Convert,
}

/// Whichever moves fewer blocks. Copying reads and writes one for each that is lost, and a tuple
/// that is due is converted after it; converting reads the data and writes parity, and what was
/// lost of the stripe that stays is computed from it.
pub fn remedy(tuple: &Wounded) -> Remedy {
    let conversion = tuple.data + tuple.parity;
    let copy = 2 * (tuple.heads + tuple.copies) + if tuple.due { conversion } else { 0 };
    let convert = conversion + tuple.heads * (tuple.data + 1);
    if convert < copy { Remedy::Convert } else { Remedy::Copy }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TUPLE: Wounded = Wounded { data: 6, parity: 1, heads: 0, copies: 1, due: false };

    #[test]
    fn what_is_to_be_converted_anyway_loses_copies_for_nothing() {
        assert_eq!(remedy(&TUPLE), Remedy::Copy);
        assert_eq!(remedy(&Wounded { due: true, ..TUPLE }), Remedy::Convert);
        // The stripe that stays has lost a block: that would be computed from all others.
        assert_eq!(remedy(&Wounded { due: true, heads: 1, ..TUPLE }), Remedy::Copy);
        assert_eq!(remedy(&Wounded { copies: 2, ..TUPLE }), Remedy::Copy);
        // Of a narrow one with many copies lost conversion moves less.
        assert_eq!(remedy(&Wounded { data: 2, parity: 2, copies: 3, ..TUPLE }), Remedy::Convert);
    }
}

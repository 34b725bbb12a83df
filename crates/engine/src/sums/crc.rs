//! CRC32C of pages, and of several from those of each: no byte is looked at twice.
//!
//! In the reflected form bit 31 is x^0. The CRC of A then B is that of A times x^(bits of B), plus
//! that of B; for pages the factor is always x^32768, and a product with it four table look-ups.

use io::PAGE;

/// CRC32C's polynomial, reflected, without x^32.
const POLYNOMIAL: u32 = 0x82f6_3b78;
/// Bits of a page are 2 to this power.
const PAGE_BITS_LOG: u32 = 15;
/// Products of each value of each byte with x^32768.
const PAST_A_PAGE: [[u32; 256]; 4] = past_a_page();

const fn times_x(value: u32) -> u32 {
    value >> 1 ^ if value & 1 == 1 { POLYNOMIAL } else { 0 }
}

const fn product(a: u32, mut b: u32) -> u32 {
    let mut sum = 0;
    let mut bit = 0;
    while bit < 32 {
        if a >> (31 - bit) & 1 == 1 {
            sum ^= b;
        }
        b = times_x(b);
        bit += 1;
    }
    sum
}

const fn past_a_page() -> [[u32; 256]; 4] {
    const { assert!(PAGE * 8 == 1 << PAGE_BITS_LOG) };
    let mut factor = 1 << 30;
    let mut squared = 0;
    while squared < PAGE_BITS_LOG {
        factor = product(factor, factor);
        squared += 1;
    }
    let mut tables = [[0; 256]; 4];
    let mut byte = 0;
    while byte < 4 {
        let mut value: usize = 1;
        while value < 256 {
            // Of the lowest bit, and of the rest, which is a smaller value.
            let low = value & value.wrapping_neg();
            tables[byte][value] = if low == value {
                product((value as u32) << (8 * byte), factor)
            } else {
                tables[byte][low] ^ tables[byte][value ^ low]
            };
            value += 1;
        }
        byte += 1;
    }
    tables
}

/// CRC of some bytes and the page after them, from the CRC of each.
pub fn with_page(before: u32, page: u32) -> u32 {
    let [a, b, c, d] = before.to_le_bytes();
    let table = |at: usize, byte: u8| PAST_A_PAGE[at][usize::from(byte)];
    table(0, a) ^ table(1, b) ^ table(2, c) ^ table(3, d) ^ page
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn pages_make_the_whole(seed: u64, pages in 1..9_usize) {
            let mut state = seed | 1;
            let mut next = || {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state as u8
            };
            let bytes: Vec<u8> = (0..pages * PAGE).map(|_| next()).collect();
            let whole = bytes.chunks(PAGE).map(crc32c::crc32c).reduce(with_page);
            proptest::prop_assert_eq!(whole, Some(crc32c::crc32c(&bytes)));
        }
    }
}

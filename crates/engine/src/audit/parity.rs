//! P and Q byte by byte, straight from their definition: P is the sum of the data blocks, Q the sum
//! weighted with powers of g = 2 in GF(2^8) modulo x^8 + x^4 + x^3 + x^2 + 1.

/// g * value.
fn double(value: u8) -> u8 {
    let reduced = if value & 0x80 != 0 { 0x1d } else { 0 };
    value << 1 ^ reduced
}

/// P and Q of data blocks in the order of their positions.
pub fn parity(data: &[&[u8]]) -> [Vec<u8>; 2] {
    let len = data[0].len();
    let (mut p, mut q) = (vec![0; len], vec![0; len]);
    // Horner's rule: d0 + g (d1 + g (d2 + ..)).
    for block in data.iter().rev() {
        for ((p, q), byte) in p.iter_mut().zip(&mut q).zip(*block) {
            *p ^= byte;
            *q = double(*q) ^ byte;
        }
    }
    [p, q]
}

/// Byte at which two blocks first differ.
pub fn difference(a: &[u8], b: &[u8]) -> Option<usize> {
    if a == b {
        return None;
    }
    a.iter().zip(b).position(|(a, b)| a != b).or(Some(a.len().min(b.len())))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two blocks of two bytes, computed by hand: 2 * 0x80 = 0x1d, 2 * 0x03 = 0x06.
    #[test]
    fn small_sums_are_right() {
        let [p, q] = parity(&[&[0x01, 0x10], &[0x80, 0x03]]);
        assert_eq!((p, q), (vec![0x81, 0x13], vec![0x1c, 0x16]));
        assert_eq!(difference(b"same", b"same"), None);
        assert_eq!(difference(b"same", b"sane"), Some(2));
        assert_eq!(difference(b"same", b"sam"), Some(3));
    }
}

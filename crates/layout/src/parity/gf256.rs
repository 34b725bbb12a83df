//! Arithmetic of single elements of GF(2^8), polynomial 0x11d, generator g = 2: for the few
//! constants of a recovery.

/// `g^exponent`.
pub(super) fn power(exponent: usize) -> u8 {
    (0..exponent % 255).fold(1, |value, _| double(value))
}

/// `2 * value`: shift, and reduce if a bit fell out.
#[inline(always)]
pub(super) const fn double(value: u8) -> u8 {
    // The arithmetic shift spreads the top bit over the byte; vectorised it's one compare.
    (value << 1) ^ (((value as i8) >> 7) as u8 & 0x1d)
}

pub(super) fn multiply(a: u8, b: u8) -> u8 {
    (0..8).rev().fold(0, |sum, bit| double(sum) ^ if b >> bit & 1 == 1 { a } else { 0 })
}

/// `1 / value`; the value must not be 0.
pub(super) fn inverse(value: u8) -> u8 {
    assert_ne!(value, 0, "0 has no inverse");
    // The other 254 elements that aren't 0 include it: value^254 = value^-1.
    (0..254).fold(1, |power, _| multiply(power, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inverses_and_powers() {
        for value in 1..=255 {
            assert_eq!(multiply(value, inverse(value)), 1);
        }
        let mut powers: Vec<u8> = (0..255).map(power).collect();
        powers.sort();
        assert_eq!(powers, (1..=255).collect::<Vec<u8>>());
        assert_eq!(power(8), 0x1d);
    }
}

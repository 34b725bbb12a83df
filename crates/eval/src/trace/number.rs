//! Numbers as traces write them. No floating point: 100 ns of a time since 1601 would be lost.

/// Digits and nothing else.
pub fn whole(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0u64, |sum, &digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        sum.checked_mul(10)?.checked_add(digit)
    })
}

/// A time with or without a fraction, in nanoseconds; what is below one is left out.
pub fn nanos(text: &[u8], nanos_per_unit: u64) -> Option<u64> {
    let mut parts = text.splitn(2, |&byte| byte == b'.');
    let (integer, fraction) = (parts.next()?, parts.next().unwrap_or(b"0"));
    let mut sum = whole(integer)?.checked_mul(nanos_per_unit)?;
    let mut unit = nanos_per_unit;
    for &digit in fraction {
        if !digit.is_ascii_digit() {
            return None;
        }
        unit /= 10;
        sum = sum.checked_add(u64::from(digit - b'0') * unit)?;
    }
    Some(sum)
}

/// The fields of a line, without the blanks round them.
pub fn fields(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|&byte| byte == b',').map(<[u8]>::trim_ascii)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_digits_that_fit() {
        assert_eq!(whole(b"18446744073709551615"), Some(u64::MAX));
        for wrong in ["", "18446744073709551616", "-1", "+1", "1.0", "0x10", "1e3"] {
            assert_eq!(whole(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn times_keep_every_digit_down_to_a_nanosecond() {
        assert_eq!(nanos(b"1167.0009871239", 1_000_000_000), Some(1_167_000_987_123));
        assert_eq!(nanos(b"128166372003061629", 100), Some(12_816_637_200_306_162_900));
        assert_eq!(nanos(b"5.25", 1_000), Some(5_250));
        for wrong in ["", ".5", "1.5.5", "1.x", "1e5", "99999999999999999999"] {
            assert_eq!(nanos(wrong.as_bytes(), 1_000), None, "{wrong}");
        }
    }
}

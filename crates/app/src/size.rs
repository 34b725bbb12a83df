//! Sizes as people write and read them. K, M, G, T, P are powers of 1024, with or without
//! `iB`; nothing here is a power of 1000, because drives and volumes are made of sectors.

use std::fmt;
use std::str::FromStr;

const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/// A number of bytes. Parses `4096`, `64K`, `64KiB`, `1.5T`; shows at most three decimals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Size, String> {
        let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(split);
        let shift = 10
            * exponent(unit).ok_or_else(|| {
                format!("'{text}' is not a size: write 64K, 512MiB, 10G, 1.5T (powers of 1024)")
            })?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let whole: u64 = whole.parse().map_err(|_| not_a_number(text))?;
        let bytes = whole.checked_mul(1 << shift).ok_or_else(|| format!("{text}: too large"))?;
        let rest = parse_fraction(fraction, shift).ok_or_else(|| not_a_number(text))?;
        bytes.checked_add(rest).map(Size).ok_or_else(|| format!("{text}: too large"))
    }
}

fn not_a_number(text: &str) -> String {
    format!("'{text}' is not a whole number of bytes: write 64K, 512MiB, 10G, 1.5T")
}

/// Power of 1024 that a unit stands for.
fn exponent(unit: &str) -> Option<u32> {
    let unit = unit.trim_start().to_ascii_uppercase();
    let letter = unit.strip_suffix("IB").unwrap_or(&unit);
    match letter {
        _ if unit.is_empty() || unit == "B" => Some(0),
        _ if letter.len() == 1 => "KMGTP".find(letter).map(|index| index as u32 + 1),
        _ => None,
    }
}

/// Bytes in the decimals of a number, if that is a whole number of them.
fn parse_fraction(digits: &str, shift: u32) -> Option<u64> {
    if digits.is_empty() {
        return Some(0);
    }
    let numerator: u128 = digits.parse().ok().filter(|_| digits.len() <= 9)?;
    let scaled = numerator << shift;
    let denominator = 10u128.pow(digits.len() as u32);
    // 0.1G is no whole number of bytes; people mean about that much, so round to a sector.
    let exact = scaled.is_multiple_of(denominator);
    match (exact, shift) {
        (true, _) => u64::try_from(scaled / denominator).ok(),
        (false, 0) => None,
        (false, _) => u64::try_from(scaled / denominator).ok().map(|bytes| bytes & !511),
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = (self.0.max(1).ilog2() / 10).min(5);
        if unit == 0 {
            return f.pad(&format!("{} B", self.0));
        }
        let value = self.0 as f64 / (1u64 << (10 * unit)) as f64;
        let decimals = match value {
            _ if value.fract() == 0.0 || value >= 1000.0 => 0,
            _ if value >= 100.0 => 1,
            _ => 2,
        };
        f.pad(&format!("{value:.decimals$} {}", UNITS[unit as usize]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> Result<u64, String> {
        text.parse::<Size>().map(|size| size.0)
    }

    #[test]
    fn both_spellings_of_a_unit_are_powers_of_1024() {
        assert_eq!(bytes("4096"), Ok(4096));
        assert_eq!(bytes("512B"), Ok(512));
        for text in ["64K", "64k", "64KiB", "64kib", "64 KiB"] {
            assert_eq!(bytes(text), Ok(64 << 10), "{text}");
        }
        assert_eq!(bytes("1.5T"), Ok(3 << 39));
        assert_eq!(bytes("0.1G"), Ok(((1 << 30) / 10) & !511));
        assert_eq!(bytes("2P"), Ok(2 << 50));
    }

    #[test]
    fn what_is_not_a_size_is_refused() {
        let bad = [
            "", "K", "-1", "1,5G", "1.5", "64KB", "64X", "1 G B", ".5G", "1e9", "0x10", "iB", "BiB",
        ];
        for text in bad.into_iter().chain(["20000000T", "18446744073709551616", "1.2.3G", "१K"]) {
            assert!(bytes(text).is_err(), "{text} was taken as {:?}", bytes(text));
        }
    }

    #[test]
    fn sizes_are_shown_short() {
        let shown = |bytes: u64| Size(bytes).to_string();
        assert_eq!(shown(0), "0 B");
        assert_eq!(shown(1023), "1023 B");
        assert_eq!(shown(64 << 10), "64 KiB");
        assert_eq!(shown(1_500_000_000), "1.40 GiB");
        assert_eq!(shown(130 << 29 | 1 << 28), "65.25 GiB");
        assert_eq!(shown(u64::MAX), "16384 PiB");
    }
}

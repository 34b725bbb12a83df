//! Logarithms and powers of additions, multiplications and divisions only, which IEEE 754 defines
//! to the last bit. Those of mathematical libraries differ from machine to machine, and a
//! workload must be the same everywhere.

/// Natural logarithm of a normal positive number.
pub fn ln(x: f64) -> f64 {
    let bits = x.to_bits();
    let mut exponent = ((bits >> 52) & 0x7ff) as i64 - 1023;
    let mut mantissa = f64::from_bits((bits & ((1 << 52) - 1)) | (1023 << 52));
    if mantissa > std::f64::consts::SQRT_2 {
        mantissa /= 2.0;
        exponent += 1;
    }
    // 2 artanh((m - 1) / (m + 1)), which is at most 0.172 here.
    let z = (mantissa - 1.0) / (mantissa + 1.0);
    let square = z * z;
    let series = (0..12).rev().fold(0.0, |sum, k| sum * square + 1.0 / f64::from(2 * k + 1));
    exponent as f64 * std::f64::consts::LN_2 + 2.0 * z * series
}

/// e^x where that is neither zero nor infinite.
pub fn exp(x: f64) -> f64 {
    let x = x.clamp(-700.0, 700.0);
    let turns = (x / std::f64::consts::LN_2).round();
    let rest = x - turns * std::f64::consts::LN_2;
    // Horner's form of the series; the rest is at most 0.35.
    let series = (1..18).rev().fold(1.0, |sum, k| 1.0 + sum * rest / f64::from(k));
    series * f64::from_bits(((turns as i64 + 1023) as u64) << 52)
}

pub fn power(base: f64, exponent: f64) -> f64 {
    exp(exponent * ln(base))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_the_library_has_it() {
        for step in 1..2000 {
            let x = f64::from(step) * 0.37;
            assert!((ln(x) - x.ln()).abs() < 1e-13 * (1.0 + x.ln().abs()), "{x}");
            let y = x / 5.0 - 60.0;
            assert!((exp(y) / y.exp() - 1.0).abs() < 1e-13, "{y}");
        }
        assert_eq!((ln(1.0), exp(0.0)), (0.0, 1.0));
        assert!((power(2.0, 0.5) - std::f64::consts::SQRT_2).abs() < 1e-14);
    }
}

//! Latency by distribution, in whole numbers: the same on every machine, whatever its
//! mathematical library.

use std::fmt;

use crate::env::Nanos;
use crate::rng::Rng;

/// What is added to an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delay {
    Constant(Nanos),
    /// Anything from `least` to `most`, equally likely.
    Uniform {
        least: Nanos,
        most: Nanos,
    },
    /// Mostly short, `mean` on average, rarely several times that.
    Exponential {
        mean: Nanos,
    },
    /// A heavy tail: longer than x with probability (least/x)^alpha; never above `most`.
    Pareto {
        least: Nanos,
        alpha_percent: u32,
        most: Nanos,
    },
}

/// Fixed point: 1.0.
const ONE: u64 = 1 << 16;
/// ln 2.
const LN_2: u64 = 45_426;
/// What makes a parabola through (0, 0) and (1, 0) the difference between log2(1 + x) and x,
/// within a hundredth; about the same for x and 2^x - 1.
const BEND: u64 = 22_525;

/// x (1 - x) times the bend, for x below one.
fn bend(x: u64) -> u64 {
    x * (ONE - x) / ONE * BEND / ONE
}

/// -log2 of a number drawn from 0 to 1, at most 64.
fn surprise(rng: &mut Rng) -> u64 {
    let drawn = rng.next_u64() | 1;
    let zeros = u64::from(drawn.leading_zeros());
    let mantissa = (drawn << zeros << 1) >> 48;
    (zeros + 1) * ONE - (mantissa + bend(mantissa))
}

/// 2^x, as a factor of ONE; `None` if that is beyond any delay.
fn exp2(x: u64) -> Option<u64> {
    let (whole, part) = (x / ONE, x % ONE);
    (whole < 40).then(|| (ONE + part - bend(part)) << whole)
}

fn scale(span: Nanos, factor: u64) -> u64 {
    u64::try_from(u128::from(span.0) * u128::from(factor) / u128::from(ONE)).unwrap_or(u64::MAX)
}

impl Delay {
    pub fn draw(&self, rng: &mut Rng) -> Nanos {
        match *self {
            Delay::Constant(span) => span,
            Delay::Uniform { least, most } => Nanos(least.0 + rng.below(most.0 - least.0 + 1)),
            Delay::Exponential { mean } => Nanos(scale(mean, surprise(rng) * LN_2 / ONE)),
            Delay::Pareto { least, alpha_percent, most } => {
                let exponent = surprise(rng) * 100 / u64::from(alpha_percent);
                let drawn = exp2(exponent).map_or(most.0, |factor| scale(least, factor));
                Nanos(drawn.min(most.0))
            }
        }
    }

    /// What is wrong with it, if something is.
    pub fn problem(&self) -> Option<&'static str> {
        match *self {
            Delay::Uniform { least, most } | Delay::Pareto { least, most, .. } if least > most => {
                Some("the least delay is above the most")
            }
            Delay::Pareto { alpha_percent: 0, .. } => Some("alpha must be positive"),
            Delay::Pareto { least: Nanos::ZERO, .. } => Some("the least delay must be positive"),
            _ => None,
        }
    }
}

impl fmt::Display for Delay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Delay::Constant(span) => write!(f, "{span}"),
            Delay::Uniform { least, most } => write!(f, "{least} to {most}"),
            Delay::Exponential { mean } => write!(f, "{mean} on average (exponential)"),
            Delay::Pareto { least, alpha_percent, most } => {
                let (whole, part) = (alpha_percent / 100, alpha_percent % 100);
                write!(f, "{least} to {most} (Pareto, alpha {whole}.{part:02})")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: Nanos = Nanos::from_millis(1);
    const DRAWS: u64 = 200_000;

    fn drawn(delay: Delay) -> Vec<u64> {
        let mut rng = Rng::new(1);
        let mut spans: Vec<u64> = (0..DRAWS).map(|_| delay.draw(&mut rng).0).collect();
        spans.sort_unstable();
        spans
    }

    fn near(value: u64, expected: f64, percent: f64) {
        let off = (value as f64 / expected - 1.0).abs() * 100.0;
        assert!(off < percent, "{value} is {off:.2} % from {expected}");
    }

    #[test]
    fn constant_and_uniform() {
        assert!(drawn(Delay::Constant(MILLI)).iter().all(|&span| span == MILLI.0));
        let spans = drawn(Delay::Uniform { least: Nanos(10), most: Nanos(12) });
        assert_eq!((spans[0], spans[spans.len() - 1]), (10, 12));
        near(spans.iter().filter(|&&span| span == 11).count() as u64, DRAWS as f64 / 3.0, 2.0);
    }

    #[test]
    fn exponential_has_its_mean_and_tail() {
        let spans = drawn(Delay::Exponential { mean: MILLI });
        near(spans.iter().sum::<u64>() / DRAWS, 1e6, 1.0);
        // Quantile q of an exponential distribution is -ln(1 - q).
        near(spans[spans.len() / 2], 0.693_147e6, 2.0);
        near(spans[spans.len() * 99 / 100], 4.605e6, 2.0);
    }

    #[test]
    fn pareto_has_its_tail_and_its_limit() {
        let most = Nanos::from_secs(1);
        let spans = drawn(Delay::Pareto { least: MILLI, alpha_percent: 150, most });
        // Quantile q is (1 - q)^(-1/alpha).
        near(spans[0], 1e6, 1.0);
        near(spans[spans.len() / 2], 1.5874e6, 2.0);
        near(spans[spans.len() * 99 / 100], 21.54e6, 4.0);
        assert!(spans[spans.len() - 1] <= most.0);
        let cut = drawn(Delay::Pareto { least: MILLI, alpha_percent: 1, most: MILLI + MILLI });
        assert!(cut.iter().filter(|&&span| span == 2 * MILLI.0).count() > DRAWS as usize / 2);
    }

    #[test]
    fn nonsense_is_seen() {
        let (least, most) = (MILLI, Nanos(1));
        assert!(Delay::Uniform { least, most }.problem().is_some());
        assert!(Delay::Pareto { least, alpha_percent: 0, most: least }.problem().is_some());
        assert!(Delay::Pareto { least, alpha_percent: 5, most: least }.problem().is_none());
        assert!(Delay::Exponential { mean: Nanos::ZERO }.problem().is_none());
    }
}

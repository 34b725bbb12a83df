//! How long the arm needs: a short seek accelerates half way and brakes the other half (root of
//! the distance), a long one also coasts (linear).

use io::env::Nanos;

use super::config::SeekTimes;

/// Root and line meet at a third of the stroke, the mean distance of two random cylinders. The
/// time there follows from the average of the whole curve over all pairs:
///
/// ```text
/// t(x) = next + (third - next) * sqrt(3x)              x <= 1/3
///        third + (full - third) * (3x - 1) / 2         x >= 1/3
/// average = integral of t(x) * 2(1 - x) = next/5 + third * 88/135 + full * 4/27
/// ```
pub(super) fn third_of_stroke(times: &SeekTimes) -> Nanos {
    let rest = (times.average.0 * 135)
        .saturating_sub(times.next_cylinder.0 * 27)
        .saturating_sub(times.full_stroke.0 * 20);
    Nanos(rest / 88)
}

#[derive(Clone, Debug)]
pub(super) struct SeekCurve {
    times: SeekTimes,
    third: u64,
    /// Cylinders between the first and the last one.
    stroke: u64,
}

impl SeekCurve {
    pub(super) fn new(times: SeekTimes, cylinders: u64) -> SeekCurve {
        let third = third_of_stroke(&times).0;
        SeekCurve { times, third, stroke: cylinders.saturating_sub(1).max(1) }
    }

    pub(super) fn time(&self, distance: u64, write: bool) -> Nanos {
        assert!(distance <= self.stroke, "the arm stays on the disc");
        let settle = if write { self.times.write_settle.0 } else { 0 };
        Nanos(self.read_time(distance) + settle)
    }

    fn read_time(&self, distance: u64) -> u64 {
        if distance == 0 {
            return 0;
        }
        let next = self.times.next_cylinder.0;
        let thrice = 3 * distance;
        if thrice <= self.stroke {
            // The root of a fraction with 20 bits behind the point.
            let root = ((thrice << 40) / self.stroke).isqrt();
            return next + (((self.third - next) * root) >> 20);
        }
        let full = self.times.full_stroke.0;
        self.third + (full - self.third) * (thrice - self.stroke) / (2 * self.stroke)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMES: SeekTimes = SeekTimes {
        next_cylinder: Nanos::from_micros(400),
        average: Nanos::from_micros(4_200),
        full_stroke: Nanos::from_micros(8_300),
        write_settle: Nanos::from_micros(400),
    };

    #[test]
    fn average_over_all_pairs_is_the_one_given() {
        let cylinders = 3_000;
        let curve = SeekCurve::new(TIMES, cylinders);
        // Distance d occurs 2(n - d) times among n * n pairs.
        let sum: u64 = (1..cylinders).map(|d| 2 * (cylinders - d) * curve.read_time(d)).sum();
        let average = sum / (cylinders * cylinders);
        assert!(average.abs_diff(4_200_000) < 8_400, "{average} ns");
    }

    #[test]
    fn ends_of_the_curve_are_those_given_and_it_never_falls() {
        let curve = SeekCurve::new(TIMES, 60_001);
        assert_eq!(curve.time(0, false), Nanos::ZERO);
        assert!(curve.time(1, false).0.abs_diff(400_000) < 30_000);
        assert_eq!(curve.time(60_000, false), Nanos::from_micros(8_300));
        assert_eq!(curve.time(60_000, true), Nanos::from_micros(8_700));
        for distance in 1..60_000 {
            assert!(curve.time(distance, false) <= curve.time(distance + 1, false));
        }
    }
}

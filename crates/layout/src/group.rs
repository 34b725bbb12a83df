//! The commutative groups a layout is developed over: "column c" means "add c to every drive of
//! column 0".
//!
//! Drives are numbered 0..n and the group decides what adding means, so that every addition is a
//! permutation of the drives:
//!
//! * n prime, or any n without a field: the integers modulo n;
//! * n = 2^m: XOR;
//! * n = p^m with p odd: the base-p digits, each modulo p, from a table (59 KiB at most, for 243
//!   drives).
//!
//! The numbering must never change: pools on disk depend on it.

/// Addition on `0..n`.
pub(crate) enum Group {
    Cyclic { order: u16 },
    Xor { order: u16 },
    Digits { order: u16, sums: Vec<u8>, negatives: Vec<u8> },
}

impl Group {
    /// The integers modulo `order`.
    pub(crate) fn cyclic(order: usize) -> Self {
        Self::Cyclic { order: order as u16 }
    }

    /// The additive group of the field with `prime`^`degree` elements.
    pub(crate) fn of_field(prime: usize, degree: u32) -> Self {
        let order = prime.pow(degree);
        match (prime, degree) {
            (_, 1) => Self::cyclic(order),
            (2, _) => Self::Xor { order: order as u16 },
            _ => Self::digits(prime, order),
        }
    }

    fn digits(prime: usize, order: usize) -> Self {
        let mut sums = Vec::with_capacity(order * order);
        for a in 0..order {
            sums.extend((0..order).map(|b| add_digits(prime, a, b) as u8));
        }
        let negative = |a| (0..order).find(|&b| sums[a * order + b] == 0);
        let negatives = (0..order).map(|a| negative(a).expect("a group has inverses") as u8);
        Self::Digits { order: order as u16, negatives: negatives.collect(), sums }
    }

    pub(crate) fn order(&self) -> usize {
        match self {
            Self::Cyclic { order } | Self::Xor { order } | Self::Digits { order, .. } => {
                usize::from(*order)
            }
        }
    }

    /// `a + b`; both must be below the order.
    #[inline]
    pub(crate) fn add(&self, a: u16, b: u16) -> u16 {
        match self {
            Self::Cyclic { order } if a + b >= *order => a + b - order,
            Self::Cyclic { .. } => a + b,
            Self::Xor { .. } => a ^ b,
            Self::Digits { order, sums, .. } => {
                u16::from(sums[usize::from(a) * usize::from(*order) + usize::from(b)])
            }
        }
    }

    /// `a - b`; both must be below the order.
    #[inline]
    pub(crate) fn sub(&self, a: u16, b: u16) -> u16 {
        match self {
            Self::Cyclic { order } if a < b => a + order - b,
            Self::Cyclic { .. } => a - b,
            Self::Xor { .. } => a ^ b,
            Self::Digits { negatives, .. } => self.add(a, u16::from(negatives[usize::from(b)])),
        }
    }
}

/// Adds base-`prime` digit by digit, without carry.
fn add_digits(prime: usize, mut a: usize, mut b: usize) -> usize {
    let (mut sum, mut weight) = (0, 1);
    while a + b > 0 {
        sum += (a % prime + b % prime) % prime * weight;
        (a, b, weight) = (a / prime, b / prime, weight * prime);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subtraction_undoes_addition() {
        for (prime, degree) in [(7, 1), (2, 1), (2, 5), (2, 8), (3, 2), (3, 5), (5, 3), (13, 2)] {
            let group = Group::of_field(prime, degree);
            let order = group.order() as u16;
            for a in 0..order {
                for b in 0..order {
                    assert_eq!(group.sub(group.add(a, b), b), a);
                    assert_eq!(group.add(a, b), group.add(b, a));
                }
            }
        }
    }
}

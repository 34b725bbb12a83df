//! Multiplication in the finite field GF(n), for the Latin squares of RAID+ (FusionRAID §4.1).
//!
//! An element of GF(p^m) is a polynomial of degree below m over the integers modulo p. It's stored
//! as one number whose base-p digits are the coefficients, so elements are numbered 0..n like
//! drives:
//!
//! ```text
//! n = 27 = 3^3:   x^2 + 2  ->  digits 1 0 2  ->  1*9 + 0*3 + 2 = 11
//! ```
//!
//! Products are reduced by the irreducible polynomial with the smallest number. Which one that is
//! must never change: pools on disk depend on it.

/// The field with `prime`^`degree` elements.
pub(crate) struct Field {
    prime: usize,
    degree: u32,
    /// The reducing polynomial, monic, as a number.
    modulus: usize,
}

impl Field {
    /// The field of `order` elements, if there is one: `order` must be a power of a prime.
    pub(crate) fn of_order(order: usize) -> Option<Self> {
        let (prime, degree) = prime_power(order)?;
        let modulus = smallest_irreducible(prime, degree);
        Some(Self { prime, degree, modulus })
    }

    pub(crate) fn prime(&self) -> usize {
        self.prime
    }

    pub(crate) fn degree(&self) -> u32 {
        self.degree
    }

    /// `a * b`; both must be below the order.
    pub(crate) fn mul(&self, a: usize, b: usize) -> usize {
        if self.degree == 1 {
            return a * b % self.prime;
        }
        remainder(self.prime, multiply(self.prime, a, b), self.modulus)
    }
}

/// `order` as (prime, exponent).
fn prime_power(order: usize) -> Option<(usize, u32)> {
    let prime = (2..=order).find(|p| order.is_multiple_of(*p))?;
    let (mut rest, mut exponent) = (order, 0);
    while rest.is_multiple_of(prime) {
        (rest, exponent) = (rest / prime, exponent + 1);
    }
    (rest == 1).then_some((prime, exponent))
}

/// The irreducible monic polynomial of this degree with the smallest number.
fn smallest_irreducible(prime: usize, degree: u32) -> usize {
    let monic = prime.pow(degree)..2 * prime.pow(degree);
    // A product of two polynomials has a factor of at most half its degree.
    let divisors_end = 2 * prime.pow(degree / 2);
    let reducible = |poly: usize| {
        (prime..divisors_end)
            .filter(|divisor| is_monic(prime, *divisor))
            .any(|divisor| divisor < poly && remainder(prime, poly, divisor) == 0)
    };
    monic
        .into_iter()
        .find(|poly| !reducible(*poly))
        .expect("irreducible ones of every degree exist")
}

fn is_monic(prime: usize, poly: usize) -> bool {
    poly / prime.pow(degree_of(prime, poly)) == 1
}

/// The degree of a polynomial that isn't zero.
fn degree_of(prime: usize, poly: usize) -> u32 {
    poly.ilog(prime)
}

/// Polynomial product without reduction.
fn multiply(prime: usize, a: usize, mut b: usize) -> usize {
    let (mut product, mut shifted) = (0, a);
    while b > 0 {
        for _ in 0..b % prime {
            product = add(prime, product, shifted);
        }
        (b, shifted) = (b / prime, shifted * prime);
    }
    product
}

/// What is left of `poly` after division by the monic `divisor` of degree 1 or more.
fn remainder(prime: usize, mut poly: usize, divisor: usize) -> usize {
    let degree = degree_of(prime, divisor);
    while poly > 0 && degree_of(prime, poly) >= degree {
        // Adding (p - 1) times the divisor under the leading term takes one off its coefficient.
        let shifted = divisor * prime.pow(degree_of(prime, poly) - degree);
        for _ in 0..prime - 1 {
            poly = add(prime, poly, shifted);
        }
    }
    poly
}

fn add(prime: usize, mut a: usize, mut b: usize) -> usize {
    let (mut sum, mut weight) = (0, 1);
    while a > 0 || b > 0 {
        sum += (a % prime + b % prime) % prime * weight;
        (a, b, weight) = (a / prime, b / prime, weight * prime);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The polynomials are part of the format of every pool with such a number of drives.
    #[test]
    fn reducing_polynomials_are_frozen() {
        let found: Vec<_> = [4, 8, 16, 32, 64, 128, 256, 9, 27, 81, 243, 25, 125, 49, 121, 169]
            .iter()
            .map(|n| Field::of_order(*n).unwrap().modulus)
            .collect();
        let frozen = [7, 11, 19, 37, 67, 131, 283, 10, 34, 86, 250, 27, 131, 50, 122, 171];
        assert_eq!(found, frozen);
    }

    #[test]
    fn nonzero_elements_permute_each_other() {
        for order in (2..=256).filter(|n| prime_power(*n).is_some()) {
            let field = Field::of_order(order).unwrap();
            for a in [1, 2, order / 2, order - 1].into_iter().filter(|a| *a > 0 && *a < order) {
                let mut seen = vec![false; order];
                (0..order).for_each(|b| seen[field.mul(a, b)] = true);
                assert!(seen.iter().all(|s| *s), "{a} has no inverse in GF({order})");
            }
        }
    }

    #[test]
    fn other_orders_have_no_field() {
        for order in [0, 1, 6, 10, 12, 24, 100, 255] {
            assert!(Field::of_order(order).is_none());
        }
    }
}

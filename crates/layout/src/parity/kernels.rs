//! The inner loops. Plain loops over bytes that the compiler vectorises, compiled a second time for
//! AVX2 and chosen at run time, so that a binary for any x86-64 still uses the wide registers.

use super::gf256::double;

/// Makes a function from an `#[inline(always)]` body that runs the body compiled for the best
/// instructions at hand.
macro_rules! dispatch {
    ($(#[$doc:meta])* $name:ident => $body:ident <$n:ident> ($($arg:ident : $type:ty),*)) => {
        $(#[$doc])*
        pub(super) fn $name<const $n: usize>($($arg: $type),*) {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2")]
                fn wide<const $n: usize>($($arg: $type),*) {
                    $body($($arg),*);
                }
                if is_x86_feature_detected!("avx2") {
                    // SAFETY: the only thing that makes `wide` unsafe to call is a processor
                    // without AVX2.
                    return unsafe { wide($($arg),*) };
                }
            }
            $body($($arg),*);
        }
    };
}

dispatch! {
    /// `dst ^= a ^ b ..`
    xor => xor_body<N>(dst: &mut [u8], sources: [&[u8]; N])
}

dispatch! {
    /// Feeds N sources to P and Q, the last one first: `q = q * g + d`, `p = p + d`.
    horner => horner_body<N>(p: &mut [u8], q: &mut [u8], sources: [&[u8]; N])
}

/// `dst ^= constant * source`
pub(super) fn multiply_add(dst: &mut [u8], constant: u8, source: &[u8]) {
    multiply_add_n(dst, constant, [source]);
}

dispatch! {
    multiply_add_n => multiply_add_body<N>(dst: &mut [u8], constant: u8, sources: [&[u8]; N])
}

#[inline(always)]
fn xor_body<const N: usize>(dst: &mut [u8], sources: [&[u8]; N]) {
    // One length for all, known before the loop, lets the compiler drop the bounds checks.
    let len = dst.len();
    let sources = sources.map(|s| &s[..len]);
    for i in 0..len {
        dst[i] ^= sources.iter().fold(0, |sum, s| sum ^ s[i]);
    }
}

#[inline(always)]
fn horner_body<const N: usize>(p: &mut [u8], q: &mut [u8], sources: [&[u8]; N]) {
    let len = p.len();
    let (q, sources) = (&mut q[..len], sources.map(|s| &s[..len]));
    for i in 0..len {
        let (mut sum, mut weighted) = (p[i], q[i]);
        for s in sources.iter().rev() {
            sum ^= s[i];
            weighted = double(weighted) ^ s[i];
        }
        (p[i], q[i]) = (sum, weighted);
    }
}

#[inline(always)]
fn multiply_add_body<const N: usize>(dst: &mut [u8], constant: u8, sources: [&[u8]; N]) {
    let len = dst.len();
    // All ones where the constant has a bit, so that the loop has no branch.
    let masks: [u8; 8] = std::array::from_fn(|bit| 0u8.wrapping_sub(constant >> bit & 1));
    for source in sources.map(|s| &s[..len]) {
        for i in 0..len {
            dst[i] ^= masks.iter().rev().fold(0, |sum, mask| double(sum) ^ (mask & source[i]));
        }
    }
}

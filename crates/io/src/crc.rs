//! CRC32C of buffers: what every read is held against. Where the processor multiplies polynomials
//! 512 bits at a time, a page takes 50 ns and not the 180 that its CRC instruction needs; elsewhere
//! that instruction does it.
//!
//! ```text
//!  64 bytes ─┐        times x^2048, added to the next 256        ┌ times x^512 ┐
//!  64 bytes ─┼─ four sums ─────────────────────> ... ────────────┼─────────────┼> 64 > 16 > CRC
//!  64 bytes ─┤                                                   │             │
//!  64 bytes ─┘                                                   └─────────────┘
//! ```
//! In the reflected form bit 31 is x^0. What is folded stays equal to what it stands for modulo the
//! polynomial; the CRC instruction brings the last 16 bytes to 32 bits.

/// CRC32C's polynomial, reflected, without x^32.
#[cfg(target_arch = "x86_64")]
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// What is folded at a time; shorter pieces, and the rest of longer ones, are not.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
const STEP: usize = 256;

pub fn crc32c(bytes: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    {
        let whole = bytes.len() / STEP * STEP;
        if whole > 0
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("vpclmulqdq")
            && is_x86_feature_detected!("sse4.2")
        {
            let (folded, rest) = bytes.split_at(whole);
            // SAFETY: the only thing that makes `fold` unsafe to call is a processor that lacks
            // what was just looked for (`vpclmulqdq` is never without `pclmulqdq`).
            let crc = unsafe { fold(folded) };
            return if rest.is_empty() { crc } else { crc32c::crc32c_append(crc, rest) };
        }
    }
    crc32c::crc32c(bytes)
}

#[cfg(target_arch = "x86_64")]
const fn times_x(value: u32) -> u32 {
    value >> 1 ^ if value & 1 == 1 { POLYNOMIAL } else { 0 }
}

/// x^exponent.
#[cfg(target_arch = "x86_64")]
const fn power(exponent: u32) -> u32 {
    let mut value = 1 << 31;
    let mut done = 0;
    while done < exponent {
        value = times_x(value);
        done += 1;
    }
    value
}

/// Factors that carry 128 bits so many further: of the half that comes first, and of the other,
/// which is 64 bits nearer. A product of reflected numbers lies one bit lower, and 32 bits are
/// where 64 would be.
#[cfg(target_arch = "x86_64")]
const fn factors(bits: u32) -> [u64; 2] {
    [(power(bits + 32) as u64) << 1, (power(bits - 32) as u64) << 1]
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,vpclmulqdq,pclmulqdq,sse4.2")]
fn fold(bytes: &[u8]) -> u32 {
    use std::arch::x86_64::*;

    const FAR: [u64; 2] = factors(2048);
    const NEAR: [u64; 2] = factors(512);
    const LAST: [u64; 2] = factors(128);

    #[target_feature(enable = "avx512f")]
    fn load(bytes: &[u8], at: usize) -> __m512i {
        let bytes = &bytes[at..at + 64];
        // SAFETY: 64 bytes are there, at any alignment.
        unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
    }

    #[target_feature(enable = "avx512f,vpclmulqdq")]
    fn carry(sum: __m512i, factors: __m512i, next: __m512i) -> __m512i {
        let low = _mm512_clmulepi64_epi128::<0x00>(sum, factors);
        let high = _mm512_clmulepi64_epi128::<0x11>(sum, factors);
        // 0x96: the sum of the three.
        _mm512_ternarylogic_epi64::<0x96>(low, high, next)
    }

    let wide =
        |[low, high]: [u64; 2]| _mm512_broadcast_i32x4(_mm_set_epi64x(high as i64, low as i64));
    let far = wide(FAR);
    // A CRC begins with ones in the place of its first 32 bits.
    let ones = _mm512_castsi128_si512(_mm_cvtsi32_si128(-1));
    let ones = _mm512_maskz_mov_epi32(1, ones);
    let mut sums = [load(bytes, 0), load(bytes, 64), load(bytes, 128), load(bytes, 192)];
    sums[0] = _mm512_xor_si512(sums[0], ones);
    for next in bytes[STEP..].chunks_exact(STEP) {
        for (at, sum) in sums.iter_mut().enumerate() {
            *sum = carry(*sum, far, load(next, at * 64));
        }
    }
    let near = wide(NEAR);
    let [first, second, third, fourth] = sums;
    let sum = carry(carry(carry(first, near, second), near, third), near, fourth);
    let lanes = [
        _mm512_extracti32x4_epi32::<0>(sum),
        _mm512_extracti32x4_epi32::<1>(sum),
        _mm512_extracti32x4_epi32::<2>(sum),
        _mm512_extracti32x4_epi32::<3>(sum),
    ];
    let last = _mm_set_epi64x(LAST[1] as i64, LAST[0] as i64);
    let mut sum = lanes[0];
    for lane in &lanes[1..] {
        let low = _mm_clmulepi64_si128::<0x00>(sum, last);
        let high = _mm_clmulepi64_si128::<0x11>(sum, last);
        sum = _mm_xor_si128(_mm_xor_si128(low, high), *lane);
    }
    let crc = _mm_crc32_u64(0, _mm_cvtsi128_si64(sum) as u64);
    !(_mm_crc32_u64(crc, _mm_extract_epi64::<1>(sum) as u64) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_crc32c() {
        let mut bytes = vec![0; 6 * STEP + 200];
        crate::rng::Rng::new(1).fill(&mut bytes);
        for from in [0, 1, 7, 33, 64] {
            for len in 0..=bytes.len() - from {
                let some = &bytes[from..from + len];
                assert_eq!(crc32c(some), crc32c::crc32c(some), "{len} bytes from {from}");
            }
        }
    }

    /// RFC 3720 B.4.
    #[test]
    fn it_gives_the_published_sums() {
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(&[0; 4096]), 0x98f9_4189);
    }
}

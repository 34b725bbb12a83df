//! P and Q of a stripe, as every RAID-6 has them: P is the XOR of the data, Q the sum of `g^i *
//! d_i` over GF(2^8).
//!
//! Buffers are walked in tiles small enough for the first-level cache, so that each byte of data
//! comes from memory once however many passes the arithmetic takes.

mod gf256;
mod kernels;
mod recover;

pub use recover::reconstruct;

/// Bytes worked on at a time: P, Q and four sources of a tile fit a 32 KiB first-level cache.
const TILE: usize = 4096;

/// `dst ^= src`. Both must be of one length.
pub fn xor_into(dst: &mut [u8], src: &[u8]) {
    assert_eq!(dst.len(), src.len(), "XOR of different lengths");
    kernels::xor(dst, [src]);
}

/// Computes P, or P and Q, of a stripe's data. All slices must be of one length; at most 255 of
/// data.
pub fn compute(data: &[&[u8]], parity: &mut [&mut [u8]]) {
    assert!(data.len() <= 255, "Q can't tell more than 255 data positions apart");
    assert!(data.iter().all(|d| d.len() == parity[0].len()), "data and parity differ in length");
    let mut sources = Vec::with_capacity(data.len());
    for start in (0..parity[0].len()).step_by(TILE) {
        let end = parity[0].len().min(start + TILE);
        sources.clear();
        sources.extend(data.iter().map(|d| &d[start..end]));
        match parity {
            [p] => sum(&sources, &mut p[start..end]),
            [p, q] => sums(&sources, &mut p[start..end], &mut q[start..end]),
            _ => panic!("a stripe has 1 or 2 parity blocks, not {}", parity.len()),
        }
    }
}

/// `q ^= g^position * data`: adds a data block to Q or, the same thing, takes it out.
pub fn q_accumulate(q: &mut [u8], position: usize, data: &[u8]) {
    assert_eq!(q.len(), data.len(), "Q and data differ in length");
    kernels::multiply_add(q, gf256::power(position), data);
}

/// P of one tile.
fn sum(sources: &[&[u8]], p: &mut [u8]) {
    p.fill(0);
    let (fours, rest) = sources.as_chunks::<4>();
    fours.iter().for_each(|four| kernels::xor(p, *four));
    rest.iter().for_each(|one| kernels::xor(p, [*one]));
}

/// P and Q of one tile. Horner's rule, from the last position to the first: `q = q * g + d`.
fn sums(sources: &[&[u8]], p: &mut [u8], q: &mut [u8]) {
    p.fill(0);
    q.fill(0);
    let (rest, fours) = sources.as_rchunks::<4>();
    fours.iter().rev().for_each(|four| kernels::horner(p, q, *four));
    rest.iter().rev().for_each(|one| kernels::horner(p, q, [*one]));
}

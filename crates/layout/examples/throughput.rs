//! Prints how fast the parity kernels are on this machine:
//! `cargo run --release -p layout --example throughput`.

#![expect(clippy::disallowed_types, clippy::disallowed_methods, reason = "measures real time")]

use std::hint::black_box;
use std::time::Instant;

use layout::StripeShape;
use layout::parity;

const BLOCK: usize = 64 * 1024;
const DATA: usize = 6;
const ROUNDS: usize = 20_000;

fn main() {
    let blocks: Vec<Vec<u8>> = (0..DATA).map(|i| vec![i as u8 * 37 + 1; BLOCK]).collect();
    let data: Vec<&[u8]> = blocks.iter().map(Vec::as_slice).collect();
    let (mut p, mut q) = (vec![0; BLOCK], vec![0; BLOCK]);
    report("P", DATA, || parity::compute(black_box(&data), &mut [&mut p]));
    report("P and Q", DATA, || parity::compute(black_box(&data), &mut [&mut p, &mut q]));
    report("xor_into", 1, || parity::xor_into(&mut p, black_box(data[1])));
    report("q_accumulate", 1, || parity::q_accumulate(&mut q, 5, black_box(data[1])));
    parity::compute(&data, &mut [&mut p, &mut q]);
    for lost in [vec![2], vec![2, 6], vec![2, 4]] {
        recover(&data, &p, &q, &lost);
    }
}

fn recover(data: &[&[u8]], p: &[u8], q: &[u8], lost: &[usize]) {
    let shape = StripeShape::new(DATA as u16 + 2, 2).expect("6+2 is a valid shape");
    let mut members: Vec<Option<&[u8]>> = data.iter().copied().chain([p, q]).map(Some).collect();
    lost.iter().for_each(|i| members[*i] = None);
    let mut outs = vec![vec![0; BLOCK]; lost.len()];
    report(&format!("reconstruct {lost:?}"), DATA, || {
        let mut wanted: Vec<_> =
            lost.iter().copied().zip(outs.iter_mut().map(Vec::as_mut_slice)).collect();
        parity::reconstruct(shape, black_box(&members), &mut wanted).expect("enough is left");
    });
}

/// Speed counted in bytes of data that went in.
fn report(name: &str, blocks: usize, mut work: impl FnMut()) {
    let start = Instant::now();
    (0..ROUNDS).for_each(|_| work());
    let bytes = (ROUNDS * blocks * BLOCK) as f64;
    println!("{name:20} {:6.1} GB/s", bytes / start.elapsed().as_secs_f64() / 1e9);
}

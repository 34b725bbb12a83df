//! What the executor and a memory drive cost by themselves: nanoseconds per wake and poll, and
//! per 4 KiB write. `cargo run --release -p io --example overhead`

use std::time::Instant;

use io::exec::{Executor, yield_now};
use io::mem::MemDrive;
use io::rng::Rng;
use io::{Buf, Drive, Durability};

const POLLS: usize = 20_000_000;
const WRITES: u32 = 1_000_000;

#[expect(clippy::disallowed_methods, reason = "measures real time")]
fn main() {
    let executor = Executor::new();
    for _ in 0..64 {
        executor.spawn(async {
            loop {
                yield_now().await;
            }
        });
    }
    let start = Instant::now();
    assert_eq!(executor.run_ready(POLLS), POLLS);
    println!("{:.1} ns per wake and poll", start.elapsed().as_nanos() as f64 / POLLS as f64);
    executor.drop_tasks();
    let drive = MemDrive::new("mem:0", 64 << 20, 4096);
    executor.spawn(async move {
        for round in 0..3 {
            println!("round {round}: {} ns per 4 KiB write", write_cost(&drive).await);
        }
    });
    executor.run_ready(usize::MAX);
}

#[expect(clippy::disallowed_methods, reason = "measures real time")]
async fn write_cost(drive: &MemDrive) -> u128 {
    let data = Buf::from_slice(&[5; 4096]);
    let (mut rng, start) = (Rng::new(1), Instant::now());
    for _ in 0..WRITES {
        let offset = rng.below(64 << 8) * 4096;
        drive.write(offset, data.clone(), Durability::Cached).await.expect("inside the drive");
    }
    start.elapsed().as_nanos() / u128::from(WRITES)
}

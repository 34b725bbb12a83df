//! `sim`: runs worlds, replays one, cuts the power everywhere.

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let start: u64 = args[1].parse().unwrap();
    let count: u64 = args[2].parse().unwrap();
    let mut failed = 0;
    for seed in start..start + count {
        match sim::run::seed(seed) {
            Ok(r) => if args[0] == "replay" { println!("{r:?}") },
            Err(e) => { failed += 1; println!("FAIL {seed}: {e}") },
        }
    }
    println!("{} passed, {failed} failed", count - failed);
}

//! A seed means the same, always.

use sim::world::run;

#[test]
fn the_same_seed_does_the_same_and_another_something_else() {
    let seeds = [3, 17, 150];
    let first = seeds.map(|seed| run(seed).expect("it passes"));
    let second = seeds.map(|seed| run(seed).expect("it passes"));
    assert_eq!(first, second, "drives saw the same at the same times, and the counters agree");
    assert_ne!(first[0].trace, first[1].trace);
    assert_ne!(first[1].trace, first[2].trace);
}

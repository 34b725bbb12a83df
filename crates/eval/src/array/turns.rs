//! Several loads that have the array in turn, each for a while, going on where it stopped: one run
//! sees all of a paper's traces, none of them beside another.
//!
//! ```text
//!   load 0  |a a|b  |   |        in turn  |a a|x  |b  | y |
//!   load 1  |x  | y |   |
//! ```

use io::Nanos;

use super::load::{Load, Request};

#[derive(Clone)]
pub struct Turns<L> {
    loads: Vec<L>,
    /// How long each has it.
    turn: Nanos,
}

impl<L: Load> Turns<L> {
    pub fn new(loads: Vec<L>, turn: Nanos) -> Turns<L> {
        assert!(!loads.is_empty() && turn > Nanos::ZERO, "somebody has a turn, and it ends");
        Turns { loads, turn }
    }
}

impl<L: Load> Load for Turns<L> {
    fn requests(&self) -> Box<dyn Iterator<Item = Request>> {
        let mut each: Vec<_> = self.loads.iter().map(|load| load.requests().peekable()).collect();
        let turn = self.turn.0;
        let turns = (0u64..).map_while(move |number| {
            if each.iter_mut().all(|load| load.peek().is_none()) {
                return None;
            }
            let (round, whose) = (number / each.len() as u64, number % each.len() as u64);
            let (load, end) = (&mut each[whose as usize], Nanos((round + 1) * turn));
            let later = Nanos((number - round) * turn);
            let mut own = Vec::new();
            while let Some(request) = load.next_if(|request| request.at < end) {
                own.push(Request { at: request.at + later, ..request });
            }
            Some(own)
        });
        Box::new(turns.flatten())
    }

    fn largest_write(&self) -> u64 {
        self.loads.iter().map(Load::largest_write).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use io::rng::Rng;
    use proptest::prelude::*;

    use super::*;

    /// Requests at these times; their place says whose they are.
    #[derive(Clone)]
    struct Listed(Vec<u64>, u64);

    impl Listed {
        fn of(seed: u64, place: u64) -> Listed {
            let mut rng = Rng::new(seed);
            let mut at = 0;
            let mut next = || {
                at += rng.below(150);
                at
            };
            Listed((0..200).map(|_| next()).collect(), place)
        }
    }

    impl Load for Listed {
        fn requests(&self) -> Box<dyn Iterator<Item = Request>> {
            let offset = self.1;
            let request = move |at| Request { at: Nanos(at), read: true, offset, len: 1 };
            Box::new(self.0.clone().into_iter().map(request))
        }

        fn largest_write(&self) -> u64 {
            self.1
        }
    }

    proptest! {
        /// Against the definition, request by request.
        #[test]
        fn each_goes_on_where_it_stopped(count in 1u64..5, turn in 1u64..400, seed: u64) {
            let loads: Vec<Listed> = (0..count).map(|at| Listed::of(seed ^ at, at)).collect();
            let turns = Turns::new(loads.clone(), Nanos(turn));
            let mut wanted = Vec::new();
            for (place, load) in (0..count).zip(&loads) {
                for at in &load.0 {
                    let (round, within) = (at / turn, at % turn);
                    wanted.push(((round * count + place) * turn + within, place));
                }
            }
            wanted.sort();
            let found = turns.requests().map(|request| (request.at.0, request.offset));
            let found: Vec<_> = found.collect();
            prop_assert!(found.is_sorted_by_key(|(at, _)| *at));
            let mut sorted = found;
            sorted.sort();
            prop_assert_eq!(sorted, wanted);
            prop_assert_eq!(turns.largest_write(), count - 1);
        }
    }
}

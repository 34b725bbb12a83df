//! Mean time to data loss of arrays whose drives fail and are rebuilt at constant rates: by
//! solving the chain, and by playing it.

use io::Nanos;
use io::faulty::Delay;
use io::rng::Rng;

/// A chain that begins in state 0 and ends when data is lost.
#[derive(Clone, Debug)]
pub struct Chain {
    /// Rates from one state to another; per hour.
    moves: Vec<(usize, usize, f64)>,
    /// Rates at which data is lost in each state; per hour.
    losses: Vec<f64>,
}

impl Chain {
    pub fn new(states: usize) -> Chain {
        Chain { moves: Vec::new(), losses: vec![0.0; states] }
    }

    pub fn goes(mut self, from: usize, to: usize, rate: f64) -> Chain {
        self.moves.push((from, to, rate));
        self
    }

    pub fn loses(mut self, from: usize, rate: f64) -> Chain {
        self.losses[from] += rate;
        self
    }

    /// Hours until data is lost, on average.
    ///
    /// From a state that is left at rate r it takes 1/r, and then what the next state takes: one
    /// linear equation a state, solved by elimination.
    pub fn mttdl(&self) -> f64 {
        let states = self.losses.len();
        let mut rows = vec![vec![0.0; states + 1]; states];
        for (state, row) in rows.iter_mut().enumerate() {
            row[state] = self.losses[state];
            row[states] = 1.0;
            for &(_, to, rate) in self.moves.iter().filter(|(from, ..)| *from == state) {
                row[state] += rate;
                row[to] -= rate;
            }
        }
        // Diagonally dominant: no pivots to look for.
        for at in 0..states {
            let pivot = rows[at].clone();
            for row in rows.iter_mut().skip(at + 1) {
                let times = row[at] / pivot[at];
                row.iter_mut().zip(&pivot).for_each(|(cell, own)| *cell -= times * own);
            }
        }
        let mut times = vec![0.0; states];
        for at in (0..states).rev() {
            let known: f64 = (at + 1..states).map(|to| rows[at][to] * times[to]).sum();
            times[at] = (rows[at][states] - known) / rows[at][at];
        }
        times[0]
    }

    /// The same, as the mean over so many lives, and the standard error of that mean. Both in
    /// hours.
    pub fn played(&self, lives: u64, seed: u64) -> (f64, f64) {
        let mut rng = Rng::new(seed);
        let (mut sum, mut squares) = (0.0, 0.0);
        for _ in 0..lives {
            let life = self.life(&mut rng);
            sum += life;
            squares += life * life;
        }
        let (count, mean) = (lives as f64, sum / lives as f64);
        let variance = (squares / count - mean * mean).max(0.0);
        (mean, (variance / count).sqrt())
    }

    fn life(&self, rng: &mut Rng) -> f64 {
        /// A draw with mean one, as fine as a nanosecond of a second is.
        const ONE: u64 = 1_000_000_000;
        let (mut state, mut hours) = (0, 0.0);
        loop {
            let leaving = || self.moves.iter().filter(move |(from, ..)| *from == state);
            let rate = self.losses[state] + leaving().map(|(_, _, rate)| rate).sum::<f64>();
            let drawn = Delay::Exponential { mean: Nanos(ONE) }.draw(rng);
            hours += drawn.0 as f64 / ONE as f64 / rate;
            let mut which = rng.below(ONE) as f64 / ONE as f64 * rate;
            if which < self.losses[state] {
                return hours;
            }
            which -= self.losses[state];
            let next = leaving().find(|(_, _, rate)| {
                which -= rate;
                which < 0.0
            });
            // The last one if rounding has left nothing.
            state = next.or_else(|| leaving().next_back()).map_or(state, |(_, to, _)| *to);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// n drives of which one may fail: (2n-1)φ+μ over n(n-1)φ² (Kao et al.).
    fn raid5(drives: f64, phi: f64, mu: f64) -> Chain {
        let chain = Chain::new(2).goes(0, 1, drives * phi).goes(1, 0, mu);
        chain.loses(1, (drives - 1.0) * phi)
    }

    #[test]
    fn raid5_is_as_its_formula_says() {
        for (drives, phi, mu) in [(4.0, 1e-5, 0.04), (6.0, 1e-3, 0.01), (2.0, 0.5, 0.1)] {
            let formula = ((2.0 * drives - 1.0) * phi + mu) / (drives * (drives - 1.0) * phi * phi);
            let solved = raid5(drives, phi, mu).mttdl();
            assert!((solved / formula - 1.0).abs() < 1e-9, "{solved} {formula}");
        }
    }

    #[test]
    fn playing_it_comes_to_the_same() {
        let chain = raid5(4.0, 1e-3, 0.02);
        let (mean, error) = chain.played(4_000, 1);
        let solved = chain.mttdl();
        assert!((mean - solved).abs() < 4.0 * error, "{mean} +- {error}, {solved}");
        assert!(error < solved * 0.03);
        assert_eq!(chain.played(50, 7), chain.played(50, 7));
    }
}

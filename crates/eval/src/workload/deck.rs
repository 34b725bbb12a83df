//! Choices by weight that come out exactly: every card of a deck is drawn once before it is
//! shuffled again. A short stream then has the mix that was asked for.

use io::rng::Rng;

/// Cards, some of each kind.
#[derive(Clone, Debug)]
pub struct Deck {
    all: Vec<u64>,
    left: Vec<u64>,
    sum: u64,
    /// A card of this kind is the last.
    end: Option<usize>,
}

impl Deck {
    /// So many of each kind; at least one in all.
    pub fn new(counts: Vec<u64>) -> Deck {
        assert!(counts.iter().any(|&count| count > 0), "a deck has a card");
        Deck { left: vec![0; counts.len()], all: counts, sum: 0, end: None }
    }

    /// By shares of any sum, rounded to about so many cards. What has a share has a card.
    pub fn of_shares(shares: impl Iterator<Item = f64> + Clone, all: u32) -> Deck {
        let sum: f64 = shares.clone().sum();
        let cards = |share: f64| match share {
            share if share > 0.0 => ((share / sum * f64::from(all)).round() as u64).max(1),
            _ => 0,
        };
        Deck::new(shares.map(cards).collect())
    }

    /// A card of a kind that there is comes when all others are drawn.
    pub fn ending(self, end: Option<usize>) -> Deck {
        assert!(end.is_none_or(|end| self.all[end] > 0), "there is no such card");
        Deck { end, ..self }
    }

    pub fn draw(&mut self, rng: &mut Rng) -> usize {
        if self.sum == 0 {
            self.left.copy_from_slice(&self.all);
            self.sum = self.all.iter().sum();
            if let Some(end) = self.end {
                self.left[end] -= 1;
            }
        }
        if let (1, Some(end)) = (self.sum, self.end) {
            self.sum = 0;
            return end;
        }
        let mut drawn = rng.below(self.sum - u64::from(self.end.is_some()));
        self.sum -= 1;
        for (kind, left) in self.left.iter_mut().enumerate() {
            if drawn < *left {
                *left -= 1;
                return kind;
            }
            drawn -= *left;
        }
        unreachable!("drawn below the sum")
    }
}

/// A share of all cases, spread evenly: of so many cases, one more or less than the share.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spread(f64);

impl Spread {
    pub fn next(&mut self, share: f64) -> bool {
        self.0 += share;
        let now = self.0 >= 1.0;
        if now {
            self.0 -= 1.0;
        }
        now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_deck_has_its_mix_in_another_order() {
        let mut deck = Deck::new(vec![5, 0, 15]);
        let mut rng = Rng::new(1);
        let mut draw = || (0..20).map(|_| deck.draw(&mut rng)).collect::<Vec<_>>();
        let (first, second) = (draw(), draw());
        for deck in [&first, &second] {
            assert_eq!(deck.iter().filter(|&&kind| kind == 0).count(), 5);
            assert!(!deck.contains(&1));
        }
        assert_ne!(first, second);
        let mut ending = Deck::new(vec![5, 0, 15]).ending(Some(0));
        for _ in 0..9 {
            let drawn: Vec<usize> = (0..20).map(|_| ending.draw(&mut rng)).collect();
            assert_eq!((drawn.iter().filter(|&&kind| kind == 0).count(), drawn[19]), (5, 0));
        }
        assert_eq!(
            Deck::of_shares([1.0, 0.0, 3.0, 1e-9].into_iter(), 10_000).all,
            [2500, 0, 7500, 1]
        );
    }

    #[test]
    fn a_share_is_kept_at_any_length() {
        let mut spread = Spread::default();
        let mut count = 0.0;
        for cases in 1..1000 {
            count += f64::from(u8::from(spread.next(0.3)));
            assert!((count - 0.3 * f64::from(cases)).abs() <= 1.0);
        }
    }
}

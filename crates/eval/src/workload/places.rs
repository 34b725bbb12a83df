//! Where requests of one kind go.
//!
//! Each size has places of its own, single ones and runs, and old ones are used as they were made.
//! So the popular places do not bend the mix of sizes, and writing an old place again updates
//! exactly what was there.

use io::rng::Rng;

use super::deck::{Deck, Spread};
use super::space::Space;
use super::{Kind, exact};

/// Of a run of large requests.
pub const RUN_BYTES_MAX: u64 = 8 << 20;
/// Places of a kind that are remembered, 8 bytes each: then all requests go to old ones.
const PLACES_MAX: usize = 1 << 22;

/// Cards of the sizes: rare ones are one in ten thousand.
const CARDS: u32 = 10_000;

pub struct Stream {
    classes: Vec<Class>,
    deck: Deck,
    fresh: f64,
    skew: f64,
    shared: f64,
    from_written: Spread,
    /// Of all classes.
    places: usize,
    /// Of the run under way: where it goes on, bytes of a request, requests.
    run: (u64, u64, u64),
}

struct Class {
    bytes: u64,
    /// Of a place.
    requests: u64,
    places: Vec<u64>,
    made: Spread,
}

impl Stream {
    pub fn new(kind: &Kind) -> Stream {
        let mut classes = Vec::new();
        let mut shares = Vec::new();
        for &(bytes, share) in &kind.sizes {
            let run = kind.run.min(RUN_BYTES_MAX / bytes).max(2);
            // All of a run but the first go on.
            let in_runs = (kind.sequential * run as f64 / (run - 1) as f64).min(1.0);
            for (requests, part) in [(1, 1.0 - in_runs), (run, in_runs)] {
                if part > 0.0 {
                    classes.push(Class {
                        bytes,
                        requests,
                        places: Vec::new(),
                        made: Spread::default(),
                    });
                    shares.push(share * part / requests as f64);
                }
            }
        }
        if classes.is_empty() {
            // A kind that never comes.
            classes.push(Class {
                bytes: super::SECTOR,
                requests: 1,
                places: Vec::new(),
                made: Spread::default(),
            });
            shares.push(1.0);
        }
        Stream {
            classes,
            deck: Deck::of_shares(shares.iter().copied(), CARDS),
            fresh: kind.fresh,
            skew: kind.skew,
            shared: kind.shared,
            from_written: Spread::default(),
            places: 0,
            run: (0, 0, 0),
        }
    }

    pub fn largest_place(&self) -> u64 {
        self.classes.iter().map(|class| class.bytes * class.requests).max().unwrap_or(0)
    }

    /// Offset and bytes. `kind` is 0 for reads, 1 for writes.
    pub fn next(&mut self, kind: usize, space: &mut Space, rng: &mut Rng) -> (u64, u64) {
        if self.run.2 == 0 {
            let at = self.deck.draw(rng);
            let place = self.place(at, kind, space, rng);
            let class = &self.classes[at];
            self.run = (place, class.bytes, class.requests);
        }
        let (offset, bytes, left) = self.run;
        self.run = (offset + bytes, bytes, left - 1);
        (offset, bytes)
    }

    fn place(&mut self, at: usize, kind: usize, space: &mut Space, rng: &mut Rng) -> u64 {
        let class = &mut self.classes[at];
        let bytes = class.bytes * class.requests;
        let is_fresh = class.made.next(self.fresh) || class.places.is_empty();
        if is_fresh && self.places < PLACES_MAX {
            let reads_written = kind == 0 && self.from_written.next(self.shared);
            let written = if reads_written { space.written(bytes) } else { None };
            let made = written.or_else(|| space.allocate(kind, bytes));
            if let Some(place) = made {
                class.places.push(place);
                self.places += 1;
                if kind == 1 {
                    space.wrote(place, bytes);
                }
                return place;
            }
        }
        if class.places.is_empty() {
            // The space is used up, and nothing of this size is in it.
            let places = (space.span() - bytes) / space.align() + 1;
            return rng.below(places) * space.align();
        }
        class.places[popular(class.places.len(), self.skew, rng)]
    }
}

/// A number below `count`, n as often as (n+1)^-skew: the inverse of the integral.
pub(super) fn popular(count: usize, skew: f64, rng: &mut Rng) -> usize {
    if skew == 0.0 {
        return rng.index(count);
    }
    let drawn = ((rng.next_u64() >> 12) as f64 + 0.5) / (1u64 << 52) as f64;
    let end = (count + 1) as f64;
    let rank = if (skew - 1.0).abs() < 1e-6 {
        exact::power(end, drawn)
    } else {
        let power = 1.0 - skew;
        exact::power((exact::power(end, power) - 1.0) * drawn + 1.0, 1.0 / power)
    };
    (rank as usize).clamp(1, count) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn popularity_falls_with_its_power() {
        let mut rng = Rng::new(1);
        for (skew, first, hundredth) in [(0.0, 0.001, 0.001), (1.0, 0.1, 0.00144)] {
            let mut counts = vec![0u32; 1000];
            (0..1_000_000).for_each(|_| counts[popular(1000, skew, &mut rng)] += 1);
            let near =
                |count: u32, wanted: f64| (f64::from(count) / 1e6 / wanted - 1.0).abs() < 0.1;
            assert!(near(counts[0], first), "{skew}: {}", counts[0]);
            assert!(near(counts[99..104].iter().sum::<u32>() / 5, hundredth), "{skew}");
        }
        for skew in [0.5, 0.999_999_9, 1.0, 3.0] {
            assert!((0..10_000).all(|_| popular(1, skew, &mut rng) == 0));
        }
    }
}

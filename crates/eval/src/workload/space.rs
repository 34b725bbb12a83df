//! Where new places are: packed into chunks of the space, which are opened in an order that
//! follows from the seed. Several chunks are open at once, so that places made one after another
//! are not neighbours.

use std::collections::VecDeque;

use io::rng::mix;

const PAGE: u64 = 4096;
/// Chunks open for each kind.
const OPEN: usize = 8;
/// Of chunks, unless places are larger or the space is small.
const CHUNK: u64 = 1 << 20;
/// Parts a small space has at least.
const CHUNKS_MIN: u64 = 64;
/// Written places that reads may go to, 16 bytes each.
const WRITTEN_MAX: usize = 1 << 22;

pub struct Space {
    align: u64,
    chunk: u64,
    permutation: Permutation,
    /// Chunks used.
    used: u64,
    /// Of each kind: free from, to.
    open: [Vec<(u64, u64)>; 2],
    turn: [usize; 2],
    /// Written and never read: where, and to where.
    written: VecDeque<(u64, u64)>,
    /// Of these, those of which parts have been read.
    reading: [(u64, u64); OPEN],
    reads: usize,
    places: u64,
    span: u64,
}

impl Space {
    pub fn new(span: u64, largest: u64, align: u64, seed: u64) -> Space {
        let wanted = CHUNK.min(span / CHUNKS_MIN / PAGE * PAGE);
        let chunk = wanted.max(largest.next_multiple_of(align.max(PAGE)) + PAGE);
        Space {
            align,
            chunk,
            permutation: Permutation::new((span / chunk).max(1), seed),
            used: 0,
            open: [vec![(0, 0); OPEN], vec![(0, 0); OPEN]],
            turn: [0; 2],
            written: VecDeque::new(),
            reading: [(0, 0); OPEN],
            reads: 0,
            places: 0,
            span,
        }
    }

    pub fn span(&self) -> u64 {
        self.span
    }

    pub fn align(&self) -> u64 {
        self.align
    }

    /// A place never given out before; `None` if there is none left.
    pub fn allocate(&mut self, kind: usize, bytes: u64) -> Option<u64> {
        // Where pages don't matter to the workload, places begin anywhere in one; no two share it.
        self.places += 1;
        let lead =
            if self.align < PAGE { mix(self.places) % PAGE / self.align * self.align } else { 0 };
        let bytes = (lead + bytes).next_multiple_of(self.align.max(PAGE));
        self.room(kind, bytes).map(|start| start + lead)
    }

    fn room(&mut self, kind: usize, bytes: u64) -> Option<u64> {
        if bytes * 2 > self.chunk {
            // It would leave the rest of one after another unused.
            return self.next_chunk();
        }
        for _ in 0..OPEN {
            self.turn[kind] = (self.turn[kind] + 1) % OPEN;
            let open = self.open[kind][self.turn[kind]];
            if open.1 - open.0 < bytes {
                let Some(start) = self.next_chunk() else { continue };
                self.open[kind][self.turn[kind]] = (start, start + self.chunk);
            }
            let open = &mut self.open[kind][self.turn[kind]];
            open.0 += bytes;
            return Some(open.0 - bytes);
        }
        None
    }

    /// Where a chunk not used before begins.
    fn next_chunk(&mut self) -> Option<u64> {
        if self.used == self.permutation.count {
            return None;
        }
        self.used += 1;
        Some(self.permutation.of(self.used - 1) * self.chunk)
    }

    pub fn wrote(&mut self, place: u64, bytes: u64) {
        if self.written.len() < WRITTEN_MAX {
            self.written.push_back((place, place + bytes));
        }
    }

    /// A place to read that was written and not read before, as far as there is one. Several are
    /// read in turns, so that pieces of one do not follow one another.
    pub fn written(&mut self, bytes: u64) -> Option<u64> {
        for _ in 0..OPEN {
            self.reads = (self.reads + 1) % OPEN;
            let (at, end) = self.reading[self.reads];
            let (at, end) = if end - at >= bytes {
                (at, end)
            } else {
                self.written.pop_front().unwrap_or((0, 0))
            };
            self.reading[self.reads] = ((at + bytes).min(end), end);
            if end > at && at + bytes <= self.span {
                return Some(at);
            }
        }
        None
    }
}

/// Every number below a bound once, in an order that follows from a seed: a Feistel network, whose
/// numbers beyond the bound are sent through it again.
struct Permutation {
    count: u64,
    half: u32,
    seed: u64,
}

impl Permutation {
    fn new(count: u64, seed: u64) -> Permutation {
        let bits = u64::BITS - (count - 1).leading_zeros();
        Permutation { count, half: bits.div_ceil(2).max(1), seed: mix(seed ^ 0x5eed) }
    }

    fn of(&self, number: u64) -> u64 {
        let mut number = number;
        loop {
            number = self.turn(number);
            if number < self.count {
                return number;
            }
        }
    }

    fn turn(&self, number: u64) -> u64 {
        let mask = (1u64 << self.half) - 1;
        let (mut left, mut right) = (number >> self.half, number & mask);
        for round in 0..4 {
            let mixed = mix(self.seed.wrapping_add(round << 60 | right)) & mask;
            (left, right) = (right, left ^ mixed);
        }
        left << self.half | right
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permutation_has_every_number_once() {
        for count in [1, 2, 3, 64, 1000] {
            let permutation = Permutation::new(count, 7);
            let mut numbers: Vec<u64> = (0..count).map(|at| permutation.of(at)).collect();
            assert!(count < 64 || !numbers.is_sorted());
            numbers.sort_unstable();
            assert_eq!(numbers, (0..count).collect::<Vec<_>>());
        }
    }

    #[test]
    fn places_never_overlap_and_end_with_the_space() {
        let span = 64 << 20;
        let mut space = Space::new(span, 1 << 20, 4096, 3);
        let mut places = Vec::new();
        let sizes = [4096, 12_800, 1 << 20, 65_536];
        for at in 0.. {
            let bytes: u64 = sizes[at % 4];
            let Some(place) = space.allocate(at / 3 % 2, bytes) else { break };
            places.push((place, place + bytes));
        }
        places.sort_unstable();
        assert!(places.iter().all(|&(begin, end)| begin % 4096 == 0 && end <= span));
        assert!(places.windows(2).all(|pair| pair[0].1 <= pair[1].0));
        let used: u64 = places.iter().map(|(begin, end)| end - begin).sum();
        assert!(used > span * 6 / 10, "{used}");
    }
}

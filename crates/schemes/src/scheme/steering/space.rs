//! Staging-space manager: how a staging space is divided, who holds what.
//!
//! ```text
//!  reserved: second extent of every drive      dedicated: first extent of the last drive
//!  ┌───────┬───────────┬──────────────────────────────────┐
//!  │ heads │ hot slots │ segment │ segment │ segment │ ... │    heads: second extents of all
//!  └───────┴───────────┴──────────────────────────────────┘
//!            a chunk     records of one drive, appended; free together when all of that
//!            each        drive's writes are back in place
//! ```
//! Hot slots hold bare bytes: nothing is read from them at opening.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use classical::Grid;

use super::record::{PAGE, span};

/// Of a staging space one part in so many is for copies of what is read often. They are chunks
/// of the 10 % that is read most and writes need the rest.
const HOT_SHARE: u64 = 4;
/// Segments of a staging space: enough that several drives collecting at a time have their own.
const SEGMENTS: u64 = 16;
/// Labels are the longest that is written to a drive beside chunks.
const LABEL_BYTES: u64 = 16 << 10;

/// Divisions of a staging space, in bytes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Division {
    pub hot_slots: u64,
    pub hot_at: u64,
    pub segment: u64,
    pub segments: u64,
    pub log_at: u64,
}

/// Divides `len` bytes from `base`; `None`: too small.
pub fn divide(base: u64, len: u64, chunk: u64) -> Option<Division> {
    let hot_slots = len / HOT_SHARE / chunk;
    let log_at = base + hot_slots * chunk;
    let log = len - hot_slots * chunk;
    // A record of the partial-parity log is a page longer than a chunk.
    let largest = span(chunk + PAGE).max(span(LABEL_BYTES));
    let segment = (log / SEGMENTS / PAGE * PAGE).max(largest);
    let segments = log / segment;
    (segments > 0).then_some(Division { hot_slots, hot_at: base, segment, segments, log_at })
}

/// Places of equal size: each is free again when the last who knows it has forgotten it.
pub struct Places {
    free: Rc<RefCell<VecDeque<u64>>>,
    count: u64,
    /// From this one on none is given out.
    closed: Rc<Cell<u64>>,
}

/// Keeps places from being given out until it is forgotten.
pub struct Closed {
    closed: Rc<Cell<u64>>,
}

impl Drop for Closed {
    fn drop(&mut self) {
        self.closed.set(u64::MAX);
    }
}

/// One of them.
pub struct Lease {
    pub number: u64,
    free: Rc<RefCell<VecDeque<u64>>>,
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.free.borrow_mut().push_back(self.number);
    }
}

impl Places {
    pub fn new(count: u64) -> Places {
        let free = Rc::new(RefCell::new((0..count).collect()));
        Places { free, count, closed: Rc::new(Cell::new(u64::MAX)) }
    }

    pub fn take(&self) -> Option<Rc<Lease>> {
        let mut free = self.free.borrow_mut();
        let first = free.iter().position(|number| *number < self.closed.get())?;
        let number = free.remove(first)?;
        Some(Rc::new(Lease { number, free: self.free.clone() }))
    }

    pub fn has_free(&self) -> bool {
        self.free.borrow().iter().any(|number| *number < self.closed.get())
    }

    /// Those from this one on are used for something else.
    pub fn close(&self, from: u64) -> Closed {
        assert_eq!(self.closed.replace(from), u64::MAX, "one lost drive at a time");
        Closed { closed: self.closed.clone() }
    }

    pub fn is_closed(&self) -> bool {
        self.closed.get() != u64::MAX
    }

    /// How many are not closed.
    pub fn open(&self) -> u64 {
        self.count.min(self.closed.get())
    }

    /// None of those that are closed is in use any more.
    pub fn is_given_up(&self) -> bool {
        let free = self.free.borrow();
        let closed = free.iter().filter(|number| **number >= self.open()).count();
        closed as u64 == self.count - self.open()
    }
}

/// What there is to choose from for a write redirected from one drive.
pub struct Choice<'a> {
    pub grid: &'a Grid,
    pub target: usize,
    pub lost: &'a [bool],
    /// There, not busy, with room.
    pub usable: &'a [bool],
    /// Turns from write to write, so that copies are interleaved.
    pub turn: usize,
}

fn group<'a>(grid: &Grid, group: usize, of: &'a [bool]) -> &'a [bool] {
    &of[group * grid.width..(group + 1) * grid.width]
}

/// Copies in one group that outlive whatever the group outlives.
fn needed(grid: &Grid, number: usize, lost: &[bool]) -> usize {
    let gone = group(grid, number, lost).iter().filter(|lost| **lost).count();
    (grid.tolerance() + 1).saturating_sub(gone)
}

/// Whether what all of these drives hold outlives what the array outlives. What a lost drive holds
/// goes when it is replaced, though it may still be written to.
pub fn is_enough(grid: &Grid, lost: &[bool], holding: &[bool]) -> bool {
    let held = |number| {
        let both = group(grid, number, holding).iter().zip(group(grid, number, lost));
        both.filter(|(holds, lost)| **holds && !**lost).count()
    };
    (0..grid.groups()).any(|number| held(number) >= needed(grid, number, lost))
}

/// Drives for the copies of a redirected write: as many of one group as can be lost of it, and one
/// more; the own group first. None of them is the target.
pub fn holders(choice: &Choice) -> Option<Vec<usize>> {
    let Choice { grid, target, lost, usable, turn } = *choice;
    let own = grid.group_of(target);
    let groups = (0..grid.groups()).map(|at| (own + at) % grid.groups());
    for number in groups {
        let need = needed(grid, number, lost).max(1);
        let order = (0..grid.width).map(|at| number * grid.width + (turn + at) % grid.width);
        let found: Vec<usize> =
            order.filter(|&drive| drive != target && usable[drive]).take(need).collect();
        if found.len() == need {
            return Some(found);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use classical::Redundancy;
    use io::rng::Rng;

    use super::*;

    fn grid(redundancy: Redundancy, width: usize, groups: usize) -> Grid {
        Grid { redundancy, drives: width * groups, width, chunk: 4096, rows: 1 }
    }

    #[test]
    fn a_space_is_divided_without_overlap() {
        let base = 2 * PAGE;
        let Division { hot_slots, hot_at, segment, segments, log_at } =
            divide(base, (1 << 20) - base, 8192).expect("it is large enough");
        assert_eq!((hot_at, log_at), (base, base + hot_slots * 8192));
        assert!(log_at + segments * segment <= 1 << 20);
        assert_eq!((hot_slots, segments), (31, 16));
        assert_eq!(divide(base, 16 << 10, 8192), None);
    }

    #[test]
    fn a_place_is_free_when_all_have_forgotten_it() {
        let places = Places::new(1);
        let first = places.take().expect("it is free");
        let second = first.clone();
        assert!(places.take().is_none());
        drop(first);
        assert!(!places.has_free());
        drop(second);
        assert_eq!(places.take().expect("free again").number, 0);
    }

    #[test]
    fn closed_places_are_given_up_and_come_back() {
        let places = Places::new(3);
        let taken: Vec<_> = (0..3).map(|_| places.take().expect("it is free")).collect();
        let closed = places.close(1);
        assert_eq!((places.open(), places.is_given_up()), (1, false));
        drop(taken);
        assert!(places.is_given_up());
        let first = places.take().expect("this one is open");
        assert!(first.number == 0 && places.take().is_none() && !places.has_free());
        drop(closed);
        assert_eq!((places.open(), places.has_free()), (3, true));
    }

    #[test]
    fn raid1_of_two_drives_has_no_two_others() {
        let (grid, none, all) = (grid(Redundancy::Mirror, 2, 1), [false; 2], [true; 2]);
        let choice = Choice { grid: &grid, target: 0, lost: &none, usable: &all, turn: 0 };
        assert_eq!(holders(&choice), None);
    }

    /// Whatever the array survives leaves a copy, unless the target itself is gone.
    #[test]
    fn copies_outlive_every_loss_that_the_array_outlives() {
        let kinds = [
            grid(Redundancy::Parity(1), 3, 1),
            grid(Redundancy::Parity(1), 5, 1),
            grid(Redundancy::Parity(2), 5, 1),
            grid(Redundancy::Parity(1), 3, 2),
            grid(Redundancy::Mirror, 2, 3),
        ];
        for (kind, grid) in kinds.iter().enumerate() {
            let survives = |lost: &[bool]| {
                let gone = |group: &[bool]| group.iter().filter(|lost| **lost).count();
                lost.chunks(grid.width).all(|group| gone(group) <= grid.tolerance())
            };
            for seed in 0..300 {
                let mut rng = Rng::new(seed);
                let mut draw =
                    |part| -> Vec<bool> { (0..grid.drives).map(|_| rng.chance(1, part)).collect() };
                let (mut lost, slow, later) = (draw(4), draw(5), draw(2));
                let target = (seed % grid.drives as u64) as usize;
                lost[target] = false;
                if !survives(&lost) {
                    continue;
                }
                let all: Vec<bool> = lost.iter().zip(&later).map(|(a, b)| *a || *b).collect();
                if is_enough(grid, &lost, &slow) && survives(&all) {
                    let kept = slow.iter().zip(&all).any(|(holds, lost)| *holds && !*lost);
                    assert!(kept, "{kind} {seed}: anything may hold it, also what is lost");
                }
                let usable: Vec<bool> =
                    lost.iter().zip(&slow).map(|(lost, slow)| !lost && !slow).collect();
                let choice =
                    Choice { grid, target, lost: &lost, usable: &usable, turn: seed as usize };
                let found = holders(&choice);
                let spare = (0..grid.width).filter(|at| {
                    let at = grid.group_of(target) * grid.width + at;
                    at != target && usable[at]
                });
                let gone = group(grid, grid.group_of(target), &lost);
                let gone = gone.iter().filter(|lost| **lost).count();
                if spare.count() > grid.tolerance() - gone {
                    assert!(found.is_some(), "{kind} {seed}: there is room in the own group");
                }
                let Some(found) = found else { continue };
                let mut holding = vec![false; grid.drives];
                found.iter().for_each(|&drive| holding[drive] = true);
                assert!(is_enough(grid, &lost, &holding));
                assert!(!holding[target] && found.iter().all(|&drive| usable[drive]));
                if survives(&all) {
                    assert!(found.iter().any(|&drive| !all[drive]), "{kind} {seed}");
                }
            }
        }
    }
}

//! The lines against a slow oracle that knows what the drives may say after a crash.

use proptest::prelude::*;

use super::*;

const SLOTS: usize = 5;
const HOME: u32 = 12;

fn empty() -> Lines {
    Lines::new(vec![0; SLOTS + 1], HOME, 4).expect("empty")
}

fn cache(lines: &mut Lines, line: u32) -> Given {
    let given = lines.give(line).expect("there is room");
    lines.put(line, given);
    given
}

#[test]
fn the_stripes_left_alone_longest_are_destaged_first() {
    let mut lines = empty();
    for line in [0, 4, 8, 1] {
        cache(&mut lines, line);
    }
    assert_eq!(lines.oldest(2), [1, 2]);
    cache(&mut lines, 4);
    assert_eq!(lines.oldest(3), [2, 0, 1]);
    assert_eq!(lines.of_stripe(0), [(0, 0), (1, 3)]);
    lines.send_home(8);
    assert_eq!(lines.oldest(3), [0, 1]);
}

#[test]
fn a_line_that_comes_back_before_the_map_is_durable_has_its_slot() {
    let mut lines = empty();
    let first = cache(&mut lines, 7);
    assert_eq!(lines.send_home(7), Some(first.slot));
    let begun = lines.places.left();
    assert!(lines.left_slots(7..8) && !lines.left_slots(0..7));
    assert_eq!(lines.give(7), Some(Given { state: State::Back, ..first }));
    lines.put(7, Given { state: State::Back, ..first });
    lines.settle(begun);
    assert_eq!(lines.slot(7), Some(first.slot));
    lines.send_home(7);
    lines.settle(lines.places.left());
    assert_eq!(lines.give(7), Some(Given { slot: 1, state: State::Fresh }));
}

#[test]
fn entries_that_make_no_sense_are_refused() {
    assert!(Lines::new(vec![1, 1, 0], HOME, 4).is_none());
    assert!(Lines::new(vec![HOME + 1, 0], HOME, 4).is_none());
    assert!(Lines::new(vec![0, HOME, 99], HOME, 4).is_some());
}

#[derive(Clone, Debug)]
enum Act {
    Write {
        line: u32,
        fails: bool,
    },
    Home(u32),
    /// The map's only page is taken; it is written at the next one, or with a crash perhaps.
    Take,
    Written,
    Crash {
        with_page: bool,
    },
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        6 => (0..HOME, prop::bool::weighted(0.1))
            .prop_map(|(line, fails)| Act::Write { line, fails }),
        4 => (0..HOME).prop_map(Act::Home),
        2 => Just(Act::Take),
        2 => Just(Act::Written),
        1 => any::<bool>().prop_map(|with_page| Act::Crash { with_page }),
    ]
}

/// Every entry by itself is old or new after a crash, as if each were in a page of its own.
#[derive(Default)]
struct Slow {
    cached: BTreeMap<u32, u32>,
    durable: Vec<u32>,
    taken: Option<(u64, Vec<u32>)>,
}

impl Slow {
    /// No mixture of what the drives say and what is on its way names a line twice, and a slot that
    /// they may name for a line is given to no other.
    fn check(&self, lines: &Lines) {
        let now = lines.entries().to_vec();
        let versions: Vec<&Vec<u32>> = [&self.durable, &now]
            .into_iter()
            .chain(self.taken.iter().map(|(_, entries)| entries))
            .collect();
        for (slot, line) in now.iter().enumerate().filter(|(_, entry)| **entry != 0) {
            for version in &versions {
                assert!([0, *line].contains(&version[slot]), "slot {slot} may be another's");
                let elsewhere = |(at, entry): (usize, &u32)| at != slot && entry == line;
                assert!(!version.iter().enumerate().any(elsewhere), "line {line} is twice");
            }
        }
        let lines_now: BTreeMap<u32, u32> =
            (0..HOME).filter_map(|line| Some((line, lines.slot(line)?))).collect();
        assert_eq!(lines_now, self.cached);
        assert_eq!(lines.audit(), Vec::<String>::new());
    }
}

fn finish(slow: &mut Slow, lines: &mut Lines) {
    if let Some((left, entries)) = slow.taken.take() {
        slow.durable = entries;
        lines.settle(left);
    }
}

proptest! {
    #[test]
    fn the_map_never_names_a_line_twice(acts in prop::collection::vec(act(), 1..200)) {
        let mut lines = empty();
        let mut slow = Slow { durable: vec![0; SLOTS + 1], ..Slow::default() };
        for act in acts {
            match act {
                Act::Write { line, fails } => match lines.give(line) {
                    Some(given) if fails => lines.take_back(line, given),
                    Some(given) => {
                        let news = lines.put(line, given);
                        let before = slow.cached.insert(line, given.slot);
                        prop_assert_eq!(before.is_none(), news);
                    }
                    None => prop_assert!(!lines.places.has_room()),
                },
                Act::Home(line) => {
                    prop_assert_eq!(lines.send_home(line), slow.cached.remove(&line));
                }
                Act::Take => {
                    finish(&mut slow, &mut lines);
                    slow.taken = Some((lines.places.left(), lines.entries().to_vec()));
                }
                Act::Written => finish(&mut slow, &mut lines),
                Act::Crash { with_page } => {
                    if let Some((_, entries)) = slow.taken.take().filter(|_| with_page) {
                        slow.durable = entries;
                    }
                    lines = Lines::new(slow.durable.clone(), HOME, 4).expect("what was durable");
                    let there = slow.durable.iter().enumerate().filter(|(_, entry)| **entry != 0);
                    slow.cached = there.map(|(slot, line)| (line - 1, slot as u32)).collect();
                }
            }
            slow.check(&lines);
        }
    }
}

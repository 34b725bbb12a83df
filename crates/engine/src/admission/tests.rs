//! Admission against an oracle that recounts everything at every step.

use std::task::Waker;

use proptest::prelude::*;

use super::*;

const VOLUMES: usize = 3;

#[derive(Clone, Copy, Debug)]
enum Step {
    /// A request of a volume comes and asks for a place.
    Come { volume: usize, kib: u64 },
    /// One of those that wait is polled again.
    Poll { nth: usize },
    /// One of those that wait, or were served and don't know yet, goes away.
    Cancel { nth: usize },
    /// One of those under way ends.
    End { nth: usize },
}

fn any_step() -> impl Strategy<Value = Step> {
    let nth = 0usize..200;
    prop_oneof![
        5 => (0..VOLUMES, 1u64..300).prop_map(|(volume, kib)| Step::Come { volume, kib }),
        1 => nth.clone().prop_map(|nth| Step::Poll { nth }),
        1 => nth.clone().prop_map(|nth| Step::Cancel { nth }),
        2 => nth.prop_map(|nth| Step::End { nth }),
    ]
}

struct World<'a> {
    admission: &'a Admission,
    lanes: &'a [Rc<Lane>],
    /// With the volume of each, in the order of coming.
    waiting: Vec<(usize, Pin<Box<Enter<'a>>>)>,
    under_way: Vec<(usize, Place<'a>)>,
}

fn poll<'a>(enter: &mut Pin<Box<Enter<'a>>>) -> Option<Place<'a>> {
    match enter.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(place) => Some(place),
        Poll::Pending => None,
    }
}

impl<'a> World<'a> {
    fn step(&mut self, step: Step) {
        match step {
            Step::Come { volume, kib } => {
                let bytes = kib << 10;
                let mut enter = Box::pin(self.admission.enter(&self.lanes[volume], bytes));
                match poll(&mut enter) {
                    Some(place) => self.under_way.push((volume, place)),
                    None => self.waiting.push((volume, enter)),
                }
            }
            Step::Poll { nth } if !self.waiting.is_empty() => {
                let nth = nth % self.waiting.len();
                if let Some(place) = poll(&mut self.waiting[nth].1) {
                    let (volume, _) = self.waiting.remove(nth);
                    self.under_way.push((volume, place));
                }
            }
            Step::Cancel { nth } if !self.waiting.is_empty() => {
                drop(self.waiting.remove(nth % self.waiting.len()));
            }
            Step::End { nth } if !self.under_way.is_empty() => {
                drop(self.under_way.swap_remove(nth % self.under_way.len()));
            }
            _ => {}
        }
    }

    /// Volumes of those that wait for a place in truth: served ones only don't know yet.
    fn truly_waiting(&self) -> Vec<usize> {
        let line = self.admission.line.borrow();
        let unserved = |(_, enter): &&(usize, Pin<Box<Enter<'a>>>)| {
            enter.ticket.is_some_and(|ticket| line.waiting.contains_key(&ticket))
        };
        self.waiting.iter().filter(unserved).map(|(volume, _)| *volume).collect()
    }

    fn check(&self) {
        let waiting = self.truly_waiting();
        let served = self.waiting.len() - waiting.len();
        assert_eq!(self.admission.taken.get(), self.under_way.len() + served, "places leak");
        assert_eq!(waiting.is_empty(), self.admission.line.borrow().order.is_empty());
        if !waiting.is_empty() {
            assert!(self.admission.taken.get() >= self.admission.places.get(), "a place is free");
        }
        for volume in waiting {
            let own = self.lanes[volume].under_way.get();
            assert!(own >= PLACES_GUARANTEED, "volume {volume} waits with {own} under way");
        }
    }
}

proptest! {
    #[test]
    fn nobody_waits_for_nothing_and_no_place_is_lost(
        steps in prop::collection::vec(any_step(), 1..400),
    ) {
        let admission = Admissions::new(1).reads;
        let lanes: Vec<_> = (0..VOLUMES as u32).map(|id| Rc::new(Lane::new(id))).collect();
        let (waiting, under_way) = (Vec::new(), Vec::new());
        let mut world = World { admission: &admission, lanes: &lanes, waiting, under_way };
        for step in steps {
            world.step(step);
            world.check();
        }
        world.waiting.clear();
        world.under_way.clear();
        prop_assert_eq!(admission.taken.get(), 0);
        prop_assert!(admission.line.borrow().waiting.is_empty());
        prop_assert!(lanes.iter().all(|lane| lane.under_way.get() == 0));
    }
}

#[test]
fn one_at_a_time_never_waits_for_a_thousand() {
    let admission = Admissions::new(1).reads;
    let (deep, shallow) = (Rc::new(Lane::new(1)), Rc::new(Lane::new(2)));
    let mut all: Vec<_> = (0..1000).map(|_| Box::pin(admission.enter(&deep, 4096))).collect();
    let placed: Vec<_> = all.iter_mut().filter_map(poll).collect();
    assert_eq!(placed.len(), READS_PER_DRIVE);
    for _ in 0..10 {
        let mut enter = Box::pin(admission.enter(&shallow, 4096));
        assert!(poll(&mut enter).is_some());
    }
}

#[test]
fn places_go_round_by_bytes_and_first_come_first_served() {
    let admission = Admissions::new(1).reads;
    let lanes = [Rc::new(Lane::new(1)), Rc::new(Lane::new(2))];
    let fill = |lane| {
        let mut enters: Vec<_> =
            (0..READS_PER_DRIVE).map(|_| Box::pin(admission.enter(lane, 512))).collect();
        enters.iter_mut().filter_map(poll).collect::<Vec<_>>()
    };
    let mut placed = fill(&lanes[0]);
    // Its own four, so that it has to wait like the other.
    placed.extend(fill(&lanes[1]));
    assert_eq!(placed.len(), READS_PER_DRIVE + PLACES_GUARANTEED);
    let mut small: Vec<_> =
        (0..40).map(|_| Box::pin(admission.enter(&lanes[0], 16 << 10))).collect();
    let mut large: Vec<_> =
        (0..40).map(|_| Box::pin(admission.enter(&lanes[1], 64 << 10))).collect();
    assert!(small.iter_mut().chain(&mut large).all(|enter| poll(enter).is_none()));
    // 4 places above the bound come back first, then 20 are given anew.
    placed.truncate(READS_PER_DRIVE - 20);
    let served = |all: &mut Vec<Pin<Box<Enter<'_>>>>| {
        let line = admission.line.borrow();
        all.iter()
            .map(|e| !line.waiting.contains_key(&e.ticket.expect("waits")))
            .collect::<Vec<_>>()
    };
    let (small, large) = (served(&mut small), served(&mut large));
    let count = |served: &[bool]| served.iter().filter(|served| **served).count();
    assert_eq!((count(&small), count(&large)), (16, 4));
    assert!(small[..16].iter().chain(&large[..4]).all(|served| *served));
}

//! Makes a failing world smaller: leaves out whatever can be left out while it still fails in
//! the same way.
//!
//! Greedy, and as exact as the seed: a candidate is kept if it fails. Leaving something out moves
//! everything after it in time, so each candidate gets a few schedules to fail in.

use clap::ValueEnum;

use crate::failure::Failure;
use crate::run::Case;
use crate::world::plan::Part;
use crate::world::{Plan, Reduction};

/// Schedules tried for each candidate.
const SALTS: u64 = 4;

pub struct Shrunk {
    pub case: Case,
    pub failure: Failure,
    /// Worlds that were run.
    pub tries: usize,
}

struct Shrinker<'a> {
    kind: String,
    tries: usize,
    tries_max: usize,
    fails: &'a mut dyn FnMut(&Case) -> Option<Failure>,
}

/// Shrinks a case that fails, in at most `tries_max` runs. `None`: it does not fail.
pub fn shrink(
    case: &Case,
    tries_max: usize,
    fails: &mut dyn FnMut(&Case) -> Option<Failure>,
) -> Option<Shrunk> {
    let failure = fails(case)?;
    let mut shrinker = Shrinker { kind: failure.kind(), tries: 1, tries_max, fails };
    let mut best = Shrunk { case: case.clone(), failure, tries: 0 };
    while let Some(smaller) = shrinker.step(&best.case) {
        best = smaller;
    }
    best.tries = shrinker.tries;
    Some(best)
}

impl Shrinker<'_> {
    /// The first candidate that fails as well.
    fn step(&mut self, case: &Case) -> Option<Shrunk> {
        for reduction in candidates(&case.plan(), &case.reduction) {
            for turn in 0..SALTS {
                if self.tries >= self.tries_max {
                    return None;
                }
                self.tries += 1;
                let salt = if turn == 0 { reduction.salt } else { turn };
                let reduction = Reduction { salt, ..reduction.clone() };
                let case = Case { reduction, ..case.clone() };
                let failure = (self.fails)(&case);
                if let Some(failure) = failure.filter(|failure| failure.kind() == self.kind) {
                    return Some(Shrunk { case, failure, tries: 0 });
                }
            }
        }
        None
    }
}

/// Reductions that leave less of a plan, those that leave least first.
fn candidates(plan: &Plan, now: &Reduction) -> Vec<Reduction> {
    let mut all = Vec::new();
    let sessions = |kept| Reduction { sessions: Some(kept), ..now.clone() };
    all.extend(halves(&plan.sessions).map(sessions));
    for part in Part::value_variants().iter().filter(|part| plan.has(**part)) {
        let mut reduction = now.clone();
        reduction.without.push(*part);
        all.push(reduction);
    }
    all.extend(
        fewer(plan.clients, 1).map(|clients| Reduction { clients: Some(clients), ..now.clone() }),
    );
    let numbers: Vec<usize> = plan.troubles.iter().map(|trouble| trouble.number).collect();
    let troubles = |kept| Reduction { troubles: Some(kept), ..now.clone() };
    all.extend(halves(&numbers).map(troubles));
    all.extend(
        fewer(plan.requests, 0)
            .map(|requests| Reduction { requests: Some(requests), ..now.clone() }),
    );
    all
}

/// Shorter lists, none of them empty: each half, then all but one.
fn halves<T: Clone>(list: &[T]) -> impl Iterator<Item = Vec<T>> {
    let middle = list.len() / 2;
    let mut shorter = vec![list[..middle].to_vec(), list[middle..].to_vec()];
    shorter.extend((0..list.len()).map(|left_out| {
        let mut rest = list.to_vec();
        rest.remove(left_out);
        rest
    }));
    let whole = list.len();
    shorter.into_iter().filter(move |part| !part.is_empty() && part.len() < whole)
}

/// Smaller numbers down to `least`, the smallest first.
fn fewer(number: usize, least: usize) -> impl Iterator<Item = usize> {
    let ideas = [least, number / 4, number / 2, number * 3 / 4, number.saturating_sub(1)];
    let mut ideas: Vec<usize> =
        ideas.into_iter().filter(|&idea| idea >= least && idea < number).collect();
    ideas.dedup();
    ideas.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Check;

    /// A bug that needs session 2, two clients, five requests and trims.
    fn fails(case: &Case) -> Option<Failure> {
        let plan = case.plan();
        let wanted = plan.sessions.contains(&2)
            && plan.clients >= 2
            && plan.requests >= 5
            && plan.mix.trim > 0;
        wanted.then(|| Failure::new(Check::Read, "read: wrong"))
    }

    #[test]
    fn what_is_not_needed_is_left_out() {
        let seed = (10_000..).find(|&seed| {
            let plan = Plan::from_seed(seed);
            plan.sessions.len() == 4 && plan.clients > 4 && fails(&Case::of(seed)).is_some()
        });
        let case = Case::of(seed.expect("there are such worlds"));
        let shrunk = shrink(&case, 1000, &mut fails).expect("it fails");
        let plan = shrunk.case.plan();
        assert_eq!((plan.sessions, plan.clients, plan.requests), (vec![2], 2, 5));
        assert_eq!(plan.mix.parts().iter().filter(|&&part| part > 0).count(), 1);
        assert!(plan.mix.trim > 0 && plan.victims.is_empty() && plan.troubles.is_empty());
    }

    #[test]
    fn another_failure_is_another_bug_and_what_passes_stays() {
        let mut turned = |case: &Case| {
            let whole = case.reduction == Reduction::default();
            let check = if whole { Check::Read } else { Check::Open };
            Some(Failure::new(check, "wrong"))
        };
        let shrunk = shrink(&Case::of(10_001), 1000, &mut turned).expect("it fails");
        assert_eq!(shrunk.case.reduction, Reduction::default());
        assert!(shrink(&Case::of(10_001), 1000, &mut |_| None).is_none());
    }
}

//! Fences and records, against drives that are slow beyond doubt and a list of all periods.

use super::*;

const MILLI: u64 = 1_000_000;

fn seen(median: u64) -> Seen {
    let answers = Some(Answers { count: 50, median });
    Seen { reads: answers, writes: answers, silent: 0, class: 0, noise: MILLI / 4 }
}

fn slow(findings: &[Finding]) -> Vec<usize> {
    let is_slow = |at: &usize| matches!(findings[*at], Finding::Slow(_));
    (0..findings.len()).filter(is_slow).collect()
}

#[test]
fn a_drive_several_times_slower_than_its_peers_is_beyond_the_fence() {
    for drives in [5, 7, 29] {
        let mut all: Vec<Seen> = (0..drives).map(|at| seen(MILLI + at * 10_000)).collect();
        assert_eq!(slow(&judge(&all, 1).0), []);
        all[3] = seen(300 * MILLI);
        let (findings, shared) = judge(&all, 1);
        assert_eq!((slow(&findings), shared), (vec![3], false));
        all[3] = seen(2 * MILLI);
        assert_eq!(slow(&judge(&all, 1).0), [], "twice is not several times");
    }
}

/// At a few requests a second one answer of heavy tails was beyond the fence every sixth period.
#[test]
fn few_answers_need_a_wide_margin() {
    let with = |count, median| {
        let mut all: Vec<Seen> = (0..7).map(|_| seen(MILLI)).collect();
        all[3].reads = Some(Answers { count, median });
        slow(&judge(&all, 1).0)
    };
    assert_eq!(with(ANSWERS_MIN - 1, 5 * MILLI), []);
    assert_eq!(with(ANSWERS_MIN - 1, 7 * MILLI), [3]);
    assert_eq!(with(ANSWERS_MIN, 5 * MILLI), [3]);
}

#[test]
fn what_is_quick_enough_is_never_slow() {
    let mut all: Vec<Seen> = (0..7).map(|_| seen(10_000)).collect();
    all[0] = seen(200_000);
    assert_eq!(slow(&judge(&all, 1).0), [], "twenty times, and still within noise");
}

#[test]
fn peers_that_differ_widely_excuse_more() {
    let spread = [1, 2, 4, 8, 10, 12].map(|millis| seen(millis * MILLI));
    let with = |own| [&spread[..], &[seen(own)]].concat();
    assert_eq!(slow(&judge(&with(18 * MILLI), 1).0), []);
    assert_eq!(slow(&judge(&with(40 * MILLI), 1).0), [6]);
}

#[test]
fn few_peers_need_a_wide_margin_and_none_says_nothing() {
    let pair = |own| [seen(own), seen(MILLI)];
    assert_eq!(slow(&judge(&pair(9 * MILLI), 1).0), []);
    assert_eq!(slow(&judge(&pair(11 * MILLI), 1).0), [0]);
    assert_eq!(judge(&[seen(MILLI)], 1).0, [Finding::Unknown]);
    let mut other = seen(MILLI);
    other.class = 1;
    assert_eq!(judge(&[seen(90 * MILLI), other], 1).0, [Finding::Unknown; 2], "no peers");
}

#[test]
fn drives_that_are_slow_together_are_not_slow() {
    assert_eq!([most(2, 0), most(4, 1), most(7, 1), most(7, 3), most(29, 1)], [1, 1, 2, 3, 9]);
    let mut all: Vec<Seen> = (0..7).map(|_| seen(MILLI)).collect();
    (all[0], all[1]) = (seen(90 * MILLI), seen(90 * MILLI));
    let (findings, shared) = judge(&all, most(7, 1));
    assert_eq!((slow(&findings), shared), (vec![0, 1], false), "each by its own doing");
    let (findings, shared) = judge(&all, 1);
    assert_eq!((slow(&findings), findings[0], shared), (vec![], Finding::Unknown, true));
    for many in 3..6 {
        all[many - 1] = seen(90 * MILLI);
        let (findings, shared) = judge(&all, most(7, 1));
        assert_eq!((slow(&findings), shared), (vec![], true), "{many} of seven");
    }
    let all: Vec<Seen> = (0..7).map(|_| seen(90 * MILLI)).collect();
    assert_eq!(judge(&all, 1), (vec![Finding::Usual; 7], false));
}

#[test]
fn a_drive_that_is_asked_for_more_than_its_peers_is_excused() {
    let mut all: Vec<Seen> = (0..7).map(|_| seen(MILLI)).collect();
    let busy = |count| Some(Answers { count, median: 30 * MILLI });
    all[2] = Seen { reads: busy(400), writes: None, ..seen(0) };
    assert_eq!(judge(&all, 1).0[2], Finding::Unknown);
    all[2].reads = busy(90);
    assert_eq!(slow(&judge(&all, 1).0), [2]);
}

#[test]
fn a_drive_that_answers_nothing_while_its_peers_do_is_slow() {
    let mut all: Vec<Seen> = (0..7).map(|_| seen(MILLI)).collect();
    all[5] = Seen { reads: None, writes: None, silent: PERIOD - 1, ..seen(0) };
    assert_eq!(judge(&all, 1).0[5], Finding::Unknown, "or it was asked nothing");
    all[5].silent = PERIOD;
    assert_eq!(slow(&judge(&all, 1).0), [5]);
    let alone = [all[5], Seen { silent: PERIOD, ..all[5] }];
    assert_eq!(judge(&alone, 1).0, [Finding::Unknown; 2], "nobody answers");
}

#[test]
fn one_bad_period_is_a_spike_and_bursts_add_up() {
    let mut record = Record::default();
    (0..200).for_each(|period| assert!(!record.note(period % 8 == 0), "period {period}"));
    // A neighbour on the same host kept a drive for four seconds, and it was called slow.
    let mut episode = Record::default();
    let changes = (0..64).filter(|period| episode.note((20..28).contains(period))).count();
    assert_eq!((changes, episode.is_slow()), (0, false));
    // A second in three: bursts.
    let changes = (0..60).filter(|period| record.note(period % 6 < 2)).count();
    assert_eq!((changes, record.is_slow()), (1, true));
    let back = (0..60).position(|_| record.note(false));
    assert!(back.is_some_and(|periods| periods < QUIET as usize), "{back:?}");
    let again = (0..60).position(|_| record.note(true));
    assert_eq!(again, Some(SLOW_FEW as usize - 1), "what was before is forgotten");
}

proptest::proptest! {
    /// Against quartiles counted off a sorted list, and against each peer one by one.
    #[test]
    fn agrees_with_a_plain_fence(
        medians in proptest::collection::vec(1_u64..1000, 2..30),
        most in 1_usize..8,
    ) {
        let all: Vec<Seen> = medians.iter().map(|&median| seen(median * 100_000)).collect();
        let plain = |at: usize| {
            let mut peers = medians.clone();
            let own = peers.remove(at) * 100_000;
            peers.sort_unstable();
            // Half of all are no larger than the median, a quarter than the first quartile.
            let reached = |quarters: usize| {
                let enough = |value: &&u64| {
                    peers.iter().filter(|peer| peer <= value).count() * 4 >= peers.len() * quarters
                };
                peers.iter().find(enough).copied().unwrap_or(0) * 100_000
            };
            let (lower, median, upper) = (reached(1), reached(2), reached(3));
            let beyond = if peers.len() < 4 {
                peers.iter().all(|peer| own > 10 * peer * 100_000)
            } else {
                own > upper + 3 * (upper - lower) && own > 3 * median
            };
            beyond && own > median + MILLI / 4
        };
        let expected: Vec<usize> = (0..all.len()).filter(|&at| plain(at)).collect();
        let (findings, shared) = judge(&all, most);
        let quick = |value: &&u64| {
            medians.iter().filter(|other| other <= value).count() * 4 >= medians.len()
        };
        let quick = medians.iter().filter(quick).min().copied().unwrap_or(0);
        let is_behind = |own: &&u64| {
            **own > 3 * quick && **own * 100_000 > quick * 100_000 + MILLI / 4
        };
        let behind = medians.iter().filter(is_behind).count();
        let behind = if medians.len() > 4 { behind } else { 0 };
        let too_many = expected.len() > most;
        proptest::prop_assert_eq!(shared, too_many || behind > most);
        proptest::prop_assert_eq!(slow(&findings), if too_many { Vec::new() } else { expected });
    }

    /// Against the list of all periods since it was last not slow any more.
    #[test]
    fn a_record_agrees_with_all_periods(
        periods in proptest::collection::vec((proptest::bool::ANY, 1_usize..20), 1..40),
    ) {
        let (mut record, mut all, mut is_slow) = (Record::default(), Vec::new(), false);
        for (slow, times) in periods {
            for _ in 0..times {
                all.push(slow);
                let of = |last: usize| all.iter().rev().take(last).filter(|slow| **slow).count();
                let before = is_slow;
                is_slow = if before { of(16) > 1 } else { of(12) >= 10 || of(64) >= 16 };
                if before && !is_slow {
                    all.clear();
                }
                proptest::prop_assert_eq!(record.note(slow), before != is_slow);
                proptest::prop_assert_eq!(record.is_slow(), is_slow);
            }
        }
    }
}

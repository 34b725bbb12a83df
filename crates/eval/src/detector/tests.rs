//! Known answers, repeatability, and one preset's figures.

use io::Nanos;
use sim::drive::probe::{Period, Record, Sample};

use super::grid;
use super::replay::{Settings, Threshold, replay};
use super::score::Score;
use super::trace::{Class, DriveTrace, Extent, SCENES, Scene, record};

const US: u64 = 1_000;

fn settings(window_us: u64, slots: u8, enter: u32) -> Settings {
    let threshold = Threshold::Fixed(Nanos::from_micros(window_us));
    Settings { threshold, slots, enter, leave: 0 }
}

/// A write each 100 µs for a second that takes 50 µs, but whatever comes in the 10 ms from
/// `begin_us` on waits until they are over, and so does nobody else.
fn blocked(begin_us: u64, collects: bool) -> DriveTrace {
    let end = begin_us + 10_000;
    let samples = (0..10_000).map(|index| {
        let begin = index * 100;
        let done = if (begin_us..end).contains(&begin) { end } else { begin + 50 };
        Sample {
            begin: Nanos::from_micros(begin),
            latency: Nanos::from_micros(done - begin),
            bytes: 4096,
            write: true,
        }
    });
    let period = Period { begin: Nanos::from_micros(begin_us), end: Nanos::from_micros(end) };
    DriveTrace::new(&Record {
        samples: samples.collect(),
        collections: if collects { vec![period] } else { Vec::new() },
        counters: Default::default(),
        length: Nanos::from_secs(1),
    })
}

#[test]
fn a_constructed_spike_is_detected_when_theory_says() {
    let traces = [blocked(200_000, true)];
    // The n-th request of the spike is dispatched (n - 1) 100 µs after its begin, which is the
    // begin of a slot; its slot leaves the window t after the slot's begin.
    for (window, slots, enter, reaction) in [
        (2_000, 10, 1, 2_000),
        // Two come in the first slot of 200 µs.
        (2_000, 10, 2, 2_000),
        // The fourth comes 300 µs after the first, in the second slot.
        (2_000, 10, 4, 2_200),
        // One slot as long as the window takes in the first twenty.
        (2_000, 1, 8, 2_000),
        (2_000, 20, 8, 2_700),
        (5_000, 5, 2, 5_000),
    ] {
        let verdicts = replay(&traces, settings(window, slots, enter));
        let score = Score::of(&traces, &verdicts);
        let what = format!("t {window} us, y {slots}, x̂ {enter}");
        assert_eq!((score.spikes, score.gc_spikes, score.gc_spikes_found), (1, 1, 1), "{what}");
        assert_eq!(score.reactions, [reaction * US], "{what}");
        assert_eq!((score.detections, score.false_alarms), (1, 0), "{what}");
        // Unresponsive from then on to the end of the spike, and with it all that came.
        assert_eq!(score.unresponsive, (10_000 - reaction) * US, "{what}");
        assert_eq!(score.time_precision(), 1.0, "{what}");
        // Those within the rule's 1 ms of the end are not slow.
        let round = 100 - reaction / 100;
        assert_eq!(score.request_precision(), (round - 10) as f64 / round as f64, "{what}");
        assert_eq!(score.slow, 90, "{what}");
        assert_eq!(score.slow_round, 90 - reaction / 100, "{what}");
    }
}

#[test]
fn what_a_spike_is_and_whose_fault() {
    let quiet = [blocked(200_000, false)];
    let score = Score::of(&quiet, &replay(&quiet, settings(2_000, 10, 2)));
    assert_eq!((score.spikes, score.spikes_found, score.gc_spikes), (1, 1, 0));
    // Too short for the threshold.
    let score = Score::of(&quiet, &replay(&quiet, settings(20_000, 10, 1)));
    assert_eq!((score.spikes, score.spikes_found, score.detections), (1, 0, 0));
    // A threshold below what the drive usually takes: always unresponsive, nearly always wrong.
    let score = Score::of(&quiet, &replay(&quiet, settings(20, 2, 1)));
    assert!(score.false_alarms > 9_000 && score.precision() < 0.01, "{score:?}");
}

#[test]
fn peers_teach_each_other_and_a_bad_drive_is_found() {
    // Three good drives, and one that takes 50 times as long throughout.
    let mut bad = blocked(2_000_000, false);
    for request in &mut bad.requests {
        request.end = request.begin + Nanos::from_micros(2_500);
    }
    let good = || blocked(2_000_000, false);
    let traces = [good(), good(), good(), bad];
    let verdicts = replay(&traces, grid::default(Class::DataCentre));
    let unresponsive = |drive: usize| -> u64 {
        verdicts[drive].unresponsive.iter().map(|period| period.length().0).sum()
    };
    assert_eq!((unresponsive(0), unresponsive(1), unresponsive(2)), (0, 0, 0));
    assert!(unresponsive(3) > 800_000_000, "{}", unresponsive(3));
}

fn scene(name: &str) -> &'static Scene {
    SCENES.iter().find(|scene| scene.name() == name).expect("it is there")
}

const EXTENT: Extent = Extent { drives: 2, seconds: 10, seed: 1 };

#[test]
fn a_seed_names_a_table() {
    let measure = || {
        let drives = record(scene("dc-sata pool 1000/s"), EXTENT).expect("it runs");
        Score::of(&drives, &replay(&drives, grid::default(Class::DataCentre)))
    };
    assert_eq!(measure(), measure());
}

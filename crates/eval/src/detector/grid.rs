//! Which settings are tried: the plane of t and x̂, then x̌, y, and how t is learned, each by
//! itself beside the default.

use engine::SpikeHandling;
use io::Nanos;
use policy::learn::{self, Learning, USUAL_PERMILLE};

use super::replay::{Settings, Threshold};
use super::trace::Class;

/// Settings that vary together, under a heading.
pub struct Section {
    pub name: &'static str,
    pub settings: Vec<Settings>,
}

pub fn learning(class: Class) -> Learning {
    match class {
        Class::Disk => learn::HDD,
        _ => learn::SSD,
    }
}

/// What the engine does unless told otherwise.
pub fn default(class: Class) -> Settings {
    let SpikeHandling { slots, enter, leave, .. } = SpikeHandling::default();
    let threshold = Threshold::Learned { learning: learning(class), permille: USUAL_PERMILLE };
    Settings { threshold, slots, enter, leave }
}

fn thresholds(class: Class) -> Vec<Threshold> {
    let micros: &[u64] = match class {
        Class::Disk => &[30_000, 50_000, 100_000, 200_000, 500_000],
        _ => &[500, 1_000, 2_000, 5_000, 10_000, 20_000],
    };
    let fixed = micros.iter().map(|&micros| Threshold::Fixed(Nanos::from_micros(micros)));
    fixed.chain([default(class).threshold]).collect()
}

pub fn sections(class: Class) -> Vec<Section> {
    let default = default(class);
    let plane = |threshold: Threshold| {
        [1, 2, 4, 8].map(move |enter| Settings { threshold, enter, ..default })
    };
    let leaves = [(2, 0), (2, 1), (4, 0), (4, 3), (8, 0), (8, 7)];
    let leave = leaves.map(|(enter, leave)| Settings { enter, leave, ..default });
    let slots = [1, 5, 10, 20].map(|slots| Settings { slots, ..default });
    vec![
        Section {
            name: "t and enter",
            settings: thresholds(class).into_iter().flat_map(plane).collect(),
        },
        Section { name: "enter and leave", settings: leave.to_vec() },
        Section { name: "slots", settings: slots.to_vec() },
        Section { name: "how t is learned", settings: learned(default) },
    ]
}

/// Other quantiles and factors.
fn learned(default: Settings) -> Vec<Settings> {
    let Threshold::Learned { learning, .. } = default.threshold else { return Vec::new() };
    let ways =
        [(500, 3), (500, 5), (500, 10), (900, 2), (900, 3), (900, 5), (990, 1), (990, 2), (990, 3)];
    let one = |&(permille, factor)| {
        let learning = Learning { factor, ..learning };
        Settings { threshold: Threshold::Learned { learning, permille }, ..default }
    };
    ways.iter().map(one).collect()
}

//! What operators type and their programs ask for: `create`, then `volume`, `drive add` and calls
//! of the API, carried out on drives in memory. `app::hostile::verbs` says how it is written.

use std::fmt::Write;

use app::hostile;
use io::rng::Rng;

pub fn run(bytes: &[u8]) -> bool {
    str::from_utf8(bytes).is_ok_and(hostile::verbs)
}

pub fn seeds() -> Vec<Vec<u8>> {
    let texts = [
        "create tank 32M 32M 32M 32M\nvolume create tank/a 1M --parity 2 --width 4\n\
         drive add tank 32M 40M\nvolume resize tank/a 2M\nvolume delete tank/a",
        "create --parity 2 --width 4 --conversion eager --block-size 16K tank 1P 64M 64M 64M 64M",
        "create --scheme raid5 tank 24M 24M 24M\nvolume create tank/a 1G\n\
         drive add tank --array 24M 24M 24M",
        "create --scheme steering --staging dedicated --checksums off tank 48M 48M 48M 48M",
        "create --scheme alternate --mirrors 2 --flush-log writer tank 48M 48M 48M 48M\n\
         POST /api/v1/pools/tank/volumes {\"volume\":\"v\",\"size\":512}\n\
         GET /api/v1/pools/tank",
    ];
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

const SCHEMES: [&str; 20] = [
    "fusion",
    "fusion-nd",
    "raid0",
    "raid1",
    "raid10",
    "raid4",
    "raid5",
    "raid6",
    "raid50",
    "raid60",
    "n-raid5",
    "hybrid",
    "log-mirror",
    "hpda",
    "cached-raid5",
    "steering",
    "alternate",
    "tole-raid",
    "mirror-log",
    "log-raid",
];
/// Of drives that others in the pool have, and of any.
const SIZES: [&str; 12] =
    ["0", "4096", "64K", "1M", "6M", "12M", "24M", "24M", "40M", "64M", "2P", "8E"];
const ODD_SIZES: [&str; 12] =
    ["0", "512", "4096", "100000", "1M", "5M", "12583424", "30M", "60M", "1T", "8E", "16383P"];
const NAMES: [&str; 7] = ["v", "v", "w", ".", "..", "a b", "-x"];
const VOLUME_SIZES: [&str; 8] = ["512", "96K", "930K", "1M", "24M", "1000000512", "9P", "0"];
const NUMBERS: [&str; 10] = ["0", "1", "2", "3", "4", "255", "256", "65535", "65536", "-1"];
const TARGETS: [&str; 8] = [
    "PUT /api/v1/pools/tank/rebalance {}",
    "PUT /api/v1/pools/tank/scrub {\"action\":\"start\"}",
    "PUT /api/v1/pools/tank/rebuild {\"pause\":true}",
    "GET /api/v1/pools/tank/stripe?number=18446744073709551615",
    "PUT /api/v1/pools/tank/drives/1/decision {\"decision\":\"sit-out\"}",
    "PUT /api/v1/pools/tank/volumes/v/limits {\"iops\":18446744073709551615}",
    "PUT /api/v1/pools/tank/volumes/v/size {\"size\":18446744073709551615}",
    "DELETE /api/v1/pools/tank/volumes/v",
];

/// One pool of so many is made, and asked for more; the others are planned.
const MADE_OF: u64 = 16;
const ASKED_MOST: u64 = 4;
/// Drives of a pool: as many as any scheme needs, and some more.
const DRIVES: std::ops::Range<u64> = 2..13;

fn any<'a>(rng: &mut Rng, of: &[&'a str]) -> &'a str {
    of[rng.index(of.len())]
}

/// What somebody might type, mostly with some sense in it.
pub fn generate(seed: u64) -> String {
    let mut rng = Rng::new(seed);
    let scheme = any(&mut rng, &SCHEMES);
    let mut text = format!("create --scheme {scheme}");
    options(&mut rng, &mut text, scheme);
    let name = if rng.chance(1, 20) { any(&mut rng, &NAMES) } else { "tank" };
    let _ = write!(text, " {name}");
    let count = DRIVES.start + rng.below(DRIVES.end - DRIVES.start);
    drives(&mut rng, &mut text, count);
    if rng.chance(1, MADE_OF) {
        for _ in 0..=rng.below(ASKED_MOST) {
            text.push('\n');
            asked(&mut rng, &mut text, count);
        }
    }
    text
}

/// An option of some schemes, with what is sensible and what is not.
struct Choice {
    name: &'static str,
    /// Empty: of all.
    of: &'static [&'static str],
    good: &'static [&'static str],
    bad: &'static [&'static str],
}

const FUSION: &[&str] = &["fusion", "fusion-nd"];
const GROUPS: &[&str] = &[
    "fusion",
    "fusion-nd",
    "raid10",
    "raid50",
    "raid60",
    "n-raid5",
    "hybrid",
    "cached-raid5",
    "steering",
    "mirror-log",
    "log-raid",
    "tole-raid",
];
const OPTIONS: [Choice; 9] = [
    Choice {
        name: "width",
        of: GROUPS,
        good: &["2", "3", "3", "4", "4", "5", "6", "8"],
        bad: &["0", "1", "13", "255", "256", "65535"],
    },
    Choice {
        name: "parity",
        of: &["fusion", "fusion-nd", "log-mirror", "steering", "alternate"],
        good: &["1", "2"],
        bad: &["0", "256", "-1"],
    },
    Choice {
        name: "mirrors",
        of: &["hybrid", "alternate", "steering"],
        good: &["2", "3", "4"],
        bad: &["0", "1", "5", "8", "65535"],
    },
    Choice {
        name: "staging",
        of: &["steering"],
        good: &["dedicated", "8M", "16M"],
        bad: &["0", "512", "4K", "1M", "100M", "8E", "16383P"],
    },
    Choice {
        name: "block-size",
        of: &[],
        good: &["4K", "16K", "64K", "256K", "1M"],
        bad: &["0", "1", "512", "3K", "2M", "4G", "16383P"],
    },
    Choice {
        name: "replicated-area",
        of: FUSION,
        good: &["2", "30", "50"],
        bad: &["0", "1", "51", "100", "255", "256"],
    },
    Choice { name: "conversion", of: FUSION, good: &["lazy", "eager"], bad: &["never"] },
    Choice { name: "flush-log", of: &["alternate"], good: &["all", "writer"], bad: &["none"] },
    Choice { name: "checksums", of: &[], good: &["off", "on"], bad: &["yes"] },
];
/// One option of so many is given to a scheme that has it not, or has a value that none should.
const WRONG_OF: u64 = 20;

fn options(rng: &mut Rng, text: &mut String, scheme: &str) {
    for option in &OPTIONS {
        let has = option.of.is_empty() || option.of.contains(&scheme);
        let (given, wrong) = (rng.chance(1, 3), rng.chance(1, WRONG_OF));
        if wrong || has && given {
            let values = if wrong && rng.chance(1, 2) { option.bad } else { option.good };
            let _ = write!(text, " --{} {}", option.name, any(rng, values));
        }
    }
}

fn drives(rng: &mut Rng, text: &mut String, count: u64) {
    let usual = any(rng, &SIZES);
    for _ in 0..count {
        let size = if rng.chance(24, 25) { usual } else { any(rng, &ODD_SIZES) };
        let _ = write!(text, " {size}");
    }
}

fn asked(rng: &mut Rng, text: &mut String, count: u64) {
    let (name, size) = (any(rng, &NAMES), any(rng, &VOLUME_SIZES));
    match rng.below(6) {
        0 | 1 => {
            let _ = write!(text, "volume create tank/{name} {size}");
            for option in ["parity", "width"] {
                if rng.chance(1, 3) {
                    let _ = write!(text, " --{option} {}", any(rng, &NUMBERS));
                }
            }
        }
        2 => {
            let body = "POST /api/v1/pools/tank/volumes";
            let _ = write!(text, "{body} {{\"volume\":\"{name}\",\"size\":{}", rng.next_u64());
            for option in ["parity", "width"] {
                if rng.chance(1, 3) {
                    let _ = write!(text, ",\"{option}\":{}", any(rng, &NUMBERS));
                }
            }
            text.push('}');
        }
        3 | 4 => {
            text.push_str("drive add tank");
            if rng.chance(2, 3) {
                text.push_str(" --array");
                options_of_array(rng, text);
            }
            let count = if rng.chance(2, 3) { count } else { 1 + rng.below(DRIVES.end) };
            drives(rng, text, count);
        }
        _ => text.push_str(any(rng, &TARGETS)),
    }
}

fn options_of_array(rng: &mut Rng, text: &mut String) {
    for option in ["width", "mirrors", "parity"] {
        if rng.chance(1, 4) {
            let _ = write!(text, " --{option} {}", any(rng, &NUMBERS));
        }
    }
    if rng.chance(1, 6) {
        let _ = write!(text, " --staging {}", any(rng, &["dedicated", "0", "512", "8M", "16383P"]));
    }
}

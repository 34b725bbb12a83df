//! Bugs planted for the simulator to catch stay out of everything else.

use super::{Complaint, File};

/// Every line about them that a manifest may have. There is none that turns them on for a crate
/// that others are built with.
const ALLOWED: [(&str, &str); 8] = [
    ("crates/engine/Cargo.toml", "planted = []"),
    ("crates/classical/Cargo.toml", "planted = []"),
    ("crates/schemes/Cargo.toml", "planted = [\"classical/planted\"]"),
    ("crates/schemes/Cargo.toml", "name = \"planted\""),
    ("crates/schemes/Cargo.toml", "required-features = [\"planted\"]"),
    ("crates/sim/Cargo.toml", "planted = [\"engine/planted\"]"),
    ("crates/sim/Cargo.toml", "name = \"planted\""),
    ("crates/sim/Cargo.toml", "required-features = [\"planted\"]"),
];

pub fn check(file: &File) -> Vec<Complaint> {
    if !file.path.ends_with("Cargo.toml") {
        return Vec::new();
    }
    let lines = file.text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    let lines = lines.filter(|line| line.contains("planted"));
    let strange = lines.filter(|&line| !ALLOWED.contains(&(file.path.as_str(), line)));
    strange.map(|line| format!("{}: `{line}` would build in planted bugs", file.path)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(path: &str, text: &str) -> usize {
        check(&File::sample(path, text)).len()
    }

    #[test]
    fn nothing_but_a_test_of_the_simulator_turns_planted_bugs_on() {
        let engine = "[features]\n# planted: see there\nplanted = []\n";
        assert_eq!(complaints("crates/engine/Cargo.toml", engine), 0);
        let by_default = "[features]\ndefault = [\"planted\"]\nplanted = []\n";
        assert_eq!(complaints("crates/engine/Cargo.toml", by_default), 1);
        let dependency = "engine = { workspace = true, features = [\"planted\"] }\n";
        for path in ["Cargo.toml", "crates/app/Cargo.toml", "crates/sim/Cargo.toml"] {
            assert_eq!(complaints(path, dependency), 1, "{path}");
        }
        let feature = "planted = [\"engine/planted\"]\n";
        assert_eq!(complaints("crates/sim/Cargo.toml", feature), 0);
        assert_eq!(complaints("crates/app/Cargo.toml", feature), 1);
    }
}

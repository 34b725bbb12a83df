//! One target under libFuzzer: STEADYRAID_FUZZ=TARGET steadyraid-fuzz CORPUS [its options].
//! What the target begins with is put into the directory STEADYRAID_FUZZ_SEEDS.

#![no_main]

use std::path::Path;
use std::sync::LazyLock;

use fuzz::{TARGETS, Target};
use libfuzzer_sys::fuzz_target;

static TARGET: LazyLock<&Target> = LazyLock::new(|| {
    let name = std::env::var("STEADYRAID_FUZZ").unwrap_or_default();
    let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
    TARGETS
        .iter()
        .find(|target| target.name == name)
        .unwrap_or_else(|| panic!("STEADYRAID_FUZZ={name:?} is none of {}", names.join(" ")))
});

fn write_seeds() {
    let Some(directory) = std::env::var_os("STEADYRAID_FUZZ_SEEDS") else { return };
    for (at, seed) in (TARGET.seeds)().iter().enumerate() {
        let path = Path::new(&directory).join(format!("seed-{at}"));
        std::fs::write(&path, seed).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
}

fuzz_target!(init: write_seeds(), |bytes: &[u8]| {
    (TARGET.run)(bytes);
});

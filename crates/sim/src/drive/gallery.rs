//! The pictures of DRIVES.md, each by the command line that draws it.

use std::path::Path;

/// File name and command line. Sequential and random writes of 64 KiB as in FusionRAID's
/// Figure 4, on fresh and on aged drives; then what the engine's drives see.
pub const PICTURES: &[(&str, &str)] = &[
    ("consumer-fresh-sequential", "consumer-sata --workload seqwrite --seconds 0.5"),
    (
        "consumer-fresh-sequential-2g",
        "consumer-sata --workload seqwrite --span 2G --warmup 40 --seconds 8",
    ),
    ("consumer-fresh-random", "consumer-sata --workload randwrite --seconds 40"),
    ("consumer-aged-sequential", "consumer-sata --workload seqwrite --fill aged --seconds 20"),
    ("consumer-aged-random", "consumer-sata --workload randwrite --fill aged --seconds 20"),
    ("dc-fresh-sequential", "dc-sata --workload seqwrite --seconds 60"),
    ("dc-fresh-random", "dc-sata --workload randwrite --seconds 150"),
    ("dc-aged-sequential", "dc-sata --workload seqwrite --fill aged --warmup 60 --seconds 20"),
    ("dc-aged-random", "dc-sata --workload randwrite --fill aged --warmup 10 --seconds 4"),
    ("dc-aged-evaluation", "dc-sata --workload fusion --fill aged --warmup 60 --seconds 60"),
    (
        "s4500-aged-random-4k",
        "s4500 --workload randwrite --request 4K --depth 32 --fill aged --warmup 60 --seconds 4",
    ),
    ("hdd-random-read", "hdd-10k --workload randread --request 4K --depth 1 --seconds 20"),
];

pub fn draw_all(directory: &Path) -> Result<(), String> {
    std::fs::create_dir_all(directory)
        .map_err(|error| format!("{}: {error}", directory.display()))?;
    for (name, line) in PICTURES {
        let args = super::parse(line)?;
        let record = super::record(&args)?;
        let file = directory.join(format!("{name}.svg"));
        super::save(&file, &record, &args)?;
        println!("{}: {line}", file.display());
    }
    Ok(())
}

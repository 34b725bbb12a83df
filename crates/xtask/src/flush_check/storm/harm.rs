//! What happens to the file that is a drive, by the hand of the harness.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::super::pattern::{self, Found, SECTOR, Stamp};
use super::super::random::Random;

const PAGE: u64 = 4096;
const MIB: u64 = 1 << 20;
const SPOTS: u64 = 200;
const SPOT_PAGES_MAX: u64 = 16;

fn noise(random: &mut Random, bytes: u64) -> Vec<u8> {
    (0..bytes / 8).flat_map(|_| random.next().to_le_bytes()).collect()
}

fn open(path: &Path) -> io::Result<(File, u64)> {
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    let length = file.metadata()?.len();
    Ok((file, length))
}

/// Noise on many spots, most of them where there is something.
pub fn rot(path: &Path, seed: u64) -> io::Result<()> {
    let mut random = Random::new(seed);
    let (file, length) = open(path)?;
    let used = used_pages(path)?;
    for _ in 0..SPOTS {
        let page = if used.is_empty() || random.percent(25) {
            random.below(length / PAGE)
        } else {
            used[usize::try_from(random.below(used.len() as u64)).expect("an index")]
        };
        let bytes = PAGE * (1 + random.below(SPOT_PAGES_MAX));
        let bytes = bytes.min(length - page * PAGE);
        file.write_all_at(&noise(&mut random, bytes), page * PAGE)?;
    }
    Ok(())
}

/// Numbers of the pages that are not all zero.
fn used_pages(path: &Path) -> io::Result<Vec<u64>> {
    let mut file = File::open(path)?;
    let mut used = Vec::new();
    let mut chunk = vec![0; 1 << 20];
    let mut page = 0;
    loop {
        let length = file.read(&mut chunk)?;
        if length == 0 {
            return Ok(used);
        }
        for bytes in chunk[..length].chunks(4096) {
            if bytes.iter().any(|byte| *byte != 0) {
                used.push(page);
            }
            page += 1;
        }
    }
}

/// Noise on all of it, or on all but its first and last MiB.
pub fn overwrite(path: &Path, seed: u64, ends_stay: bool) -> io::Result<()> {
    let mut random = Random::new(seed);
    let (file, length) = open(path)?;
    let ends = if ends_stay { MIB } else { 0 };
    let mut at = ends;
    while at < length - ends {
        let bytes = MIB.min(length - ends - at);
        file.write_all_at(&noise(&mut random, bytes), at)?;
        at += bytes;
    }
    Ok(())
}

pub fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::copy(from, to).map(drop)
}

/// Puts an older version of a sector into all of these files that have it. Returns how many had.
pub fn spoil(files: &[PathBuf], sector: u64, sequence: u64) -> io::Result<usize> {
    let mut copies = 0;
    for path in files {
        let (file, length) = open(path)?;
        let mut bytes = vec![0; usize::try_from(length).expect("fits memory")];
        file.read_exact_at(&mut bytes, 0)?;
        for (place, stored) in (0u64..).zip(bytes.chunks_exact(SECTOR)) {
            match pattern::read(stored, sector) {
                Found::Written(stamp) if stamp.sequence == sequence => {
                    let mut older = [0; SECTOR];
                    pattern::fill(&mut older, Stamp { sequence: 1, ..stamp }, sector);
                    file.write_all_at(&older, place * SECTOR as u64)?;
                    copies += 1;
                }
                _ => {}
            }
        }
    }
    Ok(copies)
}

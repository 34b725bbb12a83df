//! What the probe asks of a drive: which requests, where, and when.

use std::fmt;
use std::str::FromStr;

use io::drive::Durability;
use io::env::Nanos;
use io::model::Command;
use io::rng::Rng;

/// Order and kind of the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    SequentialWrite,
    SequentialRead,
    /// Uniform over the span, so many of a hundred being reads.
    Random {
        read_percent: u32,
    },
    /// What one of 29 drives sees in FusionRAID's evaluation (DRIVES.md says how that follows
    /// from its Table 4): random requests of two sizes, 64 KiB and 28 KiB; the rate is fixed.
    Fusion,
}

/// FusionRAID's evaluation load on one drive: block writes, smaller writes, reads, a second.
pub const FUSION_BLOCK_WRITES: u64 = 370;
pub const FUSION_SMALL_WRITES: u64 = 186;
pub const FUSION_READS: u64 = 160;
pub const FUSION_RATE: u64 = FUSION_BLOCK_WRITES + FUSION_SMALL_WRITES + FUSION_READS;
const BLOCK_BYTES: u64 = 64 << 10;
const SMALL_BYTES: u64 = 28 << 10;

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Pattern, String> {
        let mixed = text.strip_prefix("mixed:").and_then(|percent| percent.parse().ok());
        match (text, mixed) {
            ("seqwrite", _) => Ok(Pattern::SequentialWrite),
            ("seqread", _) => Ok(Pattern::SequentialRead),
            ("randwrite", _) => Ok(Pattern::Random { read_percent: 0 }),
            ("randread", _) => Ok(Pattern::Random { read_percent: 100 }),
            ("fusion", _) => Ok(Pattern::Fusion),
            (_, Some(read_percent)) if read_percent <= 100 => Ok(Pattern::Random { read_percent }),
            _ => Err(format!(
                "'{text}': know seqwrite, seqread, randwrite, randread, mixed:READ_PERCENT, fusion"
            )),
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pattern::SequentialWrite => f.write_str("seqwrite"),
            Pattern::SequentialRead => f.write_str("seqread"),
            Pattern::Random { read_percent: 0 } => f.write_str("randwrite"),
            Pattern::Random { read_percent: 100 } => f.write_str("randread"),
            Pattern::Random { read_percent } => write!(f, "mixed:{read_percent}"),
            Pattern::Fusion => f.write_str("fusion"),
        }
    }
}

/// When the next request comes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// So many are always under way.
    Closed { depth: usize },
    /// They come when they come (Poisson), so many a second on average.
    Open { rate: f64 },
}

/// Everything about the requests but the drive.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    pub pattern: Pattern,
    pub request: u64,
    pub load: Load,
    /// Requests stay in the first so many bytes.
    pub span: u64,
}

/// The requests of a workload, one after the other.
pub struct Requests {
    workload: Workload,
    rng: Rng,
    next_offset: u64,
}

impl Requests {
    pub fn new(workload: Workload, seed: u64) -> Requests {
        Requests { workload, rng: Rng::new(seed), next_offset: 0 }
    }

    pub fn command(&mut self) -> Command {
        let Workload { pattern, request, span, .. } = self.workload;
        match pattern {
            Pattern::SequentialWrite => write(self.sequential(), request),
            Pattern::SequentialRead => Command::Read { offset: self.sequential(), len: request },
            Pattern::Random { read_percent } => {
                let offset = self.rng.below(span / request) * request;
                match self.rng.chance(u64::from(read_percent), 100) {
                    true => Command::Read { offset, len: request },
                    false => write(offset, request),
                }
            }
            Pattern::Fusion => {
                let offset = self.rng.below(span / BLOCK_BYTES) * BLOCK_BYTES;
                match self.rng.below(FUSION_RATE) {
                    kind if kind < FUSION_BLOCK_WRITES => write(offset, BLOCK_BYTES),
                    kind if kind < FUSION_RATE - FUSION_READS => write(offset, SMALL_BYTES),
                    _ => Command::Read { offset, len: BLOCK_BYTES },
                }
            }
        }
    }

    /// Time to the next arrival of an open load.
    pub fn gap(&mut self, rate: f64) -> Nanos {
        // 53 random bits in (0, 1].
        let uniform = ((self.rng.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64;
        Nanos((-uniform.ln() / rate * 1e9) as u64)
    }

    fn sequential(&mut self) -> u64 {
        let offset = self.next_offset;
        self.next_offset += self.workload.request;
        if self.next_offset + self.workload.request > self.workload.span {
            self.next_offset = 0;
        }
        offset
    }
}

fn write(offset: u64, len: u64) -> Command {
    Command::Write { offset, len, durability: Durability::Cached }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORKLOAD: Workload = Workload {
        pattern: Pattern::SequentialWrite,
        request: 4096,
        load: Load::Closed { depth: 1 },
        span: 10_000,
    };

    #[test]
    fn names_of_patterns_are_read_as_written() {
        for name in ["seqwrite", "seqread", "randwrite", "randread", "mixed:70", "fusion"] {
            assert_eq!(name.parse::<Pattern>().unwrap().to_string(), name);
        }
        for name in ["", "mixed", "mixed:101", "mixed:-1", "write"] {
            assert!(name.parse::<Pattern>().unwrap_err().contains("seqwrite"));
        }
    }

    #[test]
    fn sequences_return_to_the_start_before_they_leave_the_span() {
        let mut requests = Requests::new(WORKLOAD, 1);
        let offsets = [0, 4096, 0, 4096].map(|offset| write(offset, 4096));
        assert_eq!([(); 4].map(|()| requests.command()), offsets);
    }

    #[test]
    fn a_mix_has_the_share_of_reads_asked_for_and_arrivals_their_rate() {
        let pattern = Pattern::Random { read_percent: 70 };
        let mut requests = Requests::new(Workload { pattern, span: 1 << 20, ..WORKLOAD }, 5);
        let commands: Vec<Command> = (0..10_000).map(|_| requests.command()).collect();
        let reads = commands.iter().filter(|c| matches!(c, Command::Read { .. })).count();
        assert!((6_850..7_150).contains(&reads), "{reads}");
        let total: u64 = (0..10_000).map(|_| requests.gap(1_000.0).0).sum();
        assert!((9_700_000_000..10_300_000_000).contains(&total), "{total}");
    }
}

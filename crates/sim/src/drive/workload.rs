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
    /// What a member of a pool sees: uniform requests of 4, 16 and 64 KiB, as many of each.
    Pool {
        read_percent: u32,
    },
}

/// FusionRAID's evaluation load on one drive: block writes, smaller writes, reads, a second.
pub const FUSION_BLOCK_WRITES: u64 = 370;
pub const FUSION_SMALL_WRITES: u64 = 186;
pub const FUSION_READS: u64 = 160;
pub const FUSION_RATE: u64 = FUSION_BLOCK_WRITES + FUSION_SMALL_WRITES + FUSION_READS;
const BLOCK_BYTES: u64 = 64 << 10;
const SMALL_BYTES: u64 = 28 << 10;
const POOL_BYTES: [u64; 3] = [4 << 10, 16 << 10, 64 << 10];

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Pattern, String> {
        let percent = |name: &str| {
            let percent = text.strip_prefix(name)?.parse().ok()?;
            (percent <= 100).then_some(percent)
        };
        match text {
            "seqwrite" => return Ok(Pattern::SequentialWrite),
            "seqread" => return Ok(Pattern::SequentialRead),
            "randwrite" => return Ok(Pattern::Random { read_percent: 0 }),
            "randread" => return Ok(Pattern::Random { read_percent: 100 }),
            "fusion" => return Ok(Pattern::Fusion),
            _ => {}
        }
        let mixed = percent("mixed:").map(|read_percent| Pattern::Random { read_percent });
        let pool = || percent("pool:").map(|read_percent| Pattern::Pool { read_percent });
        mixed.or_else(pool).ok_or_else(|| {
            format!(
                "'{text}': know seqwrite, seqread, randwrite, randread, mixed:READ_PERCENT, \
                 pool:READ_PERCENT, fusion"
            )
        })
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
            Pattern::Pool { read_percent } => write!(f, "pool:{read_percent}"),
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
    /// Bursts come when they come, of `burst` requests on average (geometric), each
    /// [`BURST_SPEED`] times sooner after the one before than `rate`, the average, says.
    Bursts { rate: f64, burst: u32 },
}

pub const BURST_SPEED: f64 = 20.0;

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
            Pattern::Random { read_percent } => self.random(read_percent, request),
            Pattern::Pool { read_percent } => {
                let len = POOL_BYTES[self.rng.index(POOL_BYTES.len())];
                self.random(read_percent, len)
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

    /// Time to the next arrival; `None` if requests come when others are done.
    pub fn gap(&mut self) -> Option<Nanos> {
        let mean = match self.workload.load {
            Load::Closed { .. } => return None,
            Load::Open { rate } => 1.0 / rate,
            Load::Bursts { rate, burst: size } => {
                let (burst, within) = (f64::from(size), 1.0 / (rate * BURST_SPEED));
                match self.rng.below(u64::from(size)) {
                    0 => burst / rate - (burst - 1.0) * within,
                    _ => within,
                }
            }
        };
        // 53 random bits in (0, 1].
        let uniform = ((self.rng.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64;
        Some(Nanos((-uniform.ln() * mean * 1e9) as u64))
    }

    fn random(&mut self, read_percent: u32, len: u64) -> Command {
        let offset = self.rng.below(self.workload.span / len) * len;
        match self.rng.chance(u64::from(read_percent), 100) {
            true => Command::Read { offset, len },
            false => write(offset, len),
        }
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
        for name in
            ["seqwrite", "seqread", "randwrite", "randread", "mixed:70", "fusion", "pool:50"]
        {
            assert_eq!(name.parse::<Pattern>().unwrap().to_string(), name);
        }
        for name in ["", "mixed", "mixed:101", "mixed:-1", "pool:101", "write"] {
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
    }

    #[test]
    fn arrivals_have_their_rate_in_bursts_too() {
        let total = |load| {
            let mut requests = Requests::new(Workload { load, ..WORKLOAD }, 5);
            (0..10_000).map(|_| requests.gap().unwrap().0).sum::<u64>()
        };
        let even = total(Load::Open { rate: 1_000.0 });
        let bursts = total(Load::Bursts { rate: 1_000.0, burst: 16 });
        assert!((9_700_000_000..10_300_000_000).contains(&even), "{even}");
        assert!((9_000_000_000..11_000_000_000).contains(&bursts), "{bursts}");
        assert_eq!(Requests::new(WORKLOAD, 5).gap(), None);
    }

    #[test]
    fn a_pools_requests_are_of_three_sizes() {
        let pattern = Pattern::Pool { read_percent: 50 };
        let mut requests = Requests::new(Workload { pattern, span: 1 << 20, ..WORKLOAD }, 5);
        let mut seen = [0; 3];
        for _ in 0..3_000 {
            let (Command::Read { offset, len } | Command::Write { offset, len, .. }) =
                requests.command()
            else {
                panic!("reads and writes only");
            };
            assert!(offset.is_multiple_of(len) && offset + len <= 1 << 20);
            seen[POOL_BYTES.iter().position(|&bytes| bytes == len).unwrap()] += 1;
        }
        assert!(seen.iter().all(|count| (900..1_100).contains(count)), "{seen:?}");
    }
}

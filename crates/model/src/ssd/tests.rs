//! Any configuration that passes its check, under any commands: nothing is lost or stuck, and
//! the map knows what was written.

use std::ops::Range;

use io::Durability;

use super::ftl::NONE;
use super::*;

/// What should be in the drive: a unit holds data or it doesn't.
struct Oracle {
    written: Vec<bool>,
    /// Commands in flight by tag: the units they change, and what those will hold.
    pending: Vec<Option<(Range<usize>, Option<bool>)>>,
}

impl Oracle {
    /// Whether what the range holds depends on which command comes first.
    fn races(&self, range: &Range<usize>, effect: Option<bool>) -> bool {
        self.pending.iter().flatten().any(|(other, theirs)| {
            let overlap = other.start < range.end && range.start < other.end;
            overlap && theirs.is_some() && effect.is_some() && *theirs != effect
        })
    }

    fn complete(&mut self, tag: u64) {
        let (range, effect) = self.pending[tag as usize].take().expect("completes once");
        if let Some(written) = effect {
            self.written[range].fill(written);
        }
    }
}

fn pick<T: Copy>(rng: &mut Rng, items: &[T]) -> T {
    items[rng.index(items.len())]
}

fn some<T>(rng: &mut Rng, value: T) -> Option<T> {
    rng.chance(1, 3).then_some(value)
}

/// A small drive with any features; most of them don't pass their check.
fn config(rng: &mut Rng) -> Config {
    let mut one_to = |most: u64| 1 + rng.below(most) as u32;
    let (channels, dies_per_channel, planes) = (one_to(3), one_to(2), one_to(2));
    let (blocks_per_plane, pages_per_block) = (8 + one_to(40), one_to(8));
    let over_provisioning_permille = one_to(600);
    let (low, more, hard) = (1 + one_to(6), one_to(4), 1 + one_to(2));
    let (copies_in_flight, queue_depth) = (one_to(9), one_to(40));
    let page_bytes = 4096 * one_to(4);
    let micros = |rng: &mut Rng, most| Nanos::from_micros(rng.below(most));
    let reads_first = rng.chance(2, 3);
    let gain_percent = pick(rng, &[0, 20, 50, 100, 300]);
    let modes = [Mode::Blocking, Mode::Preemptible, Mode::Paced { gain_percent }, Mode::Idle];
    let victims = [Victims::Greedy, Victims::Choices { d: 3 }, Victims::Fifo];
    Config {
        channels,
        dies_per_channel,
        planes,
        blocks_per_plane,
        pages_per_block,
        page_bytes,
        over_provisioning_permille,
        visible_bytes: None,
        mapping_bytes: pick(rng, &[4096, page_bytes]),
        align: pick(rng, &[512, 4096]),
        allocation: pick(rng, &[Allocation::Striped, Allocation::Static]),
        timing: Timing {
            read: micros(rng, 80),
            program: micros(rng, 900),
            erase: micros(rng, 5000),
            channel_bytes_per_sec: pick(rng, &[100_000_000, 1_000_000_000]),
            reads_first,
            program_suspend: some(rng, Nanos::from_micros(20)),
            erase_suspend: some(rng, Nanos::from_micros(30)),
        },
        host: Host {
            link_bytes_per_sec: pick(rng, &[500_000_000, 3_000_000_000]),
            link_duplex: rng.chance(1, 2),
            write_bytes_per_sec: rng.chance(1, 3).then_some(40_000_000),
            read_overhead: micros(rng, 30),
            write_overhead: micros(rng, 30),
            command: micros(rng, 10),
            queue_depth,
        },
        buffer: rng.chance(2, 3).then(|| buffer(rng)),
        collection: Collection {
            mode: pick(rng, &modes),
            victims: pick(rng, &victims),
            low,
            high: low + more,
            hard,
            idle_after: some(rng, Nanos::from_millis(3)),
            copies_in_flight,
        },
        map_log: some(rng, MapLog { entries: 50, programs: 7 }),
        fill: pick(rng, &[Fill::Fresh, Fill::Written, Fill::Aged]),
    }
}

fn buffer(rng: &mut Rng) -> Buffer {
    let bytes = 4096 * (2 + rng.below(60));
    let threshold = Destage::Threshold { bytes: rng.below(bytes) };
    Buffer {
        bytes,
        power_loss_protected: rng.chance(1, 2),
        destage: pick(rng, &[Destage::Continuous, threshold]),
        period: some(rng, Nanos::from_millis(2)),
        drain_blocks_host: rng.chance(1, 2),
    }
}

/// One drive and its load.
struct Run {
    ssd: Ssd,
    oracle: Oracle,
    rng: Rng,
    now: Nanos,
    unit: u64,
    sequential: u64,
    /// When each command was submitted, by its tag.
    submitted: Vec<Nanos>,
}

impl Run {
    fn new(config: Config, seed: u64) -> Run {
        let filled = config.fill != Fill::Fresh;
        let unit = u64::from(config.mapping_bytes);
        let ssd = Ssd::new(config, seed).expect("checked before");
        let written = vec![filled; ssd.shape.logical_units as usize];
        let oracle = Oracle { written, pending: Vec::new() };
        let (rng, submitted) = (Rng::new(seed), Vec::new());
        Run { ssd, oracle, rng, now: Nanos::ZERO, unit, sequential: 0, submitted }
    }

    fn range(&mut self) -> (u64, u64) {
        let rng = &mut self.rng;
        let Geometry { size, align, .. } = self.ssd.geometry();
        let align = u64::from(align);
        let longest = if rng.chance(1, 9) { 40 } else { 3 };
        let len = (1 + rng.below(longest)) * 4096;
        // Small drives: a command is as large as the drive at most.
        let len = len.min(size);
        let offset = match rng.below(4) {
            0 => self.sequential % (size - len + 1),
            1 => rng.below((size - len) / 8 + 1),
            _ => rng.below(size - len + 1),
        };
        self.sequential = offset + len;
        (offset / align * align, len)
    }

    fn command(&mut self) -> Option<Command> {
        let (offset, len) = self.range();
        let durable = self.rng.chance(1, 6);
        let durability = if durable { Durability::Durable } else { Durability::Cached };
        let command = match self.rng.below(20) {
            0 => Command::Flush,
            1..3 => Command::Discard { offset, len },
            3..8 => Command::Read { offset, len },
            _ => Command::Write { offset, len, durability },
        };
        let (start, end) = (offset / self.unit, (offset + len).div_ceil(self.unit));
        let (range, effect) = match command {
            Command::Write { .. } => (start..end, Some(true)),
            Command::Discard { .. } => {
                let first = offset.div_ceil(self.unit);
                (first..((offset + len) / self.unit).max(first), Some(false))
            }
            Command::Read { .. } | Command::Flush => (0..0, None),
        };
        let range = range.start as usize..range.end as usize;
        if self.oracle.races(&range, effect) {
            return None;
        }
        self.oracle.pending.push(Some((range, effect)));
        Some(command)
    }

    fn submit(&mut self) {
        let tag = Tag(self.oracle.pending.len() as u64);
        if let Some(command) = self.command() {
            self.submitted.push(self.now);
            self.ssd.submit(self.now, tag, command);
        }
    }

    fn advance(&mut self, until: Nanos) {
        let mut done = Vec::new();
        let before = self.now;
        self.now = self.ssd.next_event().unwrap_or(until).min(until);
        self.ssd.advance(self.now, &mut done);
        for completion in done {
            assert!(before <= completion.at && completion.at <= self.now);
            let took = completion.at.saturating_sub(self.submitted[completion.tag.0 as usize]);
            assert_eq!(completion.phases.total(), took, "{completion:?}");
            self.oracle.complete(completion.tag.0);
        }
    }

    fn live(&mut self, commands: u32) {
        for _ in 0..commands {
            self.submit();
            let pause = match self.rng.below(200) {
                0 => Nanos::from_millis(30),
                1..80 => Nanos::ZERO,
                _ => Nanos(self.rng.below(400_000)),
            };
            let until = self.now + pause;
            while self.now < until {
                self.advance(until);
            }
            if self.rng.chance(1, 300) {
                let on = self.rng.chance(1, 2);
                self.ssd.force_collection(self.now, on);
            }
        }
    }

    /// Everything completes, the drive comes to rest, and the map is right.
    fn end(&mut self) {
        let mut steps = 0u64;
        while self.ssd.next_event().is_some() {
            self.advance(Nanos(u64::MAX));
            steps += 1;
            assert!(steps < 5_000_000, "it never rests");
        }
        assert_eq!(self.ssd.in_flight(), 0, "commands wait for ever: {:?}", self.ssd.collectors);
        assert!(self.oracle.pending.iter().all(Option::is_none));
        self.ssd.verify();
        for (unit, &written) in self.oracle.written.iter().enumerate() {
            let unit = unit as u32;
            let buffered = self.ssd.buffer.as_ref().is_some_and(|buffer| buffer.holds(unit));
            assert_eq!(buffered || self.ssd.ftl.place(unit) != NONE, written, "unit {unit}");
        }
    }

    fn cut_power(&mut self) {
        self.ssd.power_cycle(self.now);
        self.ssd.verify();
        assert_eq!(self.ssd.in_flight(), 0);
        // Whatever was in flight, or in a volatile buffer, is there or not.
        self.oracle.pending.iter_mut().for_each(|pending| *pending = None);
        for (unit, written) in self.oracle.written.iter_mut().enumerate() {
            let unit = unit as u32;
            let buffered = self.ssd.buffer.as_ref().is_some_and(|buffer| buffer.holds(unit));
            *written = buffered || self.ssd.ftl.place(unit) != NONE;
        }
    }
}

#[test]
fn nothing_is_lost_or_stuck_in_any_configuration() {
    let drives = 400;
    let mut seed = 0;
    let mut run = 0;
    while run < drives {
        seed += 1;
        let config = config(&mut Rng::new(seed));
        if config.check().is_err() {
            continue;
        }
        run += 1;
        let name = format!("seed {seed}: {config:?}");
        let lives = std::panic::AssertUnwindSafe(|| {
            let mut run = Run::new(config, seed);
            run.live(700);
            if seed % 3 == 0 {
                run.cut_power();
                run.live(300);
            }
            run.end();
        });
        assert!(std::panic::catch_unwind(lives).is_ok(), "{name}");
    }
}

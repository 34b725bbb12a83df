//! What a drive holds when it is made: nothing, one sequential pass, or the traces of a long
//! life. The same flash translation layer as later does it, only without time.

use io::rng::Rng;

use super::check::ConfigError;
use super::config::{Allocation, Collection, Config, Fill, Mode};
use super::ftl::{Ftl, NONE, Stream};
use super::shape::Shape;
use super::victim;

/// Parts of the drive that are overwritten between two looks at the write amplification.
const WINDOWS_PER_DRIVE: u32 = 4;
/// Overwriting ends, steady or not, after so many times the capacity.
const ROUNDS_MAX: u32 = 4;
/// Two windows in a row that differ by less than this many thousandths are steady.
const STEADY_PERMILLE: u64 = 15;

/// An aged drive to make others from, at a fraction of the time: for arrays.
///
/// Overwriting at random treats all addresses alike, so an aged drive with its addresses
/// permuted is as good as another aged drive. Each copy then lives on for a random part of a
/// collection cycle, lest all collect at the same moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    config: Config,
    ftl: Ftl,
}

impl Snapshot {
    /// Fills a drive as `config.fill` says.
    pub fn new(config: Config, seed: u64) -> Result<Snapshot, ConfigError> {
        config.check()?;
        let ftl = filled(&config, &mut Rng::new(seed));
        Ok(Snapshot { config, ftl })
    }

    pub fn config(&self) -> &Config {
        &self.config
    }

    pub(super) fn relabelled(&self, rng: &mut Rng) -> Ftl {
        if self.config.fill != Fill::Aged {
            return filled(&self.config, rng);
        }
        let mut ftl = self.ftl.clone();
        let relabel = Relabel::new(&ftl.shape, rng);
        ftl.relabel(|unit| relabel.of(unit));
        let mut life = Life::new(&mut ftl, &self.config.collection, rng);
        life.go_on_for_part_of_a_cycle();
        life.end();
        ftl
    }
}

/// A permutation of the logical units that leaves each in its pool.
struct Relabel {
    pools: u64,
    /// Units of each pool; the rest of the last round stays where it is.
    period: u64,
    factor: u64,
    shift: u64,
}

impl Relabel {
    fn new(shape: &Shape, rng: &mut Rng) -> Relabel {
        let pools = u64::from(shape.pools);
        let period = u64::from(shape.logical_units) / pools;
        let factor = loop {
            let factor = 1 + rng.below(period);
            if gcd(factor, period) == 1 {
                break factor;
            }
        };
        Relabel { pools, period, factor, shift: rng.below(period) }
    }

    fn of(&self, unit: u32) -> u32 {
        let (round, pool) = (u64::from(unit) / self.pools, u64::from(unit) % self.pools);
        if round >= self.period {
            return unit;
        }
        let round = (round * self.factor + self.shift) % self.period;
        (round * self.pools + pool) as u32
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// A map as `config.fill` says.
pub fn filled(config: &Config, rng: &mut Rng) -> Ftl {
    let shape = Shape::of(config);
    let mut ftl = Ftl::new(shape, config.collection.hard);
    if config.fill == Fill::Fresh {
        if config.allocation == Allocation::Striped {
            // New drives aren't at the same point of their first block either.
            let programs = shape.units_per_block / shape.units_per_program;
            let skipped = rng.below(u64::from(programs)) as u32;
            ftl.take(0, Stream::Host, 1 + skipped * shape.units_per_program);
            ftl.round_up(0, Stream::Host);
        }
        return ftl;
    }
    let mut life = Life::new(&mut ftl, &config.collection, rng);
    for unit in 0..shape.logical_units {
        life.write(unit);
    }
    if config.fill == Fill::Aged {
        life.overwrite_until_steady();
        life.go_on_for_part_of_a_cycle();
    }
    life.end();
    ftl
}

/// Writes and collections of a drive, without time.
pub struct Life<'a> {
    ftl: &'a mut Ftl,
    collection: &'a Collection,
    rng: &'a mut Rng,
    pub moved: u64,
}

impl<'a> Life<'a> {
    pub fn new(ftl: &'a mut Ftl, collection: &'a Collection, rng: &'a mut Rng) -> Life<'a> {
        Life { ftl, collection, rng, moved: 0 }
    }

    pub fn write(&mut self, unit: u32) {
        let pool = self.ftl.shape.pool_of(unit);
        let opens = self.ftl.must_open(pool, Stream::Host);
        let place = self.ftl.take(pool, Stream::Host, 1);
        self.ftl.put(unit, place);
        if opens {
            self.collect_if_low(pool);
        }
    }

    pub fn overwrite(&mut self, count: u32) {
        let units = u64::from(self.ftl.shape.logical_units);
        for _ in 0..count {
            let unit = self.rng.below(units) as u32;
            self.write(unit);
        }
    }

    fn overwrite_until_steady(&mut self) {
        let units = self.ftl.shape.logical_units;
        let window = units.div_ceil(WINDOWS_PER_DRIVE);
        let mut before = 0u64;
        for round in 1..=WINDOWS_PER_DRIVE * ROUNDS_MAX {
            let moved = self.moved;
            self.overwrite(window);
            let written = self.moved - moved + u64::from(window);
            let steady = written.abs_diff(before) * 1000 < written * STEADY_PERMILLE;
            if round > WINDOWS_PER_DRIVE && steady {
                return;
            }
            before = written;
        }
    }

    fn go_on_for_part_of_a_cycle(&mut self) {
        let shape = self.ftl.shape;
        let blocks = (self.collection.high - self.collection.low + 1) * shape.pools;
        let cycle = u64::from(blocks) * u64::from(shape.units_per_block);
        let part = self.rng.below(cycle) as u32;
        self.overwrite(part);
    }

    /// Real programs begin where one begins.
    fn end(&mut self) {
        for pool in 0..self.ftl.shape.pools {
            self.ftl.round_up(pool, Stream::Host);
            self.ftl.round_up(pool, Stream::Moved);
        }
    }

    /// As the timed collection does between the watermarks. A paced one holds a level.
    fn collect_if_low(&mut self, pool: u32) {
        let Collection { low, high, hard, mode, .. } = *self.collection;
        let (start, end) = match mode {
            Mode::Paced { gain_percent } => {
                // Where what it earns is what it needs (see `Ssd::earn`).
                let range = u64::from(high - hard);
                let missing = (range * 50).div_ceil(u64::from(gain_percent.max(1))).min(range);
                let level = high - missing as u32;
                (level, level + 1)
            }
            _ => (low, high),
        };
        if self.ftl.free_blocks(pool) <= start {
            while self.ftl.free_blocks(pool) < end && self.collect_one(pool) {}
        }
    }

    fn collect_one(&mut self, pool: u32) -> bool {
        let victims = self.collection.victims;
        let Some(block) = victim::choose(self.ftl, pool, victims, self.rng) else { return false };
        self.ftl.collect(block);
        let first = block * self.ftl.shape.units_per_block;
        for place in first..first + self.ftl.shape.units_per_block {
            let unit = self.ftl.owner(place);
            if unit != NONE {
                let target = self.ftl.take(pool, Stream::Moved, 1);
                self.ftl.put(unit, target);
                self.moved += 1;
            }
        }
        self.ftl.erase_started(block);
        self.ftl.erased(block);
        true
    }
}

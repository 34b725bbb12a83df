//! What a drive holds when it is made: nothing, one sequential pass, or the traces of a long
//! life. The same flash translation layer as later does it, only without time.

use io::rng::Rng;

use super::check::ConfigError;
use super::config::{Allocation, Collection, Config, Fill, Mode};
use super::ftl::{Ftl, NONE, Stream};
use super::shape::Shape;
use super::victim;

/// After each such part of the drive was overwritten, write amplification is looked at.
const ROUNDS_PER_DRIVE: u32 = 3;
/// Overwriting ends, steady or not, after four times the capacity.
const ROUNDS_MAX: u32 = 4 * ROUNDS_PER_DRIVE;
/// It is steady if two rounds in a row differ by less than this.
const STEADY: f64 = 0.01;

/// Writes between two looks at the level that a paced collection holds.
const LEVEL_CHECK: u64 = 64;

/// An aged drive to make others from, at a fraction of the time: for arrays.
///
/// Overwriting at random treats all addresses alike, so an aged drive with its addresses
/// permuted is as good as another aged drive. Each copy then lives on for a random part of a
/// collection cycle, lest all collect at the same moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    config: Config,
    ftl: Ftl,
    amplification: f64,
}

impl Snapshot {
    /// Fills a drive as `config.fill` says.
    pub fn new(config: Config, seed: u64) -> Result<Snapshot, ConfigError> {
        config.check()?;
        let (ftl, amplification) = fill(&config, &mut Rng::new(seed));
        Ok(Snapshot { config, ftl, amplification })
    }

    /// Units programmed for each unit that the host wrote, when aging ended; 1 if it didn't age.
    pub fn write_amplification(&self) -> f64 {
        self.amplification
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
    fill(config, rng).0
}

/// The same, and the write amplification at the end.
fn fill(config: &Config, rng: &mut Rng) -> (Ftl, f64) {
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
        return (ftl, 1.0);
    }
    let mut life = Life::new(&mut ftl, &config.collection, rng);
    for unit in 0..shape.logical_units {
        life.write(unit);
    }
    let mut amplification = 1.0;
    if config.fill == Fill::Aged {
        amplification = life.overwrite_until_steady();
        life.go_on_for_part_of_a_cycle();
    }
    life.end();
    (ftl, amplification)
}

/// Writes and collections of a drive, without time.
struct Life<'a> {
    ftl: &'a mut Ftl,
    collection: &'a Collection,
    rng: &'a mut Rng,
    written: u64,
    moved: u64,
    /// `written` and `moved` when the last collection ended: whole cycles are compared.
    cycle: (u64, u64),
}

impl<'a> Life<'a> {
    fn new(ftl: &'a mut Ftl, collection: &'a Collection, rng: &'a mut Rng) -> Life<'a> {
        Life { ftl, collection, rng, written: 0, moved: 0, cycle: (0, 0) }
    }

    fn write(&mut self, unit: u32) {
        let pool = self.ftl.shape.pool_of(unit);
        let opens = self.ftl.must_open(pool, Stream::Host);
        if opens || self.written.is_multiple_of(LEVEL_CHECK) {
            self.collect_to_level(pool);
        }
        let place = self.ftl.take(pool, Stream::Host, 1);
        self.ftl.put(unit, place);
        self.written += 1;
        if opens {
            self.collect_if_low(pool);
        }
    }

    fn overwrite(&mut self, count: u32) {
        let units = u64::from(self.ftl.shape.logical_units);
        for _ in 0..count {
            let unit = self.rng.below(units) as u32;
            self.write(unit);
        }
    }

    /// The write amplification at the end.
    fn overwrite_until_steady(&mut self) -> f64 {
        let round = self.ftl.shape.logical_units.div_ceil(ROUNDS_PER_DRIVE);
        let mut before = 0.0;
        for number in 1..=ROUNDS_MAX {
            let (written, moved) = self.cycle;
            self.overwrite(round);
            let (written, moved) = (self.cycle.0 - written, self.cycle.1 - moved);
            let now = 1.0 + moved as f64 / written.max(1) as f64;
            let steady = (now - before).abs() < now * STEADY;
            before = now;
            if number > ROUNDS_PER_DRIVE && steady {
                break;
            }
        }
        before
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

    /// As a collection does that stops the host: from one watermark to the other.
    fn collect_if_low(&mut self, pool: u32) {
        let Collection { low, high, mode, .. } = *self.collection;
        let stops = matches!(mode, Mode::Blocking | Mode::Idle);
        if stops && self.ftl.free_blocks(pool) <= low {
            self.collect_until(pool, high);
        }
    }

    /// As a collection does that goes on beside the host. Under a load that lasts, only a paced
    /// one that earns enough (see `Ssd::earn`) holds a level above the floor.
    fn collect_to_level(&mut self, pool: u32) {
        let Collection { high, hard, mode, .. } = *self.collection;
        let units = self.ftl.shape.units_per_block;
        if let Mode::Paced { gain_percent } = mode
            && gain_percent > 50
        {
            let missing = u64::from((high - hard) * units) * 50 / u64::from(gain_percent);
            // In time, some space is won but not free yet: the moved part of a victim, and
            // what is being erased. Together three quarters of a block, more or less.
            let level = high * units + units * 3 / 4 - missing as u32;
            while self.ftl.free_units(pool) < level && self.collect_one(pool) {}
        }
        if self.ftl.must_open(pool, Stream::Host) {
            self.collect_until(pool, hard + 1);
        }
    }

    fn collect_until(&mut self, pool: u32, free: u32) {
        while self.ftl.free_blocks(pool) < free && self.collect_one(pool) {}
    }

    fn collect_one(&mut self, pool: u32) -> bool {
        let victims = self.collection.victims;
        let Some(block) = victim::choose(self.ftl, pool, victims, self.rng) else { return false };
        self.ftl.collect(block);
        let first = block * self.ftl.shape.units_per_block;
        for place in first..first + self.ftl.shape.units_per_block {
            if self.ftl.owner(place) != NONE {
                let target = self.ftl.take(pool, Stream::Moved, 1);
                self.ftl.relocate(place, target);
                self.moved += 1;
            }
        }
        self.ftl.erase_started(block);
        self.ftl.erased(block);
        self.cycle = (self.written, self.moved);
        true
    }
}

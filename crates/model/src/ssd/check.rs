//! Which configurations make sense. What passes here runs for ever: no parameter may lead to a
//! drive that waits for itself.

use super::config::{Allocation, Buffer, Config, Destage, Mode, Victims};
use super::shape::Shape;

/// A parameter that can't be, and what would do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("SSD model: {parameter} {problem}: {remedy}")]
pub struct ConfigError {
    /// The field of [`Config`].
    pub parameter: &'static str,
    pub problem: String,
    pub remedy: String,
}

/// Blocks that hold neither garbage that could be collected nor logical data for sure: the two
/// open ones, and two victims on their way.
const BLOCKS_IN_MOTION: u64 = 4;

/// Unit addresses are 32 bits, and the highest bit is spare.
const UNITS_MAX: u64 = 1 << 31;

type Check = Result<(), ConfigError>;

fn refuse(parameter: &'static str, problem: String, remedy: impl Into<String>) -> Check {
    Err(ConfigError { parameter, problem, remedy: remedy.into() })
}

impl Config {
    /// Whether the model can run with these parameters; the first that doesn't fit otherwise.
    pub fn check(&self) -> Check {
        self.check_numbers()?;
        self.check_sizes()?;
        let shape = Shape::of(self);
        self.check_collection(&shape)?;
        if let Some(buffer) = &self.buffer {
            check_buffer(buffer, &shape)?;
        }
        Ok(())
    }

    fn check_numbers(&self) -> Check {
        for (parameter, value) in [
            ("channels", u64::from(self.channels)),
            ("dies_per_channel", u64::from(self.dies_per_channel)),
            ("planes", u64::from(self.planes)),
            ("blocks_per_plane", u64::from(self.blocks_per_plane)),
            ("pages_per_block", u64::from(self.pages_per_block)),
            ("timing.channel_bytes_per_sec", self.timing.channel_bytes_per_sec),
            ("host.link_bytes_per_sec", self.host.link_bytes_per_sec),
            ("host.queue_depth", u64::from(self.host.queue_depth)),
            ("host.write_bytes_per_sec", self.host.write_bytes_per_sec.unwrap_or(1)),
            ("collection.copies_in_flight", u64::from(self.collection.copies_in_flight)),
        ] {
            if value == 0 {
                return refuse(parameter, "is 0".into(), "use at least 1");
            }
        }
        if let Some(log) = self.map_log
            && (log.entries == 0 || log.programs == 0)
        {
            return refuse("map_log", format!("has a 0: {log:?}"), "use None for no log");
        }
        if let Victims::Choices { d: 0 } = self.collection.victims {
            return refuse("collection.victims", "draws 0 blocks".into(), "use d >= 1");
        }
        let suspends = self.timing.program_suspend.or(self.timing.erase_suspend).is_some();
        if suspends && !self.timing.reads_first {
            return refuse(
                "timing.reads_first",
                "is off, but reads may suspend programs or erases".into(),
                "switch it on, or use None for both suspensions",
            );
        }
        Ok(())
    }

    fn check_sizes(&self) -> Check {
        if !matches!(self.align, 512 | 4096) {
            return refuse("align", format!("is {}", self.align), "use 512 or 4096");
        }
        let (page, mapping) = (self.page_bytes, self.mapping_bytes);
        if mapping == 0 || mapping % 4096 != 0 || page % mapping != 0 {
            return refuse(
                "mapping_bytes",
                format!("is {mapping}, with flash pages of {page} bytes"),
                "use 4096, or another multiple of it that divides page_bytes",
            );
        }
        if self.allocation == Allocation::Static && mapping != page {
            return refuse(
                "mapping_bytes",
                format!("is {mapping}, but static allocation maps pages of {page} bytes"),
                "use page_bytes, or striped allocation",
            );
        }
        if !(1..=900).contains(&self.over_provisioning_permille) {
            return refuse(
                "over_provisioning_permille",
                format!("is {}", self.over_provisioning_permille),
                "use 1 to 900 thousandths of the raw capacity",
            );
        }
        if let Some(bytes) = self.visible_bytes
            && (bytes == 0 || !bytes.is_multiple_of(u64::from(page)))
        {
            return refuse(
                "visible_bytes",
                format!("is {bytes}, with flash pages of {page} bytes"),
                "use whole pages, or None for all that the over-provisioning leaves",
            );
        }
        let units = [self.channels, self.dies_per_channel, self.planes, self.blocks_per_plane]
            .into_iter()
            .chain([self.pages_per_block, page / mapping])
            .try_fold(1u64, |product, factor| product.checked_mul(u64::from(factor)));
        match units {
            Some(units) if units < UNITS_MAX => Ok(()),
            _ => refuse(
                "blocks_per_plane",
                "makes a drive of 2^31 map entries or more".into(),
                "use fewer blocks, or a larger mapping_bytes",
            ),
        }
    }

    fn check_collection(&self, shape: &Shape) -> Check {
        let collection = &self.collection;
        if collection.hard < 2 {
            return refuse(
                "collection.hard",
                format!("is {}", collection.hard),
                "use at least 2: a collection moves data before it can erase",
            );
        }
        if collection.low < collection.hard {
            return refuse(
                "collection.low",
                format!("is {}, below hard ({})", collection.low, collection.hard),
                "let it be hard or more",
            );
        }
        if collection.high <= collection.low {
            return refuse(
                "collection.high",
                format!("is {}, not above low ({})", collection.high, collection.low),
                "let it be more than low",
            );
        }
        if collection.mode == Mode::Idle && collection.idle_after.is_none() {
            return refuse("collection.idle_after", "is None in mode Idle".into(), "set it");
        }
        let per_pool = u64::from(shape.logical_units).div_ceil(u64::from(shape.pools));
        let data = per_pool.div_ceil(u64::from(shape.units_per_block));
        let needed = data + u64::from(collection.high) + BLOCKS_IN_MOTION;
        if needed >= u64::from(shape.blocks_per_pool) {
            return refuse(
                "over_provisioning_permille",
                format!(
                    "leaves too little: of {} blocks, {data} hold data, {} are kept free and \
                     {BLOCKS_IN_MOTION} are in motion",
                    shape.blocks_per_pool, collection.high
                ),
                "over-provision more, lower collection.high, or use more, smaller blocks",
            );
        }
        Ok(())
    }
}

fn check_buffer(buffer: &Buffer, shape: &Shape) -> Check {
    let program = shape.program_bytes();
    if buffer.bytes < 2 * program || buffer.bytes > shape.size() {
        return refuse(
            "buffer.bytes",
            format!("is {}, programs are {program}, the drive {}", buffer.bytes, shape.size()),
            "hold two programs at least, the drive at most",
        );
    }
    if let Destage::Threshold { bytes } = buffer.destage
        && !(program..=buffer.bytes - program).contains(&bytes)
    {
        return refuse(
            "buffer.destage",
            format!("has a threshold of {bytes} in {} bytes of buffer", buffer.bytes),
            format!("use one program ({program}) at least, one less than the buffer at most"),
        );
    }
    if buffer.period == Some(io::Nanos::ZERO) {
        return refuse("buffer.period", "is 0".into(), "use None for no timer");
    }
    Ok(())
}

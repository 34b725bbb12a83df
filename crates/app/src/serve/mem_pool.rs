//! Pools in memory, for demonstrations and measurements: gone when the server ends.

use std::str::FromStr;

use engine::CreateSpec;
use io::mem::MemDrive;
use io::uring::{RealDrive, UringEnv};
use serde::Deserialize;

use super::wrap::Wrapper;
use crate::drives::modelled::ModelSpec;
use crate::error::Outcome;
use crate::explain;
use crate::pools::{self, Pool};
use crate::size::Size;
use crate::wall_clock;

/// What `create` accepts of a drive's alignment; a page is what SSDs do best.
const ALIGN: u32 = 4096;
/// More drives than a pool may have are refused by the engine, but only after they were made.
const DRIVES_MAX: u16 = 256;

/// `NAME:DRIVES:SIZE[:VOL=SIZE]...`, where `SIZE` may be `model:PRESET,size=SIZE[,...]`
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct MemPool {
    name: String,
    drives: u16,
    size: Size,
    model: Option<ModelSpec>,
    volumes: Vec<(String, Size)>,
}

impl FromStr for MemPool {
    type Err = String;

    fn from_str(text: &str) -> Result<MemPool, String> {
        let shape =
            || format!("'{text}' is not NAME:DRIVES:SIZE[:VOL=SIZE]..., like demo:6:1G:vm=2G");
        let mut parts = text.split(':');
        let (Some(name), Some(drives), Some(size)) = (parts.next(), parts.next(), parts.next())
        else {
            return Err(shape());
        };
        let drives: u16 = drives.parse().map_err(|_| shape())?;
        if drives > DRIVES_MAX {
            return Err(format!("{drives} drives are too many: a pool holds at most {DRIVES_MAX}"));
        }
        let model = if size == "model" { Some(parse_model(&mut parts, shape)?) } else { None };
        let size = model.as_ref().map_or_else(|| size.parse(), |model| Ok(model.size))?;
        if !size.0.is_multiple_of(u64::from(ALIGN)) {
            return Err(format!("a drive of {} bytes: use a multiple of {ALIGN}", size.0));
        }
        let volume = |part: &str| {
            let (name, size) = part.split_once('=').ok_or_else(shape)?;
            Ok((name.to_owned(), size.parse()?))
        };
        let volumes = parts.map(volume).collect::<Result<_, String>>()?;
        Ok(MemPool { name: name.to_owned(), drives, size, model, volumes })
    }
}

/// What follows `model:`, up to the volumes.
fn parse_model<'a>(
    parts: &mut impl Iterator<Item = &'a str>,
    shape: impl Fn() -> String,
) -> Result<ModelSpec, String> {
    let model: ModelSpec = parts.next().ok_or_else(shape)?.parse()?;
    if model.file.is_some() {
        return Err(format!("'{model}' has a file: this pool is in memory"));
    }
    model.check()?;
    Ok(model)
}

impl TryFrom<String> for MemPool {
    type Error = String;

    fn try_from(text: String) -> Result<MemPool, String> {
        text.parse()
    }
}

impl MemPool {
    /// Makes the drives, the pool and its volumes. `first` numbers the drives.
    pub async fn make(&self, env: &UringEnv, first: u16, wrapper: &Wrapper) -> Outcome<Pool> {
        let drive = |index: u16| {
            let name = format!("mem:{}", u32::from(first) + u32::from(index));
            let drive = MemDrive::new(&name, self.size.0, ALIGN).into();
            wrapper.wrap(&name, drive, self.model.as_ref().map(|model| (model, name.as_str())))
        };
        let object = format!("pool {}", self.name);
        let spec =
            CreateSpec { created_secs: wall_clock::now_secs(), ..CreateSpec::new(&self.name) };
        let drives: Vec<RealDrive> = (0..self.drives).map(drive).collect::<Outcome<_>>()?;
        engine::create(env, &drives, &spec)
            .await
            .map_err(|error| explain::create(&object, &error))?;
        let pool = pools::open_drives(env, drives, false).await?;
        for (volume, size) in &self.volumes {
            pool.volume_create(volume, size.0, None, None)
                .await
                .map_err(|error| explain::volume(&format!("{}/{volume}", self.name), &error))?;
        }
        Ok(pool)
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn drives(&self) -> u16 {
        self.drives
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_syntax_is_read_and_mistakes_are_refused() {
        let pool: MemPool = "demo:6:1G:a=2G:b=512".parse().expect("well-formed");
        assert_eq!((pool.name.as_str(), pool.drives, pool.size), ("demo", 6, Size(1 << 30)));
        assert_eq!(pool.volumes, [("a".to_owned(), Size(2 << 30)), ("b".to_owned(), Size(512))]);
        let pool: MemPool = "demo:4:model:hdd-10k,size=1G,seed=3:a=2G".parse().expect("a model");
        assert_eq!((pool.size, pool.volumes.len()), (Size(1 << 30), 1));
        for bad in ["d:4:model", "d:4:model:hdd-10k", "d:4:model:hdd-10k,size=1G,file=x"] {
            bad.parse::<MemPool>().expect_err(bad);
        }
        for bad in ["", "demo", "demo:6", "demo:x:1G", "demo:6:1G:vol", "demo:6:1000", "d:300:1G"] {
            bad.parse::<MemPool>().expect_err(bad);
        }
    }
}

//! Pools in memory, for demonstrations and measurements: gone when the server ends.

use std::str::FromStr;

use engine::CreateSpec;
use io::mem::MemDrive;
use io::uring::{RealDrive, UringEnv};
use serde::Deserialize;

use super::wrap::Wrapper;
use crate::drives::modelled::ModelSpec;
use crate::error::{Failure, Outcome};
use crate::explain;
use crate::pools::{self, Opening, Pool};
use crate::size::Size;
use crate::wall_clock;

/// What `create` accepts of a drive's alignment; a page is what SSDs do best.
const ALIGN: u32 = 4096;
/// More drives than a pool may have are refused by the engine, but only after they were made.
const DRIVES_MAX: u16 = 256;

/// `NAME:DRIVES:SIZE[:DRIVES:SIZE]...[:VOL=SIZE]...`, where `SIZE` may be
/// `model:PRESET,size=SIZE[,...]`
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct MemPool {
    name: String,
    kinds: Vec<Kind>,
    volumes: Vec<(String, Size)>,
}

/// Drives that are alike.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Kind {
    drives: u16,
    size: Size,
    model: Option<ModelSpec>,
}

impl FromStr for MemPool {
    type Err = String;

    fn from_str(text: &str) -> Result<MemPool, String> {
        let shape =
            || format!("'{text}' is not NAME:DRIVES:SIZE[:VOL=SIZE]..., like demo:6:1G:vm=2G");
        let mut parts = text.split(':').peekable();
        let name = parts.next().ok_or_else(shape)?;
        let mut kinds = Vec::new();
        while let Some(drives) = parts.next_if(|part| kinds.is_empty() || !part.contains('=')) {
            kinds.push(parse_kind(drives, &mut parts, shape)?);
        }
        let drives = kinds.iter().fold(0u16, |sum, kind| sum.saturating_add(kind.drives));
        if drives == 0 {
            return Err(shape());
        }
        if drives > DRIVES_MAX {
            return Err(format!("{drives} drives are too many: a pool holds at most {DRIVES_MAX}"));
        }
        let volume = |part: &str| {
            let (name, size) = part.split_once('=').ok_or_else(shape)?;
            Ok((name.to_owned(), size.parse()?))
        };
        let volumes = parts.map(volume).collect::<Result<_, String>>()?;
        Ok(MemPool { name: name.to_owned(), kinds, volumes })
    }
}

/// `DRIVES`, and what follows it up to the next kind or the volumes.
fn parse_kind<'a>(
    drives: &str,
    parts: &mut impl Iterator<Item = &'a str>,
    shape: impl Fn() -> String,
) -> Result<Kind, String> {
    let drives = drives.parse().map_err(|_| shape())?;
    let size = parts.next().ok_or_else(&shape)?;
    let model = if size == "model" { Some(parse_model(parts, shape)?) } else { None };
    let size = model.as_ref().map_or_else(|| size.parse(), |model| Ok(model.size))?;
    if !size.0.is_multiple_of(u64::from(ALIGN)) {
        return Err(format!("a drive of {} bytes: use a multiple of {ALIGN}", size.0));
    }
    Ok(Kind { drives, size, model })
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
    pub async fn make(
        &self,
        env: &UringEnv,
        first: u16,
        wrapper: &Wrapper,
        opening: Opening,
    ) -> Outcome<Pool> {
        let kinds = self.kinds.iter();
        let kinds = kinds.flat_map(|kind| std::iter::repeat_n(kind, usize::from(kind.drives)));
        let object = format!("pool {}", self.name);
        let drive = |(index, kind): (usize, &Kind)| {
            let name = format!("mem:{}", usize::from(first) + index);
            let drive = MemDrive::try_new(&name, kind.size.0, ALIGN).map_err(|error| {
                let size = kind.size;
                Failure::new(&object, format!("no room in memory for a drive of {size}: {error}"))
                    .hint("drives in memory must fit this machine: make them smaller, or fewer")
            })?;
            wrapper.wrap(
                &name,
                drive.into(),
                kind.model.as_ref().map(|model| (model, name.as_str())),
            )
        };
        let spec =
            CreateSpec { created_secs: wall_clock::now_secs(), ..CreateSpec::new(&self.name) };
        let drives: Vec<RealDrive> = kinds.enumerate().map(drive).collect::<Outcome<_>>()?;
        engine::create(env, &drives, &spec)
            .await
            .map_err(|error| explain::create(&object, &error))?;
        let pool = pools::open_drives(env, drives, None, opening).await?;
        let fusion = pool.fusion("be in memory")?;
        for (volume, size) in &self.volumes {
            fusion
                .volume_create(volume, size.0, None, None)
                .await
                .map_err(|error| explain::volume(&format!("{}/{volume}", self.name), &error))?;
        }
        Ok(pool)
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn drives(&self) -> u16 {
        self.kinds.iter().map(|kind| kind.drives).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_syntax_is_read_and_mistakes_are_refused() {
        let pool = |text: &str| text.parse::<MemPool>().expect(text);
        let plain = pool("demo:6:1G:a=2G:b=512");
        let kind = Kind { drives: 6, size: Size(1 << 30), model: None };
        assert_eq!((plain.name.as_str(), &plain.kinds), ("demo", &vec![kind]));
        assert_eq!(plain.volumes, [("a".to_owned(), Size(2 << 30)), ("b".to_owned(), Size(512))]);
        let model = pool("demo:4:model:hdd-10k,size=1G,seed=3:a=2G");
        assert_eq!((model.kinds[0].size, model.volumes.len()), (Size(1 << 30), 1));
        let mixed = pool("demo:3:model:hdd-10k,size=1G,seed=3:2:1G:1:model:hdd-10k,size=2G:a=2G");
        let sizes: Vec<u64> = mixed.kinds.iter().map(|kind| kind.size.0 >> 30).collect();
        assert_eq!((mixed.drives(), sizes, mixed.volumes.len()), (6, vec![1, 1, 2], 1));
        for bad in ["d:4:model", "d:4:model:hdd-10k", "d:4:model:hdd-10k,size=1G,file=x"] {
            bad.parse::<MemPool>().expect_err(bad);
        }
        for bad in ["", "demo", "demo:6", "demo:x:1G", "demo:6:1G:vol", "demo:6:1000", "d:300:1G"] {
            bad.parse::<MemPool>().expect_err(bad);
        }
        for bad in ["d:0:1G", "d:a=1", "d:3:1G:3", "d:3:1G:a=1G:3:1G", "d:200:1G:200:1G"] {
            bad.parse::<MemPool>().expect_err(bad);
        }
    }
}

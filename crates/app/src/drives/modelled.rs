//! `model:PRESET,size=SIZE[,file=PATH][,fill=fresh|aged][,seed=N]`: a drive that answers as
//! slowly as the one it models, while it is served.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use io::Model;
use model::presets::Preset;
use model::ssd::Fill;

use crate::size::Size;

/// A model as it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelSpec {
    /// As it was written, without the prefix.
    text: String,
    preset: Preset,
    pub size: Size,
    /// Where its bytes are; memory if there is none.
    pub file: Option<PathBuf>,
    fill: Fill,
    seed: Option<u64>,
}

impl ModelSpec {
    pub const PREFIX: &str = "model:";

    /// The model of the drive called `name`; drives of different names have different seeds,
    /// so their phases and ages differ as those of real ones do.
    pub fn build(&self, name: &str) -> Result<Box<dyn Model>, String> {
        let seed = self.seed.unwrap_or(0);
        let seed = name.bytes().fold(seed, |seed, byte| io::rng::mix(seed ^ u64::from(byte) << 8));
        self.preset.build(self.size.0, self.fill, seed)
    }

    /// Says now what [`ModelSpec::build`] would refuse.
    pub fn check(&self) -> Result<(), String> {
        self.preset.build(self.size.0, Fill::Fresh, 0).map(drop)
    }
}

/// What follows the prefix.
impl FromStr for ModelSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<ModelSpec, String> {
        let mut parts = text.split(',');
        let preset: Preset = parts.next().unwrap_or_default().parse()?;
        let (mut size, mut file, mut fill, mut seed) = (None, None, None, None);
        for part in parts {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            let twice = match key {
                "size" => size.replace(value.parse::<Size>()?).is_some(),
                "file" if !value.is_empty() => file.replace(PathBuf::from(value)).is_some(),
                "fill" => fill.replace(parse_fill(value)?).is_some(),
                "seed" => seed.replace(parse_seed(value)?).is_some(),
                _ => {
                    return Err(format!(
                        "'{part}' is none of size=SIZE, file=PATH, fill=fresh|aged, seed=N"
                    ));
                }
            };
            if twice {
                return Err(format!("{key} is given twice in 'model:{text}'"));
            }
        }
        let size = size.ok_or_else(|| format!("'model:{text}' has no size=SIZE"))?;
        let fill = fill.unwrap_or(Fill::Fresh);
        Ok(ModelSpec { text: text.to_owned(), preset, size, file, fill, seed })
    }
}

fn parse_fill(text: &str) -> Result<Fill, String> {
    match text {
        "fresh" => Ok(Fill::Fresh),
        "aged" => Ok(Fill::Aged),
        _ => Err(format!("'{text}' is neither fill=fresh nor fill=aged")),
    }
}

fn parse_seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("'{text}' is not a whole number: seed=N"))
}

impl fmt::Display for ModelSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", ModelSpec::PREFIX, self.text)
    }
}

/// What the drive in `path` is called when seeds are made of names: the file's own name, so
/// that moving a pool's directory changes nothing.
pub fn seed_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_syntax_is_read_and_mistakes_are_refused() {
        let spec: ModelSpec = "dc-sata,size=8G,file=a/d0,fill=aged,seed=7".parse().unwrap();
        assert_eq!((spec.preset, spec.size), (Preset::DcSata, Size(8 << 30)));
        assert_eq!((spec.fill, spec.seed), (Fill::Aged, Some(7)));
        assert_eq!(spec.file.as_deref(), Some(Path::new("a/d0")));
        assert_eq!(spec.to_string(), "model:dc-sata,size=8G,file=a/d0,fill=aged,seed=7");
        let bad = [
            ("", "no drive we know"),
            ("floppy,size=1M", "no drive we know: consumer-sata"),
            ("dc-sata", "has no size=SIZE"),
            ("dc-sata,size=8G,size=8G", "size is given twice"),
            ("dc-sata,size=x", "not a"),
            ("dc-sata,size=8G,file=", "none of size=SIZE"),
            ("dc-sata,size=8G,fill=old", "neither fill=fresh"),
            ("dc-sata,size=8G,seed=-1", "not a whole number"),
            ("dc-sata,size=8G,colour=red", "'colour=red' is none of"),
        ];
        for (text, says) in bad {
            let error = text.parse::<ModelSpec>().expect_err(text);
            assert!(error.contains(says), "{error}");
        }
        let small: ModelSpec = "dc-sata,size=1M".parse().unwrap();
        assert!(small.check().is_err());
        let disk: ModelSpec = "hdd-10k,size=64M".parse().unwrap();
        assert!(disk.check().is_ok() && disk.build("d0").is_ok());
    }
}

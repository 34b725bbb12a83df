//! Drives as they are named on command lines and in files: a path, or a path with a model.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use clap::builder::{OsStringValueParser, TypedValueParser};
use serde::Deserialize;

use super::modelled::ModelSpec;

/// A drive, or a directory to search for drives.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct DriveName {
    path: PathBuf,
    /// The timing it is served with.
    model: Option<ModelSpec>,
}

impl DriveName {
    /// Paths needn't be text, so this is no `FromStr`.
    pub fn parser() -> impl TypedValueParser<Value = DriveName> {
        OsStringValueParser::new().try_map(DriveName::parse)
    }

    fn parse(name: OsString) -> Result<DriveName, String> {
        let spec = name.to_str().and_then(|text| text.strip_prefix(ModelSpec::PREFIX));
        let Some(spec) = spec else { return Ok(PathBuf::from(name).into()) };
        let spec: ModelSpec = spec.parse()?;
        let path = spec.file.clone().ok_or_else(|| {
            format!(
                "'{spec}' has no file=PATH: memory lives only as long as the process that has \
                 it; 'serve --mem-pool NAME:DRIVES:{spec}' makes and serves a pool in memory"
            )
        })?;
        Ok(DriveName { path, model: Some(spec) })
    }

    /// The device, file or directory itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn model(&self) -> Option<&ModelSpec> {
        self.model.as_ref()
    }
}

impl From<PathBuf> for DriveName {
    fn from(path: PathBuf) -> DriveName {
        DriveName { path, model: None }
    }
}

impl TryFrom<String> for DriveName {
    type Error = String;

    fn try_from(text: String) -> Result<DriveName, String> {
        DriveName::parse(text.into())
    }
}

impl fmt::Display for DriveName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.model {
            Some(spec) => write!(f, "{spec}"),
            None => write!(f, "{}", self.path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_needs_its_file_and_a_path_needs_nothing() {
        let name = |text: &str| DriveName::try_from(text.to_owned());
        let model = name("model:hdd-10k,size=1G,file=d0.img").unwrap();
        assert_eq!((model.path(), model.model().is_some()), (Path::new("d0.img"), true));
        assert_eq!(model.to_string(), "model:hdd-10k,size=1G,file=d0.img");
        let plain = name("./model:hdd-10k").unwrap();
        assert_eq!((plain.path(), plain.model()), (Path::new("./model:hdd-10k"), None));
        assert!(name("model:hdd-10k,size=1G").unwrap_err().contains("--mem-pool"));
        name("model:").unwrap_err();
    }
}

//! Results on disk: a folder with a file for each cell, and what was concluded from them.
//!
//! ```text
//!  DIR/cells/NAME.json      parameters, figures, what it took; `/` in the name is written `~`
//!  DIR/results.json         conclusions of all experiments that are complete
//!  DIR/report.html          the same for people, self-contained
//!  DIR/results.md           the checks as text, as they are committed
//!  DIR/pictures/NAME.svg    and NAME.png
//! ```
//! Cells that are there already, made by the same version with the same parameters, are not run
//! again: a run that was interrupted goes on where it stopped, and folders that several machines
//! filled can be put together by copying.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Cell, Conclusion, Figures, Found, Scale};

#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    #[error("{}: {error}", path.display())]
    File { path: PathBuf, error: std::io::Error },
    #[error("{}: not a result of this program: {error}", path.display())]
    Content { path: PathBuf, error: serde_json::Error },
}

/// What made the results.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Made {
    pub version: String,
    /// Of the sources, if they were under version control; `+` after it: and changed since.
    pub commit: String,
}

impl Made {
    pub fn here() -> Made {
        Made { version: env!("CARGO_PKG_VERSION").to_owned(), commit: commit() }
    }
}

/// The commit of the working directory.
fn commit() -> String {
    let git = |arguments: &[&str]| {
        let done = std::process::Command::new("git").args(arguments).output().ok()?;
        done.status.success().then(|| String::from_utf8_lossy(&done.stdout).trim().to_owned())
    };
    match git(&["rev-parse", "--short=12", "HEAD"]) {
        Some(commit) => {
            // Documents, results among them, change nothing that is run.
            let sources = ["--", ":(top)", ":(top,exclude)docs"];
            let status = ["status", "--porcelain", "--untracked-files=no"];
            let changed = git(&[&status[..], &sources].concat());
            let mark = if changed.is_none_or(|changed| !changed.is_empty()) { "+" } else { "" };
            format!("{commit}{mark}")
        }
        None => "unknown".to_owned(),
    }
}

/// A cell that was run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Done {
    pub cell: String,
    pub made: Made,
    pub parameters: Map<String, Value>,
    /// Seconds of a core.
    pub seconds: f64,
    /// What it found, or why it could not be run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub figures: Option<Figures>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// What was concluded from one experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Concluded {
    pub name: String,
    pub title: String,
    pub source: String,
    /// What its drives knew of what is free when measuring began; empty where there are none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub drives: String,
    /// Cells that could not be run, and why.
    pub missing: Vec<(String, String)>,
    pub conclusion: Conclusion,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    pub made: Made,
    pub scale: Scale,
    /// The command that makes them.
    pub command: String,
    pub experiments: Vec<Concluded>,
}

pub struct Folder {
    path: PathBuf,
}

impl Folder {
    pub fn new(path: &Path) -> Result<Folder, FolderError> {
        let folder = Folder { path: path.to_owned() };
        for made in [path.join("cells"), path.join("pictures")] {
            fs::create_dir_all(&made).map_err(|error| FolderError::File { path: made, error })?;
        }
        Ok(folder)
    }

    fn cell_path(&self, name: &str) -> PathBuf {
        self.path.join("cells").join(format!("{}.json", name.replace('/', "~")))
    }

    /// The cell as it was run before with these parameters by this version.
    pub fn found(&self, cell: &Cell, made: &Made) -> Option<Done> {
        let done = self.read(&cell.name).ok().flatten()?;
        let same = done.made == *made && done.parameters == cell.parameters;
        (same && done.error.is_none() && !made.commit.ends_with('+')).then_some(done)
    }

    /// A cell that was run.
    pub fn read(&self, name: &str) -> Result<Option<Done>, FolderError> {
        let path = self.cell_path(name);
        match fs::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(FolderError::File { path, error }),
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map(Some)
                .map_err(|error| FolderError::Content { path, error }),
        }
    }

    /// Whole or not at all, so that a file that is there can be believed.
    pub fn write(&self, done: &Done) -> Result<(), FolderError> {
        let path = self.cell_path(&done.cell);
        let text = serde_json::to_string_pretty(done).expect("plain values") + "\n";
        let new = path.with_extension("new");
        let written = fs::write(&new, text).and_then(|()| fs::rename(&new, &path));
        written.map_err(|error| FolderError::File { path, error })
    }

    pub fn write_file(&self, name: &str, bytes: &[u8]) -> Result<(), FolderError> {
        let path = self.path.join(name);
        fs::write(&path, bytes).map_err(|error| FolderError::File { path, error })
    }

    pub fn results(&self) -> Result<Results, FolderError> {
        let path = self.path.join("results.json");
        let read = fs::read(&path);
        let bytes = read.map_err(|error| FolderError::File { path: path.clone(), error })?;
        serde_json::from_slice(&bytes).map_err(|error| FolderError::Content { path, error })
    }

    /// The figures of these cells, and which of them there are none of.
    pub fn gather(&self, cells: &[Cell]) -> Result<(Found, Vec<(String, String)>), FolderError> {
        let (mut found, mut missing) = (Found::default(), Vec::new());
        for cell in cells {
            let done = self.read(&cell.name)?;
            let error = done.as_ref().and_then(|done| done.error.clone());
            match done.and_then(|done| done.figures) {
                Some(figures) => drop(found.0.insert(cell.name.clone(), figures)),
                None => {
                    let error = error.unwrap_or_else(|| "not run".to_owned());
                    missing.push((cell.name.clone(), error));
                }
            }
        }
        Ok((found, missing))
    }
}

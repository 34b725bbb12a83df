//! The files of the repository, as git sees them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(Clone, Debug)]
pub struct File {
    /// From the repository's root, with `/`.
    pub path: String,
    pub text: String,
    pub bytes: u64,
}

impl File {
    #[cfg(test)]
    pub fn sample(path: &str, text: &str) -> File {
        File { path: path.to_owned(), text: text.to_owned(), bytes: text.len() as u64 }
    }

    /// The crate that a path like `crates/engine/src/map.rs` belongs to.
    pub fn crate_name(&self) -> Option<&str> {
        self.path.strip_prefix("crates/")?.split('/').next()
    }
}

pub struct Repo {
    pub root: PathBuf,
    pub files: Vec<File>,
}

impl Repo {
    /// Everything that is committed, or would be by `git add --all`.
    pub fn load() -> Result<Repo, String> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let root = root.canonicalize().map_err(|error| format!("{}: {error}", root.display()))?;
        let mut paths = listed_by_git(&root).unwrap_or_else(|| walk(&root));
        paths.sort();
        paths.dedup();
        let mut files = Vec::new();
        for path in paths {
            let full = root.join(&path);
            // Gone but not yet committed as gone, or a link to a folder: nothing to read.
            if !full.is_file() {
                continue;
            }
            let bytes = fs::read(&full).map_err(|error| format!("{path}: {error}"))?;
            let text = String::from_utf8_lossy(&bytes).into_owned();
            files.push(File { path, text, bytes: bytes.len() as u64 });
        }
        Ok(Repo { root, files })
    }

    /// The text of a file, empty if it is not there.
    pub fn text(&self, path: &str) -> &str {
        self.files.iter().find(|file| file.path == path).map_or("", |file| &file.text)
    }
}

fn listed_by_git(root: &Path) -> Option<Vec<String>> {
    let output = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .ok()?;
    if !output.status.success() {
        return None;
    }
    let names = String::from_utf8_lossy(&output.stdout).into_owned();
    let paths: Vec<String> =
        names.split('\0').filter(|p| !p.is_empty()).map(str::to_owned).collect();
    // Unpacked inside somebody else's repository: git lists nothing of ours.
    paths.iter().any(|path| path == "Cargo.toml").then_some(paths)
}

/// For a copy without git: everything but what is built.
fn walk(root: &Path) -> Vec<String> {
    let mut paths = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let name = entry.file_name();
            if path.is_dir() && name != ".git" && name != "target" {
                folders.push(path);
            } else if path.is_file()
                && let Ok(relative) = path.strip_prefix(root)
            {
                paths.push(relative.to_string_lossy().into_owned());
            }
        }
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_and_the_walk_see_the_same_sources() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let walked = walk(&root);
        assert!(walked.iter().any(|path| path == "crates/xtask/src/main.rs"), "{walked:?}");
        assert!(!walked.iter().any(|path| path.starts_with("target/")));
    }
}

//! The rules of STYLE.md that a program can check. Runs as `cargo xtask tidy` and as a test.
//!
//! Each check is a function from files to complaints, and has a test that shows it can complain.

mod allowed;
mod crates;
mod documents;
mod makefile;
mod output;
mod pages;
mod planted;
mod repo;
mod rust_files;
mod source;
mod targets;

use repo::{File, Repo};

/// One broken rule: where, what, and what to do instead.
pub type Complaint = String;

pub fn command() -> Result<(), String> {
    let complaints = run()?;
    if complaints.is_empty() {
        println!("tidy");
        return Ok(());
    }
    let count = complaints.len();
    Err(format!("{}\n{count} complaints; the rules are in STYLE.md", complaints.join("\n")))
}

fn run() -> Result<Vec<Complaint>, String> {
    let repo = Repo::load()?;
    let workspace = crates::Workspace::load(&repo)?;
    let mut complaints = Vec::new();
    for file in &repo.files {
        complaints.extend(documents::check(&repo, file));
        complaints.extend(planted::check(file));
        if file.path.ends_with(".rs") {
            complaints.extend(rust_files::check(file));
            complaints.extend(output::check(file));
        }
    }
    complaints.extend(rust_files::check_ratchet(&repo.files, allowed::LONG_FUNCTIONS));
    complaints.extend(documents::check_changelog(repo.text("CHANGELOG.md")));
    complaints.extend(documents::check_ban_lists(&repo.files));
    complaints.extend(pages::check(&repo.files));
    complaints.extend(makefile::check(&repo.files));
    complaints.extend(crates::check(&workspace, repo.text("ARCHITECTURE.md")));
    complaints.extend(targets::check(&workspace, &repo.files));
    Ok(complaints)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_is_tidy() {
        let complaints = run().expect("the repository can be read");
        assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
    }

    #[test]
    fn the_checks_see_the_repository() {
        let repo = Repo::load().expect("the repository can be read");
        let rust = repo.files.iter().filter(|file| file.path.ends_with(".rs")).count();
        assert!(rust > 10, "only {rust} Rust files: the check looks in the wrong place");
        assert!(repo.files.iter().any(|file: &File| file.path == "crates/xtask/src/tidy.rs"));
    }
}

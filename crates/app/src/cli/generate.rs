//! `generate DIR`, not shown by `--help`: manual pages and completions, for packages.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory};
use clap_complete::Shell;

use super::{Cli, Verb};
use crate::error::{Failure, Outcome};
use crate::exit::Exit;

/// Write manual pages and completions for shells, as packages have them
#[derive(clap::Args, Debug)]
pub struct Args {
    /// A directory; those below it are made as they lie below /usr/share
    directory: PathBuf,
}

/// Where shells look for them, below /usr/share, and the names that they expect.
const COMPLETIONS: [(Shell, &str, &str); 3] = [
    (Shell::Bash, "bash-completion/completions", "steadyraid"),
    (Shell::Zsh, "zsh/vendor-completions", "_steadyraid"),
    (Shell::Fish, "fish/vendor_completions.d", "steadyraid.fish"),
];

pub fn run(Args { directory }: &Args) -> Outcome<Exit> {
    manual(&directory.join("man/man1"))?;
    for (shell, below, name) in COMPLETIONS {
        let mut text = Vec::new();
        clap_complete::generate(shell, &mut shown(), "steadyraid", &mut text);
        write(&directory.join(below), name, &text)?;
    }
    Ok(Exit::Ok)
}

/// What users see: without this verb.
fn shown() -> Command {
    Cli::<Verb>::command()
}

/// A page for each verb, named as git names its own: steadyraid-volume-create(1).
fn manual(directory: &Path) -> Outcome<()> {
    fs::create_dir_all(directory).map_err(|error| Failure::new(directory.display(), error))?;
    clap_mangen::generate_to(shown(), directory)
        .map_err(|error| Failure::new(directory.display(), error))
}

fn write(directory: &Path, name: &str, text: &[u8]) -> Outcome<()> {
    let path = directory.join(name);
    fs::create_dir_all(directory)
        .and_then(|()| fs::write(&path, text))
        .map_err(|error| Failure::new(path.display(), error))
}

//! Where keys stand in the configuration file, for mistakes that show only when values are held
//! against each other, or the files that they name are read.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use toml::de::DeTable;

use crate::error::Failure;

/// Without a file nothing stands anywhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    path: PathBuf,
    /// Of keys that are in force.
    lines: BTreeMap<String, usize>,
}

impl Origin {
    pub fn of(path: &Path, text: &str) -> Origin {
        let table = DeTable::parse(text).map(|table| table.into_inner()).unwrap_or_default();
        let place = |key: &toml::Spanned<toml::de::DeString<'_>>| {
            (key.get_ref().to_string(), line(text, key.span().start))
        };
        Origin { path: path.to_owned(), lines: table.keys().map(place).collect() }
    }

    /// These were given on the command line, which replaces what the file says.
    pub fn forget(&mut self, keys: &[&str]) {
        self.lines.retain(|key, _| !keys.contains(&key.as_str()));
    }

    /// The failure as the file's, if its object, or else one of `keys`, is from there.
    pub fn blame(&self, failure: Failure, keys: &[&str]) -> Failure {
        let object = failure.object.trim_start_matches("--");
        let own = object.split(' ').next().unwrap_or_default();
        let known = |key: &&str| self.lines.contains_key(*key);
        let Some(key) = [own].iter().chain(keys).copied().find(known) else { return failure };
        let about = if own == key { object.to_owned() } else { format!("{key}: {object}") };
        let what = format!("line {}: {about}: {}", self.lines[key], as_keys(&failure.what));
        let hint = failure.hint.as_deref().map(as_keys);
        Failure { object: self.path.display().to_string(), what, hint, ..failure }
    }
}

/// Number of the line that byte `at` is in.
pub fn line(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|&byte| byte == b'\n').count()
}

/// Options are called as in the file.
fn as_keys(text: &str) -> String {
    let mut parts = text.split(" --");
    let mut all = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let is_option = part.starts_with(|c: char| c.is_ascii_lowercase());
        all += if is_option { " " } else { " --" };
        all += part;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_said_of_the_line_that_it_comes_from() {
        let text = "# 1\ndrives = [\n'a']\nspikes = 'off'\n[[alert]]\nprogram = ['/x']\n";
        let mut origin = Origin::of(Path::new("c.toml"), text);
        let off = Failure::usage("--spikes off", "nothing").hint("use --spikes watch -----BEGIN");
        let said = origin.blame(off.clone(), &["drives"]);
        assert_eq!((said.object.as_str(), said.usage), ("c.toml", true));
        assert_eq!(said.what, "line 4: spikes off: nothing");
        assert_eq!(said.hint.as_deref(), Some("use spikes watch -----BEGIN"));
        let gone = Failure::usage("/a", "is not there");
        assert_eq!(
            origin.blame(gone.clone(), &["no", "drives"]).what,
            "line 2: drives: /a: is not there"
        );
        assert_eq!(origin.blame(gone.clone(), &["alert"]).what, "line 5: alert: /a: is not there");
        assert_eq!(origin.blame(gone.clone(), &["nbd"]), gone);
        origin.forget(&["spikes"]);
        assert_eq!(origin.blame(off.clone(), &[]), off);
        assert_eq!(Origin::default().blame(off.clone(), &["drives"]), off);
    }
}

//! Rules for every text file: words that don't belong here, links, size, scripts, change log.

use std::path::Path;

use super::rust_files::PURE_CRATES;
use super::{Complaint, File, Repo};

const FILE_BYTES_MAX: u64 = 1 << 20;
const CHANGELOG_SECTIONS: &[&str] = &["Safety", "Performance", "Features", "Internals"];

/// Words that tie the repository to one machine or one network. In two pieces each, or this
/// file would complain about itself.
const BANNED: &[(&str, &str, &str)] = &[
    ("/wor", "k/", "a path of somebody's machine"),
    ("/far", "m/", "a path of somebody's machine"),
    ("/roo", "t/", "a path of somebody's machine"),
    ("/hom", "e/", "a path of somebody's machine"),
    ("/Use", "rs/", "a path of somebody's machine"),
    ("index.cra", "tes.io", "Cargo knows its registries"),
    ("static.cra", "tes.io", "Cargo knows its registries"),
    ("static.rust-", "lang.org", "rustup knows its hosts"),
    ("proxy.gol", "ang.org", "a package host"),
    ("pypi.", "org", "a package host"),
    ("registry.npm", "js.org", "a package host"),
    ("deb.deb", "ian.org", "apt knows its mirrors"),
    ("artif", "actory", "a package host"),
];

pub fn check(repo: &Repo, file: &File) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    complaints.extend(check_size(file));
    // The lock file and the licences are written by others.
    if file.path == "Cargo.lock" || file.path.starts_with("LICENSE") {
        return complaints;
    }
    complaints.extend(check_words(file));
    complaints.extend(check_notes(file));
    complaints.extend(check_script(file));
    if file.path.ends_with(".md") {
        complaints.extend(check_links(file, |path| repo.root.join(path).exists()));
    }
    complaints
}

fn check_size(file: &File) -> Option<Complaint> {
    let large = file.bytes > FILE_BYTES_MAX;
    large.then(|| format!("{}: {} bytes: too large for the repository", file.path, file.bytes))
}

fn check_words(file: &File) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        for (start, end, why) in BANNED {
            let word = format!("{start}{end}");
            if line.contains(&word) {
                complaints.push(format!("{}:{}: '{word}': {why}", file.path, index + 1));
            }
        }
    }
    complaints
}

/// A note for later must say what and why, in words that a stranger understands.
fn check_notes(file: &File) -> Vec<Complaint> {
    const WORDS_MIN: usize = 4;
    let mut complaints = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        let place = || format!("{}:{}", file.path, index + 1);
        if let Some((_, note)) = line.split_once(concat!("TO", "DO")) {
            let explained = note.starts_with(": ") && note.split_whitespace().count() > WORDS_MIN;
            if !explained {
                complaints.push(format!("{}: a note for later needs a reason", place()));
            }
        }
        if line.contains(concat!("FIX", "ME")) || line.contains(concat!("XX", "X:")) {
            complaints.push(format!("{}: fix it, or write down why not", place()));
        }
    }
    complaints
}

/// A script stops at the first error, also in a pipe, also at a misspelt variable.
fn check_script(file: &File) -> Option<Complaint> {
    let is_script = file.path.ends_with(".sh") || file.text.starts_with("#!");
    let strict = file.text.lines().any(|line| line == "set -euo pipefail");
    let what = "a script needs the line `set -euo pipefail`";
    (is_script && !file.path.ends_with(".rs") && !strict).then(|| format!("{}: {what}", file.path))
}

/// Links to files and to headings of files. `exists` takes a path from the root.
fn check_links(file: &File, exists: impl Fn(&str) -> bool) -> Vec<Complaint> {
    let folder = Path::new(&file.path).parent().unwrap_or(Path::new(""));
    let mut complaints = Vec::new();
    for (line, target) in links(&file.text) {
        if target.contains("://") || target.starts_with("mailto:") {
            continue;
        }
        let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
        let place = format!("{}:{line}", file.path);
        if !path.is_empty() && !exists(&folder.join(path).to_string_lossy()) {
            complaints.push(format!("{place}: link to {path}, which is not there"));
        }
        if path.is_empty() && !headings(&file.text).any(|heading| heading == anchor) {
            complaints.push(format!("{place}: link to #{anchor}, which is no heading here"));
        }
    }
    complaints
}

/// Lines outside of fenced code.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        (!fenced && !fence).then_some((index + 1, line))
    })
}

fn links(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        let mut rest = line;
        while let Some((_, after)) = rest.split_once("](") {
            let Some((target, after)) = after.split_once(')') else { break };
            found.push((number, target));
            rest = after;
        }
    }
    found
}

/// The headings of a page, as anchors: lower case, words joined by `-`.
fn headings(text: &str) -> impl Iterator<Item = String> {
    let lines = prose(text).map(|(_, line)| line).filter(|line| line.starts_with('#'));
    lines.map(|line| {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    })
}

pub fn check_changelog(text: &str) -> Vec<Complaint> {
    let mut lines = text.lines().skip_while(|line| *line != "## Unreleased");
    if lines.next().is_none() {
        return vec!["CHANGELOG.md: needs a section `## Unreleased`".to_owned()];
    }
    let unreleased: Vec<&str> = lines.take_while(|line| !line.starts_with("## ")).collect();
    let missing = CHANGELOG_SECTIONS.iter().filter(|section| {
        let heading = format!("### {section}");
        !unreleased.contains(&heading.as_str())
    });
    missing.map(|section| format!("CHANGELOG.md: Unreleased needs `### {section}`")).collect()
}

/// The pure crates share one list of banned names, which holds all of the root's.
pub fn check_ban_lists(files: &[File]) -> Vec<Complaint> {
    let text = |path: &str| files.iter().find(|file| file.path == path).map_or("", |f| &f.text);
    let root = text("clippy.toml");
    let mut complaints = Vec::new();
    for name in PURE_CRATES {
        let path = format!("crates/{name}/clippy.toml");
        let strict: Vec<&str> = text(&path).lines().collect();
        let missing = root.lines().filter(|line| line.trim_start().starts_with("{ path"));
        let missing = missing.filter(|entry| !strict.contains(entry)).count();
        if missing > 0 || strict.is_empty() {
            complaints.push(format!("{path}: lacks {missing} entries of the root's clippy.toml"));
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_files_are_found() {
        let mut file = File::sample("a.bin", "");
        assert_eq!(check_size(&file), None);
        file.bytes = FILE_BYTES_MAX + 1;
        assert!(check_size(&file).is_some());
    }

    #[test]
    fn every_banned_word_is_found() {
        for (start, end, _) in BANNED {
            let text = format!("fine\nsee {start}{end}thing\n");
            let found = check_words(&File::sample("docs/a.md", &text));
            assert!(found.len() == 1 && found[0].contains("docs/a.md:2"), "{found:?}");
        }
        let fine = File::sample("a.md", "network/homework and crates.io");
        assert_eq!(check_words(&fine), [""; 0]);
    }

    #[test]
    fn notes_need_a_reason() {
        let count = |text: &str| check_notes(&File::sample("a.rs", text)).len();
        assert_eq!(count(concat!("// TO", "DO")), 1);
        assert_eq!(count(concat!("// TO", "DO: later")), 1);
        assert_eq!(count(concat!("// FIX", "ME: this is wrong for two drives")), 1);
        assert_eq!(count(concat!("// TO", "DO: share this ring once shards have one thread")), 0);
    }

    #[test]
    fn scripts_are_strict() {
        let strict = "#!/usr/bin/env bash\nset -euo pipefail\n";
        assert_eq!(check_script(&File::sample("a.sh", strict)), None);
        assert!(check_script(&File::sample("a.sh", "#!/usr/bin/env bash\nset -e\n")).is_some());
        assert!(check_script(&File::sample(".ci/run", "#!/bin/sh\nmake\n")).is_some());
    }

    #[test]
    fn links_lead_somewhere() {
        let page = "# A title, here\n[a](b.md) [b](../c.md#x) [c](#a-title-here) [d](https://x)\n";
        let exists = |path: &str| path == "docs/b.md" || path == "docs/../c.md";
        assert_eq!(check_links(&File::sample("docs/a.md", page), exists), [""; 0]);
        assert_eq!(check_links(&File::sample("docs/a.md", page), |_| false).len(), 2);
        assert_eq!(check_links(&File::sample("a.md", "[a](#nowhere)"), exists).len(), 1);
        assert_eq!(check_links(&File::sample("a.md", "```\n[a](#x)\n```\n"), exists).len(), 0);
    }

    #[test]
    fn the_changelog_has_its_sections() {
        let good = "# C\n## Unreleased\n### Safety\n### Performance\n### Features\n### Internals\n";
        assert_eq!(check_changelog(good), [""; 0]);
        assert_eq!(check_changelog("# C\n").len(), 1);
        let late = "## Unreleased\n### Safety\n## 0.1\n### Performance\n### Features\n";
        assert_eq!(check_changelog(late).len(), 3);
    }

    #[test]
    fn ban_lists_agree() {
        let root = File::sample("clippy.toml", "    { path = \"a\" },\n");
        let mut files = vec![root.clone()];
        for name in PURE_CRATES {
            files.push(File { path: format!("crates/{name}/clippy.toml"), ..root.clone() });
        }
        assert_eq!(check_ban_lists(&files), [""; 0]);
        files.pop();
        assert_eq!(check_ban_lists(&files).len(), 1);
        files[1].text.clear();
        assert_eq!(check_ban_lists(&files).len(), 2);
    }
}

//! Commands in the book: a test runs them, or the page says why none does.

use super::{Complaint, File};

/// Scripts that run pages, by names like `docs/{one,two}.md`.
const RUNNERS: &[&str] = &["scripts/tests/docs.sh", "scripts/tests/package.sh"];

/// Pages with commands, or with blocks that don't say what they are, that no test runs; and why.
const EXEMPT: &[(&str, &str)] = &[
    ("docs/cli.md", "an example of TLS with another machine's address; remote.md runs one here"),
    ("docs/results-background.md", "what experiments of minutes to hours printed, as they did"),
    ("docs/results-compare.md", "the same"),
    ("docs/results-rebuild.md", "the same"),
    ("docs/results-tail.md", "the same"),
];

/// What blocks may be: commands, outputs and drawings, requests that a Rust test sends, files.
const KINDS: &[&str] = &["sh", "console", "text", "http", "toml", "ini", "json", "yaml"];
/// The first line of a block of commands that nobody runs.
const EXCUSE: &str = "# Not run with this page: ";
const COMMANDS: &[&str] = &[
    "$ ",
    "steadyraid ",
    "steadyraid-sim ",
    "steadyraid-eval ",
    "cargo ",
    "curl ",
    "sudo ",
    "apt ",
    "systemctl ",
];

pub fn check(files: &[File]) -> Vec<Complaint> {
    let text = |path: &str| files.iter().find(|file| file.path == path).map_or("", |f| &f.text);
    let run: Vec<String> = RUNNERS.iter().flat_map(|path| pages_named(text(path))).collect();
    let mut complaints = Vec::new();
    for page in files.iter().filter(|file| is_page(&file.path)) {
        let found = check_page(page, run.contains(&page.path));
        let exempt = EXEMPT.iter().any(|(path, _)| *path == page.path);
        match (exempt, found.is_empty()) {
            (true, true) => complaints.push(format!("{}: need not be exempt", page.path)),
            (true, false) => {}
            (false, _) => complaints.extend(found),
        }
    }
    let is_there = |path: &&String| files.iter().any(|file| file.path == **path);
    let missing = run.iter().filter(|path| !is_there(path));
    complaints.extend(missing.map(|path| format!("{path}: a test runs it, but it is not there")));
    complaints
}

fn is_page(path: &str) -> bool {
    path.starts_with("docs/") && path.ends_with(".md")
}

/// Pages that a script names.
fn pages_named(script: &str) -> Vec<String> {
    let mut pages = Vec::new();
    for part in script.split("docs/{").skip(1) {
        let Some((names, _)) = part.split_once("}.md") else { continue };
        pages.extend(names.split(',').map(|name| format!("docs/{name}.md")));
    }
    pages
}

fn check_page(page: &File, is_run: bool) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    // What the block is, and whether its commands are excused.
    let mut block: Option<(&str, bool)> = None;
    let mut begins = false;
    for (index, line) in page.text.lines().enumerate() {
        let mut complain = |what: &str| {
            complaints.push(format!("{}:{}: {what}", page.path, index + 1));
        };
        if let Some(kind) = line.strip_prefix("```") {
            block = if block.is_some() { None } else { Some((kind, false)) };
            begins = block.is_some();
            if block.is_some() && !KINDS.contains(&kind) {
                complain("a block needs to say what it is: sh or console, if commands");
            }
            if matches!(block, Some(("sh" | "console", _))) && !is_run {
                complain("no test runs this page: name it in scripts/tests/docs.sh");
            }
            continue;
        }
        let Some(("text", excused)) = &mut block else { continue };
        *excused |= begins && line.strip_prefix(EXCUSE).is_some_and(|why| !why.is_empty());
        begins = false;
        let is_command = COMMANDS.iter().any(|word| line.trim_start().starts_with(word));
        if is_command && !*excused {
            complain(
                "a command that no test runs: make the block `sh`, or begin it with the reason",
            );
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(page: &str, is_run: bool) -> usize {
        check_page(&File::sample("docs/a.md", page), is_run).len()
    }

    #[test]
    fn commands_that_nobody_runs_are_found() {
        let commands = "Do:\n```sh\nsteadyraid list\n```\nand\n```console\n$ true\n```\n";
        assert_eq!(complaints(commands, true), 0);
        assert_eq!(complaints(commands, false), 2);
        assert_eq!(complaints("```\nsteadyraid list\n```\n", true), 1);
        assert_eq!(complaints("```text\nsteadyraid-sim day\n```\n", true), 1);
        let excused = "```text\n# Not run with this page: a day.\nsteadyraid-sim day\n```\n";
        assert_eq!(complaints(excused, false), 0);
        let late = "```text\nsteadyraid-sim day\n# Not run with this page: a day.\n```\n";
        assert_eq!(complaints(late, false), 1);
        assert_eq!(complaints("```text\na drawing\n```\n", false), 0);
    }

    #[test]
    fn pages_are_what_scripts_name() {
        let script = File::sample("scripts/tests/docs.sh", "run \"$root\"/docs/{a,b}.md\n");
        let page = File::sample("docs/a.md", "```sh\ntrue\n```\n");
        let other = File { path: "docs/c.md".to_owned(), ..page.clone() };
        let drawn = File::sample("docs/b.md", "");
        assert_eq!(check(&[script.clone(), page.clone(), drawn]), [""; 0]);
        // One that no script names, and one that a script names in vain.
        assert_eq!(check(&[script, page, other]).len(), 2);
    }

    #[test]
    fn an_exemption_that_is_not_needed_is_found() {
        let page = |text: &str| File::sample("docs/cli.md", text);
        assert_eq!(check(&[page("```sh\ntrue\n```\n")]), [""; 0]);
        assert_eq!(check(&[page("Nothing.\n")]).len(), 1);
    }
}

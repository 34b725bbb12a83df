//! Rules for Rust files: header, lengths, what may not be written where.

use super::source::{Function, code_only, functions, lines_with};
use super::{Complaint, File, allowed};

const LINE_CHARS_MAX: usize = 100;
const FUNCTION_LINES_MAX: usize = 70;
const FILE_LINES_MAX: usize = 600;

/// The crates that see the world only through `io::Env`.
pub const PURE_CRATES: &[&str] = &["format", "layout", "policy", "model", "engine"];

/// A second net under clippy.toml: it holds even where somebody allowed the lint.
const IMPURE: &[(&str, &str)] = &[
    ("HashMap", "use BTreeMap, or FxHashMap without iterating"),
    ("HashSet", "use BTreeSet, or FxHashSet without iterating"),
    ("RandomState", "use rustc_hash::FxBuildHasher"),
    ("Instant", "use io::Env::now"),
    ("SystemTime", "pass seconds in"),
    ("std::fs", "drives come in through io::Drive"),
    ("std::net", "sockets belong to io"),
    ("std::thread", "use io::Env::spawn"),
    ("std::process", "only app starts and ends processes"),
    ("std::env", "pass configuration in"),
    ("println", "return what there is to say"),
    ("eprintln", "return what there is to say"),
];

pub fn check(file: &File) -> Vec<Complaint> {
    let code = code_only(&file.text);
    let mut complaints = Vec::new();
    complaints.extend(check_header(file));
    complaints.extend(check_width(file));
    complaints.extend(check_length(file));
    complaints.extend(check_unsafe(file, &code));
    complaints.extend(check_unfinished(file, &code));
    complaints.extend(check_purity(file, &code));
    complaints
}

fn check_header(file: &File) -> Option<Complaint> {
    let good = file.text.lines().next().is_some_and(|line| line.starts_with("//! "));
    (!good).then(|| format!("{}:1: say with `//! ` what this file is for", file.path))
}

fn check_width(file: &File) -> Vec<Complaint> {
    let numbered = file.text.lines().enumerate();
    let wide = numbered.filter(|(_, line)| line.chars().count() > LINE_CHARS_MAX);
    wide.map(|(index, line)| {
        let chars = line.chars().count();
        format!("{}:{}: {chars} characters, at most {LINE_CHARS_MAX}", file.path, index + 1)
    })
    .collect()
}

fn check_length(file: &File) -> Option<Complaint> {
    let lines = file.text.lines().count();
    (lines > FILE_LINES_MAX)
        .then(|| format!("{}: {lines} lines, split it at {FILE_LINES_MAX}", file.path))
}

fn check_unsafe(file: &File, code: &str) -> Vec<Complaint> {
    if allowed::UNSAFE.iter().any(|start| file.path.starts_with(start)) {
        return Vec::new();
    }
    complain(file, &lines_with(code, "unsafe"), "unsafe belongs to io and layout::parity")
}

fn check_unfinished(file: &File, code: &str) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for name in ["todo", "unimplemented", "dbg"] {
        let lines = lines_with(code, name);
        let is_macro = |line: &usize| nth_line(code, *line).contains(&format!("{name}!"));
        let lines: Vec<usize> = lines.into_iter().filter(is_macro).collect();
        complaints.extend(complain(file, &lines, &format!("{name}! is unfinished work")));
    }
    let lines = lines_with(code, "ignore");
    let is_attribute = |line: &usize| {
        let line = nth_line(code, *line);
        line.contains("#[ignore") || line.contains("cfg_attr") && line.contains("ignore")
    };
    let lines: Vec<usize> = lines.into_iter().filter(is_attribute).collect();
    complaints.extend(complain(file, &lines, "an ignored test tests nothing"));
    complaints
}

fn nth_line(code: &str, line: usize) -> &str {
    code.lines().nth(line - 1).unwrap_or("")
}

fn check_purity(file: &File, code: &str) -> Vec<Complaint> {
    let pure = file.crate_name().is_some_and(|name| PURE_CRATES.contains(&name));
    // Tests may need files for real drives, examples a clock to measure with.
    if !pure || !file.path.contains("/src/") {
        return Vec::new();
    }
    let mut complaints = Vec::new();
    for (word, instead) in IMPURE {
        let what = format!("{word} in a pure crate: {instead}");
        complaints.extend(complain(file, &lines_with(code, word), &what));
    }
    complaints
}

fn complain(file: &File, lines: &[usize], what: &str) -> Vec<Complaint> {
    lines.iter().map(|line| format!("{}:{line}: {what}", file.path)).collect()
}

/// Long functions: none but the listed ones, and those never longer than they are listed.
pub fn check_ratchet(files: &[File], listed: &[(&str, &str, usize)]) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    let mut seen = vec![false; listed.len()];
    for file in files.iter().filter(|file| file.path.ends_with(".rs")) {
        for Function { name, line, lines } in functions(&code_only(&file.text)) {
            let entry = listed.iter().position(|(path, known, _)| {
                *path == file.path && *known == name && lines > FUNCTION_LINES_MAX
            });
            let limit = entry.map_or(FUNCTION_LINES_MAX, |index| listed[index].2);
            if lines > limit {
                let path = &file.path;
                let what = format!("{path}:{line}: fn {name} has {lines} lines, at most {limit}");
                complaints.push(what);
            }
            if let Some(index) = entry {
                seen[index] |= lines == limit;
            }
        }
    }
    let stale = listed.iter().zip(seen).filter(|(_, seen)| !seen);
    complaints.extend(stale.map(|((path, name, lines), _)| {
        format!("{path}: fn {name} no longer has {lines} lines: update or drop it in allowed.rs")
    }));
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(path: &str, text: &str) -> Vec<Complaint> {
        check(&File::sample(path, text))
    }

    /// `bad` breaks exactly one rule, whose complaint contains `word`.
    fn breaks(path: &str, bad: &str, word: &str) {
        let found = complaints(path, &format!("//! What it is for.\n{bad}\n"));
        assert!(found.len() == 1 && found[0].contains(word), "{bad}: {found:?}");
    }

    #[test]
    fn a_good_file_is_left_alone() {
        let text = "//! Good.\nfn f() { g(\"unsafe todo!() HashMap\"); } // dbg!(std::fs)\n";
        assert_eq!(complaints("crates/engine/src/good.rs", text), [""; 0]);
    }

    #[test]
    fn headers_are_wanted() {
        assert!(complaints("crates/app/src/a.rs", "fn main() {}")[0].contains("what this file"));
        assert!(complaints("crates/app/src/a.rs", "")[0].contains("what this file"));
    }

    #[test]
    fn wide_lines_are_found() {
        let wide = format!("// {}", "ä".repeat(LINE_CHARS_MAX - 2));
        breaks("crates/app/src/a.rs", &wide, "101 characters");
        let widest = format!("//! {}", "ä".repeat(LINE_CHARS_MAX - 4));
        assert_eq!(complaints("crates/app/src/a.rs", &widest), [""; 0]);
    }

    #[test]
    fn long_files_are_found() {
        breaks("crates/app/src/a.rs", &"//\n".repeat(FILE_LINES_MAX - 1), "601 lines");
    }

    #[test]
    fn unsafe_has_its_places() {
        breaks("crates/engine/src/a.rs", "unsafe { f() }", "unsafe");
        breaks("crates/app/src/a.rs", "unsafe { f() }", "unsafe");
        let inside = complaints("crates/io/src/buf.rs", "//! Good.\nunsafe { f() }\n");
        assert_eq!(inside, [""; 0]);
    }

    #[test]
    fn unfinished_work_is_found() {
        breaks("crates/app/src/a.rs", "fn f() { todo!() }", "todo!");
        breaks("crates/app/src/a.rs", "fn f() { unimplemented!() }", "unimplemented!");
        breaks("crates/app/src/a.rs", "fn f() { dbg!(1); }", "dbg!");
        breaks("crates/app/src/a.rs", "#[test]\n#[ignore = \"slow\"]\nfn f() {}", "ignored");
        breaks("crates/app/src/a.rs", "#[cfg_attr(unix, ignore)]\nfn f() {}", "ignored");
    }

    #[test]
    fn pure_crates_stay_pure() {
        for (word, _) in IMPURE {
            breaks("crates/engine/src/a.rs", &format!("use {word};"), word);
            let elsewhere = complaints("crates/app/src/a.rs", &format!("//! Good.\nuse {word};"));
            assert_eq!(elsewhere, [""; 0]);
        }
        let example = "//! Good.\nuse std::fs;";
        assert_eq!(complaints("crates/engine/examples/a.rs", example), [""; 0]);
    }

    #[test]
    fn the_ratchet_holds_both_ways() {
        let function = |lines: usize| format!("fn f() {{\n{}}}\n", "g();\n".repeat(lines - 2));
        let ratchet =
            |lines, listed| check_ratchet(&[File::sample("a.rs", &function(lines))], listed).len();
        assert_eq!(ratchet(70, &[]), 0);
        assert_eq!(ratchet(71, &[]), 1, "too long");
        assert_eq!(ratchet(80, &[("a.rs", "f", 80)]), 0);
        assert_eq!(ratchet(81, &[("a.rs", "f", 80)]), 2, "grew");
        assert_eq!(ratchet(79, &[("a.rs", "f", 80)]), 1, "shrank, and the table does not say so");
        assert_eq!(ratchet(60, &[("a.rs", "f", 80)]), 1, "the entry is not needed any more");
    }
}

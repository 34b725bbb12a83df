//! What a server runs writes to no standard stream: they may be full, slow or gone, and then all
//! clients of all volumes wait, or the server dies by a macro that panics. It has a log for that.

use super::source::{code_only, lines_with};
use super::{Complaint, File};

/// Sources that a server runs: paths that begin so.
const SERVED: &[&str] = &[
    "crates/app/src/serve/",
    "crates/app/src/pools",
    "crates/app/src/drives/",
    "crates/app/src/api/route",
    "crates/classical/src/",
    "crates/export/src/",
    "crates/io/src/",
    "crates/schemes/src/",
];

/// Those that may: the log's threads, and what only verbs run.
const ALLOWED: &[&str] = &[
    "crates/app/src/serve/log/",
    // Progress of `create`, for the person at a terminal.
    "crates/app/src/drives/blank.rs",
];

/// Macros that write, the functions behind them, and our own for verbs.
const WORDS: &[&str] = &[
    "println",
    "eprintln",
    "print",
    "eprint",
    "print_on",
    "stdout",
    "stderr",
    "JournalLog",
    "syslog::unix",
    "UnixDatagram",
];

pub fn check(file: &File) -> Vec<Complaint> {
    let is_in = |places: &[&str]| places.iter().any(|start| file.path.starts_with(start));
    if !is_in(SERVED) || is_in(ALLOWED) {
        return Vec::new();
    }
    let code = code_only(&file.text);
    // Tests may say what they like.
    let product = code.find("#[cfg(test)]").map_or(&code[..], |at| &code[..at]);
    let mut complaints = Vec::new();
    for word in WORDS {
        for line in lines_with(product, word) {
            // What a program that we start has is no stream of ours.
            let text = product.lines().nth(line - 1).unwrap_or_default();
            if text.contains(&format!(".{word}(")) {
                continue;
            }
            let what = "can block or panic in the thread that serves: use serve::log";
            complaints.push(format!("{}:{line}: {word} {what}", file.path));
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(path: &str, code: &str) -> usize {
        check(&File::sample(path, &format!("//! A file.\n{code}\n"))).len()
    }

    #[test]
    fn a_server_prints_nothing() {
        let bad = [
            "fn f() { eprintln!(\"warning: {error}\") }",
            "fn f() { println!() }",
            "fn f() { print(\"ready\") }",
            "fn f() { eprint!(\"x\") }",
            "fn f() { let _ = print_on(\"x\"); }",
            "fn f() { let _ = writeln!(std::io::stderr(), \"x\"); }",
            "use std::os::unix::net::UnixDatagram;",
        ];
        let served = ["crates/app/src/serve/reload.rs", "crates/app/src/pools/add.rs"];
        for (path, code) in served.iter().flat_map(|path| bad.map(|code| (path, code))) {
            assert_eq!(complaints(path, code), 1, "{path}: {code}");
        }
        for code in bad {
            assert_eq!(complaints("crates/app/src/serve/log/mod.rs", code), 0, "{code}");
            assert_eq!(complaints("crates/app/src/cli/list.rs", code), 0, "{code}");
        }
    }

    #[test]
    fn tests_comments_and_programs_that_are_started_may() {
        let good = [
            "// println!",
            "fn f() { command.stdout(Stdio::null()).stderr(Stdio::null()); }",
            "#[cfg(test)]\nmod tests { fn f() { println!() } }",
            "fn fingerprint() {}",
        ];
        for code in good {
            assert_eq!(complaints("crates/app/src/serve/smart.rs", code), 0, "{code}");
        }
    }
}

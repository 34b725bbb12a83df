//! Just enough Rust: code without comments and literals, and where functions begin and end.

/// The code with every comment, string and character literal replaced by spaces. Line numbers
/// and columns stay.
pub fn code_only(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut code = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let end = literal_end(&chars, at);
        if end == at {
            code.push(chars[at]);
            at += 1;
            continue;
        }
        let end = end.min(chars.len());
        code.extend(chars[at..end].iter().map(|&c| if c == '\n' { '\n' } else { ' ' }));
        at = end;
    }
    code
}

/// Where the comment or literal that begins at `at` ends; `at` itself if none begins there.
fn literal_end(chars: &[char], at: usize) -> usize {
    let next = |offset: usize| chars.get(at + offset).copied().unwrap_or('\0');
    let in_word = at > 0 && is_word(chars[at - 1]);
    match chars[at] {
        '/' if next(1) == '/' => position(chars, at, |c| c == '\n'),
        '/' if next(1) == '*' => block_comment_end(chars, at),
        '"' => string_end(chars, at + 1),
        'r' if !in_word && (next(1) == '"' || next(1) == '#') => raw_string_end(chars, at),
        'b' | 'c' if !in_word && next(1) == 'r' && matches!(next(2), '"' | '#') => {
            raw_string_end(chars, at + 1)
        }
        '\'' => character_end(chars, at),
        _ => at,
    }
}

fn position(chars: &[char], from: usize, wanted: impl Fn(char) -> bool) -> usize {
    let found = chars[from..].iter().position(|&c| wanted(c));
    found.map_or(chars.len(), |offset| from + offset)
}

fn block_comment_end(chars: &[char], start: usize) -> usize {
    let (mut depth, mut at) = (0, start);
    while at + 1 < chars.len() {
        match (chars[at], chars[at + 1]) {
            ('/', '*') => (depth, at) = (depth + 1, at + 2),
            ('*', '/') => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    chars.len()
}

fn string_end(chars: &[char], mut at: usize) -> usize {
    while at < chars.len() {
        match chars[at] {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    chars.len()
}

/// `start` is at the `r`. A raw identifier (`r#type`) is no literal.
fn raw_string_end(chars: &[char], start: usize) -> usize {
    let quote = position(chars, start + 1, |c| c != '#');
    let hashes = quote - start - 1;
    if chars.get(quote) != Some(&'"') {
        return start;
    }
    let closes = |at: usize| {
        chars[at] == '"' && chars[at + 1..].iter().take_while(|&&c| c == '#').count() >= hashes
    };
    let end = (quote + 1..chars.len()).find(|&at| closes(at));
    end.map_or(chars.len(), |at| at + 1 + hashes)
}

/// Tells a character from a lifetime: `'a'` or `'\n'` against `'a`.
fn character_end(chars: &[char], at: usize) -> usize {
    match (chars.get(at + 1), chars.get(at + 2)) {
        (Some('\\'), _) => position(chars, at + 3, |c| c == '\'') + 1,
        (Some(_), Some('\'')) => at + 3,
        _ => at,
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Is `word` in `code` as a word of its own (or a path like `std::fs`)? Returns the lines.
pub fn lines_with(code: &str, word: &str) -> Vec<usize> {
    let numbered = code.lines().enumerate();
    numbered.filter(|(_, line)| has_word(line, word)).map(|(index, _)| index + 1).collect()
}

fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    })
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    pub name: String,
    /// The line of the `fn`, from 1.
    pub line: usize,
    pub lines: usize,
}

/// All functions with a body, nested ones too.
pub fn functions(code: &str) -> Vec<Function> {
    let chars: Vec<char> = code.chars().collect();
    let mut found = Vec::new();
    for at in 0..chars.len() {
        if let Some((name, after)) = function_name(&chars, at)
            && let Some(end) = body_end(&chars, after)
        {
            let newlines = |part: &[char]| part.iter().filter(|&&c| c == '\n').count();
            let line = newlines(&chars[..at]) + 1;
            found.push(Function { name, line, lines: newlines(&chars[at..end]) + 1 });
        }
    }
    found
}

fn function_name(chars: &[char], at: usize) -> Option<(String, usize)> {
    let is_fn = chars[at..].starts_with(&['f', 'n', ' ']) && (at == 0 || !is_word(chars[at - 1]));
    if !is_fn {
        return None;
    }
    let name: String = chars[at + 3..].iter().take_while(|&&c| is_word(c)).collect();
    let after = at + 3 + name.chars().count();
    (!name.is_empty()).then_some((name, after))
}

/// The end of the `{}` that follows a signature; none if a `;` ends it first.
fn body_end(chars: &[char], signature: usize) -> Option<usize> {
    let (mut brackets, mut braces) = (0, 0);
    for (at, c) in chars.iter().enumerate().skip(signature) {
        match c {
            '(' | '[' => brackets += 1,
            ')' | ']' => brackets -= 1,
            ';' if brackets == 0 && braces == 0 => return None,
            '{' => braces += 1,
            '}' => {
                braces -= 1;
                if braces == 0 && brackets == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_and_comments_vanish() {
        let gone = [
            "// unsafe",
            "/* unsafe /* unsafe */ unsafe */",
            r#""unsafe \" unsafe""#,
            "r#\"unsafe \" unsafe\"#",
            "br\"unsafe\\\"",
            "'\\'' /* unsafe */",
            "'\"' /* unsafe */",
        ];
        for text in gone {
            let code = code_only(&format!("before {text}\nafter"));
            assert!(!code.contains("unsafe"), "{text} -> {code}");
            assert!(code.contains("before") && code.contains("\nafter"), "{text} -> {code}");
        }
    }

    #[test]
    fn lifetimes_and_raw_identifiers_stay() {
        let code = "fn f<'a>(r#type: &'a str) { unsafe {} }";
        assert_eq!(code_only(code), code);
    }

    #[test]
    fn words_are_whole() {
        assert_eq!(lines_with("FxHashMap\nuse HashMap;", "HashMap"), [2]);
        assert_eq!(lines_with("std::fs::read()\nstd::fsx", "std::fs"), [1]);
    }

    #[test]
    fn functions_are_measured() {
        let code = "trait T { fn a(&self); }\nfn b(x: [u8; 2]) -> u8\n{\n  fn c() {}\n  0\n}\n";
        let all = functions(code);
        let names: Vec<_> = all.iter().map(|f| (f.name.as_str(), f.line, f.lines)).collect();
        assert_eq!(names, [("b", 2, 5), ("c", 4, 1)]);
    }
}

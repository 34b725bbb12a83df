//! The headers of schemes as documentation. What is true of a scheme is written once, at the top
//! of its file; `steadyraid schemes` and docs/schemes.md show it.

/// A scheme's header.
#[derive(Clone, Copy, Debug)]
pub struct Header {
    pub name: &'static str,
    source: &'static str,
}

macro_rules! headers {
    ($($name:literal: $file:literal),+ $(,)?) => {
        /// Of every scheme there is, the default first.
        pub const ALL: &[Header] = &[
            $(Header { name: $name, source: include_str!($file) }),+
        ];
    };
}

headers! {
    "fusion": "../../policy/src/scheme/fusion.rs",
    "fusion-nd": "../../policy/src/scheme/fusion_nd.rs",
    "raid0": "scheme/raid0.rs",
    "raid1": "scheme/raid1.rs",
    "raid10": "scheme/raid10.rs",
    "raid4": "scheme/raid4.rs",
    "raid5": "scheme/raid5.rs",
    "raid6": "scheme/raid6.rs",
    "raid50": "scheme/raid50.rs",
    "raid60": "scheme/raid60.rs",
    "n-raid5": "scheme/n_raid5.rs",
    "hybrid": "scheme/hybrid.rs",
    "tole-raid": "scheme/tole_raid.rs",
    "mirror-log": "scheme/mirror_log.rs",
    "log-raid": "scheme/log_raid.rs",
    "alternate": "scheme/alternate.rs",
    "steering": "scheme/steering.rs",
    "cached-raid5": "scheme/cached_raid5.rs",
    "log-mirror": "scheme/log_mirror.rs",
    "hpda": "scheme/hpda.rs",
}

/// What every header says, by the words that begin it.
const PARTS: [&str; 6] = [
    "Idea:",
    "Durable at acknowledgement",
    "One failure:",
    "Two failures:",
    "Device writes per user write:",
    "Source:",
];

pub fn named(name: &str) -> Option<Header> {
    ALL.iter().copied().find(|header| header.name == name)
}

impl Header {
    fn lines(&self) -> impl Iterator<Item = &'static str> {
        let comment = self.source.lines().map_while(|line| line.strip_prefix("//!"));
        comment.map(|line| line.strip_prefix(' ').unwrap_or(line))
    }

    /// What it is in a few words.
    pub fn title(&self) -> &'static str {
        let first = self.lines().next().unwrap_or("");
        let title = first.split_once(": ").map_or(first, |(_, title)| title);
        title.trim_end_matches('.')
    }

    /// All of it, as plain text.
    pub fn text(&self) -> String {
        let kept = self.lines().filter(|line| !line.starts_with("```"));
        let text: Vec<&str> = kept.collect();
        text.join("\n").trim_end().to_owned() + "\n"
    }

    /// All of it, as Markdown: a heading, then each part as a paragraph.
    pub fn markdown(&self) -> String {
        let title = self.title();
        let (first, rest) = title.split_at(title.chars().next().map_or(0, char::len_utf8));
        let mut text = format!("## {}\n\n{}{rest}.\n", self.name, first.to_uppercase());
        let mut in_drawing = false;
        for line in self.lines().skip(1) {
            in_drawing ^= line.starts_with("```");
            let part = PARTS.iter().find(|part| !in_drawing && line.starts_with(**part));
            let line = match part {
                Some(part) => format!("\n**{part}**{}", &line[part.len()..]),
                None => line.to_owned(),
            };
            // Short ones may share a line.
            text += &line.replace(" Two failures:", "\n\n**Two failures:**");
            text += "\n";
        }
        while text.contains("\n\n\n") {
            text = text.replace("\n\n\n", "\n\n");
        }
        text
    }

    /// Parts that a header should have and this one has not.
    pub fn missing(&self) -> Vec<&'static str> {
        let text = self.text();
        let lacks = |part: &&&str| !text.contains(**part);
        let mut missing: Vec<&str> = PARTS.iter().filter(lacks).copied().collect();
        if !self.source.lines().any(|line| line == "//! ```text") {
            missing.push("a drawing");
        }
        missing
    }
}

/// The page that all headers make.
pub fn page() -> String {
    let mut text = "\n| scheme | what it is |\n| --- | --- |\n".to_owned();
    for header in ALL {
        text += &format!("| [{0}](#{0}) | {1} |\n", header.name, header.title());
    }
    for header in ALL {
        text += &format!("\n{}", header.markdown());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_header_says_everything() {
        for header in ALL {
            assert_eq!(header.missing(), Vec::<&str>::new(), "{}", header.name);
            let first = header.lines().next().unwrap_or("");
            assert!(first.starts_with(&format!("`{}`: ", header.name)), "{first}");
        }
    }

    #[test]
    fn every_scheme_that_can_be_made_has_one() {
        for scheme in crate::scheme::Scheme::ALL {
            assert!(named(scheme.name()).is_some(), "{}", scheme.name());
        }
    }
}

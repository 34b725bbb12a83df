//! JSON documents: one line break at the end, `"version"` first.

use serde::Serialize;

use super::view::VERSION;

#[derive(Serialize)]
struct Document<'a, T: Serialize> {
    version: u32,
    #[serde(flatten)]
    content: &'a T,
}

/// `content` (a struct or map) as an indented document with its version.
pub fn document<T: Serialize>(content: &T) -> String {
    let document = Document { version: VERSION, content };
    match serde_json::to_string_pretty(&document) {
        Ok(text) => text + "\n",
        // Only maps with keys that aren't strings fail, and views have none.
        Err(error) => unreachable!("views are plain values: {error}"),
    }
}

/// The same in one line, for streams.
pub fn line<T: Serialize>(content: &T) -> String {
    let document = Document { version: VERSION, content };
    match serde_json::to_string(&document) {
        Ok(text) => text + "\n",
        Err(error) => unreachable!("views are plain values: {error}"),
    }
}

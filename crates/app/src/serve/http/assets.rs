//! The console's files, in the binary.

pub struct Asset {
    path: &'static str,
    pub kind: &'static str,
    pub text: &'static str,
}

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const JS: &str = "text/javascript; charset=utf-8";

/// A page's own files and nothing else: no scripts in the page, nothing of other hosts.
pub const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

macro_rules! asset {
    ($path:literal, $kind:expr, $file:literal) => {
        Asset { path: $path, kind: $kind, text: include_str!(concat!("../../../console/", $file)) }
    };
}

const ASSETS: [Asset; 5] = [
    asset!("/", HTML, "index.html"),
    asset!("/console/style.css", CSS, "style.css"),
    asset!("/console/console.js", JS, "console.js"),
    asset!("/console/heat.js", JS, "heat.js"),
    asset!("/console/latency.js", JS, "latency.js"),
];

pub fn find(path: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|asset| asset.path == path)
}

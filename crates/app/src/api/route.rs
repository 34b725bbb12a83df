//! Where each request lives in HTTP.
//!
//! A request's fields that the path names are in the path; the others are the query of a GET
//! and the JSON body of a POST or PUT. Values in a query are written as JSON, but for names.

use std::sync::LazyLock;

use matchit::Router;
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use serde_json::{Map, Value};

use crate::control::Request;
use crate::error::Failure;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Get,
    Post,
    Put,
    Delete,
}

impl Method {
    pub fn name(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Post => "POST",
            Method::Put => "PUT",
            Method::Delete => "DELETE",
        }
    }

    /// `None` of methods that nothing here has. HEAD is GET without the body.
    pub fn parse(name: &str) -> Option<Method> {
        let known = [Method::Get, Method::Post, Method::Put, Method::Delete];
        match name {
            "HEAD" => Some(Method::Get),
            _ => known.into_iter().find(|method| method.name() == name),
        }
    }
}

pub struct Route {
    pub method: Method,
    pub path: &'static str,
    /// Tag of the request, as JSON has it.
    pub request: &'static str,
    /// What it does, for the description.
    pub about: &'static str,
}

const fn route(
    method: Method,
    path: &'static str,
    request: &'static str,
    about: &'static str,
) -> Route {
    Route { method, path, request, about }
}

/// Of two for one request the one with more in its path comes first.
pub const ROUTES: [Route; 21] = [
    route(Method::Get, "/api/v1/pools/{pool}", "status", "All that is known of a pool"),
    route(Method::Get, "/api/v1/pools", "status", "All that is known of every pool"),
    route(
        Method::Get,
        "/api/v1/events",
        "events",
        "Events after those given, of all pools or one; waits for the next if there is none",
    ),
    route(
        Method::Get,
        "/api/v1/pools/{pool}/stripe",
        "stripe",
        "Where the blocks of a stripe lie by the layout",
    ),
    route(Method::Post, "/api/v1/pools/{pool}/volumes", "volume-create", "Make a volume"),
    route(
        Method::Put,
        "/api/v1/pools/{pool}/volumes/{volume}/size",
        "volume-resize",
        "Grow or shrink a volume; what is cut off is gone",
    ),
    route(
        Method::Put,
        "/api/v1/pools/{pool}/volumes/{volume}/limits",
        "volume-limit",
        "Bound a volume's requests and bytes a second",
    ),
    route(
        Method::Delete,
        "/api/v1/pools/{pool}/volumes/{volume}",
        "volume-delete",
        "Delete a volume and what is in it",
    ),
    route(Method::Post, "/api/v1/pools/{pool}/drives", "drive-add", "Add drives"),
    route(
        Method::Put,
        "/api/v1/pools/{pool}/drives/{drive}/decision",
        "drive-decide",
        "Keep requests off a slow drive, trust it, or leave it to the detector",
    ),
    route(
        Method::Post,
        "/api/v1/pools/{pool}/drives/{drive}/fail",
        "drive-fail",
        "Stop using a drive",
    ),
    route(
        Method::Post,
        "/api/v1/pools/{pool}/drives/{drive}/replace",
        "drive-replace",
        "Put another drive in its place, or take it back",
    ),
    route(
        Method::Post,
        "/api/v1/pools/{pool}/drives/{drive}/remove",
        "drive-remove",
        "Move what a drive holds to others, then let go of it",
    ),
    route(
        Method::Put,
        "/api/v1/pools/{pool}/rebuild",
        "rebuild",
        "Pause rebuilding, or let it go on",
    ),
    route(Method::Put, "/api/v1/pools/{pool}/scrub", "scrub", "Start, pause or stop a scrub"),
    route(
        Method::Put,
        "/api/v1/pools/{pool}/rebalance",
        "rebalance",
        "Spread data over drives that joined, or stop that",
    ),
    route(
        Method::Post,
        "/api/v1/pools/{pool}/drives/{drive}/faults",
        "fault",
        "Make a drive misbehave (servers started with --test-faults)",
    ),
    route(
        Method::Get,
        "/api/v1/pools/{pool}/drives/{drive}/faults",
        "fault-counts",
        "How often which fault was injected",
    ),
    route(
        Method::Post,
        "/api/v1/pools/{pool}/drives/{drive}/faults/release",
        "fault-release",
        "End one fault, or all",
    ),
    route(Method::Get, "/api/v1/openapi.json", OPENAPI, "This description"),
    route(Method::Get, "/metrics", METRICS, "Everything countable, as OpenMetrics text"),
];

/// Requests that need no pool.
pub const OPENAPI: &str = "openapi";
pub const METRICS: &str = "metrics";

/// In a query these are taken as they are; all else is JSON.
const NAMES: [&str; 1] = ["pool"];

/// Fields that the path of a route names.
pub fn fields_in(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
}

/// A request as HTTP has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub method: Method,
    /// Path and query.
    pub target: String,
    pub body: Option<String>,
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

impl Call {
    pub fn of(request: &Request) -> Call {
        let mut fields = match serde_json::to_value(request) {
            Ok(Value::Object(fields)) => fields,
            other => unreachable!("requests are tagged structs of plain values: {other:?}"),
        };
        let tag = fields.remove("request");
        let fits = |route: &&Route| {
            tag.as_ref().is_some_and(|tag| tag == route.request)
                && fields_in(route.path).all(|name| fields.contains_key(name))
        };
        let Some(route) = ROUTES.iter().find(fits) else {
            unreachable!("request {tag:?} has no route")
        };
        let mut target = String::new();
        for part in route.path.split('/').skip(1) {
            let name = part.strip_prefix('{').and_then(|part| part.strip_suffix('}'));
            let value = name.and_then(|name| fields.remove(name));
            let text = value.as_ref().and_then(Value::as_str).map(encoded);
            target += "/";
            target += text.as_deref().unwrap_or(part);
        }
        if matches!(route.method, Method::Post | Method::Put) {
            let body = Some(Value::Object(fields).to_string());
            return Call { method: route.method, target, body };
        }
        for (at, (name, value)) in fields.iter().enumerate() {
            let text = match value.as_str().filter(|_| NAMES.contains(&name.as_str())) {
                Some(text) => encoded(text),
                None => encoded(&value.to_string()),
            };
            target += if at == 0 { "?" } else { "&" };
            target += &format!("{name}={text}");
        }
        Call { method: route.method, target, body: None }
    }
}

/// What a call is about.
#[derive(Debug, PartialEq, Eq)]
pub enum Target {
    Request(Request),
    OpenApi,
    Metrics,
}

/// Why a call is no request.
#[derive(Debug, PartialEq, Eq)]
pub enum Wrong {
    /// Nothing lives there.
    Path(Failure),
    /// Something does, but does not take this method.
    Method(Failure),
    Content(Failure),
}

/// Routes of one path, by method.
static PATHS: LazyLock<Router<Vec<usize>>> = LazyLock::new(|| {
    let mut paths = Router::new();
    for route in &ROUTES {
        let own = (0..ROUTES.len()).filter(|&at| ROUTES[at].path == route.path);
        // Of a path with several methods the first one brings them all.
        let _ = paths.insert(route.path, own.collect());
    }
    paths
});

fn bad(what: impl std::fmt::Display) -> Wrong {
    Wrong::Content(Failure::usage("request", what))
}

/// Reads a call that anybody may have written.
pub fn read(method: &str, target: &str, body: &[u8]) -> Result<Target, Wrong> {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    // What is refused has a name.
    let path = if path.is_empty() { "/" } else { path };
    let found = PATHS.at(path).map_err(|_| {
        Wrong::Path(
            Failure::usage(path, "nothing is here").hint("/api/v1/openapi.json says what is where"),
        )
    })?;
    let wanted = Method::parse(method);
    let of_method = |at: &&usize| Some(ROUTES[**at].method) == wanted;
    let Some(route) = found.value.iter().find(of_method).map(|&at| &ROUTES[at]) else {
        let known: Vec<&str> = found.value.iter().map(|&at| ROUTES[at].method.name()).collect();
        let what = format!("takes {}, not {method}", known.join(", "));
        return Err(Wrong::Method(Failure::usage(path, what)));
    };
    match route.request {
        OPENAPI => return Ok(Target::OpenApi),
        METRICS => return Ok(Target::Metrics),
        _ => {}
    }
    let mut fields = match route.method {
        Method::Get => in_query(query)?,
        _ if body.is_empty() => Map::new(),
        _ => serde_json::from_slice(body)
            .map_err(|error| bad(format!("the body is no JSON object: {error}")))?,
    };
    fields.insert("request".to_owned(), route.request.into());
    for (name, value) in found.params.iter() {
        let value = percent_decode_str(value).decode_utf8();
        let value = value.map_err(|_| bad(format!("the {name} in the path is not UTF-8")))?;
        if fields.insert(name.to_owned(), value.into()).is_some() {
            return Err(bad(format!("the {name} is in the path already")));
        }
    }
    serde_json::from_value(Value::Object(fields)).map(Target::Request).map_err(bad)
}

fn in_query(query: &str) -> Result<Map<String, Value>, Wrong> {
    let mut fields = Map::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, text) = pair.split_once('=').unwrap_or((pair, ""));
        let text = percent_decode_str(text).decode_utf8();
        let text = text.map_err(|_| bad(format!("'{name}' is not UTF-8")))?;
        let value = match NAMES.contains(&name) {
            // No path could say it: a part of a path that is empty is no part.
            true if text.is_empty() => return Err(bad(format!("'{name}' is empty"))),
            true => Value::String(text.into_owned()),
            false => serde_json::from_str(&text)
                .map_err(|error| bad(format!("'{name}' is no JSON value: {error}")))?,
        };
        if fields.insert(name.to_owned(), value).is_some() {
            return Err(bad(format!("'{name}' is there twice")));
        }
    }
    Ok(fields)
}

#[cfg(test)]
mod tests;

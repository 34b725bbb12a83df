//! The served description of the API, held against what the server answers: by a checker of as much
//! of JSON Schema as the description uses, which refuses all that it does not know.

use serde_json::{Value, json};

use crate::http::{TOKEN, served_with, tcp};
use crate::support::Scratch;

/// What says nothing of whether a value fits.
const REMARKS: [&str; 4] = ["description", "title", "default", "format"];

struct Checker<'a>(&'a Value);

impl Checker<'_> {
    /// What is wrong with `value`, and where.
    fn check(&self, schema: &Value, value: &Value, at: &str) -> Result<(), String> {
        let Some(schema) = schema.as_object() else {
            return match schema {
                Value::Bool(true) => Ok(()),
                _ => Err(format!("{at}: nothing may be here")),
            };
        };
        for (keyword, rule) in schema {
            if !REMARKS.contains(&keyword.as_str()) {
                self.keyword(keyword, rule, value, at)?;
            }
        }
        let named = schema.get("properties").and_then(Value::as_object);
        let is_named = |name: &String| named.is_some_and(|named| named.contains_key(name));
        if let (Some(rule), Some(fields)) = (schema.get("additionalProperties"), value.as_object())
        {
            let others = fields.iter().filter(|(name, _)| !is_named(name));
            others
                .into_iter()
                .try_for_each(|(name, of)| self.check(rule, of, &format!("{at}.{name}")))?;
        }
        Ok(())
    }

    fn keyword(&self, keyword: &str, rule: &Value, value: &Value, at: &str) -> Result<(), String> {
        let list = || rule.as_array().into_iter().flatten();
        let one = || value.as_array().into_iter().flatten().enumerate();
        let fit = || list().filter(|rule| self.check(rule, value, at).is_ok()).count();
        let holds = match keyword {
            "$ref" => {
                let pointer = rule.as_str().and_then(|text| text.strip_prefix('#'));
                let of = pointer.and_then(|pointer| self.0.pointer(pointer)).expect("it is there");
                return self.check(of, value, at);
            }
            "properties" => {
                let fields = rule.as_object().expect("properties have names").iter();
                let mut there =
                    fields.filter_map(|(name, rule)| Some((name, rule, value.get(name)?)));
                return there.try_for_each(|(name, rule, of)| {
                    self.check(rule, of, &format!("{at}.{name}"))
                });
            }
            "items" => {
                return one().try_for_each(|(i, of)| self.check(rule, of, &format!("{at}[{i}]")));
            }
            "prefixItems" => {
                return list()
                    .zip(one())
                    .try_for_each(|(rule, (i, of))| self.check(rule, of, &format!("{at}[{i}]")));
            }
            // Looked at with the properties.
            "additionalProperties" => true,
            "type" if rule.is_array() => list().any(|kind| is_of(value, kind)),
            "type" => is_of(value, rule),
            "required" => list().all(|name| value.get(name.as_str().expect("a name")).is_some()),
            "const" => value == rule,
            "enum" => list().any(|one| one == value),
            "oneOf" => fit() == 1,
            "anyOf" => fit() > 0,
            "minimum" => value.as_f64() >= rule.as_f64(),
            "maximum" => value.as_f64() <= rule.as_f64(),
            "minItems" => one().count() as u64 >= rule.as_u64().expect("a number"),
            "maxItems" => one().count() as u64 <= rule.as_u64().expect("a number"),
            unknown => panic!("the checker does not know {unknown}: {rule}"),
        };
        if holds { Ok(()) } else { Err(format!("{at}: {keyword} {rule} is not so: {value}")) }
    }
}

fn is_of(value: &Value, kind: &Value) -> bool {
    match kind.as_str().expect("a type has a name") {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "null" => value.is_null(),
        unknown => panic!("there is no type {unknown}"),
    }
}

/// Method, path as it is described, path and query as they are asked for, body, status.
type Call = (&'static str, &'static str, &'static str, &'static str, u16);

const POOLS: &str = "/api/v1/pools";
const POOL: &str = "/api/v1/pools/{pool}";
const VOLUMES: &str = "/api/v1/pools/{pool}/volumes";
const SIZE: &str = "/api/v1/pools/{pool}/volumes/{volume}/size";
const LIMITS: &str = "/api/v1/pools/{pool}/volumes/{volume}/limits";
const VOLUME: &str = "/api/v1/pools/{pool}/volumes/{volume}";
const DECISION: &str = "/api/v1/pools/{pool}/drives/{drive}/decision";
const STRIPE: &str = "/api/v1/pools/{pool}/stripe";
const SCRUB: &str = "/api/v1/pools/{pool}/scrub";

const CALLS: [Call; 16] = [
    ("POST", VOLUMES, "/api/v1/pools/demo/volumes", r#"{"volume":"v","size":1048576}"#, 200),
    ("PUT", SIZE, "/api/v1/pools/demo/volumes/v/size", r#"{"size":2097152}"#, 200),
    ("PUT", LIMITS, "/api/v1/pools/demo/volumes/v/limits", r#"{"iops":9}"#, 200),
    ("PUT", DECISION, "/api/v1/pools/demo/drives/1/decision", r#"{"decision":"sit-out"}"#, 200),
    ("PUT", SCRUB, "/api/v1/pools/demo/scrub", r#"{"action":"start"}"#, 200),
    ("GET", POOLS, "/api/v1/pools", "", 200),
    ("GET", POOLS, "/api/v1/pools?pool=other", "", 200),
    ("GET", POOL, "/api/v1/pools/demo", "", 200),
    ("GET", POOL, "/api/v1/pools/gone", "", 200),
    ("GET", "/api/v1/events", "/api/v1/events", "", 200),
    ("GET", STRIPE, "/api/v1/pools/demo/stripe?number=0", "", 200),
    ("DELETE", VOLUME, "/api/v1/pools/demo/volumes/v", "", 200),
    ("DELETE", VOLUME, "/api/v1/pools/demo/volumes/v", "", 409),
    ("GET", POOL, "/api/v1/pools/nosuch", "", 409),
    ("GET", STRIPE, "/api/v1/pools/demo/stripe?number=x", "", 400),
    ("PUT", SCRUB, "/api/v1/pools/demo/scrub", "{}", 400),
];

/// Pools of two schemes, and one that can't be opened.
fn world() -> Scratch {
    let scratch = Scratch::with_drives(8);
    scratch.run(&["create", "other", "--scheme", "raid5", "d0", "d1", "d2", "d3"]).expect(0);
    scratch.run(&["create", "gone", "d4", "d5", "d6", "d7"]).expect(0);
    ["d6", "d7"].iter().for_each(|name| std::fs::remove_file(scratch.path(name)).expect("ours"));
    scratch
}

/// Every variant of an answer allowed nothing beside itself, and each answer has a version: whoever
/// checked answers against the description threw all of them away.
#[test]
fn answers_are_as_the_description_says() {
    let scratch = world();
    let (server, address) = served_with(&scratch, &["."]);
    let text = tcp(&address, "GET", "/api/v1/openapi.json", "", "").1;
    let document: Value = serde_json::from_str(&text).expect("JSON");
    let checker = Checker(&document);
    let bearer = format!("authorization: Bearer {TOKEN}\r\n");
    for (method, path, target, body, status) in CALLS {
        let (said, answer) = tcp(&address, method, target, &bearer, body);
        assert_eq!(said, status, "{method} {target}: {answer}");
        let answer: Value = serde_json::from_str(&answer).expect("JSON");
        let method = method.to_lowercase();
        let response = &document["paths"][path][&method]["responses"][status.to_string()];
        let schema = &response["content"]["application/json"]["schema"];
        assert!(schema.is_object(), "{method} {target} {status} has no schema");
        let wrong = checker.check(schema, &answer, "answer");
        assert_eq!(wrong, Ok(()), "{method} {target}");
        // The check can fail, and what is added later is let be.
        for name in answer.as_object().expect("a document").keys() {
            let mut less = answer.clone();
            less.as_object_mut().expect("a document").remove(name);
            checker.check(schema, &less, "answer").expect_err(name);
        }
        let mut more = answer.clone();
        more["new"] = json!(1);
        assert_eq!(checker.check(schema, &more, "answer"), Ok(()), "{method} {target}");
    }
    let pools = checker.0["paths"][POOLS]["get"]["responses"]["200"].clone();
    let pools = &pools["content"]["application/json"]["schema"];
    let wrong = json!({"version": 1, "pools": [{"name": 7}]});
    checker.check(pools, &wrong, "answer").expect_err("a name is text");
    server.end();
}

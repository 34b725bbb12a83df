//! The API's description, OpenAPI 3.1, made of the routes and of the types that are sent.

use schemars::generate::{SchemaGenerator, SchemaSettings};
use serde_json::{Map, Value, json};

use super::route::{self, Method, ROUTES, Route, fields_in};
use crate::control::{Answer, Request};
use crate::render::view::{Server, VERSION};

/// The whole document.
pub fn document() -> String {
    let settings = SchemaSettings::draft2020_12()
        .with(|settings| settings.definitions_path = "/components/schemas".into());
    let mut schemas = settings.into_generator();
    let answers = answers(&mut schemas);
    let requests = requests(&mut schemas);
    let mut paths = Map::new();
    for route in &ROUTES {
        let operation = operation(route, &requests, &answers);
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        // Of two routes with one path and method there is one.
        path[route.method.name().to_lowercase()] = operation;
    }
    let document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "SteadyRAID",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Everything that the command line asks of a server. Over the control \
                socket all of it; over TCP, changes need the token of --token-file.",
            "license": { "name": "MIT OR Apache-2.0" },
        },
        "paths": paths,
        "components": {
            "schemas": schemas.take_definitions(true),
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
        },
    });
    format!("{document:#}\n")
}

/// Schema of each request, by its tag.
fn requests(schemas: &mut SchemaGenerator) -> Map<String, Value> {
    let all = schemas.root_schema_for::<Request>().to_value();
    let variants = all["oneOf"].as_array().cloned().unwrap_or_default();
    let tagged = variants.into_iter().filter_map(|variant| {
        let tag = variant["properties"]["request"]["const"].as_str()?.to_owned();
        Some((tag, variant))
    });
    tagged.collect()
}

/// Schema of each answer, by what it holds. Beside that it has its version; and since fields may be
/// added, others are let be.
fn answers(schemas: &mut SchemaGenerator) -> Map<String, Value> {
    let all = schemas.root_schema_for::<Answer>().to_value();
    let variants = all["oneOf"].as_array().cloned().unwrap_or_default();
    let named = variants.into_iter().filter_map(|mut variant| {
        let name = variant["required"][0].as_str()?.to_owned();
        variant["required"] = json!([name, "version"]);
        variant["properties"]["version"] = json!({ "type": "integer", "const": VERSION });
        variant.as_object_mut()?.remove("additionalProperties");
        if name == "pools" {
            variant["properties"]["server"] = schemas.subschema_for::<Server>().to_value();
            variant["required"] = json!([name, "version", "server"]);
        }
        Some((name, variant))
    });
    named.collect()
}

/// What a request is answered with, if all is well.
fn answer_of(request: &str) -> &'static str {
    match request {
        "status" => "pools",
        "events" => "events",
        "stripe" => "stripe",
        _ => "done",
    }
}

fn operation(route: &Route, requests: &Map<String, Value>, answers: &Map<String, Value>) -> Value {
    let mut own = requests.get(route.request).cloned().unwrap_or_else(|| json!({}));
    let mut fields = own["properties"].take();
    let fields = fields.as_object_mut().map(std::mem::take).unwrap_or_default();
    let required: Vec<&str> =
        own["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let in_path: Vec<&str> = fields_in(route.path).collect();
    let mut parameters: Vec<Value> = in_path
        .iter()
        .map(|name| parameter(name, "path", true, json!({"type": "string"})))
        .collect();
    let others =
        fields.iter().filter(|(name, _)| *name != "request" && !in_path.contains(&name.as_str()));
    let others: Map<String, Value> = others.map(|(name, of)| (name.clone(), of.clone())).collect();
    let mut operation = json!({
        "summary": route.about,
        "operationId": operation_id(route),
        "responses": responses(route, answers),
    });
    if route.method == Method::Get {
        parameters.extend(others.into_iter().map(|(name, of)| {
            let mut own = parameter(&name, "query", false, json!({}));
            let names = name == "pool";
            match names {
                true => own["schema"] = of,
                false => {
                    let _ = own.as_object_mut().map(|own| own.remove("schema"));
                    own["content"] = json!({ "application/json": { "schema": of } });
                }
            }
            own
        }));
    } else {
        operation["security"] = json!([{ "token": [] }]);
        let required: Vec<&str> =
            required.into_iter().filter(|name| others.contains_key(*name)).collect();
        if !others.is_empty() {
            let schema = json!({
                "type": "object",
                "properties": others,
                "required": required,
                "additionalProperties": false,
            });
            operation["requestBody"] = json!({
                "required": true,
                "content": { "application/json": { "schema": schema } },
            });
        }
    }
    operation["parameters"] = parameters.into();
    operation
}

fn operation_id(route: &Route) -> String {
    match (route.request, fields_in(route.path).next()) {
        ("status", None) => "status-all".to_owned(),
        (request, _) => request.to_owned(),
    }
}

fn parameter(name: &str, place: &str, required: bool, schema: Value) -> Value {
    json!({ "name": name, "in": place, "required": required, "schema": schema })
}

fn responses(route: &Route, answers: &Map<String, Value>) -> Value {
    let text = |kind: &str, schema: Value| json!({ "content": { kind: { "schema": schema } } });
    let answer = |name: &str| text("application/json", answers[name].clone());
    let done = match route.request {
        route::METRICS => json!({ "content": {
            "application/openmetrics-text": { "schema": { "type": "string" } },
            "text/plain": { "schema": { "type": "string" } },
        } }),
        route::OPENAPI => text("application/json", json!({ "type": "object" })),
        request => answer(answer_of(request)),
    };
    let said = |description: &str, mut response: Value| {
        response["description"] = description.into();
        response
    };
    let refused = || answer("error");
    json!({
        "200": said("Done, or what was asked for", done),
        "400": said("The request makes no sense, whatever the state of the pools", refused()),
        "401": said("A change without the token", refused()),
        "403": said("Not from here", refused()),
        "404": said("Nothing is at this path", refused()),
        "405": said("The path does not take this method", refused()),
        "408": said("The body did not come in time", refused()),
        "409": said("It can't be done as things are; the document says why", refused()),
        "413": said("Too long", refused()),
        "429": said("Too many requests a second", refused()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_is_described_with_all_that_it_takes() {
        let document: Value = serde_json::from_str(&document()).expect("JSON");
        for route in &ROUTES {
            let operation = &document["paths"][route.path][route.method.name().to_lowercase()];
            assert!(operation.is_object(), "{}", route.path);
            let named = operation["parameters"].as_array().expect("a list");
            assert!(
                fields_in(route.path).all(|field| named.iter().any(|own| own["name"] == field))
            );
        }
        let create = &document["paths"]["/api/v1/pools/{pool}/volumes"]["post"];
        let body = &create["requestBody"]["content"]["application/json"]["schema"];
        assert_eq!(body["required"], json!(["volume", "size"]));
        assert!(body["properties"]["parity"].is_object(), "{body}");
        let all = &document["paths"]["/api/v1/pools"]["get"]["parameters"];
        assert_eq!((&all[0]["name"], &all[0]["in"]), (&json!("pool"), &json!("query")), "{all}");
    }

    #[test]
    fn every_reference_leads_somewhere() {
        fn references(value: &Value, to: &mut Vec<String>) {
            match value {
                Value::Object(fields) => {
                    to.extend(fields.get("$ref").and_then(Value::as_str).map(str::to_owned));
                    fields.values().for_each(|value| references(value, to));
                }
                Value::Array(values) => values.iter().for_each(|value| references(value, to)),
                _ => {}
            }
        }
        let document: Value = serde_json::from_str(&document()).expect("JSON");
        let mut found = Vec::new();
        references(&document, &mut found);
        assert!(!found.is_empty());
        for reference in found {
            let pointer = reference.strip_prefix('#').expect("in the document");
            assert!(document.pointer(pointer).is_some(), "{reference}");
        }
    }
}

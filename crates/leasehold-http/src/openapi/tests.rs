//! The document against the router, and against itself.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode, header};
use leasehold_service::{MachineClocks, MemoryLog, Options, Replica, Service};
use serde_json::Value;
use tower::ServiceExt as _;

use crate::path::Aspect;
use crate::server::{HttpOptions, router, routes};

const RESOURCE: &str = "/v1/ns/{ns}/resources/{name}";

fn document() -> Value {
    serde_json::from_str(super::document()).unwrap()
}

/// Every operation with its path and its method in capitals.
fn operations(document: &Value) -> Vec<(String, String, &Value)> {
    let paths = document["paths"].as_object().unwrap();
    paths
        .iter()
        .flat_map(|(path, methods)| {
            let methods = methods.as_object().unwrap().iter();
            methods.map(|(method, operation)| (path.clone(), method.to_uppercase(), operation))
        })
        .collect()
}

async fn app() -> Router {
    let replica = Arc::new(Replica::new());
    let log = MemoryLog::start(Arc::clone(&replica));
    let service = Service::start(log, replica, MachineClocks, Options::default());
    router(service, HttpOptions::default())
}

/// The path with something in place of every parameter.
fn filled(path: &str) -> String {
    let part = |part: &str| if part.starts_with('{') { "x".to_owned() } else { part.to_owned() };
    path.split('/').map(part).collect::<Vec<_>>().join("/")
}

/// The methods that an address takes, by what it says to one that it does not.
async fn methods(app: &Router, path: &str) -> BTreeSet<String> {
    let request = Request::builder().method("PATCH").uri(filled(path)).body(Body::empty()).unwrap();
    let response = app.clone().oneshot(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED, "{path}");
    let allowed = response.headers()[header::ALLOW].to_str().unwrap();
    allowed.split(',').map(str::trim).filter(|method| *method != "HEAD").map(str::to_owned).collect()
}

/// Every route of the router with each of its methods, as the document writes paths.
async fn routed() -> BTreeSet<(String, String)> {
    let app = app().await;
    let mut found = BTreeSet::new();
    for (path, _) in routes() {
        let plain = path.replace("{*", "{");
        for method in methods(&app, path).await {
            found.insert((plain.clone(), method));
        }
    }
    // Behind the name of a resource stands what is asked of it; the router leaves that to the handler.
    assert!(found.remove(&(RESOURCE.to_owned(), "POST".to_owned())), "no aspect of a resource takes POST");
    found.extend(Aspect::NAMED.iter().map(|(last, method, _)| (format!("{RESOURCE}/{last}"), (*method).to_owned())));
    found
}

#[tokio::test]
async fn the_document_and_the_router_have_the_same_operations() {
    let document = document();
    let described: BTreeSet<_> = operations(&document).into_iter().map(|(path, method, _)| (path, method)).collect();
    let routed = routed().await;
    assert_eq!(routed.difference(&described).collect::<Vec<_>>(), Vec::<&(String, String)>::new(), "not described");
    assert_eq!(described.difference(&routed).collect::<Vec<_>>(), Vec::<&(String, String)>::new(), "not routed");
}

#[tokio::test]
async fn an_aspect_of_a_resource_takes_the_method_in_the_document() {
    let app = app().await;
    for (last, method, _) in Aspect::NAMED {
        for tried in ["GET", "POST"] {
            let request = Request::builder().method(tried).uri(format!("/v1/ns/a/resources/x/{last}"));
            let response = app.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
            assert_eq!(response.status() != StatusCode::METHOD_NOT_ALLOWED, tried == method, "{tried} {last}");
        }
    }
}

#[test]
fn no_operation_id_is_used_twice() {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (path, method, operation) in operations(&document()) {
        let id = operation["operationId"].as_str().unwrap_or_else(|| panic!("{method} {path} has no id"));
        places.entry(id.to_owned()).or_default().push(format!("{method} {path}"));
    }
    places.retain(|_, places| places.len() > 1);
    assert_eq!(places, BTreeMap::new());
}

fn references<'a>(value: &'a Value, found: &mut BTreeSet<&'a str>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.get("$ref").and_then(Value::as_str));
            fields.values().for_each(|field| references(field, found));
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn every_reference_resolves() {
    let document = document();
    let mut found = BTreeSet::new();
    references(&document, &mut found);
    assert!(found.len() > 30, "{found:?}");
    for reference in found {
        let pointer = reference.strip_prefix('#').unwrap_or_else(|| panic!("{reference} leads elsewhere"));
        assert!(document.pointer(pointer).is_some(), "{reference} leads nowhere");
    }
}

#[test]
fn every_parameter_stands_where_it_is_sent() {
    for (path, method, operation) in operations(&document()) {
        let none = Vec::new();
        let parameters = operation["parameters"].as_array().unwrap_or(&none);
        let of = |place: &str| -> BTreeSet<&str> {
            parameters.iter().filter(|one| one["in"] == place).map(|one| one["name"].as_str().unwrap()).collect()
        };
        let template: BTreeSet<&str> =
            path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}')).collect();
        assert_eq!(of("path"), template, "{method} {path}");
        for parameter in parameters {
            let needed = parameter["in"] == "path" || parameter["name"] == "token";
            assert_eq!(parameter["required"] == true, needed, "{method} {path}: {parameter}");
            assert!(!parameter["schema"].to_string().contains("\"null\""), "{method} {path}: {parameter}");
        }
    }
}

#[test]
fn every_refusal_is_declared_as_a_problem() {
    for (path, method, operation) in operations(&document()) {
        for (status, answer) in operation["responses"].as_object().unwrap() {
            assert!(!answer["description"].as_str().unwrap().is_empty(), "{method} {path} {status}");
            let is_health = path == "/readyz";
            if status.parse::<u16>().unwrap() >= 400 && !is_health {
                let kinds: Vec<_> = answer["content"].as_object().unwrap().keys().collect();
                assert_eq!(kinds, ["application/problem+json"], "{method} {path} {status}");
            }
        }
    }
}

#[test]
fn operations_declare_the_statuses_that_they_answer() {
    let document = document();
    let statuses = |path: &str, method: &str| -> Vec<String> {
        document["paths"][path][method]["responses"].as_object().unwrap().keys().cloned().collect()
    };
    let grant = ["201", "400", "403", "404", "408", "409", "410", "413", "415", "422", "429", "500", "503", "507"];
    assert_eq!(statuses("/v1/ns/{ns}/leases", "post"), grant);
    let put = ["200", "400", "403", "404", "409", "410", "412", "413", "422", "429", "500", "503", "507"];
    assert_eq!(statuses("/v1/ns/{ns}/entries/{key}", "put"), put);
    let watch = ["200", "400", "403", "404", "410", "422", "429", "500", "503"];
    assert_eq!(statuses("/v1/ns/{ns}/watch", "get"), watch);
    assert_eq!(statuses("/healthz", "get"), ["200"]);
}

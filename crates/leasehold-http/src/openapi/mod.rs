//! The description of the API, made from the handlers and types themselves.
//!
//! Handlers declare what they answer when all goes well. `refusals.rs` adds every refusal an operation can answer, from
//! one table of codes.

mod refusals;
#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use leasehold_api::{
    EntryKey, HolderName, Id, LeaseRef, NamespaceName, NodeName, Problem, ReasonText, ResourcePath, WaitText,
};
use serde_json::{Map, Value, json};
use utoipa::OpenApi;

use crate::reply::ReadConsistency;
use crate::{backup, claims, cluster, entries, health, leases, resources, txn, watch};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Leasehold",
        description = "A lease service: locks, elections, sessions, reservations, entries. A request body has at most \
            2 MiB, the value of an entry at most 1 MiB. Names are limited in bytes, and `maxLength` counts characters."
    ),
    paths(
        leases::grant,
        leases::list,
        leases::one,
        leases::renew,
        leases::renew_many,
        leases::release,
        leases::revoke,
        claims::add,
        claims::give_back,
        resources::list,
        resources::itself,
        resources::queue,
        resources::history,
        resources::check,
        resources::handover,
        entries::put,
        entries::one,
        entries::list,
        entries::delete_one,
        entries::delete_range,
        txn::carry_out,
        watch::open,
        health::alive,
        health::ready,
        cluster::look,
        cluster::add,
        cluster::remove,
        cluster::transfer,
        backup::take,
        serve,
    ),
    components(schemas(
        ReadConsistency,
        EntryKey,
        HolderName,
        Id,
        LeaseRef,
        NamespaceName,
        NodeName,
        Problem,
        ReasonText,
        ResourcePath,
        WaitText
    ))
)]
struct Document;

static TEXT: LazyLock<String> = LazyLock::new(|| completed().to_string());

/// The OpenAPI document, as JSON.
pub fn document() -> &'static str {
    &TEXT
}

/// Returns this document.
#[utoipa::path(get, operation_id = "get_openapi", path = "/openapi.json", tag = "health",
    responses((status = 200, description = "The description of this API", body = Object)))]
pub(crate) async fn serve() -> Response {
    ([(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], document()).into_response()
}

/// The document with everything that all operations have in common.
fn completed() -> Value {
    let mut document = serde_json::to_value(Document::openapi()).unwrap_or_default();
    for path in objects(document.get_mut("paths")) {
        for operation in objects(Some(path)) {
            parameters_are_never_null(operation);
            refusals::declare(operation);
            headers_of_every_answer(operation);
        }
    }
    document
}

fn objects(value: Option<&mut Value>) -> impl Iterator<Item = &mut Value> {
    value.and_then(Value::as_object_mut).into_iter().flat_map(Map::values_mut)
}

/// An absent parameter is left out. `null` would be the text "null".
fn parameters_are_never_null(operation: &mut Value) {
    let parameters = operation.get_mut("parameters").and_then(Value::as_array_mut);
    for schema in parameters.into_iter().flatten().filter_map(|parameter| parameter.get_mut("schema")) {
        if let Some(kind) = schema.get_mut("type")
            && let Some(one) = kind.as_array().and_then(|kinds| kinds.iter().find(|one| *one != "null")).cloned()
        {
            *kind = one;
        }
        let choices = schema.get("oneOf").and_then(Value::as_array);
        if let Some(one) = choices.and_then(|all| all.iter().find(|one| one["type"] != "null")).cloned() {
            *schema = one;
        }
    }
}

fn headers_of_every_answer(operation: &mut Value) {
    let number = |description: &str| {
        json!({"description": description, "required": true,
            "schema": {"type": "integer", "format": "int64", "minimum": 0}})
    };
    for answer in objects(operation.get_mut("responses")) {
        answer["headers"]["Lease-Revision"] = number("The revision that the answer is true at");
        answer["headers"]["Lease-Time"] = number("The lease time that the answer is true at, in milliseconds");
    }
}

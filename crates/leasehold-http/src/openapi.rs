//! The description of the API, made from the handlers and types themselves.

use std::sync::LazyLock;

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use utoipa::OpenApi;

use crate::reply::ReadConsistency;
use crate::{backup, claims, cluster, entries, health, leases, resources, txn, watch};

#[derive(OpenApi)]
#[openapi(
    info(title = "Leasehold", description = "A lease service: locks, elections, sessions, reservations, entries."),
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
    ),
    components(schemas(ReadConsistency))
)]
struct Document;

static TEXT: LazyLock<String> = LazyLock::new(|| Document::openapi().to_json().unwrap_or_default());

/// The OpenAPI document, as JSON.
pub fn document() -> &'static str {
    &TEXT
}

pub(crate) async fn serve() -> Response {
    ([(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], document()).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reference_leads_somewhere() {
        let document: serde_json::Value = serde_json::from_str(document()).unwrap();
        let schemas = document["components"]["schemas"].as_object().unwrap();
        for (at, _) in super::document().match_indices("#/components/schemas/") {
            let name = &super::document()[at + "#/components/schemas/".len()..];
            let name = &name[..name.find('"').unwrap()];
            assert!(schemas.contains_key(name), "{name} is not described");
        }
        assert!(document["paths"]["/v1/ns/{ns}/leases"]["post"].is_object());
        assert_eq!(document["paths"].as_object().unwrap().len(), 24);
    }
}

//! The cluster over HTTP: what is told, and what becomes of changes.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod support;

use std::sync::Arc;

use leasehold_service::ClusterChange;
use serde_json::json;

use support::three::Three;
use support::{app, app_of, json, plain, text};

#[tokio::test]
async fn a_node_tells_of_its_cluster() {
    let app = app_of(Arc::new(Three::default())).await;
    let told = plain(&app, "GET", "/v1/cluster").await.expect(200);
    assert_eq!(told["cluster"], "00000000000000000000000000000abc");
    assert_eq!(told["node"], json!({"id": "0000000000000001", "name": "n1"}));
    assert_eq!(told["leader"], json!({"id": "0000000000000001", "name": "n1", "term": 7}));
    assert_eq!((&told["applied"], &told["last_log"], &told["log_bytes"]), (&json!(41), &json!(42), &json!(4096)));
    assert!(told.get("snapshot").is_none() && told["version"].is_string() && told["ready"] == true);
    let third = json!({
        "id": "0000000000000003", "name": "n3", "address": "127.0.0.1:3", "voter": false, "leads": false,
        "matched": 43, "heard": "12ms",
    });
    assert_eq!(told["members"][2], third);
    assert_eq!(told["members"][0]["leads"], true);
}

#[tokio::test]
async fn members_are_added_and_removed_and_leadership_is_handed_over() {
    let three = Three::default();
    let app = app_of(Arc::new(three.clone())).await;
    let added = json(&app, "POST", "/v1/cluster/members", json!({"name": "n4", "address": "box4:7118"})).await;
    assert_eq!(added.expect(201), json!({"id": "0000000000000061", "name": "n4"}));
    plain(&app, "DELETE", "/v1/cluster/members/n3").await.expect(204);
    plain(&app, "DELETE", "/v1/cluster/members/0000000000000002").await.expect(204);
    let led = json(&app, "POST", "/v1/cluster/transfer", json!({"to": "n2"})).await;
    assert_eq!(led.expect(200), json!({"id": "0000000000000002", "name": "n2"}));
    assert_eq!(plain(&app, "POST", "/v1/cluster/transfer").await.expect(200)["name"], "n2");
    let asked = [
        ClusterChange::Add { name: "n4".into(), address: "box4:7118".into() },
        ClusterChange::Remove { node: 3 },
        ClusterChange::Remove { node: 2 },
        ClusterChange::Transfer { to: Some(2) },
        ClusterChange::Transfer { to: None },
    ];
    assert_eq!(*three.changes.lock().unwrap(), asked);
}

#[tokio::test]
async fn a_change_that_cannot_be_made_is_refused_in_words() {
    let three = Three::default();
    let app = app_of(Arc::new(three.clone())).await;
    let add = |name: &str, address: &str| json!({"name": name, "address": address});
    let problem = json(&app, "POST", "/v1/cluster/members", add("n2", "box2:1")).await.refused(409, "change_refused");
    assert_eq!(problem["detail"], "the cluster was not changed: n2 is a member");
    let problem = json(&app, "POST", "/v1/cluster/members", add("7", "box2:1")).await.refused(422, "invalid");
    assert_eq!(problem["field"], "name");
    let problem = json(&app, "POST", "/v1/cluster/members", add("n4", "box2")).await.refused(422, "invalid");
    assert_eq!(problem["field"], "address");
    let problem = plain(&app, "DELETE", "/v1/cluster/members/n9").await.refused(404, "not_found");
    assert_eq!(problem["detail"], "no member has the name or id \"n9\"");
    json(&app, "POST", "/v1/cluster/transfer", json!({"to": "n9"})).await.refused(404, "not_found");
    json(&app, "POST", "/v1/cluster/transfer", json!({"node": "n1"})).await.refused(422, "invalid");
    text(&app, "POST", "/v1/cluster/members", "text/plain", "{}").await.refused(415, "unsupported_media_type");
    plain(&app, "DELETE", "/v1/cluster").await.refused(405, "method_not_allowed");
    assert_eq!(three.changes.lock().unwrap().len(), 1, "only what could be meant was asked for");
}

#[tokio::test]
async fn a_server_that_knows_of_no_cluster_changes_none() {
    let app = app().await;
    assert_eq!(plain(&app, "GET", "/v1/cluster").await.expect(200)["members"], json!([]));
    plain(&app, "POST", "/v1/cluster/transfer").await.refused(409, "change_refused");
}

//! The cluster over gRPC: what is told, and what becomes of changes.

use std::sync::Arc;

use leasehold_api::grpc::{AddMemberRequest, InfoRequest, Node, RemoveMemberRequest, TransferRequest};
use leasehold_service::ClusterChange;

use crate::support::{Bench, problem, refused};
use crate::three::Three;

#[tokio::test]
async fn a_node_tells_of_its_cluster_and_changes_it() {
    let three = Three::default();
    let bench = Bench::of(Arc::new(three.clone())).await;
    let mut client = bench.cluster();
    let told = client.info(InfoRequest {}).await.unwrap().into_inner();
    assert_eq!(told.cluster, "00000000000000000000000000000abc");
    assert_eq!(told.leader, Some(Node { id: 1, name: "n1".into() }));
    assert_eq!((told.term, told.applied, told.snapshot, told.members.len()), (7, Some(41), None, 3));
    assert!(told.members[0].leads && !told.members[2].voter);
    let add = AddMemberRequest { name: "n4".into(), address: "box4:7118".into() };
    let added = client.add_member(add).await.unwrap().into_inner();
    assert_eq!(added.node, Some(Node { id: 0x61, name: "n4".into() }));
    client.remove_member(RemoveMemberRequest { node: "n3".into() }).await.unwrap();
    let led = client.transfer(TransferRequest { to: None }).await.unwrap().into_inner();
    assert_eq!(led.leader, Some(Node { id: 2, name: "n2".into() }));
    let asked = [
        ClusterChange::Add { name: "n4".into(), address: "box4:7118".into() },
        ClusterChange::Remove { node: 3 },
        ClusterChange::Transfer { to: None },
    ];
    assert_eq!(*three.changes.lock().unwrap(), asked);
}

#[tokio::test]
async fn a_change_that_cannot_be_made_is_refused_in_words() {
    let bench = Bench::of(Arc::new(Three::default())).await;
    let mut client = bench.cluster();
    let add = |name: &str, address: &str| AddMemberRequest { name: name.into(), address: address.into() };
    assert_eq!(refused(client.add_member(add("n2", "box2:1")).await), "change_refused");
    let bad = problem(&client.add_member(add("n4", "box4")).await.unwrap_err());
    assert_eq!((bad.code.as_str(), bad.field.as_deref()), ("invalid", Some("address")));
    assert_eq!(refused(client.remove_member(RemoveMemberRequest { node: "n9".into() }).await), "not_found");
    assert_eq!(refused(client.remove_member(RemoveMemberRequest::default()).await), "invalid");
    assert_eq!(refused(client.transfer(TransferRequest { to: Some("n9".into()) }).await), "not_found");
}

//! The calls of operators: the state of a node, its hash, the cluster, users.

use std::path::PathBuf;
use std::sync::Arc;

use leasehold_core::{Binding, Command, Key, Write, WriteOp};
use leasehold_service::{ClusterChange, Options};
use tonic::{Code, Request, Status};

use super::{Three, dialect, of};
use crate::dialect::Dialect;
use crate::errors::EtcdError;
use crate::proto::etcdserverpb::alarm_request::AlarmAction;
use crate::proto::etcdserverpb::auth_server::Auth;
use crate::proto::etcdserverpb::cluster_server::Cluster as _;
use crate::proto::etcdserverpb::maintenance_server::Maintenance;
use crate::proto::etcdserverpb::*;

async fn put(dialect: &Dialect, key: &str) {
    let op = WriteOp::Put {
        key: Key::new(key.as_bytes()).unwrap(),
        value: Some(b"v".as_slice().into()),
        binding: Binding::None,
    };
    let write = Write { session: None, compares: Vec::new(), then: vec![op], otherwise: Vec::new() };
    let done = dialect.service().execute(&dialect.caller(), dialect.namespace(), Command::Write(write)).await;
    done.unwrap();
}

fn empty<T: Default>() -> Request<T> {
    Request::new(T::default())
}

fn refusal<T: std::fmt::Debug>(answer: Result<T, Status>) -> (Code, String) {
    let status = answer.unwrap_err();
    (status.code(), status.message().to_owned())
}

fn of_etcd(error: EtcdError) -> (Code, String) {
    (error.code(), error.text().to_owned())
}

/// The sentence of a call that is not offered names what to do instead.
fn assert_not_offered<T: std::fmt::Debug>(answer: Result<T, Status>, instead: &str) {
    let (code, message) = refusal(answer);
    assert_eq!(code, Code::Unimplemented);
    assert!(message.contains(instead), "{message}");
}

#[tokio::test]
async fn every_answer_says_who_gives_it_and_at_which_revision() {
    let dialect = of(&Three::default()).await;
    put(&dialect, "a").await;
    put(&dialect, "b").await;
    let header = ResponseHeader { cluster_id: 6, member_id: 1, revision: 2, raft_term: 1 };
    assert_eq!(dialect.present_header(), header);
    assert_eq!(dialect.header_without_revision(), ResponseHeader { revision: 0, ..header });
}

#[tokio::test]
async fn a_node_tells_how_it_is() {
    let dialect = of(&Three::default()).await;
    let status = dialect.status(Request::new(StatusRequest {})).await.unwrap().into_inner();
    let expected = StatusResponse {
        header: Some(dialect.present_header()),
        version: "3.5.1".into(),
        db_size: 4096,
        leader: 1,
        raft_index: 42,
        raft_term: 1,
        raft_applied_index: 41,
        errors: Vec::new(),
        db_size_in_use: 4096,
        is_learner: false,
    };
    assert_eq!(status, expected);
    let alone = of(&Three { leader: None, ..Three::default() }).await;
    let status = alone.status(Request::new(StatusRequest {})).await.unwrap().into_inner();
    assert_eq!((status.leader, status.errors), (0, vec!["etcdserver: no leader".to_owned()]));
}

#[tokio::test]
async fn a_full_disk_is_an_alarm_that_nobody_can_take_back() {
    let get = |alarm: AlarmType| AlarmRequest { alarm: alarm as i32, ..AlarmRequest::default() };
    let well = of(&Three::default()).await;
    assert!(well.alarm(Request::new(get(AlarmType::None))).await.unwrap().into_inner().alarms.is_empty());
    let activate = AlarmRequest { action: AlarmAction::Activate as i32, ..get(AlarmType::Nospace) };
    assert!(well.alarm(Request::new(activate)).await.unwrap().into_inner().alarms.is_empty());

    let data = Some(PathBuf::from(env!("CARGO_MANIFEST_DIR")));
    let cluster: Option<Arc<dyn leasehold_service::Cluster>> = Some(Arc::new(Three::default()));
    let full = dialect(Options { data, disk_reserve: u64::MAX, cluster, ..Options::default() }).await;
    while !full.service().health().disk_full {
        tokio::task::yield_now().await;
    }
    let alarm = AlarmMember { member_id: 1, alarm: AlarmType::Nospace as i32 };
    let deactivate = AlarmRequest { action: AlarmAction::Deactivate as i32, ..get(AlarmType::Nospace) };
    for request in [get(AlarmType::None), get(AlarmType::Nospace), deactivate] {
        assert_eq!(full.alarm(Request::new(request)).await.unwrap().into_inner().alarms, [alarm], "{request:?}");
    }
    assert!(full.alarm(Request::new(get(AlarmType::Corrupt))).await.unwrap().into_inner().alarms.is_empty());
    let status = full.status(Request::new(StatusRequest {})).await.unwrap().into_inner();
    assert_eq!(status.errors, ["memberID:1 alarm:NOSPACE "]);
}

#[tokio::test]
async fn a_hash_is_of_the_keys_that_are_there_now() {
    let (one, other) = (of(&Three::default()).await, of(&Three::default()).await);
    let hash = async |dialect: &Dialect, revision| dialect.hash_kv(Request::new(HashKvRequest { revision })).await;
    for key in ["a", "b"] {
        put(&one, key).await;
    }
    for key in ["a", "c"] {
        put(&other, key).await;
    }
    let now = hash(&one, 0).await.unwrap().into_inner();
    assert_eq!((now.header, now.compact_revision), (Some(one.present_header()), 2));
    assert_eq!(hash(&one, 2).await.unwrap().into_inner(), now);
    assert_ne!(hash(&other, 0).await.unwrap().into_inner().hash, now.hash);
    assert_eq!(refusal(hash(&one, 3).await), of_etcd(EtcdError::FutureRevision));
    assert_eq!(refusal(hash(&one, 1).await), of_etcd(EtcdError::Compacted));
    let whole = one.hash(Request::new(HashRequest {})).await.unwrap().into_inner();
    assert_eq!((whole.header, whole.hash), (now.header, now.hash));
}

#[tokio::test]
async fn leadership_is_handed_to_a_voter_and_to_nobody_else() {
    let three = Three::default();
    let dialect = of(&three).await;
    let to = async |target_id| dialect.move_leader(Request::new(MoveLeaderRequest { target_id })).await;
    assert_eq!(to(2).await.unwrap().into_inner(), MoveLeaderResponse::default());
    assert_eq!(*three.changes.lock().unwrap(), [ClusterChange::Transfer { to: Some(2) }]);
    to(1).await.unwrap();
    assert_eq!(three.changes.lock().unwrap().len(), 1, "it leads already");
    for nobody in [0, 3, 9] {
        assert_eq!(refusal(to(nobody).await), of_etcd(EtcdError::BadTransferee), "{nobody}");
    }
    let leaderless = of(&Three { leader: None, ..Three::default() }).await;
    let refused = leaderless.move_leader(Request::new(MoveLeaderRequest { target_id: 2 })).await;
    assert_eq!(refusal(refused), of_etcd(EtcdError::BadTransferee));
}

#[tokio::test]
async fn what_etcd_does_with_its_files_is_not_offered() {
    let dialect = of(&Three::default()).await;
    let defragmented = dialect.defragment(Request::new(DefragmentRequest {})).await.unwrap().into_inner();
    assert_eq!(defragmented, DefragmentResponse::default());
    let snapshot = dialect.snapshot(Request::new(SnapshotRequest {})).await.map(drop);
    assert_not_offered(snapshot, "`lease backup`");
    assert_not_offered(dialect.downgrade(Request::new(DowngradeRequest::default())).await, "`lease backup`");
}

#[tokio::test]
async fn nodes_are_listed_with_what_clients_need_to_reach_them() {
    let dialect = of(&Three::default()).await;
    let service = dialect.service();
    for node in [1, 3] {
        crate::urls::say(service, &dialect.caller(), node, &format!("http://n{node}:2379")).await.unwrap();
    }
    for linearizable in [false, true] {
        let request = Request::new(MemberListRequest { linearizable });
        let listed = dialect.member_list(request).await.unwrap().into_inner();
        assert_eq!(listed.header, Some(dialect.header_without_revision()));
        assert_eq!(listed.members.len(), 3);
        let third = Member {
            id: 3,
            name: "n3".into(),
            peer_ur_ls: vec!["http://10.0.0.3:7118".into()],
            client_ur_ls: vec!["http://n3:2379".into()],
            is_learner: true,
        };
        assert_eq!(listed.members[2], third);
        assert!(!listed.members[0].is_learner);
        assert!(listed.members[1].client_ur_ls.is_empty(), "it does not serve them");
    }
}

#[tokio::test]
async fn the_cluster_is_not_changed_by_calls_of_etcd() {
    let three = Three::default();
    let dialect = of(&three).await;
    assert_not_offered(dialect.member_add(Request::new(MemberAddRequest::default())).await, "`lease cluster add ");
    let remove = dialect.member_remove(Request::new(MemberRemoveRequest { id: 2 })).await;
    assert_not_offered(remove, "`lease cluster remove ");
    let update = dialect.member_update(Request::new(MemberUpdateRequest { id: 2, ..Default::default() })).await;
    assert_not_offered(update, "`lease cluster remove ");
    let promote = dialect.member_promote(Request::new(MemberPromoteRequest { id: 3 })).await;
    assert_not_offered(promote, "`lease cluster add`");
    assert!(three.changes.lock().unwrap().is_empty());
}

#[tokio::test]
async fn there_are_no_users_and_nobody_has_to_log_in() {
    let dialect = of(&Three::default()).await;
    let status = dialect.auth_status(Request::new(AuthStatusRequest {})).await.unwrap().into_inner();
    assert_eq!((status.enabled, status.auth_revision), (false, 1));
    assert_eq!(status.header, Some(dialect.present_header()));
    let log_in = AuthenticateRequest { name: "ann".into(), password: "x".into() };
    assert_eq!(refusal(dialect.authenticate(Request::new(log_in)).await), of_etcd(EtcdError::AuthNotEnabled));
    let enable = dialect.auth_enable(Request::new(AuthEnableRequest {})).await;
    assert_eq!(refusal(enable), of_etcd(EtcdError::RootUserMissing));
    dialect.auth_disable(Request::new(AuthDisableRequest {})).await.unwrap();
    let users = dialect.user_list(Request::new(AuthUserListRequest {})).await.unwrap().into_inner().users;
    let roles = dialect.role_list(Request::new(AuthRoleListRequest {})).await.unwrap().into_inner().roles;
    assert_eq!((users.len(), roles.len()), (0, 0));
}

#[tokio::test]
async fn users_and_roles_are_neither_found_nor_made() {
    let dialect = of(&Three::default()).await;
    let (no_user, no_role) = (of_etcd(EtcdError::UserNotFound), of_etcd(EtcdError::RoleNotFound));
    assert_eq!(refusal(dialect.user_get(empty()).await), no_user);
    assert_eq!(refusal(dialect.user_delete(empty()).await), no_user);
    assert_eq!(refusal(dialect.user_change_password(empty()).await), no_user);
    assert_eq!(refusal(dialect.user_grant_role(empty()).await), no_user);
    assert_eq!(refusal(dialect.user_revoke_role(empty()).await), no_user);
    assert_eq!(refusal(dialect.role_get(empty()).await), no_role);
    assert_eq!(refusal(dialect.role_delete(empty()).await), no_role);
    assert_eq!(refusal(dialect.role_grant_permission(empty()).await), no_role);
    assert_eq!(refusal(dialect.role_revoke_permission(empty()).await), no_role);
    assert_eq!(refusal(dialect.user_add(empty()).await), of_etcd(EtcdError::UserEmpty));
    assert_eq!(refusal(dialect.role_add(empty()).await), of_etcd(EtcdError::RoleEmpty));
    let named = AuthUserAddRequest { name: "ann".into(), ..AuthUserAddRequest::default() };
    assert_not_offered(dialect.user_add(Request::new(named)).await, "no users");
    assert_not_offered(dialect.role_add(Request::new(AuthRoleAddRequest { name: "r".into() })).await, "no users");
}

//! A service that answers what it was told to, and remembers what it was asked.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use futures_util::{StreamExt as _, stream};
use prost::Message;
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status, Streaming};

use crate::proto::etcdserverpb::auth_server::Auth;
use crate::proto::etcdserverpb::cluster_server::Cluster;
use crate::proto::etcdserverpb::kv_server::Kv;
use crate::proto::etcdserverpb::lease_server::Lease;
use crate::proto::etcdserverpb::maintenance_server::Maintenance;
use crate::proto::etcdserverpb::*;
use crate::proto::v3electionpb::election_server::Election;
use crate::proto::v3electionpb::*;
use crate::proto::v3lockpb::lock_server::Lock;
use crate::proto::v3lockpb::*;
use crate::streams::{Answers, Requests, Streams};

/// What a call of the fake service answers, in turn.
#[derive(Clone, Debug)]
pub(super) enum Say {
    /// An encoded message.
    Message(Vec<u8>),
    /// A refusal.
    Refuse(Status),
    /// Nothing, for ever.
    Silence,
}

/// The method and the encoded message of a request.
pub(super) type Asked = (String, Vec<u8>);

#[derive(Clone, Default)]
pub(super) struct Fake {
    pub(super) says: Arc<Mutex<VecDeque<Say>>>,
    pub(super) asked: Arc<Mutex<Vec<Asked>>>,
    /// The metadata of the last request.
    pub(super) metadata: Arc<Mutex<MetadataMap>>,
    /// Whether the last stream required a leader.
    pub(super) leader_required: Arc<Mutex<bool>>,
}

impl Fake {
    pub(super) fn saying(says: impl IntoIterator<Item = Say>) -> Fake {
        Fake { says: Arc::new(Mutex::new(says.into_iter().collect())), ..Fake::default() }
    }

    fn note(&self, method: &str, request: &impl Message) {
        self.asked.lock().unwrap().push((method.to_owned(), request.encode_to_vec()));
    }

    /// The next answer; none when everything is said.
    async fn say<A: Message + Default>(&self) -> Option<Result<A, Status>> {
        let next = self.says.lock().unwrap().pop_front();
        Some(match next? {
            Say::Message(bytes) => Ok(A::decode(&bytes[..]).unwrap()),
            Say::Refuse(status) => Err(status),
            Say::Silence => std::future::pending().await,
        })
    }

    async fn answer<Q: Message, A: Message + Default>(
        &self,
        method: &str,
        request: Request<Q>,
    ) -> Result<Response<A>, Status> {
        self.note(method, request.get_ref());
        *self.metadata.lock().unwrap() = request.metadata().clone();
        self.say().await.expect("an answer was prepared").map(Response::new)
    }

    fn answers<A: Message + Default + 'static>(&self) -> Answers<A> {
        stream::unfold(self.clone(), async |fake| Some((fake.say().await?, fake))).boxed()
    }

    /// Says something for each request, and what is left when they have ended.
    fn exchange<Q: Message + 'static, A: Message + Default + 'static>(
        &self,
        method: &'static str,
        requests: Requests<Q>,
    ) -> Answers<A> {
        *self.leader_required.lock().unwrap() = requests.require_leader;
        let fake = self.clone();
        let answered = requests.messages.filter_map(move |request| {
            let fake = fake.clone();
            async move {
                match request {
                    Ok(request) => {
                        fake.note(method, &request);
                        fake.say().await
                    }
                    Err(status) => Some(Err(status)),
                }
            }
        });
        answered.chain(self.answers()).boxed()
    }
}

impl Streams for Fake {
    fn watch(&self, requests: Requests<WatchRequest>) -> Answers<WatchResponse> {
        self.exchange("Watch.Watch", requests)
    }

    fn keep_alive(&self, requests: Requests<LeaseKeepAliveRequest>) -> Answers<LeaseKeepAliveResponse> {
        self.exchange("Lease.LeaseKeepAlive", requests)
    }
}

/// Writes the trait of a service whose calls all answer what they were told to.
macro_rules! calls {
    ($service:ident as $name:literal { $($method:ident $text:literal: $request:ty => $response:ty,)* } $($rest:tt)*) => {
        #[tonic::async_trait]
        impl $service for Fake {
            $(async fn $method(&self, request: Request<$request>) -> Result<Response<$response>, Status> {
                self.answer(concat!($name, ".", $text), request).await
            })*
            $($rest)*
        }
    };
}

calls!(Kv as "KV" {
    range "Range": RangeRequest => RangeResponse,
    put "Put": PutRequest => PutResponse,
    delete_range "DeleteRange": DeleteRangeRequest => DeleteRangeResponse,
    txn "Txn": TxnRequest => TxnResponse,
    compact "Compact": CompactionRequest => CompactionResponse,
});
calls!(Lease as "Lease" {
    lease_grant "LeaseGrant": LeaseGrantRequest => LeaseGrantResponse,
    lease_revoke "LeaseRevoke": LeaseRevokeRequest => LeaseRevokeResponse,
    lease_time_to_live "LeaseTimeToLive": LeaseTimeToLiveRequest => LeaseTimeToLiveResponse,
    lease_leases "LeaseLeases": LeaseLeasesRequest => LeaseLeasesResponse,
}
    type LeaseKeepAliveStream = Answers<LeaseKeepAliveResponse>;
    async fn lease_keep_alive(
        &self,
        request: Request<Streaming<LeaseKeepAliveRequest>>,
    ) -> Result<Response<Self::LeaseKeepAliveStream>, Status> {
        Ok(Response::new(self.keep_alive(request.into())))
    }
);
calls!(Cluster as "Cluster" {
    member_add "MemberAdd": MemberAddRequest => MemberAddResponse,
    member_remove "MemberRemove": MemberRemoveRequest => MemberRemoveResponse,
    member_update "MemberUpdate": MemberUpdateRequest => MemberUpdateResponse,
    member_list "MemberList": MemberListRequest => MemberListResponse,
    member_promote "MemberPromote": MemberPromoteRequest => MemberPromoteResponse,
});
calls!(Maintenance as "Maintenance" {
    alarm "Alarm": AlarmRequest => AlarmResponse,
    status "Status": StatusRequest => StatusResponse,
    defragment "Defragment": DefragmentRequest => DefragmentResponse,
    hash "Hash": HashRequest => HashResponse,
    hash_kv "HashKV": HashKvRequest => HashKvResponse,
    move_leader "MoveLeader": MoveLeaderRequest => MoveLeaderResponse,
    downgrade "Downgrade": DowngradeRequest => DowngradeResponse,
}
    type SnapshotStream = Answers<SnapshotResponse>;
    async fn snapshot(&self, request: Request<SnapshotRequest>) -> Result<Response<Self::SnapshotStream>, Status> {
        self.note("Maintenance.Snapshot", request.get_ref());
        Ok(Response::new(self.answers()))
    }
);
calls!(Auth as "Auth" {
    auth_enable "AuthEnable": AuthEnableRequest => AuthEnableResponse,
    auth_disable "AuthDisable": AuthDisableRequest => AuthDisableResponse,
    auth_status "AuthStatus": AuthStatusRequest => AuthStatusResponse,
    authenticate "Authenticate": AuthenticateRequest => AuthenticateResponse,
    user_add "UserAdd": AuthUserAddRequest => AuthUserAddResponse,
    user_get "UserGet": AuthUserGetRequest => AuthUserGetResponse,
    user_list "UserList": AuthUserListRequest => AuthUserListResponse,
    user_delete "UserDelete": AuthUserDeleteRequest => AuthUserDeleteResponse,
    user_change_password "UserChangePassword": AuthUserChangePasswordRequest => AuthUserChangePasswordResponse,
    user_grant_role "UserGrantRole": AuthUserGrantRoleRequest => AuthUserGrantRoleResponse,
    user_revoke_role "UserRevokeRole": AuthUserRevokeRoleRequest => AuthUserRevokeRoleResponse,
    role_add "RoleAdd": AuthRoleAddRequest => AuthRoleAddResponse,
    role_get "RoleGet": AuthRoleGetRequest => AuthRoleGetResponse,
    role_list "RoleList": AuthRoleListRequest => AuthRoleListResponse,
    role_delete "RoleDelete": AuthRoleDeleteRequest => AuthRoleDeleteResponse,
    role_grant_permission "RoleGrantPermission": AuthRoleGrantPermissionRequest => AuthRoleGrantPermissionResponse,
    role_revoke_permission "RoleRevokePermission": AuthRoleRevokePermissionRequest => AuthRoleRevokePermissionResponse,
});
calls!(Lock as "Lock" {
    lock "Lock": LockRequest => LockResponse,
    unlock "Unlock": UnlockRequest => UnlockResponse,
});
calls!(Election as "Election" {
    campaign "Campaign": CampaignRequest => CampaignResponse,
    proclaim "Proclaim": ProclaimRequest => ProclaimResponse,
    leader "Leader": LeaderRequest => LeaderResponse,
    resign "Resign": ResignRequest => ResignResponse,
}
    type ObserveStream = Answers<LeaderResponse>;
    async fn observe(&self, request: Request<LeaderRequest>) -> Result<Response<Self::ObserveStream>, Status> {
        self.note("Election.Observe", request.get_ref());
        Ok(Response::new(self.answers()))
    }
);

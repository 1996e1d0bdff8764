//! The contract of Leasehold's APIs: what travels, and the one table of error codes.
//!
//! Servers and clients both read these types, so a field cannot be spelled two ways. Requests refuse fields
//! they do not know; answers may grow new ones. There is no server code here and no IO. Conversions into the
//! core's types check what the core's types demand and leave every other decision to the core.

mod by_digest;
mod cluster;
mod code;
mod digest;
mod duration;
mod entry;
mod grant;
#[cfg(feature = "grpc")]
pub mod grpc;
mod handover;
mod health;
mod id;
mod invalid;
mod kind;
mod lease;
mod page;
mod problem;
mod reason;
mod resource;
mod schema;
mod timestamp;
mod txn;
mod watch;

pub use by_digest::lease_by_digest;
pub use cluster::{
    AddMemberRequest, ClusterInfo, LeaderInfo, MemberInfo, NODE_NAME_MAX, NodeId, NodeInfo, TransferRequest,
    checked_node_address, checked_node_name,
};
pub use code::{Code, Retry};
pub use digest::Digest;
pub use duration::{InvalidDuration, RemainingText, SpanText, TtlText, WaitText};
pub use entry::{DeleteAnswer, Entry, EntryList, PutAnswer, PutRequest, bytes_fields, key_after, prefix_end};
pub use grant::{ClaimRequest, GrantContext, GrantRequest, once};
pub use handover::{HandoverAnswer, HandoverRequest};
pub use health::{Alive, HealthInfo};
pub use id::{Id, InvalidId};
pub use invalid::Invalid;
pub use kind::{Class, Mode};
pub use lease::{
    HeldClaim, Lease, LeaseList, LeaseState, Place, RenewAnswer, RenewManyAnswer, RenewManyRequest, RenewRequest,
    RenewResult, RevokeRequest, Wait,
};
pub use page::{page_cursor, range_after};
pub use problem::{Ended, LimitInfo, PROBLEM_TYPE, Problem};
pub use reason::{REASON_MAX, checked_reason};
pub use resource::{
    CheckAnswer, CheckRequest, HistoryList, HolderInfo, PastInfo, QueueInfo, QueueList, Resource, ResourceList,
    ResourceState, WaiterInfo,
};
pub use schema::{
    EntryKey, HolderName, LeaseRef, NamespaceName, NodeName, ReasonText, ResourcePath, SpanInput, TtlInput,
};
pub use timestamp::Timestamp;
pub use txn::{
    CompareRequest, DeleteOp, PutOp, ReadOp, Relation, TxnAnswer, TxnOp, TxnRequest, TxnResult, TxnSession, range_of,
};
pub use watch::{Change, Event, EventFact, Mark, WatchMessage};

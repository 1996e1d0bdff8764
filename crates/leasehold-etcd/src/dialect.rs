//! What all calls of the dialect share: the service, the namespace that etcd's keys are in, and the header of answers.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use leasehold_core::{Caller, Command, Holder, Key, LeaseId, Namespace, Revision, State};
use leasehold_service::{Consistency, Done, Failure, Service, random_lease_id};
use tonic::metadata::MetadataMap;
use tonic::{Extensions, Status};

use crate::errors::EtcdError;
use crate::proto::etcdserverpb::ResponseHeader;
use crate::refusal::refused;
use crate::streams::requires_leader;

/// The version of etcd that this dialect speaks like; clients choose their ways by it.
pub(crate) const SERVER_VERSION: &str = "3.5.1";
/// The same as a cluster of such servers would say.
pub(crate) const CLUSTER_VERSION: &str = "3.5.0";

/// What leases of this dialect are held by begins so: they are listed to etcd's clients, and no others, whose ids are
/// secrets.
const HOLDER: &str = "etcd client";

/// The metadata by which a client shows that it has logged in. Nobody can: so it is another server's.
pub(crate) const TOKEN: &str = "token";

/// Where a connection comes from; an extension of its requests.
#[derive(Clone, Copy, Debug)]
pub struct ClientAddress(pub SocketAddr);

/// What the dialect can be told about its surroundings.
#[derive(Clone)]
pub struct EtcdOptions {
    /// The namespace that keys, leases and locks of etcd's clients are in.
    pub namespace: Namespace,
    /// Chooses the id of a lease whose client chose none: at random, never twice.
    pub new_id: Arc<dyn Fn() -> LeaseId + Send + Sync>,
}

impl Default for EtcdOptions {
    fn default() -> Self {
        let namespace = Namespace::new("default").expect("it is a well-formed name");
        EtcdOptions { namespace, new_id: Arc::new(random_lease_id) }
    }
}

impl fmt::Debug for EtcdOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdOptions").field("namespace", &self.namespace).finish_non_exhaustive()
    }
}

/// The dialect over one service. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Dialect(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    service: Service,
    options: EtcdOptions,
}

impl Dialect {
    pub(crate) fn new(service: Service, options: EtcdOptions) -> Dialect {
        Dialect(Arc::new(Shared { service, options }))
    }

    pub(crate) fn service(&self) -> &Service {
        &self.0.service
    }

    pub(crate) fn namespace(&self) -> &Namespace {
        &self.0.options.namespace
    }

    pub(crate) fn caller(&self) -> Caller {
        self.0.service.anonymous()
    }

    pub(crate) fn new_id(&self) -> LeaseId {
        (self.0.options.new_id)()
    }

    /// The header of an answer at a revision.
    pub(crate) fn header(&self, revision: Revision) -> ResponseHeader {
        ResponseHeader { revision: number(revision), ..self.header_without_revision() }
    }

    /// The header of an answer of this node, at what it has applied.
    pub(crate) fn present_header(&self) -> ResponseHeader {
        self.header(self.service().present().1)
    }

    /// The header of an answer that has nothing to do with keys.
    pub(crate) fn header_without_revision(&self) -> ResponseHeader {
        let answerer = self.service().answerer();
        ResponseHeader {
            cluster_id: short_id(answerer.cluster),
            member_id: answerer.node,
            revision: 0,
            raft_term: answerer.term,
        }
    }

    /// Refuses a call whose client believes that it has logged in, and one that wants a leader, if there is none.
    pub(crate) fn check_call(&self, metadata: &MetadataMap) -> Result<(), Status> {
        if metadata.get(TOKEN).is_some_and(|token| !token.is_empty()) {
            return Err(EtcdError::InvalidAuthToken.into());
        }
        if requires_leader(metadata) { self.need_leader() } else { Ok(()) }
    }

    /// Refuses what needs a leader, if there is none.
    pub(crate) fn need_leader(&self) -> Result<(), Status> {
        if self.service().is_led() { Ok(()) } else { Err(EtcdError::NoLeader.into()) }
    }

    /// What keeps this node from serving, in etcd's words; none if it serves.
    pub(crate) fn ills(&self) -> Option<String> {
        let health = self.service().health();
        match (health.ready, health.disk_full) {
            (_, true) => Some("ALARM NOSPACE".to_owned()),
            (false, false) => Some("RAFT NO LEADER".to_owned()),
            (true, false) => None,
        }
    }

    /// Carries out a command.
    pub(crate) async fn execute(&self, command: Command) -> Result<Done, Failure> {
        self.service().execute(&self.caller(), self.namespace(), command).await
    }

    /// Answers a query, linearizable or from what this node knows, with the revision it saw.
    pub(crate) async fn read<T>(
        &self,
        serializable: bool,
        query: impl FnOnce(&State) -> T,
    ) -> Result<(T, Revision), Status> {
        let consistency = if serializable { Consistency::Stale } else { Consistency::Linearizable };
        let answered = self.service().read(&self.caller(), self.namespace(), consistency, query).await;
        answered.map(|answered| (answered.value, answered.revision)).map_err(refused)
    }
}

/// Whom the leases of a connection are granted to.
pub(crate) fn holder(extensions: &Extensions) -> Holder {
    let name = match extensions.get::<ClientAddress>() {
        Some(ClientAddress(address)) => format!("{HOLDER} {address}"),
        None => HOLDER.to_owned(),
    };
    Holder::new(&name).expect("an address is short and plain")
}

/// Whether a lease was granted through this dialect.
pub(crate) fn is_ours(holder: &Holder) -> bool {
    holder.as_str().starts_with(HOLDER)
}

/// A number as etcd has it.
pub(crate) fn number(revision: Revision) -> i64 {
    i64::try_from(revision.0).unwrap_or(i64::MAX)
}

/// The cluster's id in the bits that etcd has for it.
fn short_id(id: u128) -> u64 {
    (id >> 64) as u64 ^ id as u64
}

/// The id of a lease; none if it cannot be one.
pub(crate) fn lease_id(id: i64) -> Option<LeaseId> {
    u64::try_from(id).ok().and_then(LeaseId::new)
}

/// The id of a lease as etcd has it.
pub(crate) fn lease_number(lease: Option<LeaseId>) -> i64 {
    lease.map_or(0, |lease| lease.number() as i64)
}

/// A key, or the refusal of one that is missing or too long.
pub(crate) fn key(bytes: &[u8]) -> Result<Key, Status> {
    if bytes.is_empty() {
        return Err(EtcdError::EmptyKey.into());
    }
    Key::new(bytes).map_err(|why| Status::invalid_argument(format!("leasehold: the key cannot be used: {why}")))
}

//! What all calls of the dialect share: the service, the namespace that etcd's keys and leases live in, and the header
//! that every answer begins with.

use std::fmt;
use std::sync::Arc;

use leasehold_core::{Caller, Namespace, Revision};
use leasehold_service::{Member, Service};

use crate::proto::etcdserverpb::ResponseHeader;

/// The version of etcd that this dialect speaks like; clients choose their ways by it.
pub(crate) const SERVER_VERSION: &str = "3.5.1";
/// The same as a cluster of such servers would say.
pub(crate) const CLUSTER_VERSION: &str = "3.5.0";

/// Tells where clients of etcd reach a node, as far as it is known.
pub(crate) type ClientUrls = Arc<dyn Fn(&Member) -> Vec<String> + Send + Sync>;

/// What carries out the calls of etcd's clients.
#[derive(Clone)]
pub(crate) struct Dialect {
    pub(crate) service: Service,
    /// Where their keys and leases are.
    pub(crate) namespace: Namespace,
    pub(crate) client_urls: ClientUrls,
}

impl fmt::Debug for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dialect").field("namespace", &self.namespace).finish_non_exhaustive()
    }
}

impl Dialect {
    /// Who calls: whoever reaches the listener.
    pub(crate) fn caller(&self) -> Caller {
        self.service.anonymous()
    }

    /// The header of an answer that is true at a revision.
    pub(crate) fn header(&self, revision: Revision) -> ResponseHeader {
        ResponseHeader { revision: number(revision), ..self.header_without_revision() }
    }

    /// The header of an answer of this node, at what it has applied.
    pub(crate) fn present_header(&self) -> ResponseHeader {
        self.header(self.service.present().1)
    }

    /// The header of an answer that has nothing to do with keys.
    pub(crate) fn header_without_revision(&self) -> ResponseHeader {
        let answerer = self.service.answerer();
        ResponseHeader {
            cluster_id: short_id(answerer.cluster),
            member_id: answerer.node,
            revision: 0,
            raft_term: answerer.term,
        }
    }
}

/// A revision as etcd writes it.
pub(crate) fn number(revision: Revision) -> i64 {
    i64::try_from(revision.0).unwrap_or(i64::MAX)
}

/// The cluster's id in the bits that etcd has for it.
fn short_id(id: u128) -> u64 {
    (id >> 64) as u64 ^ id as u64
}

//! Which lease an operator means by its digest.

use std::collections::BTreeSet;

use leasehold_core::{LeaseId, Namespace, ResourceName, State};

use crate::{Code, Digest, Problem};

/// How many waiters are searched for a digest.
const WAITERS_SEARCHED: usize = 1000;

/// The lease with this digest among those that hold or wait for a resource.
pub fn lease_by_digest(
    state: &State,
    namespace: &Namespace,
    resource: &ResourceName,
    digest: Digest,
) -> Result<LeaseId, Box<Problem>> {
    let holders = state.resource(namespace, resource).map(|view| view.holders).unwrap_or_default();
    let waiters = state.queue(namespace, resource, WAITERS_SEARCHED);
    let leases = holders.iter().map(|holder| holder.lease).chain(waiters.iter().map(|waiter| waiter.lease));
    let found = leases.filter(|lease| Digest::of(*lease) == digest).collect::<BTreeSet<_>>();
    let (code, detail) = match (found.first(), found.len()) {
        (Some(lease), 1) => return Ok(*lease),
        (Some(_), _) => (Code::IdInUse, format!("several leases at {resource} have the digest {digest}")),
        (None, _) => (Code::UnknownLease, format!("no lease {digest} is found at {resource}")),
    };
    Err(Box::new(Problem::new(code, detail)))
}

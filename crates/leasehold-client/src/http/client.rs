//! The client: a method for each call on leases and resources.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use leasehold_api::{
    CheckAnswer, CheckRequest, ClaimRequest, ClusterInfo, GrantRequest, HandoverAnswer, HandoverRequest, HealthInfo,
    HistoryList, Id, Lease, LeaseList, QueueList, RemainingText, RenewAnswer, RenewManyAnswer, RenewManyRequest,
    RenewRequest, Resource, ResourceList, RevokeRequest, TtlText, WaitText,
};
use leasehold_core::{LeaseId, Patience, Remaining, Ttl};
use serde::de::DeserializeOwned;

use super::transport::{CALL_TIMEOUT, Call, Transport};
use super::url::Url;
use super::{Acquire, Error, Watch};
use crate::{Endpoints, Moment, Validity};

/// The header that says how long the holder of a revoked lease may still act.
const LEASE_MAY_ACT: &str = "lease-may-act";

/// A client of one namespace. Clones share their connections.
#[derive(Clone, Debug)]
pub struct HttpClient {
    transport: Arc<Transport>,
    namespace: String,
}

/// Which leases to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaseQuery {
    /// Those that claim a resource whose name begins so; empty for all.
    pub prefix: String,
    /// Those of this holder.
    pub holder: Option<String>,
}

/// A new lease id: random, 63 bits, never zero.
pub fn new_lease_id() -> Id {
    Id(LeaseId::new(rand::random_range(1..=LeaseId::MAX)).expect("the range has ids only"))
}

impl HttpClient {
    /// A client of `namespace` at these addresses. Nothing is sent yet.
    pub fn new(endpoints: Endpoints, namespace: impl Into<String>) -> HttpClient {
        HttpClient { transport: Arc::new(Transport::new(endpoints)), namespace: namespace.into() }
    }

    /// The latest lease time that an answer told, in milliseconds.
    pub fn lease_time(&self) -> Option<u64> {
        self.transport.lease_time()
    }

    pub(crate) fn transport(&self) -> &Transport {
        &self.transport
    }

    /// The address of a collection of this namespace.
    pub(crate) fn url(&self, collection: &str) -> Url {
        Url::new("/v1/ns").segment(&self.namespace).segment(collection)
    }

    /// Prepares to get a lease and to wait for what it asks; an id is chosen if the request has none.
    pub fn acquire(&self, request: GrantRequest, wait: Patience) -> Acquire {
        Acquire::new(self.clone(), request, wait)
    }

    /// The call that grants a lease. With an id it can be repeated until its answer is known.
    pub(crate) fn grant_call(&self, request: &GrantRequest, wait: Patience) -> Call {
        let call = Call::new(Method::POST, waiting(self.url("leases"), wait)).json(request);
        Call { timeout: timeout(wait), repeatable: request.id.is_some(), ..call }
    }

    /// Grants a lease; without an id it is asked for once. [`HttpClient::acquire`] also survives the loss of a wait.
    pub async fn grant(&self, request: &GrantRequest, wait: Patience) -> Result<Lease, Error> {
        self.transport.ask(&self.grant_call(request, wait)).await
    }

    /// Asks for more resources on a living lease. It is repeated only if the request has a `seq`.
    pub async fn claim(&self, lease: Id, request: &ClaimRequest, wait: Patience) -> Result<Lease, Error> {
        let url = self.url("leases").segment(lease.to_string()).segment("claims");
        let call = Call::new(Method::POST, waiting(url, wait)).json(request);
        self.transport.ask(&Call { timeout: timeout(wait), repeatable: request.seq.is_some(), ..call }).await
    }

    /// Gives one held claim back.
    pub async fn unclaim(&self, lease: Id, resource: &str, token: u64) -> Result<(), Error> {
        let url = self.url("leases").segment(lease.to_string()).segment("claims").segment(resource);
        let call = Call::new(Method::DELETE, url.query("token", token.to_string()));
        self.transport.call(&call).await?.accepted().map(drop)
    }

    /// Renews a lease, and tells until when its holder may act.
    pub async fn renew(&self, lease: Id, ttl: Option<Ttl>) -> Result<(RenewAnswer, Validity), Error> {
        let url = self.url("leases").segment(lease.to_string()).segment("renew");
        let call = Call::new(Method::POST, url).json(&RenewRequest { ttl: ttl.map(TtlText) }).repeatable();
        let answer = self.transport.call(&call).await?;
        let sent: Moment = answer.sent;
        let renewed: RenewAnswer = answer.read()?;
        Ok((renewed, Validity::of_answer(sent, Moment::now(), renewed.remaining.0)))
    }

    /// Renews many leases; each gets an answer of its own.
    pub async fn renew_many(&self, leases: Vec<Id>, ttl: Option<Ttl>) -> Result<RenewManyAnswer, Error> {
        let url = self.url("leases").segment("renew");
        let request = RenewManyRequest { leases, ttl: ttl.map(TtlText) };
        self.transport.ask(&Call::new(Method::POST, url).json(&request).repeatable()).await
    }

    /// Ends a lease; it is no error if it has ended already.
    pub async fn release(&self, lease: Id) -> Result<(), Error> {
        let url = self.url("leases").segment(lease.to_string());
        self.transport.call(&Call::new(Method::DELETE, url).repeatable()).await?.accepted().map(drop)
    }

    /// Takes a lease from its holder, and tells how long that one may still believe that it holds what it held. The
    /// lease is named by its id, or by its digest if the request names a resource of it.
    pub async fn revoke(&self, id_or_digest: &str, request: &RevokeRequest) -> Result<Remaining, Error> {
        let url = self.url("leases").segment(id_or_digest).segment("revoke");
        let answer = self.transport.call(&Call::new(Method::POST, url).json(request)).await?.accepted()?;
        answer.header::<RemainingText>(LEASE_MAY_ACT).map(|text| text.0)
    }

    /// A lease with all it carries.
    pub async fn lease(&self, lease: Id) -> Result<Lease, Error> {
        self.get(self.url("leases").segment(lease.to_string())).await
    }

    /// A part of the leases, from `page` on.
    pub async fn leases(&self, query: &LeaseQuery, page: Option<&str>) -> Result<LeaseList, Error> {
        let url = listing(self.url("leases"), &query.prefix, page).maybe("holder", query.holder.as_ref());
        self.get(url).await
    }

    /// A part of the resources whose names begin with `prefix`, from `page` on.
    pub async fn resources(&self, prefix: &str, page: Option<&str>) -> Result<ResourceList, Error> {
        self.get(listing(self.url("resources"), prefix, page)).await
    }

    /// The first resources whose names begin with `prefix`: at most `limit`, which is at most 1000.
    pub async fn first_resources(&self, prefix: &str, limit: u16) -> Result<ResourceList, Error> {
        self.get(listing(self.url("resources"), prefix, None).query("limit", limit.to_string())).await
    }

    /// A resource as it is.
    pub async fn resource(&self, name: &str) -> Result<Resource, Error> {
        self.get(self.url("resources").segment(name)).await
    }

    /// Who waits for a resource.
    pub async fn queue(&self, name: &str) -> Result<QueueList, Error> {
        self.get(self.url("resources").segment(name).segment("queue")).await
    }

    /// What happened to a resource.
    pub async fn history(&self, name: &str) -> Result<HistoryList, Error> {
        self.get(self.url("resources").segment(name).segment("history")).await
    }

    /// Whether `token` is current; a stale one is a refusal.
    pub async fn check(&self, name: &str, token: u64) -> Result<CheckAnswer, Error> {
        let url = self.url("resources").segment(name).segment("check");
        self.transport.ask(&Call::new(Method::POST, url).json(&CheckRequest { token }).repeatable()).await
    }

    /// Asks the holders of a resource to hand it over; a repeated ask only tells them again.
    pub async fn request_handover(&self, resource: &str, request: &HandoverRequest) -> Result<HandoverAnswer, Error> {
        let url = self.url("resources").segment(resource).segment("handover");
        self.transport.ask(&Call::new(Method::POST, url).json(request).repeatable()).await
    }

    /// Watches what happens to resources and entries whose names begin with `prefix`, after the revision
    /// `since` or from now on. Nothing is sent before the first [`Watch::next`].
    pub fn watch(&self, prefix: &str, since: Option<u64>) -> Watch {
        Watch::new(self.clone(), prefix, since)
    }

    /// How the server is doing, whether it is ready or not.
    pub async fn health(&self) -> Result<HealthInfo, Error> {
        let answer = self.transport.call(&Call::get(Url::new("/readyz"))).await?;
        match serde_json::from_slice(&answer.body) {
            Ok(health) => Ok(health),
            Err(_) => answer.read(),
        }
    }

    /// The cluster, as the server sees it.
    pub async fn cluster(&self) -> Result<ClusterInfo, Error> {
        self.get(Url::new("/v1/cluster")).await
    }

    pub(crate) async fn get<T: DeserializeOwned>(&self, url: Url) -> Result<T, Error> {
        self.transport.ask(&Call::get(url)).await
    }
}

/// The address of a part of a list.
pub(crate) fn listing(url: Url, prefix: impl AsRef<[u8]>, page: Option<&str>) -> Url {
    let prefix = prefix.as_ref();
    url.maybe("prefix", (!prefix.is_empty()).then_some(prefix)).maybe("page", page)
}

fn waiting(url: Url, wait: Patience) -> Url {
    match wait {
        Patience::None => url,
        Patience::For(_) | Patience::Endless => url.query("wait", WaitText(wait).to_string()),
    }
}

/// A call that waits is given that much longer.
fn timeout(wait: Patience) -> Option<Duration> {
    match wait {
        Patience::None => Some(CALL_TIMEOUT),
        Patience::For(span) => Some(CALL_TIMEOUT.saturating_add(Duration::from_millis(span.0))),
        Patience::Endless => None,
    }
}

#[cfg(test)]
mod tests {
    use leasehold_core::Span;

    use super::*;

    #[test]
    fn a_wait_is_asked_for_and_given_time() {
        let client = HttpClient::new(Endpoints::default(), "shop");
        let call = client.grant_call(&GrantRequest::default(), Patience::For(Span(1500)));
        assert_eq!(call.url.as_str(), "/v1/ns/shop/leases?wait=1500ms");
        assert_eq!(call.timeout, Some(CALL_TIMEOUT + Duration::from_millis(1500)));
        let call = client.grant_call(&GrantRequest::default(), Patience::Endless);
        assert_eq!((call.url.as_str(), call.timeout), ("/v1/ns/shop/leases?wait=forever", None));
        assert!(!call.repeatable);
    }

    #[test]
    fn ids_differ_and_are_well_formed() {
        let (one, two) = (new_lease_id(), new_lease_id());
        assert_ne!(one, two);
        assert_eq!(one.to_string().parse(), Ok(one));
    }
}

//! The service of leases.
//!
//! Seconds on the wire, milliseconds underneath. A lease that is gone is an answer without time, never an error, and never
//! ends a stream of renewals; neither does a change of the leader.

use std::collections::VecDeque;
use std::time::Duration;

use futures_util::{FutureExt as _, StreamExt as _, stream};
use leasehold_core::{
    Asks, Class, Command, Grant, Holder, LeaseFilter, LeaseId, Metadata, Outcome, Release, Remaining, Renew, Renewal,
    Revision, Span, State, Ttl,
};
use leasehold_service::Failure;
use tonic::{Request, Response, Status, Streaming};

use crate::dialect::{Dialect, holder, is_ours, lease_id};
use crate::errors::EtcdError;
use crate::proto::etcdserverpb::lease_server::Lease;
use crate::proto::etcdserverpb::{
    LeaseGrantRequest, LeaseGrantResponse, LeaseKeepAliveRequest, LeaseKeepAliveResponse, LeaseLeasesRequest,
    LeaseLeasesResponse, LeaseRevokeRequest, LeaseRevokeResponse, LeaseStatus, LeaseTimeToLiveRequest,
    LeaseTimeToLiveResponse,
};
use crate::refusal::refused;
use crate::streams::{Answers, Requests};

/// The longest ttl that etcd grants, in seconds.
const TTL_MAX: i64 = 9_000_000_000;
/// How many renewals go into one command.
const RENEWALS_MAX: usize = 4096;
/// How long after a failure a renewal is tried again.
const AGAIN: Duration = Duration::from_millis(50);
/// How many leases are listed at a time.
const PAGE: usize = 1000;

#[tonic::async_trait]
impl Lease for Dialect {
    async fn lease_grant(&self, request: Request<LeaseGrantRequest>) -> Result<Response<LeaseGrantResponse>, Status> {
        self.check_call(request.metadata())?;
        let holder = holder(request.extensions());
        let LeaseGrantRequest { ttl, id } = *request.get_ref();
        let (lease, ttl, revision) = self.grant(id, ttl, holder).await?;
        let id = lease.number() as i64;
        let error = String::new();
        Ok(Response::new(LeaseGrantResponse { header: Some(self.header(revision)), id, ttl, error }))
    }

    async fn lease_revoke(
        &self,
        request: Request<LeaseRevokeRequest>,
    ) -> Result<Response<LeaseRevokeResponse>, Status> {
        self.check_call(request.metadata())?;
        let lease = lease_id(request.get_ref().id).ok_or(EtcdError::LeaseNotFound)?;
        let done = self.execute(Command::Release(Release { lease })).await.map_err(refused)?;
        if done.outcome == (Outcome::Released { already: true }) {
            return Err(EtcdError::LeaseNotFound.into());
        }
        Ok(Response::new(LeaseRevokeResponse { header: Some(self.header(done.revision)) }))
    }

    type LeaseKeepAliveStream = Answers<LeaseKeepAliveResponse>;

    async fn lease_keep_alive(
        &self,
        request: Request<Streaming<LeaseKeepAliveRequest>>,
    ) -> Result<Response<Self::LeaseKeepAliveStream>, Status> {
        Ok(Response::new(self.renewals(request.into())))
    }

    async fn lease_time_to_live(
        &self,
        request: Request<LeaseTimeToLiveRequest>,
    ) -> Result<Response<LeaseTimeToLiveResponse>, Status> {
        self.check_call(request.metadata())?;
        let LeaseTimeToLiveRequest { id, keys } = *request.get_ref();
        let gone = LeaseTimeToLiveResponse { id, ttl: -1, ..LeaseTimeToLiveResponse::default() };
        let look = |state: &State| {
            let Some(view) = lease_id(id).and_then(|lease| state.lease(self.namespace(), lease).ok()) else {
                return gone.clone();
            };
            if view.ending {
                return gone.clone();
            }
            let bound = if keys { state.bound_keys(self.namespace(), view.id) } else { Vec::new() };
            LeaseTimeToLiveResponse {
                header: None,
                id,
                ttl: seconds(view.remaining),
                granted_ttl: whole_ttl(view.ttl),
                keys: bound.iter().map(|key| bytes::Bytes::copy_from_slice(key.as_bytes())).collect(),
            }
        };
        let (mut response, revision) = self.read(false, look).await?;
        response.header = Some(self.header(revision));
        Ok(Response::new(response))
    }

    async fn lease_leases(
        &self,
        request: Request<LeaseLeasesRequest>,
    ) -> Result<Response<LeaseLeasesResponse>, Status> {
        self.check_call(request.metadata())?;
        let (mut leases, mut after) = (Vec::new(), None);
        loop {
            let filter = LeaseFilter { after, limit: PAGE, ..LeaseFilter::default() };
            let (page, revision) = self.read(after.is_some(), |state| state.leases(self.namespace(), &filter)).await?;
            let ours = page.items.iter().filter(|view| is_ours(&view.holder) && !view.ending);
            leases.extend(ours.map(|view| LeaseStatus { id: view.id.number() as i64 }));
            after = page.next;
            if after.is_none() {
                return Ok(Response::new(LeaseLeasesResponse { header: Some(self.header(revision)), leases }));
            }
        }
    }
}

impl Dialect {
    /// Grants a lease: under this id, or under a new one for 0. Gives its id, its ttl in seconds and the revision.
    pub(crate) async fn grant(&self, id: i64, ttl: i64, holder: Holder) -> Result<(LeaseId, i64, Revision), Status> {
        if ttl > TTL_MAX {
            return Err(EtcdError::TtlTooLarge.into());
        }
        let ttl = ttl.max(1);
        loop {
            let given = (id != 0).then(|| lease_id(id).ok_or_else(negative)).transpose()?;
            let grant = Grant {
                id: given.unwrap_or_else(|| self.new_id()),
                holder: holder.clone(),
                ttl: Ttl::For(Span::seconds(ttl as u64)),
                class: Class::Session,
                parent: None,
                metadata: Metadata::default(),
                asks: Asks::default(),
                seen: self.service().present().0,
            };
            let lease = grant.id;
            let status = match self.execute(Command::GrantAnew(grant)).await.map_err(refused) {
                Ok(done) => return Ok((lease, ttl, done.revision)),
                Err(status) => status,
            };
            // Two of our own random ids do not meet twice.
            if given.is_some() || status.message() != EtcdError::LeaseExists.text() {
                return Err(status);
            }
        }
    }

    /// The time that each lease has afterwards, 0 for one that is gone. It is tried until somebody leads.
    async fn renew_some(&self, ids: &[i64], require_leader: bool) -> Result<(Vec<i64>, Revision), Status> {
        let known: Vec<LeaseId> = ids.iter().filter_map(|id| lease_id(*id)).collect();
        loop {
            if require_leader {
                self.need_leader()?;
            }
            let renew = Command::Renew(Renew { leases: known.clone(), ttl: None });
            match self.execute(renew).await {
                Ok(done) => {
                    let Outcome::Renewed(results) = done.outcome else {
                        return Err(Status::internal("leasehold: a renewal led to something else"));
                    };
                    let mut results = results.into_iter();
                    let ttl = |id: &i64| match lease_id(*id).and_then(|_| results.next()) {
                        Some(Ok(Renewal { remaining, ttl, .. })) => whole_ttl(ttl).min(seconds(remaining) + 1).max(1),
                        Some(Err(_)) | None => 0,
                    };
                    return Ok((ids.iter().map(ttl).collect(), done.revision));
                }
                // Renewals may be repeated: the stream lives on while another node takes over.
                Err(Failure::NoQuorum { .. } | Failure::Overloaded { .. } | Failure::DiskFull) => {
                    tokio::time::sleep(AGAIN).await;
                }
                Err(failure) => return Err(refused(failure)),
            }
        }
    }

    /// Renews leases as they are asked for, until the client or the service stops.
    pub(crate) fn renewals(&self, requests: Requests<LeaseKeepAliveRequest>) -> Answers<LeaseKeepAliveResponse> {
        let renewals =
            Renewals { dialect: self.clone(), requests, answers: VecDeque::new(), broken: None, is_over: false };
        let next = |mut renewals: Renewals| async move { Some((renewals.next().await?, renewals)) };
        stream::unfold(renewals, next).boxed()
    }
}

/// A stream of renewals: what came together goes into one command.
struct Renewals {
    dialect: Dialect,
    requests: Requests<LeaseKeepAliveRequest>,
    answers: VecDeque<LeaseKeepAliveResponse>,
    /// Why the stream ends once the answers are taken.
    broken: Option<Status>,
    is_over: bool,
}

impl Renewals {
    async fn next(&mut self) -> Option<Result<LeaseKeepAliveResponse, Status>> {
        loop {
            if let Some(answer) = self.answers.pop_front() {
                return Some(Ok(answer));
            }
            if let Some(status) = self.broken.take() {
                self.is_over = true;
                return Some(Err(status));
            }
            if self.is_over {
                return None;
            }
            let ids = self.asked().await;
            if ids.is_empty() {
                continue;
            }
            match self.dialect.renew_some(&ids, self.requests.require_leader).await {
                Ok((ttls, revision)) => {
                    let header = self.dialect.header(revision);
                    let answers = ids.into_iter().zip(ttls);
                    self.answers.extend(answers.map(|(id, ttl)| LeaseKeepAliveResponse {
                        header: Some(header),
                        id,
                        ttl,
                    }));
                }
                Err(status) => self.broken = Some(status),
            }
        }
    }

    /// What is asked for now: the next one, and all that came with it.
    async fn asked(&mut self) -> Vec<i64> {
        let mut ids = Vec::new();
        let mut next = self.requests.messages.next().await;
        loop {
            match next {
                Some(Ok(request)) => ids.push(request.id),
                Some(Err(status)) => self.broken = Some(status),
                None => self.is_over = true,
            }
            if self.is_over || self.broken.is_some() || ids.len() == RENEWALS_MAX {
                return ids;
            }
            match self.requests.messages.next().now_or_never() {
                Some(more) => next = more,
                None => return ids,
            }
        }
    }
}

fn negative() -> Status {
    Status::invalid_argument("leasehold: the id of a lease is a number above 0")
}

/// Whole seconds that are left. A little of what was left at the last entry has gone by since.
fn seconds(remaining: Remaining) -> i64 {
    match remaining {
        Remaining::For(span) => (span.0.saturating_sub(1) / 1000) as i64,
        Remaining::Endless => TTL_MAX,
    }
}

/// A ttl in whole seconds; none of another dialect's is told as longer than it is.
fn whole_ttl(ttl: Ttl) -> i64 {
    match ttl {
        Ttl::For(span) => (span.0 / 1000) as i64,
        Ttl::Endless => TTL_MAX,
    }
}

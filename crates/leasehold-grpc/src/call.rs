//! A call on its way to the service: who asks, and what every answer has in common.
//!
//! This is the one place where the caller of a call is established. Today it is whoever reaches the socket; credentials
//! will be read and proved here.

use std::time::Duration;

use leasehold_api::Invalid;
use leasehold_api::grpc::{Consistency, LEASE_AGE_MS, LEASE_FORWARDED_TO, LEASE_REVISION, LEASE_TIME};
use leasehold_core::{Caller, Command, LeaseTime, Namespace, Patience, Revision, State};
use leasehold_service::{Answered, Done, Service};
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::{Response, Status};

use crate::errors::Refusal;
use crate::server::GrpcOptions;

/// The namespace of a call that names none.
pub(crate) const USUAL_NAMESPACE: &str = "default";

/// What every call shares.
#[derive(Clone)]
pub(crate) struct App {
    pub(crate) service: Service,
    pub(crate) options: GrpcOptions,
}

/// When an answer is true, and who gave it.
#[derive(Clone, Debug)]
pub(crate) struct At {
    pub(crate) now: LeaseTime,
    pub(crate) revision: Revision,
    pub(crate) age: Option<Duration>,
    pub(crate) forwarded_to: Option<String>,
}

impl From<&Done> for At {
    fn from(done: &Done) -> At {
        At { now: done.now, revision: done.revision, age: None, forwarded_to: done.forwarded_to.clone() }
    }
}

impl<T> From<&Answered<T>> for At {
    fn from(answered: &Answered<T>) -> At {
        At { now: answered.now, revision: answered.revision, age: answered.age, forwarded_to: None }
    }
}

impl At {
    /// An answer of this node itself.
    pub(crate) fn new(now: LeaseTime, revision: Revision) -> At {
        At { now, revision, age: None, forwarded_to: None }
    }

    pub(crate) fn put_on(self, metadata: &mut MetadataMap) {
        metadata.insert(LEASE_REVISION, MetadataValue::from(self.revision.0));
        metadata.insert(LEASE_TIME, MetadataValue::from(self.now.0));
        if let Some(age) = self.age {
            let millis = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
            metadata.insert(LEASE_AGE_MS, MetadataValue::from(millis));
        }
        if let Some(leader) = self.forwarded_to.and_then(|name| MetadataValue::try_from(name).ok()) {
            metadata.insert(LEASE_FORWARDED_TO, leader);
        }
    }
}

impl App {
    /// Who calls.
    pub(crate) fn caller(&self) -> Caller {
        self.service.anonymous()
    }

    /// Completes an answer or a refusal.
    pub(crate) fn answer<T>(&self, result: Result<(At, T), Refusal>) -> Result<Response<T>, Status> {
        match result {
            Ok((at, body)) => {
                let mut response = Response::new(body);
                at.put_on(response.metadata_mut());
                Ok(response)
            }
            Err(refusal) => Err(refusal.status(self.service.present())),
        }
    }

    /// Carries out a command, and waits as long as it is willing to.
    pub(crate) async fn carry_out(&self, namespace: &Namespace, command: Command) -> Result<Done, Refusal> {
        let patience = match &command {
            Command::Grant(grant) => grant.asks.patience,
            Command::Claim(claim) => claim.asks.patience,
            Command::Renew(_)
            | Command::Release(_)
            | Command::Revoke(_)
            | Command::Unclaim(_)
            | Command::Leave(_)
            | Command::AskHandover(_)
            | Command::GrantAnew(_)
            | Command::ClaimMarked(_)
            | Command::Write(_)
            | Command::Configure(_) => Patience::None,
        };
        Ok(match patience {
            Patience::None => self.service.execute(&self.caller(), namespace, command).await?,
            Patience::For(_) | Patience::Endless => {
                self.service.execute_waiting(&self.caller(), namespace, command).await?
            }
        })
    }

    /// Answers a query.
    pub(crate) async fn read<T: Send>(
        &self,
        namespace: &Namespace,
        consistency: i32,
        query: impl FnOnce(&State) -> T + Send,
    ) -> Result<Answered<T>, Refusal> {
        let consistency = match Consistency::try_from(consistency) {
            Ok(Consistency::Unspecified | Consistency::Linearizable) => leasehold_service::Consistency::Linearizable,
            Ok(Consistency::Stale) => leasehold_service::Consistency::Stale,
            Err(_) => return Err(Invalid::new("consistency", "this value is not known").into()),
        };
        Ok(self.service.read(&self.caller(), namespace, consistency, query).await?)
    }
}

/// The namespace of a request, or the usual one.
pub(crate) fn namespace(text: &str) -> Result<Namespace, Invalid> {
    let text = if text.is_empty() { USUAL_NAMESPACE } else { text };
    Namespace::new(text).map_err(|reason| Invalid::name("namespace", text, reason))
}

/// How many to give where a list may be long.
pub(crate) fn page_limit(asked: Option<u32>) -> Result<usize, Invalid> {
    const USUAL: usize = 100;
    const MAX: u32 = 1000;
    match asked {
        None => Ok(USUAL),
        Some(limit @ 1..=MAX) => Ok(limit as usize),
        Some(_) => Err(Invalid::new("limit", format!("it is between 1 and {MAX}"))),
    }
}

//! A request on its way to the service: who asks, and in which namespace.
//!
//! This is the one place where the caller of a request is established. Today it is whoever reaches the socket;
//! credentials will be read and proved here.

use axum::extract::FromRequestParts;
use axum::http::HeaderValue;
use axum::http::request::Parts;
use leasehold_core::{Caller, Command, Namespace, Patience, State};
use leasehold_service::{Answered, Consistency, Done, Failure};

use crate::errors::Refusal;
use crate::path;
use crate::reply::LEASE_FORWARDED_TO;
use crate::server::App;

/// A request whose caller and namespace are known.
#[derive(Clone)]
pub(crate) struct Call {
    pub(crate) app: App,
    pub(crate) caller: Caller,
    pub(crate) namespace: Namespace,
}

impl FromRequestParts<App> for Call {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Refusal> {
        let namespace = path::namespace(&parts.uri)?;
        Ok(Call { app: app.clone(), caller: app.service.anonymous(), namespace })
    }
}

impl Call {
    /// Carries out a command.
    pub(crate) async fn carry_out(&self, command: Command) -> Result<Done, Refusal> {
        let done = self.app.service.execute(&self.caller, &self.namespace, command).await;
        done.map_err(|failure| self.refusal(failure))
    }

    /// A refusal of the domain comes from the leader, as every answer to a command does.
    fn refusal(&self, failure: Failure) -> Refusal {
        let refused = matches!(failure, Failure::Rejected(_) | Failure::WaitElapsed { .. });
        let mut refusal = Refusal::from(failure);
        let leader = self.app.service.passes_on_to().filter(|_| refused);
        if let Some(leader) = leader.and_then(|name| HeaderValue::try_from(name).ok()) {
            refusal.headers.insert(LEASE_FORWARDED_TO, leader);
        }
        refusal
    }

    /// Carries out a grant or claim and waits as long as it is willing to.
    pub(crate) async fn carry_out_waiting(&self, command: Command, patience: Patience) -> Result<Done, Refusal> {
        match patience {
            Patience::None => self.carry_out(command).await,
            Patience::For(_) | Patience::Endless => {
                let done = self.app.service.execute_waiting(&self.caller, &self.namespace, command).await;
                done.map_err(|failure| self.refusal(failure))
            }
        }
    }

    /// Answers a query.
    pub(crate) async fn read<T: Send>(
        &self,
        consistency: Consistency,
        query: impl FnOnce(&State, &Namespace) -> T + Send,
    ) -> Result<Answered<T>, Refusal> {
        let namespace = &self.namespace;
        Ok(self.app.service.read(&self.caller, namespace, consistency, |state| query(state, namespace)).await?)
    }
}

//! The one place where every command and query of every API is authorized.
//!
//! For now there are no identities: whoever reaches the listener is the anonymous caller, and the listener is on
//! loopback unless the operator insists. Refusals and forced ends are written to the audit log.

use leasehold_core::{Caller, Command, Namespace, Rights};
use tracing::{info, warn};

use crate::{ClusterChange, Failure};

/// What a caller wants to do.
#[derive(Clone, Copy, Debug)]
pub enum Action<'a> {
    /// Change something.
    Command(&'a Command),
    /// Read something.
    Query,
    /// Follow events.
    Watch,
    /// Copy the whole state.
    Backup,
    /// Change the cluster itself.
    Operate(&'a ClusterChange),
}

/// Who may do what.
#[derive(Clone, Debug)]
pub struct Access {
    anonymous: Rights,
}

impl Access {
    /// Lets anonymous callers do everything but hold leases without end, unless `endless` permits that too.
    pub fn open(endless: bool) -> Self {
        Self { anonymous: Rights { operator: true, endless } }
    }

    /// The caller of a connection without credentials.
    pub fn anonymous(&self) -> Caller {
        Caller { identity: None, rights: self.anonymous }
    }

    /// Permits or refuses an action.
    pub fn authorize(&self, caller: &Caller, namespace: &Namespace, action: Action<'_>) -> Result<(), Failure> {
        match action {
            Action::Query | Action::Watch => Ok(()),
            Action::Backup => {
                info!(target: "audit", by = ?caller.identity, "backup");
                need_operator(caller, namespace)
            }
            Action::Command(command) => self.authorize_command(caller, namespace, command),
            Action::Operate(change) => {
                info!(target: "audit", by = ?caller.identity, ?change, "change of the cluster");
                need_operator(caller, namespace)
            }
        }
    }

    fn authorize_command(&self, caller: &Caller, namespace: &Namespace, command: &Command) -> Result<(), Failure> {
        match command {
            Command::Revoke(revoke) => {
                info!(target: "audit", %namespace, by = ?caller.identity, reason = %revoke.reason, now = revoke.now, "revoke");
                need_operator(caller, namespace)
            }
            Command::Configure(_) => need_operator(caller, namespace),
            Command::Grant(_)
            | Command::Renew(_)
            | Command::Release(_)
            | Command::Claim(_)
            | Command::Unclaim(_)
            | Command::Leave(_)
            | Command::AskHandover(_)
            | Command::GrantAnew(_)
            | Command::ClaimMarked(_)
            | Command::Write(_) => Ok(()),
        }
    }
}

fn need_operator(caller: &Caller, namespace: &Namespace) -> Result<(), Failure> {
    if caller.rights.operator {
        return Ok(());
    }
    warn!(target: "audit", %namespace, by = ?caller.identity, right = "operator", "refused");
    Err(Failure::Denied("this needs the right `operator`".to_owned()))
}

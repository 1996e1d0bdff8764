//! Open calls that wait, by what they wait for.
//!
//! A call that breaks leaves its queue. A client that lost its connection repeats the call with the same lease id,
//! though, and the wait it finds is its own again. So a call leaves the queue only if no other call for the same thing
//! was open at the same time; otherwise the lease's ttl decides.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use leasehold_core::{Asks, Command, LeaseId, Namespace, ResourceName};
use parking_lot::Mutex;

/// What a call asks for.
#[derive(Debug, PartialEq, Eq)]
struct Subject {
    lease: LeaseId,
    namespace: Namespace,
    /// Sorted.
    resources: Vec<ResourceName>,
}

impl Hash for Subject {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // Ids are random: the rest would hardly tell more.
        self.lease.hash(state);
    }
}

/// What is known of the calls for one thing.
#[derive(Debug, Default)]
struct Known {
    /// The number of the latest call.
    latest: u64,
    open: usize,
}

/// All open calls that wait.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    known: Mutex<HashMap<Arc<Subject>, Known>>,
    /// How many things are waited for, so that nobody waiting costs nothing.
    count: AtomicUsize,
}

impl Calls {
    /// Enters a call that will wait; none for a command that cannot.
    pub(crate) fn enter(self: &Arc<Self>, namespace: &Namespace, command: &Command) -> Option<Call> {
        let subject = Arc::new(subject(namespace, command)?);
        let mut all = self.known.lock();
        let known = all.entry(Arc::clone(&subject)).or_default();
        known.latest += 1;
        known.open += 1;
        let (number, first) = (known.latest, known.open == 1);
        self.count.store(all.len(), Ordering::Release);
        Some(Call { calls: Arc::clone(self), subject, number, first })
    }

    /// Notes a call that will not wait: a repetition of one that does takes over from it.
    pub(crate) fn note(&self, namespace: &Namespace, command: &Command) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        let Some(subject) = subject(namespace, command) else { return };
        if let Some(known) = self.known.lock().get_mut(&subject) {
            known.latest += 1;
        }
    }
}

fn subject(namespace: &Namespace, command: &Command) -> Option<Subject> {
    let about = |lease, asks: &Asks| {
        let mut resources: Vec<ResourceName> = asks.claims.iter().map(|ask| ask.resource.clone()).collect();
        resources.sort();
        Subject { lease, namespace: namespace.clone(), resources }
    };
    match command {
        Command::Grant(grant) => Some(about(grant.id, &grant.asks)),
        Command::Claim(claim) => Some(about(claim.lease, &claim.asks)),
        Command::Renew(_)
        | Command::Release(_)
        | Command::Revoke(_)
        | Command::Unclaim(_)
        | Command::Leave(_)
        | Command::AskHandover(_)
        | Command::GrantAnew(_)
        | Command::ClaimMarked(_)
        | Command::Write(_)
        | Command::Configure(_) => None,
    }
}

/// An open call.
#[derive(Debug)]
pub(crate) struct Call {
    calls: Arc<Calls>,
    subject: Arc<Subject>,
    number: u64,
    /// Nobody else was there when it came.
    first: bool,
}

impl Call {
    /// Tells whether nobody else asked for the same thing while it was open.
    pub(crate) fn is_the_only_one(&self) -> bool {
        let known = self.calls.known.lock();
        self.first && known.get(&self.subject).is_none_or(|known| known.latest == self.number)
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let mut all = self.calls.known.lock();
        if let Some(known) = all.get_mut(&self.subject) {
            known.open -= 1;
            if known.open == 0 {
                all.remove(&self.subject);
            }
        }
        self.calls.count.store(all.len(), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use leasehold_core::{Ask, Claim, Mode};

    use super::*;

    fn claim(resource: &str) -> Command {
        let ask = Ask { resource: ResourceName::new(resource).unwrap(), mode: Mode::Exclusive };
        let asks = Asks { claims: vec![ask], ..Asks::default() };
        Command::Claim(Claim { lease: LeaseId::new(1).unwrap(), once: None, asks })
    }

    #[test]
    fn a_call_is_the_only_one_until_another_asks_for_the_same() {
        let (calls, here) = (Arc::new(Calls::default()), Namespace::new("a").unwrap());
        let first = calls.enter(&here, &claim("x")).unwrap();
        let _elsewhere = calls.enter(&here, &claim("y")).unwrap();
        assert!(first.is_the_only_one());
        let second = calls.enter(&here, &claim("x")).unwrap();
        assert!(!first.is_the_only_one() && !second.is_the_only_one());
        drop(second);
        assert!(!first.is_the_only_one(), "the other one may have been answered");
        let third = calls.enter(&here, &claim("x")).unwrap();
        drop(first);
        assert!(!third.is_the_only_one(), "so may the one before");
    }

    #[test]
    fn a_repetition_that_does_not_wait_counts_too() {
        let (calls, here) = (Arc::new(Calls::default()), Namespace::new("a").unwrap());
        calls.note(&here, &claim("x"));
        let first = calls.enter(&here, &claim("x")).unwrap();
        assert!(first.is_the_only_one());
        calls.note(&here, &claim("x"));
        assert!(!first.is_the_only_one());
        drop(first);
        assert!(calls.known.lock().is_empty());
    }
}

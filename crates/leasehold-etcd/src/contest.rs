//! Holding a name alone: what locks and elections have in common.
//!
//! A contender makes a claim on the resource of the name, with its key as marker: so it has a place in the queue, a token and
//! a history, and is never served after its lease has ended. Clients that contend with plain keys of their own, by the
//! recipe that etcd's libraries know, are respected: whoever has the claim is told so only when no plain key under the name
//! was created before its marker. A client that goes away while it waits leaves nothing behind.

use bytes::Bytes;
use leasehold_core::{
    Ask, Asks, Claim, ClaimMarked, Command, EntryView, Key, KeyRange, LeaseId, Marker, Mode, Outcome, Patience,
    Rejection, ResourceName, Revision, State, WriteOp,
};
use leasehold_service::{Done, Failure, Feed};
use tonic::{Code, Status};
use tracing::debug;

use crate::dialect::{Dialect, key};
use crate::errors::EtcdError;
use crate::names;
use crate::refusal::refused;

/// Who wants what.
#[derive(Clone, Debug)]
pub(crate) struct Contender {
    pub(crate) lease: LeaseId,
    pub(crate) resource: ResourceName,
    /// Everybody's keys.
    pub(crate) all: KeyRange,
    /// Its own.
    pub(crate) key: Key,
    pub(crate) value: Bytes,
}

impl Contender {
    pub(crate) fn new(name: &[u8], lease: LeaseId, value: Bytes) -> Result<Contender, Status> {
        Ok(Contender {
            lease,
            resource: names::resource(name)?,
            all: names::contenders(name),
            key: key(&names::contender(name, lease))?,
            value,
        })
    }
}

/// What a contender has got.
#[derive(Clone, Debug)]
pub(crate) struct Won {
    /// Its key, as it is.
    pub(crate) entry: EntryView,
    /// The revision at which that is so.
    pub(crate) revision: Revision,
}

impl Dialect {
    /// Waits until a contender holds the name alone. Whoever stops waiting gives its place up.
    pub(crate) async fn contend(&self, contender: Contender) -> Result<Won, Status> {
        let mut place = Place { dialect: self.clone(), contender, is_kept: false };
        let won = self.win(&place.contender).await;
        // What was won is the client's, and what was refused has no place. Without an answer it may have one.
        place.is_kept = won.as_ref().map_or_else(|status| status.code() != Code::Unavailable, |_| true);
        won
    }

    async fn win(&self, contender: &Contender) -> Result<Won, Status> {
        self.claim(contender).await.map_err(lost)?;
        let mut feed = None;
        loop {
            let look = |state: &State| look(state, self.namespace(), contender);
            let (seen, revision) = self.read(true, look).await?;
            match seen {
                Seen::Alone(entry) => return Ok(Won { entry, revision }),
                Seen::Gone => return Err(EtcdError::LockLeaseNotFound.into()),
                Seen::Behind => {}
            }
            let Some(feed) = &mut feed else {
                // Looked at once more: what changed before it was opened is not in it.
                let opened = self.service().feed(&self.caller(), self.namespace(), None).await;
                feed = Some(opened.map_err(refused)?);
                continue;
            };
            if !moved(feed).await {
                return Err(EtcdError::Stopped.into());
            }
        }
    }

    /// Claims the resource with the key as marker, and waits for it; one that has done so before waits along.
    async fn claim(&self, contender: &Contender) -> Result<(), Failure> {
        let Contender { lease, resource, key, value, .. } = contender;
        let asks = Asks {
            claims: vec![Ask { resource: resource.clone(), mode: Mode::Exclusive }],
            patience: Patience::Endless,
            ..Asks::default()
        };
        let command = Command::ClaimMarked(ClaimMarked {
            claim: Claim { lease: *lease, once: None, asks },
            marker: Marker { key: key.clone(), value: value[..].into() },
        });
        match self.execute(command).await {
            Ok(Done { outcome: Outcome::Claimed(view), .. })
                if view.held.iter().any(|held| held.resource == *resource) =>
            {
                return Ok(());
            }
            Err(Failure::Rejected(rejection)) if matches!(*rejection, Rejection::AlreadyClaimed { .. }) => {}
            other => drop(other?),
        }
        self.service().until_held(&self.caller(), self.namespace(), *lease, resource).await.map(drop)
    }
}

/// A place in the queue, or at its head. It is given up when it is dropped, unless it is kept.
struct Place {
    dialect: Dialect,
    contender: Contender,
    is_kept: bool,
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.is_kept {
            return;
        }
        let (dialect, key) = (self.dialect.clone(), self.contender.key.clone());
        // Whatever was asked for before is carried out before.
        tokio::spawn(async move {
            let left = dialect.write_one(WriteOp::Delete { range: KeyRange::One(key) }).await;
            debug!(left = left.is_ok(), "a contender went away");
        });
    }
}

/// The refusal of a contender: of one whose lease is gone, or whose key was deleted while it waited, in etcd's own words.
fn lost(failure: Failure) -> Status {
    let ended = |rejection: &Rejection| {
        use Rejection::{Ended, NotYours, UnknownLease, UnknownWait};
        matches!(rejection, UnknownLease | Ended(_) | NotYours | UnknownWait)
    };
    let gone = matches!(&failure, Failure::Rejected(rejection) if ended(rejection));
    // Its patience has no end, so if its wait is over its key was deleted.
    let left = matches!(failure, Failure::WaitLeft | Failure::WaitElapsed { .. });
    if gone || left { EtcdError::LockLeaseNotFound.into() } else { refused(failure) }
}

/// How a contender that has the claim stands.
enum Seen {
    /// Nobody was there before it.
    Alone(EntryView),
    /// A plain key was there before it.
    Behind,
    /// It has lost the claim again.
    Gone,
}

fn look(state: &State, namespace: &leasehold_core::Namespace, contender: &Contender) -> Seen {
    let Some(own) = state.entry(namespace, &contender.key) else { return Seen::Gone };
    if state.marked(namespace, &contender.key).is_none() {
        return Seen::Gone;
    }
    let (all, _) = state.entries(namespace, &contender.all, usize::MAX);
    let before = |entry: &EntryView| entry.created < own.created && state.marked(namespace, &entry.key).is_none();
    if all.iter().any(before) { Seen::Behind } else { Seen::Alone(own) }
}

/// Waits for the next change; tells whether there can be one.
async fn moved(feed: &mut Feed) -> bool {
    loop {
        match feed.ready() {
            // Whatever was missed, the state is looked at.
            Ok(Some(_)) | Err(_) => return true,
            Ok(None) => {
                if !feed.moved().await {
                    return false;
                }
            }
        }
    }
}

//! The node as the log of the service: proposals, parcels, read barriers, who leads.

use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use leasehold_core::{Applied, LeaderId};
use leasehold_service::log::{Answered, Delivered, Leadership, Log, Machine, Parcel, Unavailable};
use openraft::errors::ClientWriteError;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};

use crate::barrier::followed;
use crate::group::Group;
use crate::node::Node;
use crate::peer::Proof;
use crate::task::AbortOnDrop;
use crate::types::{PAYLOAD_MAX, Payload, Reply, WriteResult};

impl<M: Machine> Log for Node<M> {
    fn propose(&self, leader: LeaderId, payload: Bytes, done: Answered) -> impl Future<Output = ()> + Send {
        let leadership = self.leadership();
        let fatal = self.group.files.fatal.clone();
        let length = payload.len();
        async move {
            if length > PAYLOAD_MAX {
                let text = format!("nothing was appended: the payload has {length} bytes, at most {PAYLOAD_MAX} fit");
                return done(Err(Unavailable::Unknown(text)));
            }
            if let Some(reason) = fatal.reason() {
                return done(Err(Unavailable::Stopped(reason)));
            }
            let reply = Reply::new(move |answer| done(answered(answer, &leadership)));
            // A failure drops the reply, which answers by itself.
            let _ = self.group.raft.write(Payload::Bytes(payload)).with_leader(leader).responder(reply).await;
        }
    }

    async fn forward(&self, to: LeaderId, parcel: Bytes, done: Delivered) {
        self.group.forwarder.forward(to, parcel, done).await;
    }

    fn parcels(&self) -> Option<mpsc::Receiver<Parcel>> {
        self.group.parcels.lock().take()
    }

    fn staleness(&self) -> Duration {
        match *self.group.leadership.borrow() {
            Leadership::Leads(_) => Duration::ZERO,
            Leadership::CutOff(_) | Leadership::Follows(_) | Leadership::Unknown => self.group.heard.age(),
        }
    }

    fn name_of(&self, node: u64) -> String {
        self.group.changes.roster.name(node)
    }

    async fn read_barrier(&self) -> Result<(), Unavailable> {
        let Group { leadership, reader, progress, files, .. } = &self.group;
        if !matches!(*leadership.borrow(), Leadership::Leads(_)) {
            return self.ask_to_read().await;
        }
        // Without a task of its own: a leader that is ready needs no other node to apply what is committed.
        match reader.prover.prove().await {
            Proof::Index(index) if progress.next() > index => Ok(()),
            Proof::Index(index) => tokio::select! {
                () = progress.wait_applied(index) => Ok(()),
                reason = files.fatal.wait() => Err(Unavailable::Stopped(reason)),
            },
            Proof::NotLeader(_) => self.ask_to_read().await,
            Proof::Unproven(words) => Err(reader.unproven(&words)),
        }
    }

    fn runtime(&self) -> Handle {
        self.handle.clone()
    }

    fn leadership(&self) -> watch::Receiver<Leadership> {
        self.group.leadership.clone()
    }
}

impl<M: Machine> Node<M> {
    /// The read barrier where another node leads or nobody does.
    async fn ask_to_read(&self) -> Result<(), Unavailable> {
        let mut passed = AbortOnDrop(self.handle.spawn(self.group.reader.clone().barrier()));
        (&mut passed.0).await.unwrap_or_else(|_| Err(Unavailable::Stopped("the node is stopping".into())))
    }
}

/// Translates openraft's answer; `None` is a responder that was dropped unanswered.
fn answered(answer: Option<WriteResult>, leadership: &watch::Receiver<Leadership>) -> Result<Applied, Unavailable> {
    match answer {
        Some(Ok(response)) => Ok(response.data),
        Some(Err(ClientWriteError::ForwardToLeader(_))) => Err(not_leader(leadership)),
        // Its place in the log was taken over by another leader, who may yet have committed it.
        Some(Err(error @ ClientWriteError::LogEntryDiscarded(_))) => Err(Unavailable::Unknown(error.to_string())),
        Some(Err(error @ (ClientWriteError::ChangeMembershipError(_) | ClientWriteError::PreconditionFailed(_)))) => {
            Err(Unavailable::Unknown(error.to_string()))
        }
        None => Err(Unavailable::Unknown("the log stopped before it answered".into())),
    }
}

fn not_leader(leadership: &watch::Receiver<Leadership>) -> Unavailable {
    Unavailable::NotLeader { leader: followed(leadership) }
}

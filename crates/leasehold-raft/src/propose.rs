//! The node as the log of the service: proposals, read barriers, who leads.

use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use leasehold_core::{Applied, LeaderId};
use leasehold_service::log::{Answered, Delivered, Leadership, Log, Machine, Parcel, Unavailable};
use openraft::ReadPolicy;
use openraft::errors::{ClientWriteError, LinearizableReadError, RaftError};
use tokio::sync::{mpsc, watch};

use crate::node::Node;
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
            let in_flight = self.group.awake.begin(length);
            let reply = Reply::new(move |answer| {
                drop(in_flight);
                done(answered(answer, &leadership));
            });
            // A failure drops the reply, which answers by itself.
            let _ = self.group.raft.write(Payload::Bytes(payload)).with_leader(leader).responder(reply).await;
        }
    }

    async fn forward(&self, _: LeaderId, _: Bytes, done: Delivered) {
        done(Err(Unavailable::Unreachable("this node has no way to hand commands to others".into())));
    }

    fn parcels(&self) -> Option<mpsc::Receiver<Parcel>> {
        None
    }

    fn staleness(&self) -> Duration {
        Duration::ZERO
    }

    fn name_of(&self, node: u64) -> String {
        node.to_string()
    }

    async fn read_barrier(&self) -> Result<(), Unavailable> {
        let proof = self.group.raft.get_read_linearizer(ReadPolicy::ReadIndex).await.map_err(|error| match error {
            RaftError::APIError(LinearizableReadError::ForwardToLeader(_)) => not_leader(&self.leadership()),
            RaftError::APIError(LinearizableReadError::QuorumNotEnough(error)) => {
                Unavailable::Unknown(error.to_string())
            }
            RaftError::Fatal(error) => {
                Unavailable::Stopped(self.group.files.fatal.reason().unwrap_or_else(|| error.to_string()))
            }
        })?;
        let index = proof.read_log_id().log_id().index;
        if self.group.progress.next() > index {
            return Ok(());
        }
        tokio::select! {
            () = self.group.progress.wait_applied(index) => Ok(()),
            reason = self.group.files.fatal.wait() => Err(Unavailable::Stopped(reason)),
        }
    }

    fn leadership(&self) -> watch::Receiver<Leadership> {
        self.group.leadership.clone()
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
    let leader = match *leadership.borrow() {
        Leadership::Follows(leader) => Some(leader),
        Leadership::Unknown | Leadership::Leads(_) | Leadership::CutOff(_) => None,
    };
    Unavailable::NotLeader { leader }
}

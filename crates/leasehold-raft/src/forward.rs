//! Hands parcels of commands to the node that leads, and tells what became of each, exactly once.
//!
//! What was certainly never sent is told apart from what may have arrived: only a parcel that this node did not send, or
//! that the other node refused, was certainly not proposed.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use leasehold_core::LeaderId;
use leasehold_service::log::{Delivered, Leadership, Machine, Unavailable};
use openraft::Raft;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::machine::Applier;
use crate::peer::{ANSWER, FAILED, Link, LinkError, Links, PARCEL, Purpose, delivery, put_parcel};
use crate::types::{PAYLOAD_MAX, Types, address_of};

/// Longer than any commit is waited for.
const ANSWER_PATIENCE: Duration = Duration::from_secs(20);

/// What handing on needs.
pub(crate) struct Forwarder<M: Machine> {
    pub(crate) raft: Raft<Types, Applier<M>>,
    pub(crate) leadership: watch::Receiver<Leadership>,
    /// None on a node that stays alone.
    pub(crate) links: Option<Arc<Links>>,
    pub(crate) runtime: Handle,
}

impl<M: Machine> Forwarder<M> {
    /// Sends a parcel; returns when it is on its way or certainly will not be.
    pub(crate) async fn forward(&self, to: LeaderId, parcel: Bytes, done: Delivered) {
        let mut outcome = Outcome { done: Some(done), sent: false };
        let link = match self.link(to, parcel.len()) {
            Ok(link) => link,
            Err(unavailable) => return outcome.tell(Err(unavailable)),
        };
        let mut leadership = self.leadership.clone();
        let place = tokio::select! {
            biased;
            place = link.parcels().acquire_owned() => place,
            // Its answers may never come.
            leader = another(&mut leadership, to) => {
                return outcome.tell(Err(Unavailable::NotLeader { leader }));
            }
        };
        let body = put_parcel(to, &parcel);
        drop(parcel);
        let answer = link.call(PARCEL, body);
        outcome.sent = true;
        self.runtime.spawn(async move {
            let result = match timeout(ANSWER_PATIENCE, answer).await {
                Ok(Ok(frame)) if frame.kind == PARCEL | ANSWER => delivery(&frame.body).unwrap_or_else(|error| {
                    Err(Unavailable::Unknown(format!("the answer of the leader does not read: {error}")))
                }),
                // It could not read the request.
                Ok(Ok(frame)) if frame.kind == FAILED => {
                    Err(Unavailable::Unreachable(String::from_utf8_lossy(&frame.body).into_owned()))
                }
                Ok(Ok(frame)) => Err(Unavailable::Unknown(format!("the leader answers with kind {}", frame.kind))),
                Ok(Err(LinkError::Unreachable(words))) => Err(Unavailable::Unreachable(words)),
                Ok(Err(LinkError::Broken(words))) => {
                    Err(Unavailable::Unknown(format!("the connection to the leader broke: {words}")))
                }
                Err(_) => Err(Unavailable::Unknown("the leader did not answer in time".into())),
            };
            drop(place);
            outcome.tell(result);
        });
    }

    fn link(&self, to: LeaderId, length: usize) -> Result<Arc<Link>, Unavailable> {
        let unreachable = |words: &str| Unavailable::Unreachable(words.into());
        if length > PAYLOAD_MAX {
            let text = format!("nothing was sent: the parcel has {length} bytes, at most {PAYLOAD_MAX} fit");
            return Err(Unavailable::Unknown(text));
        }
        let links = self.links.as_ref().ok_or_else(|| unreachable("this node has no way to others"))?;
        if to.node == links.own_id() {
            return Err(unreachable("it is this node"));
        }
        let address = address_of(&self.raft, to.node)
            .ok_or_else(|| Unavailable::Unreachable(format!("node {} is not a member", to.node)))?;
        Ok(links.link(to.node, &address, Purpose::Forwards))
    }
}

/// Waits until this node no longer follows `leader`; returns whom it follows then.
async fn another(leadership: &mut watch::Receiver<Leadership>, leader: LeaderId) -> Option<LeaderId> {
    let other = leadership.wait_for(|present| *present != Leadership::Follows(leader)).await;
    match other.as_deref() {
        Ok(Leadership::Follows(other)) => Some(*other),
        Ok(Leadership::Leads(_) | Leadership::CutOff(_) | Leadership::Unknown) | Err(_) => None,
    }
}

/// Tells what became of a parcel, also if nobody finds out.
struct Outcome {
    done: Option<Delivered>,
    sent: bool,
}

impl Outcome {
    fn tell(&mut self, result: Result<(), Unavailable>) {
        if let Some(done) = self.done.take() {
            done(result);
        }
    }
}

impl Drop for Outcome {
    fn drop(&mut self) {
        let words = "the node is stopping".to_string();
        let result = if self.sent { Unavailable::Unknown(words) } else { Unavailable::Unreachable(words) };
        self.tell(Err(result));
    }
}

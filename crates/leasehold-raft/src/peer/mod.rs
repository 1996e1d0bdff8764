//! Nodes that reach each other: framed TCP, four connections per peer, so that a heartbeat never waits behind data.
//!
//! `frame.rs` is the envelope, `hello.rs` the handshake, `message.rs` and `parcel.rs` what is said; docs/formats/peer.md has
//! every byte. `link.rs` keeps one connection to a peer, `links.rs` all of them, `client.rs` is openraft's way out over links,
//! `serve.rs` the way in; `take.rs` takes commands from followers, `receive.rs` a streamed snapshot. `seen.rs` remembers
//! which data directory stood behind each node id, `meet.rs` sees to it that all have met, `agree.rs` compares the nodes'
//! states, `formation.rs` says who belongs to a new cluster, `join.rs` is the way into a running one, `question.rs` asks and
//! `answer.rs` answers who is to belong to it. Connections (`stream.rs`) use TLS if there are certificates
//! (`secure.rs`); plain ones stay on loopback, unless the operator asks for more.

mod agree;
mod answer;
mod client;
mod formation;
mod frame;
pub(crate) mod fuzzing;
mod hello;
mod join;
mod link;
mod links;
mod meet;
mod message;
mod parcel;
mod question;
mod receive;
mod secure;
mod seen;
mod serve;
mod stream;
mod take;

pub use formation::{Formation, PeerOptions, is_loopback};
pub use secure::{NODE_NAME, PeerTls};

pub(crate) use agree::Comparison;
pub(crate) use client::Peers;
pub(crate) use formation::{check_address, check_name};
pub(crate) use hello::Purpose;
pub(crate) use join::{be_admitted, find_another};
pub(crate) use link::{Link, LinkError};
pub(crate) use links::Links;
pub(crate) use meet::meet_all;
pub(crate) use message::{ANSWER, FAILED};
pub(crate) use parcel::{BARRIER, PARCEL, Proof, delivery, proof, put_parcel};
pub(crate) use question::{Joiner, Question, Verdict, ask};
pub(crate) use secure::Secure;
pub(crate) use seen::Seen;
pub(crate) use serve::{Door, Inside, VoteGuard};

/// Parcels on their way to one peer.
pub(crate) const PARCELS_IN_FLIGHT: usize = 8;

use std::sync::Arc;

use crate::directory::Identity;
use crate::roster::Roster;
use crate::world::{self, Elsewhere};

/// Who this node is, towards its peers.
#[derive(Clone, Debug)]
pub(crate) struct Local {
    pub(crate) identity: Identity,
    pub(crate) group: u32,
    pub(crate) seen: Arc<Seen>,
    /// What makes connections secure; none if they are plain.
    pub(crate) secure: Option<Arc<Secure>>,
    /// Who belongs to the cluster.
    pub(crate) roster: Arc<Roster>,
    /// What this node stands on.
    pub(crate) world: Elsewhere,
}

impl Local {
    /// Compares a node's incarnation with what the membership and this node know of it, and remembers a new one durably.
    pub(crate) async fn remember(&self, node: u64, incarnation: u64) -> Result<(), String> {
        self.roster.check(node, incarnation)?;
        let seen = self.seen.clone();
        let check = move || seen.check(node, incarnation);
        world::blocking(check).await.unwrap_or_else(|error| Err(error.to_string()))
    }
}

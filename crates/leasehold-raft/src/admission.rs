//! How a data directory comes to its identity before a node is started on it.
//!
//! A directory that has one keeps it, whatever the options say of joining; so a node that joined can be restarted as it
//! was started, at any time. An empty one gets the identity its options give it, or asks a running cluster and waits.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::net::TcpListener;

use crate::directory::{Directory, Identity, Unclaimed};
use crate::error::OpenError;
use crate::group::listen;
use crate::options::Options;
use crate::peer::{Formation, Joiner, Local, PeerOptions, Secure, Seen, be_admitted, find_another};
use crate::roster::Roster;

/// A directory with an identity, and what came to light on the way to it.
pub(crate) struct Claimed {
    pub(crate) directory: Directory,
    /// What makes connections secure.
    pub(crate) secure: Option<Arc<Secure>>,
    /// Where it listens, if others were told so already.
    pub(crate) listener: Option<TcpListener>,
}

/// Locks the directory and sees to it that it has an identity; `tell` hears why that takes long.
pub(crate) async fn claim(options: Options, tell: impl Fn(&str)) -> Result<Claimed, OpenError> {
    let Options { data, peers, .. } = options;
    let tls = peers.as_ref().and_then(|peers| peers.tls.clone());
    let secure = blocking(move || Ok(tls.map(Secure::open).transpose()?.map(Arc::new))).await?;
    let path = data.clone();
    let unclaimed = blocking(move || Unclaimed::open(&path)).await?;
    let (wanted, listener) = match (&peers, unclaimed.identity) {
        (Some(PeerOptions { formation: Formation::Join(addresses), .. }), Some(identity)) => {
            refuse_another(data, identity, secure.clone(), addresses).await?;
            (None, None)
        }
        (Some(peers @ PeerOptions { formation: Formation::Join(addresses), .. }), None) => {
            let (identity, listener) = join(data, peers, secure.clone(), addresses, tell).await?;
            (Some(identity), Some(listener))
        }
        (Some(peers), _) => (peers.identity(), None),
        (None, _) => (None, None),
    };
    let directory = blocking(move || unclaimed.claim(wanted)).await?;
    Ok(Claimed { directory, secure, listener })
}

/// A directory of another cluster must not be taken for one that has joined already.
async fn refuse_another(
    dir: PathBuf,
    found: Identity,
    secure: Option<Arc<Secure>>,
    addresses: &[String],
) -> Result<(), OpenError> {
    let local = stranger(dir.clone(), found, secure).await?;
    match find_another(&local, addresses).await {
        Some((address, cluster)) => Err(OpenError::AnotherCluster { dir, found, address, cluster }),
        None => Ok(()),
    }
}

async fn join(
    dir: PathBuf,
    peers: &PeerOptions,
    secure: Option<Arc<Secure>>,
    addresses: &[String],
    tell: impl Fn(&str),
) -> Result<(Identity, TcpListener), OpenError> {
    let local = stranger(dir.clone(), Identity { cluster: 0, node: 0 }, secure).await?;
    if local.seen.knows_any() {
        return Err(OpenError::LostLog { dir });
    }
    // The leader looks whether the address answers, and sends the log as soon as it has admitted the node.
    let listener = listen(peers.listen).await?;
    let (name, address) = (peers.name.clone(), peers.own_address());
    let joiner = Joiner { name, address, incarnation: local.seen.incarnation() };
    Ok((be_admitted(&local, addresses, joiner, tell).await?, listener))
}

/// Who asks, without a log of its own to tell who else belongs to the cluster.
async fn stranger(dir: PathBuf, identity: Identity, secure: Option<Arc<Secure>>) -> Result<Local, OpenError> {
    let seen = Arc::new(blocking(move || Seen::open(&dir)).await?);
    let roster = Arc::new(Roster::new(identity.node, seen.gone()));
    Ok(Local { identity, group: 0, seen, secure, roster })
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, OpenError> + Send + 'static,
) -> Result<T, OpenError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(OpenError::Stopped(error.to_string())))
}

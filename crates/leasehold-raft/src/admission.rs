//! How a data directory comes to its identity before a node is started on it.
//!
//! A directory that has one keeps it, whatever the options say of joining; so a node that joined can be restarted as it
//! was started, at any time. An empty one gets the identity its options give it, or asks a running cluster and waits.

use std::path::PathBuf;
use std::sync::Arc;

use crate::directory::{Directory, Identity, Unclaimed};
use crate::error::OpenError;
use crate::group::listen;
use crate::options::Options;
use crate::peer::{Formation, Joiner, Local, PeerOptions, Secure, Seen, be_admitted, find_another};
use crate::roster::Roster;
use crate::world::{self, Elsewhere, Listener};

/// A directory with an identity, and what came to light on the way to it.
pub(crate) struct Claimed {
    pub(crate) directory: Directory,
    /// What makes connections secure.
    pub(crate) secure: Option<Arc<Secure>>,
    /// Where it listens, if others were told so already.
    pub(crate) listener: Option<Listener>,
}

/// Locks the directory and sees to it that it has an identity; `tell` hears why that takes long.
pub(crate) async fn claim(options: Options, tell: impl Fn(&str)) -> Result<Claimed, OpenError> {
    let Options { data, peers, world, .. } = options;
    let tls = peers.as_ref().and_then(|peers| peers.tls.clone());
    let secure = blocking(move || Ok(tls.map(Secure::open).transpose()?.map(Arc::new))).await?;
    let path = data.clone();
    let joins = peers.as_ref().is_some_and(|peers| matches!(peers.formation, Formation::Join(_)));
    // Together, so that the directory is locked for as long as anything is written to it.
    let open = move || Ok((Unclaimed::open(&path)?, joins.then(|| Seen::open(&path)).transpose()?));
    let (unclaimed, seen) = blocking(open).await?;
    let (wanted, listener) = match (&peers, seen) {
        (Some(peers @ PeerOptions { formation: Formation::Join(addresses), .. }), Some(seen)) => {
            let identity = unclaimed.identity.unwrap_or(Identity { cluster: 0, node: 0 });
            let local = stranger(identity, seen, secure.clone(), world);
            match unclaimed.identity {
                Some(_) => {
                    refuse_another(data, &local, addresses).await?;
                    (None, None)
                }
                None => {
                    let (identity, listener) = join(data, peers, &local, addresses, tell).await?;
                    (Some(identity), Some(listener))
                }
            }
        }
        (Some(peers), _) => (peers.identity(), None),
        (None, _) => (None, None),
    };
    let directory = blocking(move || unclaimed.claim(wanted)).await?;
    Ok(Claimed { directory, secure, listener })
}

/// A directory of another cluster must not be taken for one that has joined already.
async fn refuse_another(dir: PathBuf, local: &Local, addresses: &[String]) -> Result<(), OpenError> {
    match find_another(local, addresses).await {
        Some((address, cluster)) => Err(OpenError::AnotherCluster { dir, found: local.identity, address, cluster }),
        None => Ok(()),
    }
}

async fn join(
    dir: PathBuf,
    peers: &PeerOptions,
    local: &Local,
    addresses: &[String],
    tell: impl Fn(&str),
) -> Result<(Identity, Listener), OpenError> {
    if local.seen.knows_any() {
        return Err(OpenError::LostLog { dir });
    }
    // The leader looks whether the address answers, and sends the log as soon as it has admitted the node.
    let listener = listen(peers.listen, &local.world).await?;
    let (name, address) = (peers.name.clone(), peers.own_address());
    let joiner = Joiner { name, address, incarnation: local.seen.incarnation() };
    Ok((be_admitted(local, addresses, joiner, tell).await?, listener))
}

/// Who asks, without a log of its own to tell who else belongs to the cluster.
fn stranger(identity: Identity, seen: Seen, secure: Option<Arc<Secure>>, world: Elsewhere) -> Local {
    let roster = Arc::new(Roster::new(identity.node, seen.gone()));
    Local { identity, group: 0, seen: Arc::new(seen), secure, roster, world }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, OpenError> + Send + 'static,
) -> Result<T, OpenError> {
    let done = world::blocking(work).await;
    done.unwrap_or_else(|error| Err(OpenError::Stopped(error.to_string())))
}

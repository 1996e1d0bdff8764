//! The connections this node keeps to others, one for each peer and purpose, shared by all who have something to say.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::runtime::Handle;

use super::Local;
use super::hello::Purpose;
use super::link::{Link, Reached};

/// Every link of this node.
#[derive(Debug)]
pub(crate) struct Links {
    local: Local,
    /// Where the tasks of links run, whoever needs them first.
    runtime: Handle,
    links: Mutex<BTreeMap<(u64, Purpose), Arc<Link>>>,
    reached: Mutex<BTreeMap<u64, Reached>>,
}

impl Links {
    pub(crate) fn new(local: Local, runtime: Handle) -> Links {
        Links { local, runtime, links: Mutex::default(), reached: Mutex::default() }
    }

    /// The id of this node.
    pub(crate) fn own_id(&self) -> u64 {
        self.local.identity.node
    }

    /// The name of a node, for people.
    pub(crate) fn name(&self, node: u64) -> String {
        self.local.roster.name(node)
    }

    /// A link is replaced when the address of its peer has changed.
    pub(crate) fn link(&self, target: u64, address: &str, purpose: Purpose) -> Arc<Link> {
        let mut links = self.links.lock();
        let link = links.get(&(target, purpose)).filter(|link| link.address == address).cloned();
        link.unwrap_or_else(|| {
            let _inside = self.runtime.enter();
            let reached = self.reached.lock().entry(target).or_default().clone();
            let link = Arc::new(Link::start(self.local.clone(), target, address.to_owned(), purpose, reached));
            links.insert((target, purpose), link.clone());
            link
        })
    }
}

//! The entries of a namespace in one number: nodes with the same entries have the same one.
//!
//! It is taken from a frozen view in a blocking thread, so commands go on meanwhile; one at a time, because what
//! changes meanwhile is kept twice. It is told by this node of what it has applied, without asking any other.

use std::sync::Arc;

use leasehold_core::{Caller, EntryRecord, Namespace, Revision, View};
use tokio::sync::Semaphore;

use crate::access::Action;
use crate::{Failure, Service};

/// The entries of a namespace in one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    /// The revision of the state it was taken from.
    pub revision: Revision,
    /// The number: a CRC-32 of all entries, by key.
    pub hash: u32,
}

/// Lets one fingerprint be taken at a time.
#[derive(Debug)]
pub(crate) struct Fingerprints(Arc<Semaphore>);

impl Default for Fingerprints {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(1)))
    }
}

impl Service {
    /// The entries that this node has in a namespace, in one number.
    pub async fn fingerprint(&self, caller: &Caller, namespace: &Namespace) -> Result<Fingerprint, Failure> {
        self.access().authorize(caller, namespace, Action::Query)?;
        let stopped = || Failure::ShuttingDown { may_have_happened: false };
        let place = Arc::clone(&self.fingerprints().0).acquire_owned().await.map_err(|_| stopped())?;
        let (view, namespace) = (self.replica().frozen_state(), namespace.clone());
        let taken = tokio::task::spawn_blocking(move || {
            let _place = place;
            taken(&view, &namespace)
        });
        taken.await.map_err(|_| stopped())
    }
}

fn taken(view: &View, namespace: &Namespace) -> Fingerprint {
    let mut sum = crc32fast::Hasher::new();
    for entry in view.entries(namespace) {
        add(&mut sum, &entry);
    }
    Fingerprint { revision: view.revision(), hash: sum.finalize() }
}

/// Adds an entry. Lengths go before bytes, or two entries could look like two others.
fn add(sum: &mut crc32fast::Hasher, entry: &EntryRecord) {
    for bytes in [entry.key.as_bytes(), &entry.value] {
        sum.update(&(bytes.len() as u64).to_le_bytes());
        sum.update(bytes);
    }
    let lease = entry.lease.map_or(0, |lease| lease.number());
    for number in [entry.version, entry.created.0, entry.modified.0, lease] {
        sum.update(&number.to_le_bytes());
    }
}

//! Checkpoints: the leader puts one into the log when it has grown enough; every node takes its state exactly there.
//!
//! Nodes write snapshots at different places, so their files say nothing about whether the states are the same. A
//! checkpoint is one place for all. The view taken there is hashed in the background, one at a time and with half
//! of a core at most; a newer view replaces one that still waits. What the hashes tell is left to `agreement.rs`.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Instant;

use leasehold_log::LogPosition;
use leasehold_service::log::{Leadership, Machine, View};
use openraft::Raft;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tokio::sync::{Notify, oneshot, watch};

use crate::agreement::Hash;
use crate::machine::{Applier, Progress};
use crate::types::{Payload, Reply, Types};

/// After so many bytes the hashing rests for as long as they took.
const PIECE: usize = 1 << 20;

/// The state of this node at a checkpoint.
#[derive(Debug)]
pub(crate) struct Checkpoint<V> {
    pub(crate) at: LogPosition,
    /// Who voted there.
    pub(crate) voters: BTreeSet<u64>,
    pub(crate) view: V,
}

/// The newest checkpoint that is not hashed yet.
#[derive(Debug)]
pub(crate) struct Checkpoints<V> {
    newest: Mutex<Option<Checkpoint<V>>>,
    arrived: Notify,
}

impl<V> Default for Checkpoints<V> {
    fn default() -> Checkpoints<V> {
        Checkpoints { newest: Mutex::new(None), arrived: Notify::new() }
    }
}

impl<V: View> Checkpoints<V> {
    pub(crate) fn put(&self, checkpoint: Checkpoint<V>) {
        let before = self.newest.lock().replace(checkpoint);
        // Outside of the lock: a view can be large.
        drop(before);
        self.arrived.notify_one();
    }

    /// Waits for a checkpoint; for one caller.
    pub(crate) async fn next(&self) -> Checkpoint<V> {
        loop {
            if let Some(checkpoint) = self.newest.lock().take() {
                return checkpoint;
            }
            self.arrived.notified().await;
        }
    }
}

/// Hashes a state on a blocking thread.
pub(crate) async fn hash<V: View>(view: V) -> io::Result<Hash> {
    let work = move || {
        let mut out = Hashing { hasher: Sha256::new(), bytes: 0, since: Instant::now() };
        view.write(&mut out)?;
        Ok(Hash(out.hasher.finalize().into()))
    };
    crate::world::blocking(work).await.map_err(io::Error::other)?
}

/// Hashes what is written to it, with pauses.
struct Hashing {
    hasher: Sha256,
    /// Since the last pause.
    bytes: usize,
    since: Instant,
}

impl Write for Hashing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.hasher.update(bytes);
        self.bytes += bytes.len();
        if self.bytes >= PIECE {
            std::thread::sleep(self.since.elapsed());
            self.bytes = 0;
            self.since = Instant::now();
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Proposes a checkpoint whenever this node leads and the log has grown enough since the last one.
pub(crate) async fn propose_due<M: Machine>(
    raft: Raft<Types, Applier<M>>,
    progress: Arc<Progress>,
    mut leadership: watch::Receiver<Leadership>,
) {
    loop {
        let now = *leadership.borrow_and_update();
        if let (Leadership::Leads(leader), true) = (now, progress.is_checkpoint_due()) {
            let (done, answered) = oneshot::channel();
            let reply = Reply::new(move |_| drop(done));
            if raft.write(Payload::Checkpoint).with_leader(leader).responder(reply).await.is_err() {
                return;
            }
            // Applied, or refused: then another leads, who sees to it.
            let _: Result<(), _> = answered.await;
        }
        tokio::select! {
            () = progress.checkpoint_due() => {}
            changed = leadership.changed() => if changed.is_err() { return },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Text(Vec<u8>);

    impl View for Text {
        fn write(&self, out: &mut dyn Write) -> io::Result<()> {
            self.0.chunks(1000).try_for_each(|piece| out.write_all(piece))
        }
    }

    #[tokio::test]
    async fn a_hash_is_that_of_the_bytes_written_however_they_are_cut() {
        assert_eq!(hash(Text(b"abc".to_vec())).await.unwrap().to_string(), "ba7816bf8f01cfea");
        let long: Vec<u8> = (0..3 << 20).map(|n| (n % 251) as u8).collect();
        let whole = Hash(Sha256::digest(&long).into());
        assert_eq!(hash(Text(long)).await.unwrap(), whole);
    }

    #[tokio::test]
    async fn a_newer_checkpoint_replaces_one_that_waits() {
        let checkpoints = Checkpoints::default();
        for index in [7, 8] {
            let at = LogPosition { index, ..LogPosition::default() };
            checkpoints.put(Checkpoint { at, voters: BTreeSet::new(), view: Text(Vec::new()) });
        }
        assert_eq!(checkpoints.next().await.at.index, 8);
        let late = tokio::time::timeout(std::time::Duration::from_millis(10), checkpoints.next()).await;
        assert!(late.is_err(), "there is no other");
    }
}

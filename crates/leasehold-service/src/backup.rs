//! Backups of a running service: everything acknowledged before, written out piece by piece while commands go on.
//!
//! A backup is a frozen view, taken after a read barrier, and written from a blocking thread as fast as it is taken.
//! Neither the state nor the file is ever in memory as a whole. There is one at a time, because what changes meanwhile
//! is kept twice, and one that nobody takes on is given up. The form of the bytes is `leasehold-log`'s.

use std::io::{self, BufWriter, Write};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use leasehold_core::{Caller, LeaseTime, Namespace, Revision, View};
use leasehold_log::{BackupHeader, write_backup};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tracing::{info, warn};

use crate::access::Action;
use crate::clock::wall_time;
use crate::{Failure, Service};

/// How many pieces may wait to be taken.
const AHEAD: usize = 4;
/// How many bytes a piece has, about.
const PIECE: usize = 256 << 10;
/// How long a piece may wait to be taken before the backup is given up.
const TAKE_WITHIN: Duration = Duration::from_secs(60);
/// When a refused caller should try again.
const RETRY_AFTER: Duration = Duration::from_secs(10);

/// A backup on its way out.
#[derive(Debug)]
pub struct Backup {
    revision: Revision,
    now: LeaseTime,
    pieces: mpsc::Receiver<io::Result<Bytes>>,
}

impl Backup {
    /// The revision of the state in it.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// The lease time of the state in it.
    pub fn now(&self) -> LeaseTime {
        self.now
    }

    /// The next piece of the file; none at its end. After an error the file is not whole.
    pub async fn next(&mut self) -> Option<io::Result<Bytes>> {
        self.pieces.recv().await
    }
}

/// Lets one backup go on at a time.
#[derive(Debug)]
pub(crate) struct Backups(Arc<Semaphore>);

impl Default for Backups {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(1)))
    }
}

impl Service {
    /// Begins a backup of everything that was acknowledged before. An operator's right.
    pub async fn backup(&self, caller: &Caller) -> Result<Backup, Failure> {
        let namespace = Namespace::new("system").expect("it is a well-formed name");
        self.access().authorize(caller, &namespace, Action::Backup)?;
        let busy = |_| Failure::Overloaded { retry_after: RETRY_AFTER };
        let place = Arc::clone(&self.backups().0).try_acquire_owned().map_err(busy)?;
        self.read_barrier().await?;
        let view = self.replica().frozen_state();
        let (revision, now) = (view.revision(), view.now());
        let (send, pieces) = mpsc::channel(AHEAD);
        let writing = Writing { view, place, out: Pipe { send, stop: self.stopping(), runtime: Handle::current() } };
        tokio::task::spawn_blocking(move || writing.run());
        Ok(Backup { revision, now, pieces })
    }
}

/// A backup being written.
struct Writing {
    view: View,
    place: OwnedSemaphorePermit,
    out: Pipe,
}

impl Writing {
    fn run(self) {
        let Writing { view, place, out } = self;
        let revision = view.revision();
        let header = BackupHeader { taken: wall_time(), release: env!("CARGO_PKG_VERSION").into() };
        let last = out.send.clone();
        let written = write_backup(BufWriter::with_capacity(PIECE, out), &header, revision, view.records());
        // The view and the place go before the end is told, or a second backup right after it would find them taken.
        drop((view, place));
        match written {
            Ok(_) => info!(%revision, "a backup was written"),
            Err(error) => {
                warn!(%revision, %error, "a backup was given up");
                // Whoever is gone need not be told.
                let _ = last.try_send(Err(error));
            }
        }
    }
}

/// Hands bytes to whoever takes the backup.
struct Pipe {
    send: mpsc::Sender<io::Result<Bytes>>,
    stop: watch::Receiver<bool>,
    runtime: Handle,
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = Bytes::copy_from_slice(bytes);
        let Pipe { send, stop, runtime } = self;
        let refused = |reason: &str| Err(io::Error::other(reason));
        runtime.block_on(async {
            tokio::select! {
                sent = tokio::time::timeout(TAKE_WITHIN, send.send(Ok(piece))) => match sent {
                    Ok(Ok(())) => Ok(bytes.len()),
                    Ok(Err(_)) => refused("its caller is gone"),
                    Err(_) => refused("its caller does not take it on"),
                },
                _ = stop.wait_for(|stopped| *stopped) => refused("the server is shutting down"),
            }
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

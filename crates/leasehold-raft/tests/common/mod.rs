//! A toy machine, and helpers to drive a node.
#![allow(dead_code, reason = "each test file uses its own part")]

pub(crate) mod certificates;
pub(crate) mod cluster;
pub(crate) mod stranger;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::Mutex;

use bytes::Bytes;
use leasehold_core::{Applied, LeaderId};
use leasehold_raft::{Node, OpenError, Opened, Options};
use leasehold_service::log::{Answered, Committed, Leadership, Log, Machine, Position, Unavailable, View};

/// Remembers every payload applied, with its index.
#[derive(Debug, Default)]
pub(crate) struct Ledger(Mutex<Vec<(u64, Vec<u8>)>>);

impl Ledger {
    pub(crate) fn payloads(&self) -> Vec<Vec<u8>> {
        self.0.lock().unwrap().iter().map(|(_, payload)| payload.clone()).collect()
    }

    pub(crate) fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    pub(crate) fn entries(&self) -> Vec<(u64, Vec<u8>)> {
        self.0.lock().unwrap().clone()
    }

    /// Makes this copy differ from those of other nodes, as a bug or a bad memory would.
    pub(crate) fn spoil(&self) {
        self.0.lock().unwrap().push((0, b"spoilt".to_vec()));
    }
}

pub(crate) struct LedgerView(Vec<(u64, Vec<u8>)>);

impl Machine for Ledger {
    type View = LedgerView;

    fn apply(&self, at: Position, entry: Committed<'_>) -> Applied {
        match entry {
            Committed::Payload(b"panic") => panic!("the machine was told to panic"),
            Committed::Payload(payload) => self.0.lock().unwrap().push((at.index, payload.to_vec())),
            Committed::TakeOver | Committed::Internal => {}
        }
        Applied::default()
    }

    fn view(&self) -> LedgerView {
        LedgerView(self.entries())
    }

    fn install(&self, snapshot: &mut dyn io::Read) -> io::Result<()> {
        let mut bytes = Vec::new();
        snapshot.read_to_end(&mut bytes)?;
        let mut entries = Vec::new();
        let mut rest = &bytes[..];
        while let Some((head, tail)) = rest.split_at_checked(16) {
            let index = u64::from_le_bytes(head[..8].try_into().unwrap());
            let length = u64::from_le_bytes(head[8..].try_into().unwrap()) as usize;
            entries.push((index, tail[..length].to_vec()));
            rest = &tail[length..];
        }
        *self.0.lock().unwrap() = entries;
        Ok(())
    }
}

impl View for LedgerView {
    fn write(&self, out: &mut dyn io::Write) -> io::Result<()> {
        for (index, payload) in &self.0 {
            out.write_all(&index.to_le_bytes())?;
            out.write_all(&(payload.len() as u64).to_le_bytes())?;
            out.write_all(payload)?;
        }
        Ok(())
    }
}

pub(crate) struct Running {
    pub(crate) node: Node<Ledger>,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) opened: Opened,
}

pub(crate) async fn open(dir: &Path) -> Running {
    open_with(Options::new(dir)).await.unwrap()
}

pub(crate) async fn open_with(options: Options) -> Result<Running, OpenError> {
    let ledger = Arc::new(Ledger::default());
    let (node, opened) = Node::open(options, ledger.clone()).await?;
    Ok(Running { node, ledger, opened })
}

impl Running {
    pub(crate) fn leader(&self) -> LeaderId {
        let leadership = *self.node.leadership().borrow();
        let Leadership::Leads(leader) = leadership else { panic!("the node does not lead: {leadership:?}") };
        leader
    }

    pub(crate) async fn propose(&self, payload: impl Into<Bytes>) -> Result<Applied, Unavailable> {
        self.propose_as(self.leader(), payload).await
    }

    pub(crate) async fn propose_as(&self, leader: LeaderId, payload: impl Into<Bytes>) -> Result<Applied, Unavailable> {
        let (done, answer) = answer();
        self.node.propose(leader, payload.into(), done).await;
        answer.await.expect("every proposal is answered")
    }
}

impl Running {
    /// Hands a parcel to whoever leads as `to`; returns when it is on its way. The answer is what became of it.
    pub(crate) async fn forward(
        &self,
        to: LeaderId,
        parcel: impl Into<Bytes>,
    ) -> tokio::sync::oneshot::Receiver<Result<(), Unavailable>> {
        let (tell, told) = tokio::sync::oneshot::channel();
        let done = Box::new(move |outcome| drop(tell.send(outcome)));
        self.node.forward(to, parcel.into(), done).await;
        told
    }
}

pub(crate) fn answer() -> (Answered, tokio::sync::oneshot::Receiver<Result<Applied, Unavailable>>) {
    let (tell, answer) = tokio::sync::oneshot::channel();
    (Box::new(move |result| drop(tell.send(result))), answer)
}

pub(crate) fn payload(number: usize) -> Vec<u8> {
    format!("payload {number}").into_bytes()
}

pub(crate) fn payloads(count: usize) -> Vec<Vec<u8>> {
    (0..count).map(payload).collect()
}

/// The log files, oldest first.
pub(crate) fn log_files(dir: &Path) -> Vec<std::path::PathBuf> {
    let mut files: Vec<_> = std::fs::read_dir(dir.join("groups/0/log"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "wal"))
        .collect();
    files.sort();
    files
}

/// Copies a directory; says whether all files were still there when their turn came.
pub(crate) fn copy_dir(from: &Path, to: &Path) -> bool {
    let mut whole = true;
    std::fs::create_dir_all(to).unwrap();
    let mut entries: Vec<_> = std::fs::read_dir(from).unwrap().map(Result::unwrap).collect();
    // The log before the snapshots, always: see the test that copies a running node.
    entries.sort_by_key(|entry| entry.file_name());
    for entry in entries {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            whole &= copy_dir(&entry.path(), &target);
        } else if let Err(error) = std::fs::copy(entry.path(), &target) {
            assert_eq!(error.kind(), io::ErrorKind::NotFound);
            whole = false;
        }
    }
    whole
}

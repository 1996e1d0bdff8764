//! Doors for `leasehold-fuzz`: everything here that reads bytes of other nodes or of the disk, and nothing else.
//!
//! Not part of the API: it is hidden from the documents and changes without notice.

use std::path::Path;

use leasehold_core::LeaderId;
use openraft::EntryPayload;
use openraft::storage::{RaftLogStorage, RaftLogStorageExt};

pub use crate::peer::fuzzing::{frame_seeds, frames, hello, hello_seeds};
use crate::peer::fuzzing::{seen, seen_seed};

use crate::directory;
use crate::files::{FileLimits, LogFiles};
use crate::group_commit::Fatal;
use crate::store::LogStore;
use crate::types::{Candidate, Entry, LogId, Payload};

/// What is changed byte by byte should have few of them.
const SMALL: FileLimits = FileLimits { bytes: 8 * 1024, records: 64 };

/// Opens `dir` as the directory of a log; says whether it was taken for one.
pub fn open_log(dir: &Path) -> bool {
    LogFiles::open(dir, SMALL, &None).is_ok()
}

/// Writes a log of every kind of record to `dir`.
///
/// # Panics
///
/// If the disk does not take it.
pub async fn write_log(dir: &Path) {
    let (mut store, _) = LogStore::open(dir, SMALL, Fatal::new(), None).expect("the directory is empty");
    let leader = LeaderId { term: 1, node: 1 };
    let at = |index| LogId { leader_id: leader, index };
    let entry = |index, payload| Entry { log_id: at(index), payload };
    let payload = || EntryPayload::Normal(Payload::Bytes(b"orders/7".as_slice().into()));
    let vote = openraft::Vote { leader_id: Candidate(leader), committed: true };
    let taken = "the disk takes it";
    store.save_vote(&vote).await.expect(taken);
    store
        .blocking_append([entry(0, EntryPayload::Blank), entry(1, payload()), entry(2, payload())])
        .await
        .expect(taken);
    store.truncate_after(Some(at(1))).await.expect(taken);
    store.purge(at(0)).await.expect(taken);
    store.blocking_append([entry(2, payload())]).await.expect(taken);
    store.close();
}

/// Reads a text as each of the small files of a data directory.
///
/// # Panics
///
/// If one that was read is not written as it was.
pub fn small_files(text: &str) {
    if let Ok(identity) = directory::parse(Path::new("identity"), text) {
        assert_eq!(directory::render(&identity), text);
    }
    seen(text);
}

/// Valid small files.
pub fn small_file_seeds() -> Vec<String> {
    vec![directory::render(&directory::Identity { cluster: 7, node: 3 }), seen_seed()]
}

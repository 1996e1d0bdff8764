//! openraft's own test suite for storage, over our log and state machine.

use std::sync::Arc;

use leasehold_core::Applied;
use leasehold_service::log::{Committed, Machine, Position, View};
use openraft::StorageError;
use openraft::testing::log::{StoreBuilder, Suite};

use crate::files::FileLimits;
use crate::group_commit::Fatal;
use crate::machine::{Applier, Progress, Told};
use crate::roster::Roster;
use crate::snapshot::Snapshots;
use crate::store::LogStore;
use crate::types::Types;

pub(crate) struct Nothing;

impl Machine for Nothing {
    type View = Nothing;

    fn apply(&self, _: Position, _: Committed<'_>) -> Applied {
        Applied::default()
    }

    fn view(&self) -> Nothing {
        Nothing
    }

    fn install(&self, snapshot: &mut dyn std::io::Read) -> std::io::Result<()> {
        std::io::copy(snapshot, &mut std::io::sink()).map(drop)
    }
}

impl View for Nothing {
    fn write(&self, _: &mut dyn std::io::Write) -> std::io::Result<()> {
        Ok(())
    }
}

struct Stores(FileLimits);

impl StoreBuilder<Types, LogStore, Applier<Nothing>, tempfile::TempDir> for Stores {
    async fn build(&self) -> Result<(tempfile::TempDir, LogStore, Applier<Nothing>), StorageError<Types>> {
        let dir = tempfile::tempdir().unwrap();
        let fatal = Fatal::new();
        let machine = Arc::new(Nothing);
        for sub in ["log", "snapshots"] {
            crate::directory::make_directory(&dir.path().join(sub)).unwrap();
        }
        let (store, _) = LogStore::open(&dir.path().join("log"), self.0, fatal.clone(), None).unwrap();
        let snapshots = Snapshots::open(&dir.path().join("snapshots"), 0, &*machine).unwrap();
        let progress = Arc::new(Progress::new(1, u64::MAX));
        let roster = Arc::new(Roster::new(1, Default::default()));
        let told = Told { roster, checkpoints: Arc::default() };
        Ok((dir, store, Applier::new(machine, Arc::new(snapshots), progress, fatal, told)))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn openrafts_storage_suite_passes() {
    Suite::test_all(Stores(FileLimits::default())).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn openrafts_storage_suite_passes_with_tiny_log_files() {
    Suite::test_all(Stores(FileLimits { bytes: 600, records: 4 })).await.unwrap();
}

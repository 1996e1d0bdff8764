//! A backup in the middle of a run, and a cluster that is made from it later: what happened in between is lost, but no
//! token is ever given twice.

use std::path::Path;

use leasehold_core::{Record, Restore, State, WallTime};
use leasehold_log::write_body;

use crate::node::Up;

/// A copy of the whole state.
pub(crate) struct Backup(Vec<Record>);

impl Backup {
    pub(crate) fn of(up: &Up) -> Backup {
        Backup(up.replica.look(|state| state.view().records().collect()))
    }

    /// Makes the data directory of a new cluster.
    pub(crate) fn restore(&self, dir: &Path, wall: WallTime) -> Result<(), String> {
        let mut loader = State::loader();
        for record in &self.0 {
            loader.load(record.clone()).map_err(|error| error.to_string())?;
        }
        let state = loader.finish().map_err(|error| error.to_string())?;
        let restore = Restore::new(&state, wall);
        let view = state.restored(restore).view();
        let write = |out: &mut dyn std::io::Write| {
            write_body(view.records(), view.revision(), std::iter::empty(), out).map(drop)
        };
        leasehold_raft::restore(dir, write).map(drop).map_err(|error| error.to_string())
    }
}

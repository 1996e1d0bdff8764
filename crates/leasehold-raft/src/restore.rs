//! A data directory made from a backup: a new cluster of one node that begins with a snapshot instead of an empty log.
//!
//! The snapshot stands where the first membership would, with this node as the only voter, so the directory opens like
//! any other and can grow. A marker is there first and goes last: a directory whose restore was interrupted is refused.
//! What the snapshot contains is the caller's.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use leasehold_core::LeaderId;
use leasehold_log::BlockWriter;

use crate::convert;
use crate::directory::{self, Directory, Identity, UNFINISHED};
use crate::error::{At, OpenError};
use crate::snapshot;
use crate::types::{LogId, Member, SnapshotMeta, StoredMembership};

/// The one group this build runs.
const GROUP: u32 = 0;
/// File systems keep this in their root; a directory with nothing else is empty.
const OF_THE_FILE_SYSTEM: &str = "lost+found";

/// Makes the data directory of a new cluster, whose state `write` writes as a snapshot body. The directory must be empty
/// or not there. Blocks.
pub fn restore(dir: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<Identity, OpenError> {
    refuse_used(dir)?;
    directory::make_directory(dir)?;
    let marker = dir.join(UNFINISHED);
    directory::write_whole(&marker, b"a restore is under way\n").at("write", &marker)?;
    let identity = Identity { cluster: rand::random(), node: 1 };
    let directory = Directory::claim(dir, identity)?;
    let snapshots = directory.group(GROUP)?.join("snapshots");
    write_snapshot(&snapshots, identity.node, write).at("write the snapshot in", &snapshots)?;
    directory.settle()?;
    std::fs::remove_file(&marker).at("remove", &marker)?;
    directory::sync_directory(dir).at("sync", dir)?;
    Ok(identity)
}

fn refuse_used(dir: &Path) -> Result<(), OpenError> {
    let entries = match std::fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.at("list", dir)?,
    };
    for entry in entries {
        if entry.at("list", dir)?.file_name() != OF_THE_FILE_SYSTEM {
            let unfinished = dir.join(UNFINISHED).exists();
            return Err(if unfinished {
                OpenError::Unfinished { dir: dir.to_path_buf() }
            } else {
                OpenError::NotEmpty { dir: dir.to_path_buf() }
            });
        }
    }
    Ok(())
}

fn write_snapshot(dir: &Path, node: u64, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let meta = first_meta(node);
    let unfinished = dir.join("writing.tmp");
    let file = directory::create_private(&unfinished)?;
    let mut out = BlockWriter::new(BufWriter::new(file), &convert::snapshot_header(&meta))?;
    write(&mut out)?;
    out.finish()?.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
    directory::publish(&unfinished, &dir.join(snapshot::file_name(&meta)))
}

/// Where a cluster has its first membership: before every term, at the first index.
fn first_meta(node: u64) -> SnapshotMeta {
    let at = Some(LogId { leader_id: LeaderId::default(), index: 0 });
    let member = Member { name: node.to_string(), ..Member::default() };
    let nodes = BTreeMap::from([(node, member)]);
    let members = openraft::Membership::new(vec![BTreeSet::from([node])], nodes).expect("the one voter is a member");
    SnapshotMeta { last_log_id: at, last_membership: StoredMembership::new(at, members) }
}

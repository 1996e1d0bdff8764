//! File descriptors: the soft limit is raised at start, and clients never get the ones the log needs.
//!
//! A node that cannot open its next log file or snapshot has to stop. So the number of client connections stays below
//! the limit by a reserve for log files, snapshots, other nodes and the runtime.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::warn;

use crate::config::Config;

/// At least this many descriptors are left for log files, snapshots, backups, listeners and the runtime.
const RESERVE: u64 = 96;
/// A higher limit leaves one descriptor in this many: each log file of 8 MiB stays open until it is purged.
const RESERVE_SHARE: u64 = 4;
/// Further descriptors in a cluster: the peer port accepts 128 connections, and this node opens links to others.
const PEER_RESERVE: u64 = 192;
/// A listener with fewer places than this is not worth starting.
const CONNECTIONS_MIN: u64 = 16;

/// The process may not open enough files to serve clients and keep its log.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "this process may open {limit} files and needs at least {needed}; \
     raise the limit (`ulimit -n`, or LimitNOFILE= of its systemd unit) and start it again"
)]
pub struct TooFewDescriptors {
    limit: u64,
    needed: u64,
}

/// Raises the soft limit of open files to the hard limit. Returns the limit in force.
pub(crate) fn raise_limit() -> u64 {
    let found = getrlimit(Resource::Nofile);
    if found.current == found.maximum {
        return found.current.unwrap_or(u64::MAX);
    }
    match setrlimit(Resource::Nofile, Rlimit { current: found.maximum, ..found }) {
        Ok(()) => found.maximum.unwrap_or(u64::MAX),
        Err(error) => {
            warn!(%error, "cannot raise the limit of open files to the hard limit");
            found.current.unwrap_or(u64::MAX)
        }
    }
}

/// Returns how many connections each listener may have, as configured or fewer if the limit of open files is low.
pub(crate) fn connections(config: &Config, limit: u64) -> Result<usize, TooFewDescriptors> {
    let listeners = if config.etcd.is_some() { 2 } else { 1 };
    let found = share(limit, listeners, config.peers.is_some(), config.connections)?;
    if found < config.connections {
        let configured = config.connections;
        warn!(limit, configured, connections = found, "the limit of open files permits fewer connections per listener");
    }
    Ok(found)
}

fn share(limit: u64, listeners: u64, clustered: bool, wanted: usize) -> Result<usize, TooFewDescriptors> {
    let reserve = RESERVE.max(limit / RESERVE_SHARE) + if clustered { PEER_RESERVE } else { 0 };
    let needed = reserve + listeners * CONNECTIONS_MIN;
    if limit < needed {
        return Err(TooFewDescriptors { limit, needed });
    }
    let each = usize::try_from((limit - reserve) / listeners).unwrap_or(usize::MAX);
    Ok(wanted.min(each))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_descriptors_for_the_log() {
        assert_eq!(share(u64::MAX, 2, true, 10_000), Ok(10_000));
        assert_eq!(share(256, 1, false, 10_000), Ok(256 - 96));
        assert_eq!(share(1024, 1, false, 10_000), Ok(1024 - 256));
        assert_eq!(share(1024, 2, true, 10_000), Ok((1024 - 256 - 192) / 2));
        assert_eq!(share(1024, 2, true, 8), Ok(8));
    }

    #[test]
    fn a_limit_too_low_to_serve_anybody_is_refused() {
        assert_eq!(share(100, 1, false, 8), Err(TooFewDescriptors { limit: 100, needed: 112 }));
        let text = share(100, 1, false, 8).unwrap_err().to_string();
        assert!(text.contains("may open 100 files") && text.contains("ulimit -n"), "{text}");
    }

    #[test]
    fn the_soft_limit_is_raised_to_the_hard_limit() {
        let limit = raise_limit();
        let found = getrlimit(Resource::Nofile);
        assert_eq!(found.current, found.maximum);
        assert_eq!(limit, found.maximum.unwrap_or(u64::MAX));
    }
}

//! The data directory: made private, locked against a second process, with an identity of its own.
//!
//! ```text
//! DIR/LOCK                 held by the running process; contains its pid
//! DIR/identity             cluster id and node id, written once
//! DIR/unfinished           there while a restore makes the directory; see `restore.rs`
//! DIR/peers                which other nodes were met, with which data; see `peer/seen.rs`
//! DIR/diverged             why this node stopped for good, if its state was not that of the others
//! DIR/groups/0/log/        the log files of the first Raft group
//! DIR/groups/0/snapshots/  its snapshots
//! ```
//! Directories are 0700 and files 0600 whatever the umask is. A file that matters appears under its name complete and
//! synced, or not at all.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use tracing::{info, warn};

use crate::error::{At, OpenError};

/// A process that is just ending needs a moment to let go.
pub(crate) const LOCK_PATIENCE: Duration = Duration::from_secs(3);
/// The file that says why a node must not start again.
const DIVERGED: &str = "diverged";
/// What marks a directory whose restore is not finished.
pub(crate) const UNFINISHED: &str = "unfinished";
/// What a directory without an identity may have: traces of an interrupted start, and what a file
/// system puts into its root.
const OWN_NAMES: [&str; 7] = ["LOCK", "identity.tmp", "peers", "peers.tmp", "groups", UNFINISHED, "lost+found"];
const IDENTITY_TITLE: &str = "leasehold node identity, version 1";

/// Who a data directory belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The cluster: a random number chosen when its first node started, or derived from the list of its members.
    pub cluster: u128,
    /// The node in it. Never reused, not even after its data is lost.
    pub node: u64,
}

/// A locked data directory.
#[derive(Debug)]
pub(crate) struct Directory {
    pub(crate) path: PathBuf,
    pub(crate) identity: Identity,
    /// Whether the directory was set up just now.
    pub(crate) fresh: bool,
    _lock: File,
}

/// A locked data directory that may not have an identity yet.
#[derive(Debug)]
pub(crate) struct Unclaimed {
    path: PathBuf,
    pub(crate) identity: Option<Identity>,
    lock: File,
}

impl Unclaimed {
    /// Makes the directory if it is not there, locks it, and reads its identity.
    pub(crate) fn open(path: &Path) -> Result<Unclaimed, OpenError> {
        make_directory(path)?;
        refuse_foreign(path)?;
        make_directory_private(path)?;
        let lock = lock(path)?;
        if path.join(UNFINISHED).exists() {
            return Err(OpenError::Unfinished { dir: path.to_path_buf() });
        }
        let file = path.join("identity");
        let identity = match std::fs::read_to_string(&file) {
            Ok(text) => Some(parse(&file, &text)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                refuse_orphans(path, &file)?;
                None
            }
            Err(source) => return Err(OpenError::Io { action: "read", path: file, source }),
        };
        Ok(Unclaimed { path: path.to_path_buf(), identity, lock })
    }

    /// Writes the identity if there is none: the wanted one, or a new cluster's. A directory with another identity than
    /// the wanted one is refused.
    pub(crate) fn claim(self, wanted: Option<Identity>) -> Result<Directory, OpenError> {
        let Unclaimed { path, identity: found, lock } = self;
        let identity = match (found, wanted) {
            (Some(found), Some(wanted)) if found != wanted => {
                return Err(OpenError::Another { dir: path, found, wanted });
            }
            (Some(found), _) => found,
            (None, wanted) => {
                let identity = wanted.unwrap_or_else(|| Identity { cluster: rand::random(), node: 1 });
                let file = path.join("identity");
                write_whole(&file, render(&identity).as_bytes()).at("write", &file)?;
                identity
            }
        };
        Ok(Directory { path, identity, fresh: found.is_none(), _lock: lock })
    }
}

impl Directory {
    /// Locks an empty directory that is to have this identity once it is settled.
    pub(crate) fn claim(path: &Path, identity: Identity) -> Result<Directory, OpenError> {
        Ok(Directory { path: path.to_path_buf(), identity, fresh: true, _lock: lock(path)? })
    }

    /// Writes the identity of a claimed directory.
    pub(crate) fn settle(&self) -> Result<(), OpenError> {
        let file = self.path.join("identity");
        write_whole(&file, render(&self.identity).as_bytes()).at("write", &file)
    }

    /// Says whether a group has log files.
    pub(crate) fn has_log(&self, group: u32) -> bool {
        let files = std::fs::read_dir(self.path.join("groups").join(group.to_string()).join("log"));
        let is_log = |path: PathBuf| path.extension().is_some_and(|extension| extension == "wal");
        files.is_ok_and(|mut files| files.any(|file| file.is_ok_and(|file| is_log(file.path()))))
    }

    /// Returns the directory of a group, made if it is not there, with its `log` and `snapshots`.
    pub(crate) fn group(&self, group: u32) -> Result<PathBuf, OpenError> {
        let path = self.path.join("groups").join(group.to_string());
        make_directory(&self.path.join("groups"))?;
        make_directory(&path)?;
        make_directory(&path.join("log"))?;
        make_directory(&path.join("snapshots"))?;
        Ok(path)
    }
}

/// Refuses a directory that has files of others and no identity: a mistyped `--data` must not fill it.
fn refuse_foreign(path: &Path) -> Result<(), OpenError> {
    if path.join("identity").exists() {
        return Ok(());
    }
    for entry in std::fs::read_dir(path).at("read", path)? {
        let name = entry.at("read", path)?.file_name();
        if !OWN_NAMES.iter().any(|own| name == *own) {
            return Err(OpenError::Foreign { dir: path.to_path_buf(), name: name.to_string_lossy().into_owned() });
        }
    }
    Ok(())
}

/// A directory with a log but no identity lost the file; a new identity would be a second node with old votes.
fn refuse_orphans(path: &Path, file: &Path) -> Result<(), OpenError> {
    if !path.join("groups/0/log").exists() {
        return Ok(());
    }
    let problem = "the file is missing, but there is a log".to_string();
    Err(OpenError::Identity { file: file.to_path_buf(), line: 1, problem })
}

/// Keeps everybody else out of a directory for as long as the file is open.
pub(crate) fn lock(dir: &Path) -> Result<File, OpenError> {
    let path = dir.join("LOCK");
    let mut options = OpenOptions::new();
    let mut file =
        options.read(true).write(true).create(true).truncate(false).mode(0o600).open(&path).at("open", &path)?;
    make_private(&path).at("protect", &path)?;
    let started = Instant::now();
    while let Err(error) = flock(&file, FlockOperation::NonBlockingLockExclusive) {
        if error != rustix::io::Errno::WOULDBLOCK && error != rustix::io::Errno::INTR {
            return Err(OpenError::Io { action: "lock", path, source: error.into() });
        }
        if started.elapsed() >= LOCK_PATIENCE {
            let mut pid = String::new();
            let read = file.read_to_string(&mut pid).at("read", &path);
            return Err(OpenError::InUse {
                dir: dir.to_path_buf(),
                pid: read.ok().and_then(|_| pid.trim().parse().ok()),
            });
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    file.set_len(0).at("write", &path)?;
    writeln!(file, "{}", std::process::id()).at("write", &path)?;
    Ok(file)
}

pub(crate) fn render(identity: &Identity) -> String {
    let body = format!("{IDENTITY_TITLE}\ncluster {:032x}\nnode {}\n", identity.cluster, identity.node);
    format!("{body}checksum {:08x}\n", leasehold_log::checksum(body.as_bytes()))
}

pub(crate) fn parse(file: &Path, text: &str) -> Result<Identity, OpenError> {
    let wrong = |line, problem: &str| OpenError::Identity { file: file.into(), line, problem: problem.into() };
    let lines: Vec<&str> = text.lines().collect();
    let field = |line: usize, name: &str| {
        lines.get(line).and_then(|text| text.strip_prefix(name)).map(str::trim).unwrap_or_default()
    };
    if lines.first() != Some(&IDENTITY_TITLE) {
        return Err(wrong(1, &format!("expected \"{IDENTITY_TITLE}\"; a later build may have written it")));
    }
    let cluster =
        u128::from_str_radix(field(1, "cluster "), 16).map_err(|_| wrong(2, "the cluster id does not read"))?;
    let node = field(2, "node ").parse().map_err(|_| wrong(3, "the node id does not read"))?;
    let identity = Identity { cluster, node };
    if render(&identity) != text {
        return Err(wrong(4, "the checksum does not fit; the file is damaged"));
    }
    Ok(identity)
}

/// Makes a directory that only its owner can enter; one that exists is left as it is.
pub(crate) fn make_directory(path: &Path) -> Result<(), OpenError> {
    if path.is_dir() {
        return Ok(());
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !parent.is_dir() {
        make_directory(parent)?;
    }
    DirBuilder::new().mode(0o700).create(path).at("make the directory", path)?;
    std::fs::set_permissions(path, Permissions::from_mode(0o700)).at("protect", path)?;
    sync_directory(parent).at("sync", parent)
}

/// Closes an existing directory to everybody but its owner. A mounted volume may belong to another
/// user; then the mode stays and the log says so.
fn make_directory_private(path: &Path) -> Result<(), OpenError> {
    let mode = std::fs::metadata(path).at("read", path)?.permissions().mode() & 0o777;
    if mode & 0o077 == 0 {
        return Ok(());
    }
    match std::fs::set_permissions(path, Permissions::from_mode(0o700)) {
        Ok(()) => info!(dir = %path.display(), was = %format!("{mode:04o}"), "data directory made private (0700)"),
        Err(error) => warn!(
            dir = %path.display(), mode = %format!("{mode:04o}"), %error,
            "other users of this machine can enter the data directory, and its mode cannot be changed"
        ),
    }
    Ok(())
}

/// Makes a file readable by its owner only.
pub(crate) fn make_private(path: &Path) -> io::Result<()> {
    std::fs::set_permissions(path, Permissions::from_mode(0o600))
}

/// Creates an empty private file to write to; an old one is emptied.
pub(crate) fn create_private(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.set_permissions(Permissions::from_mode(0o600))?;
    Ok(file)
}

/// Keeps a node whose state has diverged from being started again by habit; the file says why.
pub(crate) fn mark_diverged(data: &Path, reason: &str) -> io::Result<()> {
    write_whole(&data.join(DIVERGED), format!("{reason}\n").as_bytes())
}

/// Refuses a directory that is marked so.
pub(crate) fn refuse_diverged(data: &Path) -> Result<(), OpenError> {
    let file = data.join(DIVERGED);
    match std::fs::read_to_string(&file) {
        Ok(reason) => Err(OpenError::Diverged { file, reason: reason.trim_end().into() }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error).at("read", &file),
    }
}

/// Writes a file so that it is there whole or not at all.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let unfinished = path.with_extension("tmp");
    let mut file = create_private(&unfinished)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    publish(&unfinished, path)
}

/// Gives a finished, synced file its name, durably.
pub(crate) fn publish(unfinished: &Path, path: &Path) -> io::Result<()> {
    std::fs::rename(unfinished, path)?;
    sync_directory(path.parent().expect("a published file lies in a directory"))
}

/// Makes names added to or removed from a directory durable.
pub(crate) fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

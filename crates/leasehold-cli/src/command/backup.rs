//! `lease backup`: a copy of the whole cluster in one file, verified while it is written.
//!
//! The file appears under its name only when it is whole, verified and on disk. It holds the ids of all leases, which
//! are secrets, so only its owner can read it.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use leasehold_api::{SpanText, Timestamp};
use leasehold_client::http::Download;
use leasehold_server::{BackupError, BackupSummary};
use serde::Serialize;
use tokio::sync::mpsc;

use crate::context::Context;
use crate::failure::Failure;
use crate::output;
use crate::render::text::{plain, short, size};

/// How many pieces may wait to be written.
const AHEAD: usize = 8;
/// How often a person is told how far it is.
const TELL_EVERY: Duration = Duration::from_millis(250);
/// There is something already.
const IN_THE_WAY: u8 = 73;
/// The file cannot be read or written.
const IO_FAILED: u8 = 74;
/// The file is not there.
const NOT_FOUND: u8 = 66;

/// Copy the whole cluster into one file.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lease backup /backups/leasehold-monday
  lease backup --verify /backups/leasehold-monday    needs no server

The file is written beside as FILE.partial and gets its name when it is whole, verified and on disk. It holds the ids \
of all leases: keep it as you keep passwords. `lease restore` makes a new cluster of it.")]
pub(crate) struct Backup {
    /// Where to write it
    file: PathBuf,
    /// Write over a file that is there
    #[arg(long, conflicts_with = "verify")]
    force: bool,
    /// Read the file from beginning to end instead, and tell what is in it
    #[arg(long)]
    verify: bool,
}

/// A backup file, as it is shown.
#[derive(Debug, Serialize)]
struct Shown {
    file: String,
    bytes: u64,
    revision: u64,
    leases: u64,
    entries: u64,
    longest_ttl: SpanText,
    taken: Timestamp,
    release: String,
}

/// Takes or verifies a backup.
pub(crate) async fn run(args: Backup, context: &Context) -> Result<(), Failure> {
    let Backup { file, force, verify } = args;
    let verb = if verify { "verified" } else { "backed up to" };
    let summary = if verify {
        leasehold_server::verify_backup(&file).map_err(|error| refused(&error))?
    } else {
        if !force && file.symlink_metadata().is_ok() {
            let text = format!("{} is there already", file.display());
            return Err(Failure::new(IN_THE_WAY, text).hint("choose another name, or write over it with --force"));
        }
        take(context, &file).await?
    };
    let shown = shown(&file, summary)?;
    context.show(&shown, |shown| shown.file.clone(), |shown| human(verb, shown))
}

/// What went wrong with a backup file.
pub(crate) fn refused(error: &BackupError) -> Failure {
    let exit = match error {
        BackupError::Unreadable { source, .. } if source.kind() == io::ErrorKind::NotFound => NOT_FOUND,
        BackupError::Unreadable { .. } | BackupError::Damaged(_) => IO_FAILED,
        BackupError::Data(_) => IN_THE_WAY,
    };
    Failure::new(exit, error.to_string())
}

/// Writes what the server sends, and verifies it on the way.
async fn take(context: &Context, file: &Path) -> Result<BackupSummary, Failure> {
    let mut download = context.client.backup().await?;
    let partial = beside(file);
    let (send, pieces) = mpsc::channel(AHEAD);
    let tee = Tee {
        pieces,
        piece: bytes::Bytes::new(),
        file: create(&partial).map_err(|error| unwritten(&partial, &error))?,
    };
    let writing = {
        let (file, partial) = (file.to_path_buf(), partial.clone());
        tokio::task::spawn_blocking(move || write(tee, &file, &partial))
    };
    let sent = forward(&mut download, send).await;
    let written = writing.await.map_err(|error| Failure::new(IO_FAILED, error.to_string()))?;
    let done = match (sent, written) {
        // That the connection broke says more than that the file is not whole.
        (Err(failure), _) => Err(failure),
        (Ok(()), written) => written,
    };
    if done.is_err() {
        let _ = std::fs::remove_file(&partial);
    }
    done
}

/// Hands all pieces to the writer, and tells a person how far it is.
async fn forward(download: &mut Download, send: mpsc::Sender<bytes::Bytes>) -> Result<(), Failure> {
    let (mut taken, mut told) = (0, Instant::now());
    let shown = output::is_watched();
    let end = loop {
        match download.next().await {
            Ok(None) => break Ok(()),
            Err(error) => break Err(Failure::from(error)),
            Ok(Some(piece)) => {
                taken += piece.len() as u64;
                // A writer that is gone says why itself.
                if send.send(piece).await.is_err() {
                    break Ok(());
                }
            }
        }
        if shown && told.elapsed() >= TELL_EVERY {
            told = Instant::now();
            output::progress(format!("lease: backing up  {}", size(taken)));
        }
    };
    if shown {
        output::progress("");
    }
    end
}

fn write(mut tee: Tee, file: &Path, partial: &Path) -> Result<BackupSummary, Failure> {
    let summary = leasehold_server::read_backup(&mut tee, partial).map_err(|error| refused(&error))?;
    let publish = || {
        tee.file.sync_all()?;
        std::fs::rename(partial, file)?;
        File::open(file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new(".")))?.sync_all()
    };
    publish().map_err(|error| unwritten(file, &error))?;
    Ok(summary)
}

fn unwritten(file: &Path, error: &io::Error) -> Failure {
    Failure::new(IO_FAILED, format!("cannot write {}: {error}", file.display()))
}

fn create(partial: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(partial)
}

fn beside(file: &Path) -> PathBuf {
    let mut name = OsString::from(file);
    name.push(".partial");
    PathBuf::from(name)
}

/// Writes what arrives to a file and gives it to whoever verifies it.
struct Tee {
    pieces: mpsc::Receiver<bytes::Bytes>,
    piece: bytes::Bytes,
    file: File,
}

impl Read for Tee {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() {
            let Some(piece) = self.pieces.blocking_recv() else { return Ok(0) };
            self.file.write_all(&piece)?;
            self.piece = piece;
        }
        let taken = self.piece.split_to(into.len().min(self.piece.len()));
        into[..taken.len()].copy_from_slice(&taken);
        Ok(taken.len())
    }
}

fn shown(file: &Path, summary: BackupSummary) -> Result<Shown, Failure> {
    let BackupSummary { taken, release, revision, leases, entries, longest_ttl } = summary;
    Ok(Shown {
        file: file.display().to_string(),
        bytes: file.metadata()?.len(),
        revision: revision.0,
        leases,
        entries,
        longest_ttl: SpanText(longest_ttl),
        taken: Timestamp(taken),
        release,
    })
}

fn human(verb: &str, shown: &Shown) -> String {
    let Shown { file, bytes, revision, leases, entries, longest_ttl, taken, release } = shown;
    format!(
        "{verb} {}  {}\n  revision  {revision}\n  leases    {leases}  longest ttl {}\n  entries   {entries}\n  taken     \
         {taken} by release {}",
        plain(file),
        size(*bytes),
        short(*longest_ttl),
        plain(release)
    )
}

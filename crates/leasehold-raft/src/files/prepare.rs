//! Has the next file of the log ready before it is needed.
//!
//! Filling a file with zeros takes as long as many flushes. A thread does it while the present file is written; who needs the
//! next one takes it. If none was asked for, one is made on the spot, as a hole: that is quick to make and slower to write to.
//! There is never more than one.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use super::segment::{Filling, prepare};

/// Where files without a name come from.
#[derive(Debug)]
pub(super) struct Next {
    dir: PathBuf,
    bytes: u64,
    thread: Option<Thread>,
}

#[derive(Debug)]
struct Thread {
    ask: SyncSender<()>,
    made: Receiver<io::Result<File>>,
    /// Whether one was asked for.
    asked: bool,
}

impl Next {
    /// Makes files of so many bytes in `dir`; ahead of time, by a thread, if they are filled with zeros.
    pub(super) fn new(dir: PathBuf, bytes: u64, filling: Filling, lock: Arc<File>) -> io::Result<Next> {
        let thread = match filling {
            Filling::Hole => None,
            Filling::Zeros => {
                let (ask, asked) = sync_channel(1);
                let (give, made) = sync_channel(1);
                let path = dir.clone();
                let fill = move || {
                    // Nobody else opens the log while it may still write.
                    let _lock = lock;
                    while asked.recv().is_ok() {
                        if give.send(prepare(&path, bytes, filling)).is_err() {
                            return;
                        }
                    }
                };
                std::thread::Builder::new().name("log-ahead".to_owned()).spawn(fill)?;
                Some(Thread { ask, made, asked: false })
            }
        };
        Ok(Next { dir, bytes, thread })
    }

    /// Begins to make one, if none is there or being made.
    pub(super) fn ask(&mut self) {
        if let Some(thread) = &mut self.thread
            && !thread.asked
        {
            thread.asked = thread.ask.try_send(()).is_ok();
        }
    }

    /// Takes one that has room for at least so many bytes.
    pub(super) fn take(&mut self, bytes: u64) -> io::Result<File> {
        let made = match self.thread.as_mut().filter(|thread| thread.asked) {
            Some(thread) => {
                thread.asked = false;
                thread.made.recv().map_err(io::Error::other)??
            }
            None => prepare(&self.dir, self.bytes, Filling::Hole)?,
        };
        if bytes > self.bytes {
            made.set_len(bytes)?;
            made.sync_all()?;
        }
        Ok(made)
    }
}

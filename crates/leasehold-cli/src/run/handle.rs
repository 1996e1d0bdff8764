//! The supervisor's side of the warden: its process, and the channel to it.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Stdio};
use std::time::Duration;

use leasehold_client::Validity;
use rustix::process::{Pid, Signal, WaitOptions, getpid, waitpid};
use tokio::net::UnixStream as Channel;

use super::hook::Env;
use super::timing::{Timing, nanos};
use super::wire::{self, FRAME, Inbox, Message as _, NEVER, Order, Report};
use super::{WARDEN, bell, own_binary, tree, warden};

/// The pause between two looks for what is still to be killed.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// A warden at work.
#[derive(Debug)]
pub(crate) struct Warden {
    process: Child,
    channel: Channel,
    inbox: Inbox,
}

impl Warden {
    /// Starts a warden, which places the command but does not execute it yet.
    pub(crate) fn start(command: &[OsString], env: &Env, lost_signal: Signal, timing: Timing) -> io::Result<Warden> {
        // Should the warden be killed, what was below it comes to us.
        warden::adopt();
        let (channel, theirs) = UnixStream::pair()?;
        let lengths = timing.lengths();
        let mut process = own_binary();
        for (name, value) in env {
            match value {
                Some(value) => process.env(name, value),
                None => process.env_remove(name),
            };
        }
        let process = process
            .args([OsStr::new(WARDEN), OsStr::new(&lost_signal.as_raw().to_string())])
            .args([lengths.kill_grace, lengths.margin].map(|length| length.to_string()))
            .args(command)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            // Whoever kills our group (a shell its job) must not kill the one that cleans up.
            .process_group(0)
            .spawn()?;
        wire::pass(&channel, io::stdin())?;
        channel.set_nonblocking(true)?;
        Ok(Warden { process, channel: Channel::from_std(channel)?, inbox: Inbox::default() })
    }

    /// Gives an order. One that is not taken is not waited for: without orders, the warden ends the tree.
    pub(crate) fn tell(&self, order: Order) {
        let _ = self.channel.try_write(&order.frame());
    }

    /// Tells until when the lease is sure.
    pub(crate) fn tell_deadline(&self, validity: &Validity) {
        // Both are read now: the validity counts on more clocks than the warden has.
        let at = validity.left().map_or(NEVER, |left| bell::now().saturating_add(nanos(left)));
        self.tell(Order::Deadline(at));
    }

    /// What the warden reports next; none if it is no more.
    pub(crate) async fn next(&mut self) -> Option<Report> {
        let mut piece = [0; 16 * FRAME];
        loop {
            if let Some(report) = self.inbox.next() {
                return Some(report);
            }
            self.channel.readable().await.ok()?;
            match self.channel.try_read(&mut piece) {
                Ok(0) => return None,
                Ok(count) => self.inbox.add(&piece[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return None,
            }
        }
    }

    /// Waits for the end of a warden that reported that all is gone.
    pub(crate) fn bury(&mut self) {
        let _ = self.process.wait();
    }
}

/// Kills everything below this process but `except`, the warden included, until nothing is left.
pub(crate) async fn kill_all_below(except: &[i32]) {
    loop {
        let found = tree::below(getpid(), except);
        tree::kill(&found);
        for process in found.iter().filter_map(|process| Pid::from_raw(process.pid)) {
            // Fails for those that are not our own children; their parents are being killed.
            let _ = waitpid(Some(process), WaitOptions::NOHANG);
        }
        if found.iter().all(|process| process.is_dead) {
            return;
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

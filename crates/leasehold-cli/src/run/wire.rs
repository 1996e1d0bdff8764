//! What supervisor, warden and the exec step say to each other, and how.
//!
//! Each of our processes gets its channel as standard input, and the real standard input over that channel: so nothing
//! is inherited that the command could see, and no number of a file descriptor has to be trusted. A message is nine
//! bytes, its kind and a number. What a message means for the tree is decided in `warden.rs`.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};

/// The length of a message.
pub(crate) const FRAME: usize = 9;

/// What the supervisor tells the warden.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// The command may be executed.
    Start,
    /// The tree must be gone by this moment, less the margin; see [`NEVER`].
    Deadline(u64),
    /// This signal is for the command's process group.
    Signal(u64),
    /// The tree is to end: asked first, killed after the kill grace.
    Stop,
    /// The tree is to be killed at once.
    Kill,
}

/// The deadline of a lease that does not end by time.
pub(crate) const NEVER: u64 = u64::MAX;

/// What the warden tells the supervisor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Report {
    /// The process of the command is there, with this id, and waits for [`Order::Start`].
    Placed(u64),
    /// The command runs.
    Running,
    /// The command could not be executed, for this error number.
    NotExecuted(u64),
    /// The command's process was stopped by this signal.
    Suspended(u64),
    /// The deadline is near: the command was asked to end.
    Lapsing,
    /// The command's process ended, with this wait status.
    Ended(u64),
    /// So many processes outlived the command's and were asked to end.
    LeftBehind(u64),
    /// This process does not die although it was killed a while ago.
    Stuck(u64),
    /// Nothing of the tree is left.
    Gone,
}

/// A message that travels.
pub(crate) trait Message: Copy {
    /// Its kind and its number.
    fn parts(self) -> (u8, u64);

    /// The message of these parts.
    fn from_parts(kind: u8, value: u64) -> Option<Self>;

    /// Its bytes.
    fn frame(self) -> [u8; FRAME] {
        let (kind, value) = self.parts();
        let mut frame = [kind; FRAME];
        frame[1..].copy_from_slice(&value.to_le_bytes());
        frame
    }
}

impl Message for Order {
    fn parts(self) -> (u8, u64) {
        match self {
            Order::Start => (0, 0),
            Order::Deadline(at) => (1, at),
            Order::Signal(number) => (2, number),
            Order::Stop => (3, 0),
            Order::Kill => (4, 0),
        }
    }

    fn from_parts(kind: u8, value: u64) -> Option<Order> {
        Some(match kind {
            0 => Order::Start,
            1 => Order::Deadline(value),
            2 => Order::Signal(value),
            3 => Order::Stop,
            4 => Order::Kill,
            _ => return None,
        })
    }
}

impl Message for Report {
    fn parts(self) -> (u8, u64) {
        match self {
            Report::Placed(pid) => (0, pid),
            Report::Running => (1, 0),
            Report::NotExecuted(errno) => (2, errno),
            Report::Suspended(signal) => (3, signal),
            Report::Lapsing => (4, 0),
            Report::Ended(status) => (5, status),
            Report::LeftBehind(count) => (6, count),
            Report::Stuck(pid) => (7, pid),
            Report::Gone => (8, 0),
        }
    }

    fn from_parts(kind: u8, value: u64) -> Option<Report> {
        Some(match kind {
            0 => Report::Placed(value),
            1 => Report::Running,
            2 => Report::NotExecuted(value),
            3 => Report::Suspended(value),
            4 => Report::Lapsing,
            5 => Report::Ended(value),
            6 => Report::LeftBehind(value),
            7 => Report::Stuck(value),
            8 => Report::Gone,
            _ => return None,
        })
    }
}

/// Bytes that came in, until they make messages.
#[derive(Debug, Default)]
pub(crate) struct Inbox(Vec<u8>);

impl Inbox {
    /// Takes in what was read.
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// The next whole message; one of an unknown kind is passed over.
    pub(crate) fn next<M: Message>(&mut self) -> Option<M> {
        while let Some((frame, rest)) = self.0.split_first_chunk::<FRAME>() {
            let [kind, value @ ..] = *frame;
            let found = M::from_parts(kind, u64::from_le_bytes(value));
            self.0 = rest.to_vec();
            if found.is_some() {
                return found;
            }
        }
        None
    }
}

/// Sends a file descriptor over a channel.
pub(crate) fn pass(channel: impl AsFd, fd: impl AsFd) -> io::Result<()> {
    let fds = [fd.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(&fds)) {
        return Err(io::Error::other("there is no room for a file descriptor"));
    }
    sendmsg(channel, &[IoSlice::new(b"f")], &mut control, SendFlags::empty())?;
    Ok(())
}

/// Waits for a file descriptor from a channel; none if it was closed instead.
pub(crate) fn take(channel: impl AsFd) -> io::Result<Option<OwnedFd>> {
    let mut byte = [0; 1];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    #[cfg(target_os = "linux")]
    let flags = RecvFlags::CMSG_CLOEXEC;
    #[cfg(not(target_os = "linux"))]
    let flags = RecvFlags::empty();
    rustix::io::retry_on_intr(|| recvmsg(&channel, &mut [IoSliceMut::new(&mut byte)], &mut control, flags))?;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(mut fds) = message {
            return Ok(fds.next());
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn messages_survive_any_cut() {
        let sent = [Order::Start, Order::Deadline(NEVER - 1), Order::Signal(15), Order::Stop, Order::Kill];
        let bytes: Vec<u8> = sent.iter().flat_map(|order| order.frame()).collect();
        for cut in 0..bytes.len() {
            let mut inbox = Inbox::default();
            let mut found = Vec::new();
            for piece in [&bytes[..cut], &bytes[cut..]] {
                inbox.add(piece);
                found.extend(std::iter::from_fn(|| inbox.next::<Order>()));
            }
            assert_eq!(found, sent);
        }
    }

    #[test]
    fn an_unknown_kind_is_passed_over() {
        let mut inbox = Inbox::default();
        inbox.add(&[200; FRAME]);
        inbox.add(&Report::Gone.frame());
        assert_eq!(inbox.next::<Report>(), Some(Report::Gone));
        assert_eq!(inbox.next::<Report>(), None);
    }

    #[test]
    fn a_passed_descriptor_is_the_same_file() {
        let (here, there) = UnixStream::pair().unwrap();
        let (mut end, other) = UnixStream::pair().unwrap();
        pass(&here, &other).unwrap();
        let mut taken = UnixStream::from(take(&there).unwrap().unwrap());
        taken.write_all(b"x").unwrap();
        let mut byte = [0];
        end.read_exact(&mut byte).unwrap();
        assert_eq!(byte, *b"x");
        drop(here);
        assert!(take(&there).unwrap().is_none());
    }
}

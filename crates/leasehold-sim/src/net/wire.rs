//! Connections: two pipes each, in order, with a bound on what is under way.
//!
//! A pipe delivers whole parts as they were written. A part never overtakes another one; one that is lost comes when it
//! would have been sent again. The end of a connection travels like a part; a break is there at once for whoever looks.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use rand::Rng;
use rand::rngs::StdRng;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{HostId, Net};

/// Bytes under way in one pipe; a writer waits for room.
const UNDER_WAY: usize = 256 * 1024;
/// How long it takes until a lost part is sent again, in milliseconds.
const SENT_AGAIN: std::ops::Range<u64> = 200..450;

enum Part {
    Bytes(Vec<u8>),
    End,
}

struct Pipe {
    from: HostId,
    to: HostId,
    under_way: VecDeque<(u64, Part)>,
    bytes: usize,
    arrived: VecDeque<u8>,
    ended: bool,
    broken: bool,
    /// Nothing arrives before this moment: the latest one of an earlier part.
    not_before: u64,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl Pipe {
    fn wake(&mut self) {
        for waker in [self.reader.take(), self.writer.take()].into_iter().flatten() {
            waker.wake();
        }
    }

    fn break_off(&mut self) {
        self.broken = true;
        self.under_way.clear();
        self.wake();
    }
}

/// All pipes by number.
#[derive(Default)]
pub(super) struct Pipes {
    pipes: BTreeMap<u64, Pipe>,
    next: u64,
}

impl Pipes {
    pub(super) fn open(&mut self, from: HostId, to: HostId) -> u64 {
        self.next += 1;
        let pipe = Pipe {
            from,
            to,
            under_way: VecDeque::new(),
            bytes: 0,
            arrived: VecDeque::new(),
            ended: false,
            broken: false,
            not_before: 0,
            reader: None,
            writer: None,
        };
        self.pipes.insert(self.next, pipe);
        self.next
    }

    pub(super) fn deliver(&mut self, now: u64, cut: &BTreeSet<(HostId, HostId)>) {
        for pipe in self.pipes.values_mut() {
            if cut.contains(&(pipe.from, pipe.to)) {
                continue;
            }
            let mut delivered = false;
            while pipe.under_way.front().is_some_and(|(at, _)| *at <= now) {
                match pipe.under_way.pop_front() {
                    Some((_, Part::Bytes(bytes))) => {
                        pipe.bytes -= bytes.len();
                        pipe.arrived.extend(bytes);
                    }
                    Some((_, Part::End)) | None => pipe.ended = true,
                }
                delivered = true;
            }
            if delivered {
                pipe.wake();
            }
        }
        self.pipes.retain(|_, pipe| !(pipe.broken && pipe.reader.is_none() && pipe.writer.is_none() && pipe.ended));
    }

    /// After a cut, what is under way comes when it is sent again, or never: then the connection breaks.
    pub(super) fn recover(&mut self, (from, to): (HostId, HostId), now: u64, chance: &mut StdRng) {
        for pipe in self.pipes.values_mut().filter(|pipe| (pipe.from, pipe.to) == (from, to)) {
            if chance.random_bool(0.3) {
                pipe.break_off();
                continue;
            }
            let again = now + chance.random_range(0..1500);
            for (at, _) in &mut pipe.under_way {
                *at = again.max(*at);
            }
            pipe.not_before = pipe.not_before.max(again);
        }
    }

    pub(super) fn remove(&mut self, host: HostId, silently: bool) {
        for pipe in self.pipes.values_mut().filter(|pipe| pipe.from == host || pipe.to == host) {
            if silently {
                pipe.under_way.clear();
            } else {
                pipe.break_off();
            }
        }
    }
}

/// One side of a connection.
pub(super) struct Connection {
    pub(super) net: Net,
    pub(super) reads: u64,
    pub(super) writes: u64,
}

fn broken() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionReset, "the connection broke")
}

impl AsyncRead for Connection {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut state = self.net.0.lock();
        let Some(pipe) = state.pipes.pipes.get_mut(&self.reads) else { return Poll::Ready(Err(broken())) };
        if !pipe.arrived.is_empty() {
            let count = into.remaining().min(pipe.arrived.len());
            for byte in pipe.arrived.drain(..count) {
                into.put_slice(&[byte]);
            }
            return Poll::Ready(Ok(()));
        }
        if pipe.broken {
            return Poll::Ready(Err(broken()));
        }
        if pipe.ended {
            return Poll::Ready(Ok(()));
        }
        pipe.reader = Some(context.waker().clone());
        Poll::Pending
    }
}

impl AsyncWrite for Connection {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let state = &mut *self.net.0.lock();
        let (lost, now) = (state.weather.lost, state.time.now());
        let mut at = now + state.delay();
        if state.happens(lost) {
            at += state.chance.random_range(SENT_AGAIN);
        }
        let Some(pipe) = state.pipes.pipes.get_mut(&self.writes) else { return Poll::Ready(Err(broken())) };
        if pipe.broken {
            return Poll::Ready(Err(broken()));
        }
        if pipe.bytes >= UNDER_WAY {
            pipe.writer = Some(context.waker().clone());
            return Poll::Pending;
        }
        let at = at.max(pipe.not_before);
        pipe.not_before = at;
        pipe.bytes += bytes.len();
        pipe.under_way.push_back((at, Part::Bytes(bytes.to_vec())));
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.end();
        Poll::Ready(Ok(()))
    }
}

impl Connection {
    fn end(&self) {
        let state = &mut *self.net.0.lock();
        let at = state.time.now() + state.delay();
        if let Some(pipe) = state.pipes.pipes.get_mut(&self.writes) {
            let at = at.max(pipe.not_before);
            pipe.under_way.push_back((at, Part::End));
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.end();
        let mut state = self.net.0.lock();
        if let Some(pipe) = state.pipes.pipes.get_mut(&self.reads) {
            // Whoever still writes to it hears that nobody reads.
            pipe.break_off();
            pipe.ended = true;
        }
    }
}

//! The threads that serve clients. A connection stays on the one it came to, with all that is done for it.
//!
//! With work that moves between threads, everything that becomes ready wakes another thread to look for work, and on a machine
//! whose cores have gone to sleep that costs more than the work itself. Connections are many and small, so that dealing them out
//! in turn is fair enough. The first thread is the one of the runtime that starts the server, and does everything else as well.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::{io, thread};

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::oneshot;

/// The threads that serve clients.
#[derive(Debug)]
pub(crate) struct Threads {
    all: Vec<Handle>,
    next: AtomicUsize,
    /// The threads end when these are gone.
    _others: Vec<oneshot::Sender<()>>,
}

/// A runtime with one thread.
pub(crate) fn one() -> io::Result<Runtime> {
    Builder::new_multi_thread().worker_threads(1).thread_name("clients").enable_all().build()
}

impl Threads {
    /// This runtime and, where there are more cores, others: half of the cores in all, as the log and the state machine have
    /// threads of their own; but two where there are two, so that many watchers are told of a change on both.
    pub(crate) fn start() -> io::Result<Threads> {
        let cores = thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Threads::of((cores / 2).max(cores.min(2)))
    }

    fn of(count: usize) -> io::Result<Threads> {
        let (mut all, mut others) = (vec![Handle::current()], Vec::new());
        for _ in 1..count {
            let (runtime, (stop, stopped)) = (one()?, oneshot::channel());
            all.push(runtime.handle().clone());
            others.push(stop);
            thread::Builder::new().name("clients-keeper".to_owned()).spawn(move || {
                let _ = runtime.block_on(stopped);
                // Whoever still works there is cut, as the server is gone.
                runtime.shutdown_background();
            })?;
        }
        Ok(Threads { all, next: AtomicUsize::new(0), _others: others })
    }

    /// The thread of the next connection.
    pub(crate) fn next(&self) -> &Handle {
        &self.all[self.next.fetch_add(1, Ordering::Relaxed) % self.all.len()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn connections_are_dealt_out_in_turn_beginning_with_the_first_thread() {
        let threads = Threads::of(3).unwrap();
        let mut names = Vec::new();
        for _ in 0..6 {
            names.push(threads.next().spawn(async { thread::current().id() }).await.unwrap());
        }
        assert_eq!(names[..3], names[3..]);
        assert_eq!(names[0], thread::current().id());
        assert!(names[0] != names[1] && names[1] != names[2] && names[0] != names[2]);
    }

    #[tokio::test]
    async fn what_is_left_on_the_threads_ends_with_them() {
        let threads = Threads::of(2).unwrap();
        threads.next();
        let (never, ended) = oneshot::channel::<()>();
        threads.next().spawn(async move {
            let _kept = never;
            std::future::pending::<()>().await;
        });
        drop(threads);
        ended.await.unwrap_err();
    }
}

//! What workloads do through a system: one small trait for each kind of work.
//!
//! A client offers what its system can do and answers none for the rest; a workload that needs it is then left out for that
//! system. A further kind of work is a further trait here and a further offer; systems without it do not change.

use futures_util::future::BoxFuture;

/// What comes of one piece of work; an error is what the table shows instead of figures.
pub(crate) type Work<'a, T = ()> = BoxFuture<'a, Result<T, String>>;

/// A connection to a running system.
pub(crate) trait Client: Send + Sync {
    /// A handle for another caller, on the same connection.
    fn share(&self) -> Box<dyn Client>;

    /// Does the least that shows that the system serves.
    fn greet(&self) -> Work<'_>;

    /// Writes values under keys.
    fn writer(&self) -> Option<Box<dyn Writer>> {
        None
    }

    /// Grants leases.
    fn granter(&self) -> Option<Box<dyn Granter>> {
        None
    }

    /// Keeps so many leases of its own alive over one stream.
    fn renewer(&self, leases: usize) -> Option<Work<'_, Box<dyn Renewer>>> {
        let _ = leases;
        None
    }

    /// Takes locks and gives them back.
    fn locker(&self, life: Life) -> Option<Work<'_, Box<dyn Locker>>> {
        let _ = life;
        None
    }

    /// Is told of what is written under keys that begin so.
    fn watcher<'a>(&'a self, prefix: &'a str) -> Option<Work<'a, Box<dyn Watcher>>> {
        let _ = prefix;
        None
    }
}

/// Writes values under keys.
pub(crate) trait Writer: Send {
    /// Writes one, durably.
    fn put<'a>(&'a mut self, key: &'a str, value: &'a [u8]) -> Work<'a>;
}

/// Grants leases.
pub(crate) trait Granter: Send {
    /// Grants one that nothing is bound to.
    fn grant(&mut self) -> Work<'_>;
}

/// Keeps leases alive.
pub(crate) trait Renewer: Send {
    /// Renews each of them once, all under way together, and has the answers.
    fn renew(&mut self) -> Work<'_>;
}

/// How long the lease lives that a lock is held by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// It is kept, and serves one lock after the other.
    Kept,
    /// Each lock has one of its own, granted before and ended after.
    PerLock,
}

/// Takes locks and gives them back, one at a time.
pub(crate) trait Locker: Send {
    /// Waits until this name is held.
    fn lock<'a>(&'a mut self, name: &'a str) -> Work<'a>;

    /// Gives back what is held.
    fn unlock(&mut self) -> Work<'_>;
}

/// Is told of what is written.
pub(crate) trait Watcher: Send {
    /// Waits for what was written next, and shows each value.
    fn next<'a>(&'a mut self, see: &'a mut (dyn FnMut(&[u8]) + Send)) -> Work<'a>;
}

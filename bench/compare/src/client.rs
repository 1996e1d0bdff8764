//! What workloads do through a system: one small trait for each kind of work.
//!
//! A client offers what its system can do and answers none for the rest; a workload that needs it is then left out for that
//! system. A further kind of work is a further trait here and a further offer; systems without it do not change.

use std::time::{Duration, Instant};

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

    /// Grants leases that hold a name each and are left to themselves.
    fn lender(&self) -> Option<Box<dyn Lender>> {
        None
    }

    /// Is told when those leases end.
    fn endings(&self) -> Option<Work<'_, Box<dyn Endings>>> {
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

    /// Finds another way to the system after a renewal failed, where the client does not do that by itself.
    fn mend(&mut self) -> Work<'_> {
        Box::pin(async { Ok(()) })
    }
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

/// Grants leases that hold a name each and are left to themselves. A name has a number, told by [`lent`].
pub(crate) trait Lender: Send + Sync {
    /// How many of them the system can have within reason.
    fn most(&self) -> usize {
        usize::MAX
    }

    /// Grants the one of this number; many may be under way together. Tells when its ttl is over, counted from just before
    /// it was asked for; systems that know whole seconds only make it longer.
    fn lend(&self, number: u64, ttl: Duration) -> Work<'_, Instant>;

    /// Whether the one of this number lives.
    fn lives(&self, number: u64) -> Work<'_, bool>;
}

/// What the names begin with that leases left to themselves hold.
pub(crate) const LENT: &str = "lent/";

/// The name that the lease of this number holds.
pub(crate) fn lent(number: u64) -> String {
    format!("{LENT}{number}")
}

/// The number of the lease that holds a name.
pub(crate) fn number_of(name: &str) -> Option<u64> {
    name.strip_prefix(LENT)?.parse().ok()
}

/// Is told of leases that have ended.
pub(crate) trait Endings: Send {
    /// Waits for what ended next, and shows the number of each.
    fn next<'a>(&'a mut self, see: &'a mut (dyn FnMut(u64) + Send)) -> Work<'a>;
}

/// Is told of what is written.
pub(crate) trait Watcher: Send {
    /// Waits for what was written next, and shows each value.
    fn next<'a>(&'a mut self, see: &'a mut (dyn FnMut(&[u8]) + Send)) -> Work<'a>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_its_number() {
        assert_eq!(number_of(&lent(4711)), Some(4711));
        assert_eq!((number_of("kept/1"), number_of("lent/x")), (None, None));
    }
}

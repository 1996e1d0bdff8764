//! The facts that clients note: what they asked, what was acknowledged, what they saw.

use std::time::Duration;

use super::Moment;

/// An acknowledged grant or renewal.
#[derive(Clone, Debug)]
pub struct Ack {
    /// Which lease.
    pub lease: String,
    /// When the attempt that was answered was sent.
    pub sent: Moment,
    /// When the answer came.
    pub answered: Moment,
    /// The remaining time that the answer told.
    pub remaining: Duration,
    /// The ttl that the lease has.
    pub ttl: Duration,
    /// The promised lease time: the lease does not end by time before it has passed.
    pub deadline: u64,
    /// Until when the holder takes itself for valid on the strength of this answer, by its own clock, in true time.
    pub valid_until: Moment,
}

/// A grant or renewal whose answer never came: it may have extended the lease, or not.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// Which lease.
    pub lease: String,
    /// When it was sent.
    pub sent: Moment,
    /// From when on it cannot take effect any more; none if that is not known.
    pub over_by: Option<Moment>,
}

/// What a lease asked of a resource. Only what is unusual must be noted: usual is to ask once and without priority. A
/// lease that asks for the same resource several times notes each time.
#[derive(Clone, Debug)]
pub struct Ask {
    /// Which lease.
    pub lease: String,
    /// For which resource.
    pub resource: String,
    /// Higher goes first.
    pub priority: i32,
}

/// A lease that ends with another.
#[derive(Clone, Debug)]
pub struct Kinship {
    /// The lease.
    pub child: String,
    /// The one it ends with.
    pub parent: String,
}

/// An acknowledged claim on a resource.
#[derive(Clone, Debug)]
pub struct Hold {
    /// Which lease.
    pub lease: String,
    /// Which resource.
    pub resource: String,
    /// Its fencing number.
    pub token: u64,
    /// Whether others may hold it beside.
    pub shared: bool,
    /// When it was asked for.
    pub sent: Moment,
    /// When it was acknowledged.
    pub answered: Moment,
}

/// A release: sent at some moment, acknowledged later or never.
#[derive(Clone, Debug)]
pub struct Release {
    /// Which lease.
    pub lease: String,
    /// Which of its claims was given back; none for the lease with all it carries.
    pub resource: Option<String>,
    /// When its holder stopped being valid: before the first attempt was sent.
    pub sent: Moment,
    /// When it was acknowledged.
    pub answered: Option<Moment>,
}

/// A lease taken by an operator: sent at some moment, acknowledged later or never.
#[derive(Clone, Debug)]
pub struct Revoke {
    /// Which lease.
    pub lease: String,
    /// Whether its resources went on at once, although the holder might still believe.
    pub now: bool,
    /// When the first attempt was sent.
    pub sent: Moment,
    /// When it was acknowledged.
    pub answered: Option<Moment>,
}

/// An answer that a lease is over.
#[derive(Clone, Debug)]
pub struct End {
    /// Which lease.
    pub lease: String,
    /// Why: `released`, `expired`, `revoked`, `parent_ended`, `wait_elapsed` or `left`.
    pub cause: String,
    /// It ended at this lease time or earlier.
    pub ended_by: u64,
    /// When the answer came.
    pub answered: Moment,
}

/// A claim that a look showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// Which resource.
    pub resource: String,
    /// Its fencing number.
    pub token: u64,
    /// The lease time at which it was granted, if that was told.
    pub since: Option<u64>,
}

/// A linearizable look at a lease.
#[derive(Clone, Debug)]
pub struct Look {
    /// Which lease.
    pub lease: String,
    /// When it was asked.
    pub sent: Moment,
    /// When it was answered.
    pub answered: Moment,
    /// Whether it lives; one whose time is over and whose end is only not recorded yet does not.
    pub lives: bool,
    /// All that it held.
    pub held: Vec<Held>,
}

/// An acknowledged write of `number` to a counting key: it has a single writer that counts up from 1, it is bound to
/// no lease, and nobody deletes it.
#[derive(Clone, Debug)]
pub struct Put {
    /// Which key.
    pub key: String,
    /// The value.
    pub number: u64,
    /// The revision of the write.
    pub revision: u64,
    /// How often the key was put; not told by the answer to a repetition.
    pub version: Option<u64>,
    /// When it was acknowledged.
    pub answered: Moment,
}

/// A linearizable look at a counting key; zero if there is no entry.
#[derive(Clone, Debug)]
pub struct ReadBack {
    /// Which key.
    pub key: String,
    /// The value.
    pub number: u64,
    /// How often the key was put.
    pub version: u64,
    /// When it was asked.
    pub sent: Moment,
}

/// Any answer to a command or a linearizable query, with where the state was.
#[derive(Clone, Debug)]
pub struct Answered {
    /// Which client.
    pub client: String,
    /// When it was sent.
    pub sent: Moment,
    /// When the answer came.
    pub answered: Moment,
    /// The revision that the answer is true at.
    pub revision: u64,
    /// The lease time that it is true at, if it was told.
    pub time: Option<u64>,
}

/// What a run is held against.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// By how much the rate of each clock may be off.
    pub drift: f64,
    /// How late a lease may end when all is well.
    pub late: Duration,
    /// How long an event needs to its quickest watcher when all is well; none if ends seen by watchers say nothing
    /// about lateness.
    pub delivery: Option<Duration>,
    /// How long lease time stands still after a take-over, at most.
    pub grace: Duration,
    /// How much lease time is forgotten with each outage, at most: what was not yet committed.
    pub forgotten: Duration,
    /// How much is swept at a time of a mass expiry.
    pub sweep_piece: usize,
    /// How long an entry takes, if that counts: where so little is swept at a time that many take long.
    pub entry: Duration,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds {
            drift: 0.02,
            late: Duration::from_millis(100),
            delivery: None,
            grace: Duration::from_millis(500),
            forgotten: Duration::from_secs(1),
            sweep_piece: 1024,
            entry: Duration::ZERO,
        }
    }
}

impl Bounds {
    /// Until when a holder may act on a remaining time that it was told, if its clock is exact.
    pub fn valid_until(&self, sent: Moment, remaining: Duration) -> Moment {
        sent.after(remaining.mul_f64((1.0 - self.drift) / (1.0 + self.drift)))
    }
}

//! Leases in an etcd cluster: an etcd lease with our id, and a key for it in the queue of the resource.
//!
//! Promised: one holder at a time, waiters served in order of arrival, tokens that rise (the revision that created the key),
//! and that what was acknowledged survives a crash. A waiter keeps its place alive and watches the one before it.
//!
//! Not promised: etcd counts whole seconds and refuses to go below its minimum (2 s with its defaults), so such a ttl is refused
//! here. It keeps renewals in its leader's memory: a new leader gives every lease its full ttl again, and one that
//! wakes up after a long pause may end leases that others kept alive; only the token protects then. A backup put back gives
//! tokens twice. Losses are found by renewing; nothing is pushed. It speaks the JSON gateway (on by default), without TLS.

mod gateway;
mod queue;

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use leasehold_core::{LeaseId, Remaining, Span, Ttl};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use self::gateway::{FAILED_PRECONDITION, Failed, Gateway, NOT_FOUND, base64, number};
use self::queue::{Queue, first_range, range};
use super::foreign::{self, ENDED_KEPT, InTheWay, Other, Wait};
use super::{Capabilities, Granted, Incumbent, ProgressTo, Store, Wish};
use crate::{Endpoints, Error, Moment, Validity};

/// The name in messages.
const NAME: &str = "etcd";
/// How many keys one transaction looks at; etcd's own bound is 128.
const OPERATIONS_MAX: usize = 100;
/// The shortest pause between two signs of life of a waiter.
const PAUSE_MIN: Duration = Duration::from_millis(50);

/// The store over an etcd cluster. Clones share their connections.
#[derive(Clone, Debug)]
pub struct Etcd(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    gateway: Gateway,
    prefix: String,
    /// The etcd lease that marks of ended leases go with, and when it was made.
    marks: Mutex<Option<(i64, Moment)>>,
}

impl Etcd {
    /// A store at addresses like `http://10.0.0.1:2379,http://10.0.0.2:2379`, with keys that begin with `leasehold/`.
    pub fn at(endpoints: &str) -> Result<Etcd, Error> {
        Etcd::with_prefix(endpoints, "leasehold")
    }

    /// The same with keys that begin with `prefix` and a slash; stores with other prefixes do not see each other.
    pub fn with_prefix(endpoints: &str, prefix: &str) -> Result<Etcd, Error> {
        let endpoints: Endpoints =
            endpoints.parse().map_err(|error| Error::invalid("addr", format!("etcd address: {error}")))?;
        let gateway = Gateway::new(endpoints);
        Ok(Etcd(Arc::new(Inner { gateway, prefix: prefix.to_owned(), marks: Mutex::new(None) })))
    }
}

impl Store for Etcd {
    fn name(&self) -> &'static str {
        NAME
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { fencing: true, fair_queue: true, durability: true, ..Capabilities::default() }
    }

    fn grant(&self, wish: Arc<Wish>, progress: ProgressTo) -> BoxFuture<'static, Result<Granted, Error>> {
        let checked = foreign::check(&wish, self);
        let inner = self.0.clone();
        async move {
            checked?;
            inner.grant(&wish, &progress).await
        }
        .boxed()
    }

    fn renew(&self, leases: Vec<Arc<Wish>>) -> BoxFuture<'static, Result<Vec<Result<Validity, Error>>, Error>> {
        let inner = self.0.clone();
        async move {
            let mut renewed = Vec::with_capacity(leases.len());
            for part in leases.chunks(OPERATIONS_MAX) {
                renewed.extend(inner.renew(part).await?);
            }
            Ok(renewed)
        }
        .boxed()
    }

    fn release(&self, lease: Arc<Wish>) -> BoxFuture<'static, Result<(), Error>> {
        let inner = self.0.clone();
        async move { inner.end(&lease).await }.boxed()
    }

    fn abandon(&self, wish: Arc<Wish>) -> BoxFuture<'static, Result<(), Error>> {
        self.release(wish)
    }

    fn incumbent(&self, resource: &str) -> BoxFuture<'static, Result<Option<Incumbent>, Error>> {
        let inner = self.0.clone();
        let resource = resource.to_owned();
        async move {
            foreign::check_resource(&resource)?;
            let (_, answer) = inner.gateway.call("/v3/kv/range", &first_range(&inner.queue(&resource))).await?;
            let first = Queue::read(&answer).places.into_iter().next();
            Ok(first.map(|first| Incumbent { holder: first.note.holder, token: Some(first.token) }))
        }
        .boxed()
    }
}

impl Inner {
    async fn grant(&self, wish: &Wish, progress: &ProgressTo) -> Result<Granted, Error> {
        let wait = Wait::begin(wish.patience);
        let mut waited = Duration::ZERO;
        let mut validity = self.begin_lease(wish).await?;
        let mut queue = self.enter(wish).await?;
        loop {
            let place = queue.places.iter().position(|place| place.lease == wish.id);
            if place == Some(0) {
                return Ok(Granted { validity, tokens: vec![Some(queue.places[0].token)], waited });
            }
            let in_the_way = self.in_the_way(wish, &queue, place).await?;
            let left = match wait.left(&in_the_way) {
                Ok(left) => left,
                Err(refused) => {
                    self.revoke(wish.id).await?;
                    return Err(refused);
                }
            };
            let Some(before) = place.and_then(|place| queue.places.get(place - 1)) else {
                // It was in the queue and is not any more: its time ran out, or somebody removed it.
                return Err(foreign::lost(wish, None));
            };
            progress.tell(in_the_way.progress());
            let rest = validity.left().unwrap_or_default() / 2;
            let key = self.key(wish, before.lease);
            self.gateway.await_change(&key, queue.revision, rest.max(PAUSE_MIN).min(left)).await?;
            validity = self.keep_alive(wish).await?;
            let (_, answer) = self.gateway.call("/v3/kv/range", &range(&self.queue(resource(wish)))).await?;
            queue = Queue::read(&answer);
            waited = wait.elapsed();
        }
    }

    /// Makes the etcd lease, or finds the one of an earlier attempt.
    async fn begin_lease(&self, wish: &Wish) -> Result<Validity, Error> {
        let seconds = seconds(wish.ttl);
        let ask = json!({"ID": wish.id.number().to_string(), "TTL": seconds.to_string()});
        match self.gateway.call("/v3/lease/grant", &ask).await {
            Ok((sent, answer)) if number(&answer["TTL"]) == seconds => Ok(valid(sent, seconds)),
            Ok((_, answer)) => {
                self.revoke(wish.id).await?;
                let minimum = number(&answer["TTL"]);
                let detail = format!("this etcd grants {minimum}s for a ttl of {seconds}s; choose {minimum}s or more");
                Err(foreign::ttl_out_of_bounds(detail))
            }
            Err(failed) if failed.is(FAILED_PRECONDITION) => {
                let ask = json!({"ID": wish.id.number().to_string()});
                let (sent, answer) = self.gateway.call("/v3/lease/timetolive", &ask).await?;
                match number(&answer["TTL"]) {
                    gone if gone < 0 => Err(foreign::lost(wish, None)),
                    // During a change of leaders etcd may tell nonsense, but it never grants more than was asked for.
                    left => Ok(valid(sent, left.min(seconds))),
                }
            }
            Err(failed) => Err(failed.into()),
        }
    }

    /// Enters the queue, or finds the place of an earlier attempt. One that is not to wait enters only an empty queue.
    async fn enter(&self, wish: &Wish) -> Result<Queue, Error> {
        let (queue, key, ended) = (self.queue(resource(wish)), self.key(wish, wish.id), self.ended(wish.id));
        let absent = |key: &str, end: Option<String>| {
            let mut compare =
                json!({"target": "CREATE", "result": "EQUAL", "key": base64(key), "create_revision": "0"});
            if let Some(end) = end {
                compare["range_end"] = json!(base64(&end));
            }
            compare
        };
        let free = match wish.patience {
            leasehold_core::Patience::None => absent(&queue, Some(queue::end(&queue))),
            leasehold_core::Patience::For(_) | leasehold_core::Patience::Endless => absent(&key, None),
        };
        let note = queue::note(wish);
        let put = json!({"key": base64(&key), "value": base64(&note), "lease": wish.id.number().to_string()});
        let transaction = json!({
            "compare": [absent(&ended, None), free],
            "success": [{"request_put": put}, {"request_range": range(&queue)}],
            "failure": [{"request_range": {"key": base64(&ended)}}, {"request_range": range(&queue)}],
        });
        let answer = match self.gateway.call("/v3/kv/txn", &transaction).await {
            Ok((_, answer)) => answer,
            // The lease ended since: there is nothing to enter with.
            Err(failed) if failed.is(NOT_FOUND) => return Err(foreign::lost(wish, None)),
            Err(failed) => return Err(failed.into()),
        };
        let responses = &answer["responses"];
        if answer["succeeded"] != true && number(&responses[0]["response_range"]["count"]) > 0 {
            self.revoke(wish.id).await?;
            return Err(foreign::ended());
        }
        Ok(Queue { revision: Queue::read(&answer).revision, ..Queue::read(&responses[1]["response_range"]) })
    }

    /// Who holds the resource, with the time its lease has left.
    async fn in_the_way(&self, wish: &Wish, queue: &Queue, place: Option<usize>) -> Result<InTheWay, Error> {
        let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let waiting = queue.places.len().saturating_sub(1);
        let mut other = None;
        if let Some(holder) = queue.places.first() {
            let ask = json!({"ID": holder.lease.number().to_string()});
            let (_, answer) = self.gateway.call("/v3/lease/timetolive", &ask).await?;
            let left = u64::try_from(number(&answer["TTL"])).unwrap_or(0);
            other = Some(Other {
                lease: holder.lease,
                note: holder.note.clone(),
                token: holder.token,
                since_ms: holder.since_ms,
                held_for: Duration::from_millis(queue::wall_ms().saturating_sub(holder.since_ms)),
                remaining: Remaining::For(Span::seconds(left)),
            });
        }
        let place = Some((count(place.unwrap_or(waiting + 1)), count(waiting)));
        Ok(InTheWay { resource: resource(wish).to_owned(), other, place })
    }

    async fn keep_alive(&self, wish: &Wish) -> Result<Validity, Error> {
        let ask = json!({"ID": wish.id.number().to_string()});
        let (sent, answer) = self.gateway.call("/v3/lease/keepalive", &ask).await?;
        match number(&answer["TTL"]) {
            0 => Err(foreign::lost(wish, None)),
            left => Ok(valid(sent, left)),
        }
    }

    /// Renews the etcd leases, then looks whether their keys are still first: a lease can outlive its key.
    async fn renew(&self, leases: &[Arc<Wish>]) -> Result<Vec<Result<Validity, Error>>, Error> {
        if leases.is_empty() {
            return Ok(Vec::new());
        }
        let asks: Vec<String> =
            leases.iter().map(|lease| json!({"ID": lease.id.number().to_string()}).to_string()).collect();
        let (sent, answers) = self.gateway.stream("/v3/lease/keepalive", asks.join("\n")).await?;
        let looks: Vec<Value> =
            leases.iter().map(|lease| json!({"request_range": first_range(&self.queue(resource(lease)))})).collect();
        let (_, looked) = self.gateway.call("/v3/kv/txn", &json!({"success": looks})).await?;
        let renewed = leases.iter().enumerate().map(|(index, lease)| {
            let id = lease.id.number().to_string();
            let answer = answers.iter().find(|answer| answer["ID"] == id.as_str());
            let first = Queue::read(&looked["responses"][index]["response_range"]).places.into_iter().next();
            match (answer.map_or(0, |answer| number(&answer["TTL"])), first) {
                (left, Some(first)) if left > 0 && first.lease == lease.id => Ok(valid(sent, left)),
                (_, Some(first)) if first.lease != lease.id => Err(foreign::lost(lease, Some(first.token))),
                (_, _) => Err(foreign::lost(lease, None)),
            }
        });
        Ok(renewed.collect())
    }

    /// Frees the resource and marks the lease as over in one step, then ends the etcd lease.
    async fn end(&self, lease: &Wish) -> Result<(), Error> {
        let mut attempt = 1;
        loop {
            let marks = self.mark_lease().await?;
            let mark = json!({"key": base64(&self.ended(lease.id)), "value": "", "lease": marks.to_string()});
            let transaction = json!({"success": [
                {"request_put": mark},
                {"request_delete_range": {"key": base64(&self.key(lease, lease.id))}},
            ]});
            match self.gateway.call("/v3/kv/txn", &transaction).await {
                Ok(_) => return self.revoke(lease.id).await,
                // The lease of the marks is gone, and nothing has happened yet.
                Err(failed) if failed.is(NOT_FOUND) && attempt == 1 => *self.marks.lock().await = None,
                Err(failed) => return Err(failed.into()),
            }
            attempt += 1;
        }
    }

    /// An etcd lease that lasts at least as long as an end is to be remembered.
    async fn mark_lease(&self) -> Result<i64, Error> {
        let mut marks = self.marks.lock().await;
        if let Some((id, made)) = *marks
            && made.elapsed() < ENDED_KEPT
        {
            return Ok(id);
        }
        let made = Moment::now();
        let ask = json!({"TTL": (2 * ENDED_KEPT).as_secs().to_string()});
        let (_, answer) = self.gateway.call("/v3/lease/grant", &ask).await?;
        let id = number(&answer["ID"]);
        *marks = Some((id, made));
        Ok(id)
    }

    /// Ends an etcd lease with its key; it is no error if it has ended already.
    async fn revoke(&self, lease: LeaseId) -> Result<(), Error> {
        match self.gateway.call("/v3/lease/revoke", &json!({"ID": lease.number().to_string()})).await {
            Err(Failed::Refused { code: NOT_FOUND, .. }) | Ok(_) => Ok(()),
            Err(failed) => Err(failed.into()),
        }
    }

    /// What the keys of a resource's queue begin with. No name contains two slashes in a row, so none of another
    /// resource begins so.
    fn queue(&self, resource: &str) -> String {
        format!("{}/held/{resource}//", self.prefix)
    }

    fn key(&self, wish: &Wish, lease: LeaseId) -> String {
        format!("{}{:016x}", self.queue(resource(wish)), lease.number())
    }

    fn ended(&self, lease: LeaseId) -> String {
        format!("{}/ended/{:016x}", self.prefix, lease.number())
    }
}

/// The one resource of a wish; more are beyond the store's capabilities, and none is no wish.
fn resource(wish: &Wish) -> &str {
    wish.resources.first().map_or("", String::as_str)
}

/// The ttl as etcd counts; parts of a second and endless ones are beyond the store's capabilities.
fn seconds(ttl: Ttl) -> i64 {
    foreign::ttl_ms(ttl).and_then(|ms| i64::try_from(ms / 1000).ok()).unwrap_or(i64::MAX)
}

fn valid(sent: Moment, seconds: i64) -> Validity {
    Validity::new(sent, Remaining::For(Span::seconds(u64::try_from(seconds).unwrap_or(0))))
}

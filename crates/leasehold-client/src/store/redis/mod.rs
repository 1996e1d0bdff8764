//! Leases in one Redis server (or Valkey): a key per resource, changed by scripts that check whose it is.
//!
//! Promised: one holder at a time, several resources all or none, tokens that rise, a ttl in milliseconds. A waiter looks
//! again every 30 to 120 ms; there is no queue and nothing is pushed.
//!
//! Not promised: Redis answers before anything is on disk and copies to replicas later, so a crash or a fail-over may
//! forget a lease whose holder still acts; use one server, not a cluster, with `maxmemory-policy noeviction`. Tokens still
//! rise after such a loss, because a lost counter begins at the server's wall clock, if that clock has not gone back.
//! Redis counts a ttl by its wall clock too: setting it forward ends leases early.

mod scripts;

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use leasehold_core::{LeaseId, Remaining, Span};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, ErrorKind, Pipeline, RedisError, Script, ServerErrorKind, Value};
use tokio::sync::Mutex;

use super::foreign::{self, InTheWay, Note, Other};
use super::poll::{Look, poll};
use super::{Capabilities, Granted, Incumbent, ProgressTo, Store, Wish};
use crate::{Error, Moment, Validity};

/// The name in messages.
const NAME: &str = "redis";
/// How many leases are renewed in one pipeline, so that a large batch lets other callers in between.
const PIPELINE_MAX: usize = 1000;

/// The store over one Redis server. Clones share one connection, made when it is first needed.
#[derive(Clone)]
pub struct Redis(Arc<Inner>);

struct Inner {
    client: Client,
    addr: String,
    prefix: String,
    connection: Mutex<Option<MultiplexedConnection>>,
}

impl std::fmt::Debug for Redis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redis").field("addr", &self.0.addr).field("prefix", &self.0.prefix).finish()
    }
}

impl Redis {
    /// A store at an address like `redis://127.0.0.1:6379/0`, with keys that begin with `leasehold:`.
    pub fn at(url: &str) -> Result<Redis, Error> {
        Redis::with_prefix(url, "leasehold")
    }

    /// The same with keys that begin with `prefix` and a colon; stores with other prefixes do not see each other.
    pub fn with_prefix(url: &str, prefix: &str) -> Result<Redis, Error> {
        let client = Client::open(url).map_err(|error| Error::invalid("addr", format!("redis address: {error}")))?;
        // Without the password, which the address may contain.
        let addr = format!("redis://{}", client.get_connection_info().addr());
        let connection = Mutex::new(None);
        Ok(Redis(Arc::new(Inner { client, addr, prefix: prefix.to_owned(), connection })))
    }
}

impl Store for Redis {
    fn name(&self) -> &'static str {
        NAME
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            fencing: true,
            sub_second_ttl: true,
            several_resources: true,
            endless_ttl: true,
            ..Capabilities::default()
        }
    }

    fn grant(&self, wish: Arc<Wish>, progress: ProgressTo) -> BoxFuture<'static, Result<Granted, Error>> {
        let checked = foreign::check(&wish, self);
        let inner = self.0.clone();
        async move {
            checked?;
            poll(&wish, &progress, || inner.look(&wish)).await
        }
        .boxed()
    }

    fn renew(&self, leases: Vec<Arc<Wish>>) -> BoxFuture<'static, Result<Vec<Result<Validity, Error>>, Error>> {
        let inner = self.0.clone();
        async move {
            let mut renewed = Vec::with_capacity(leases.len());
            for part in leases.chunks(PIPELINE_MAX) {
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
            let mut pipeline = Pipeline::new();
            pipeline.cmd("GET").arg(inner.held(&resource));
            let (_, answers) = inner.ask(&pipeline).await?;
            let value = text(answers.first()).map(|value| inner.other(&value, -1, 0)).transpose()?;
            Ok(value.map(|other| Incumbent { holder: other.note.holder, token: Some(other.token) }))
        }
        .boxed()
    }
}

impl Inner {
    /// Tries to grant once.
    async fn look(&self, wish: &Wish) -> Result<Look, Error> {
        let script = Script::new(scripts::GRANT);
        let mut pipeline = load(scripts::GRANT);
        let keys = wish.resources.iter().flat_map(|name| [self.held(name), self.token(name)]);
        call(&mut pipeline, &script, std::iter::once(self.ended(wish.id)).chain(keys))
            .arg(id(wish.id))
            .arg(foreign::ttl_ms(wish.ttl).unwrap_or(0))
            .arg(Note::of(wish))
            .arg(foreign::span(foreign::ENDED_KEPT).0);
        let (sent, answers) = self.ask(&pipeline).await?;
        let answer = words(answers.get(1)).ok_or_else(|| self.strange(&answers))?;
        match answer.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["granted", left, ref tokens @ ..] if tokens.len() == wish.resources.len() => {
                let validity = Validity::new(sent, remaining(left.parse().map_err(|_| self.strange(&answers))?));
                let tokens = tokens.iter().map(|token| token.parse().ok()).collect();
                Ok(Look::Granted(Granted { validity, tokens, waited: Duration::ZERO }))
            }
            ["held", index, value, left, now] => {
                let number = |text: &str| text.parse::<i64>().map_err(|_| self.strange(&answers));
                let index = usize::try_from(number(index)?).unwrap_or(0);
                let resource = wish.resources.get(index.wrapping_sub(1)).ok_or_else(|| self.strange(&answers))?;
                let other = self.other(value, number(left)?, u64::try_from(number(now)?).unwrap_or(0))?;
                Ok(Look::InTheWay(InTheWay { resource: resource.clone(), other: Some(other), place: None }))
            }
            ["ended"] => Err(foreign::ended()),
            _ => Err(self.strange(&answers)),
        }
    }

    async fn renew(&self, leases: &[Arc<Wish>]) -> Result<Vec<Result<Validity, Error>>, Error> {
        let script = Script::new(scripts::RENEW);
        let mut pipeline = load(scripts::RENEW);
        for lease in leases {
            call(&mut pipeline, &script, lease.resources.iter().map(|name| self.held(name)))
                .arg(id(lease.id))
                .arg(foreign::ttl_ms(lease.ttl).unwrap_or(0));
        }
        let (sent, answers) = self.ask(&pipeline).await?;
        if answers.len() != leases.len() + 1 {
            return Err(self.strange(&answers));
        }
        let mut renewed = Vec::with_capacity(leases.len());
        for (lease, answer) in leases.iter().zip(&answers[1..]) {
            let answer = words(Some(answer)).ok_or_else(|| self.strange(&answers))?;
            renewed.push(match answer.iter().map(String::as_str).collect::<Vec<_>>()[..] {
                ["renewed", left] => {
                    Ok(Validity::new(sent, remaining(left.parse().map_err(|_| self.strange(&answers))?)))
                }
                ["lost", token] => Err(foreign::lost(lease, token.parse().ok())),
                _ => return Err(self.strange(&answers)),
            });
        }
        Ok(renewed)
    }

    async fn end(&self, lease: &Wish) -> Result<(), Error> {
        let script = Script::new(scripts::END);
        let mut pipeline = load(scripts::END);
        let keys = lease.resources.iter().map(|name| self.held(name));
        call(&mut pipeline, &script, std::iter::once(self.ended(lease.id)).chain(keys))
            .arg(id(lease.id))
            .arg(foreign::span(foreign::ENDED_KEPT).0);
        self.ask(&pipeline).await.map(drop)
    }

    /// Sends commands and reads their answers: one attempt. Tells when they were sent.
    async fn ask(&self, pipeline: &Pipeline) -> Result<(Moment, Vec<Value>), Error> {
        let mut connection = self.connection().await?;
        let sent = Moment::now();
        match pipeline.query_async::<Vec<Value>>(&mut connection).await {
            Ok(answers) => Ok((sent, answers)),
            Err(error) => {
                // Whatever else is on its way over this connection gets its own answer or error.
                if error.is_unrecoverable_error() || error.is_timeout() || error.is_io_error() {
                    *self.connection.lock().await = None;
                }
                Err(self.failed(&error))
            }
        }
    }

    async fn connection(&self) -> Result<MultiplexedConnection, Error> {
        let mut kept = self.connection.lock().await;
        if let Some(connection) = &*kept {
            return Ok(connection.clone());
        }
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(foreign::CONNECT_TIMEOUT))
            .set_response_timeout(Some(foreign::ANSWER_TIMEOUT));
        let made = self.client.get_multiplexed_async_connection_with_config(&config).await;
        let made = made.map_err(|error| self.failed(&error))?;
        Ok(kept.insert(made).clone())
    }

    fn failed(&self, error: &RedisError) -> Error {
        if matches!(error.kind(), ErrorKind::AuthenticationFailed | ErrorKind::Server(ServerErrorKind::NoPerm))
            || matches!(error.code(), Some("NOAUTH" | "WRONGPASS"))
        {
            return foreign::denied(format!("{} refuses: {error}", self.addr));
        }
        let cause = match error {
            _ if error.is_connection_refusal() => "connection refused".to_owned(),
            _ if error.is_timeout() => "no answer in time".to_owned(),
            _ if error.is_connection_dropped() => "connection closed".to_owned(),
            _ => error.to_string(),
        };
        Error::Unreachable { addr: self.addr.clone(), cause }
    }

    fn strange(&self, answers: &[Value]) -> Error {
        let shown: String = format!("{answers:?}").chars().take(80).collect();
        Error::Unreachable { addr: self.addr.clone(), cause: format!("the answer makes no sense: {shown}") }
    }

    /// Reads the value of a held resource with `left` ms to live (-1: no end) when the server's clock showed `now` ms.
    fn other(&self, value: &str, left: i64, now: u64) -> Result<Other, Error> {
        let mut parts = value.splitn(4, ' ');
        let mut next = || parts.next().ok_or_else(|| self.strange(&[Value::SimpleString(value.to_owned())]));
        let (lease, token, since, note) = (next()?, next()?, next()?, next()?);
        let lease = u64::from_str_radix(lease, 16).ok().and_then(LeaseId::new);
        match (lease, token.parse(), since.parse::<u64>()) {
            (Some(lease), Ok(token), Ok(since_ms)) => Ok(Other {
                lease,
                note: Note::read(note),
                token,
                since_ms,
                held_for: Duration::from_millis(now.saturating_sub(since_ms)),
                remaining: remaining(left),
            }),
            _ => Err(self.strange(&[Value::SimpleString(value.to_owned())])),
        }
    }

    fn held(&self, resource: &str) -> String {
        format!("{}:held:{resource}", self.prefix)
    }

    fn token(&self, resource: &str) -> String {
        format!("{}:token:{resource}", self.prefix)
    }

    fn ended(&self, lease: LeaseId) -> String {
        format!("{}:ended:{}", self.prefix, id(lease))
    }
}

/// A pipeline that begins with making a script known, so that a restarted server knows it again.
fn load(text: &str) -> Pipeline {
    let mut pipeline = Pipeline::new();
    pipeline.cmd("SCRIPT").arg("LOAD").arg(text);
    pipeline
}

/// Adds a run of a script.
fn call<'a>(pipeline: &'a mut Pipeline, script: &Script, keys: impl Iterator<Item = String>) -> &'a mut Pipeline {
    let keys: Vec<String> = keys.collect();
    pipeline.cmd("EVALSHA").arg(script.get_hash()).arg(keys.len()).arg(keys)
}

fn id(lease: LeaseId) -> String {
    format!("{:016x}", lease.number())
}

/// The time left by an answer of PTTL.
fn remaining(left: i64) -> Remaining {
    u64::try_from(left).map_or(Remaining::Endless, |left| Remaining::For(Span(left)))
}

fn text(value: Option<&Value>) -> Option<String> {
    value.and_then(|value| redis::from_redis_value_ref::<Option<String>>(value).ok().flatten())
}

fn words(value: Option<&Value>) -> Option<Vec<String>> {
    value.and_then(|value| redis::from_redis_value_ref::<Vec<String>>(value).ok())
}

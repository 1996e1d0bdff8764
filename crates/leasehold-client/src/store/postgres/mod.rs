//! Leases in a PostgreSQL database: a row per resource, changed by functions that check whose it is.
//!
//! Promised: one holder at a time, several resources all or none, tokens that rise, a ttl in milliseconds, and that
//! what was acknowledged survives a crash of the server. A waiter looks again every 30 to 120 ms; there is no queue
//! and nothing is pushed.
//!
//! Not promised: the deadline is a time of the server's wall clock, so setting that clock forward ends leases early. A
//! fail-over to an asynchronous standby, or a backup put back, may forget grants and give a token twice. Tables and functions
//! live in the schema `leasehold` (`schema.sql` beside this file) and are made when they are missing.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, try_join_all};
use leasehold_core::{LeaseId, Remaining, Span};
use tokio::sync::Mutex;
use tokio_postgres::config::Host;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Config, NoTls, Row};

use super::foreign::{self, InTheWay, Note, Other};
use super::poll::{Look, poll};
use super::{Capabilities, Granted, Incumbent, ProgressTo, Store, Wish};
use crate::http::cause_of;
use crate::{Error, Moment, Validity};

/// The name in messages.
const NAME: &str = "postgres";
/// The tables and functions.
const SCHEMA: &str = include_str!("schema.sql");
/// Whether they are there: the newest of them.
const HAS_SCHEMA: &str = "SELECT to_regprocedure('leasehold.end_lease(bigint,bigint)') IS NOT NULL";
/// Only one at a time makes them; any number that others hardly use.
const SCHEMA_LOCK: i64 = 0x6c65_6173_6568_6f6c;
/// What every connection begins with: an answer means that it is on disk, and nobody waits for ever for a row.
const SETTINGS: &str = "SET synchronous_commit = on; SET statement_timeout = '5s'; SET lock_timeout = '3s'; \
    SET idle_in_transaction_session_timeout = '5s'; SET default_transaction_isolation = 'read committed'";

const GRANT: &str = "SELECT * FROM leasehold.grant_lease($1, $2, $3, $4)";
const RENEW: &str = "SELECT * FROM leasehold.renew_lease($1, $2, $3)";
const END: &str = "SELECT leasehold.end_lease($1, $2)";
const INCUMBENT: &str = "SELECT note, token FROM leasehold.resources \
    WHERE name = $1 AND lease IS NOT NULL AND deadline > clock_timestamp()";

/// A parameter of a statement.
type Typed<'a> = (&'a (dyn ToSql + Sync), Type);

/// The store over a PostgreSQL database. Clones share one connection, made when it is first needed.
#[derive(Clone, Debug)]
pub struct Postgres(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    config: Config,
    addr: String,
    client: Mutex<Option<Arc<Client>>>,
}

impl Postgres {
    /// A store at an address like `postgres://user:password@127.0.0.1:5432/database`, without TLS.
    pub fn at(url: &str) -> Result<Postgres, Error> {
        let config: Config =
            url.parse().map_err(|error| Error::invalid("addr", format!("postgres address: {error}")))?;
        Ok(Postgres::with_config(config))
    }

    /// A store with all settings of a connection at hand.
    pub fn with_config(mut config: Config) -> Postgres {
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(foreign::CONNECT_TIMEOUT);
        }
        if config.get_application_name().is_none() {
            config.application_name("leasehold");
        }
        let addr = addr(&config);
        Postgres(Arc::new(Inner { config, addr, client: Mutex::new(None) }))
    }
}

impl Store for Postgres {
    fn name(&self) -> &'static str {
        NAME
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            fencing: true,
            sub_second_ttl: true,
            several_resources: true,
            endless_ttl: true,
            durability: true,
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
        // Statements that are begun together travel together.
        async move { try_join_all(leases.iter().map(|lease| inner.renew(lease))).await }.boxed()
    }

    fn release(&self, lease: Arc<Wish>) -> BoxFuture<'static, Result<(), Error>> {
        let inner = self.0.clone();
        async move {
            let kept = whole(foreign::span(foreign::ENDED_KEPT).0);
            inner.ask(END, &[(&id(&lease), Type::INT8), (&kept, Type::INT8)]).await.map(drop)
        }
        .boxed()
    }

    fn abandon(&self, wish: Arc<Wish>) -> BoxFuture<'static, Result<(), Error>> {
        self.release(wish)
    }

    fn incumbent(&self, resource: &str) -> BoxFuture<'static, Result<Option<Incumbent>, Error>> {
        let inner = self.0.clone();
        let resource = resource.to_owned();
        async move {
            foreign::check_resource(&resource)?;
            let (_, rows) = inner.ask(INCUMBENT, &[(&resource, Type::TEXT)]).await?;
            let Some(row) = rows.first() else { return Ok(None) };
            let note: String = inner.read(row, "note")?;
            Ok(Some(Incumbent { holder: Note::read(&note).holder, token: inner.number(row, "token")? }))
        }
        .boxed()
    }
}

impl Inner {
    /// Tries to grant once.
    async fn look(&self, wish: &Wish) -> Result<Look, Error> {
        let ttl = foreign::ttl_ms(wish.ttl).map(whole);
        let (id, note) = (id(wish), Note::of(wish));
        let with: [Typed<'_>; 4] =
            [(&id, Type::INT8), (&wish.resources, Type::TEXT_ARRAY), (&ttl, Type::INT8), (&note, Type::TEXT)];
        let (sent, rows) = self.ask(GRANT, &with).await?;
        let first = rows.first().ok_or_else(|| self.strange("no row"))?;
        let remaining = remaining(self.number(first, "left_ms")?);
        match self.read::<String>(first, "outcome")?.as_str() {
            "granted" if rows.len() == wish.resources.len() => {
                let tokens = rows.iter().map(|row| self.number(row, "token")).collect::<Result<_, _>>()?;
                let validity = Validity::new(sent, remaining);
                Ok(Look::Granted(Granted { validity, tokens, waited: Duration::ZERO }))
            }
            "held" => {
                let lease = self.number(first, "lease")?.and_then(LeaseId::new);
                let other = Other {
                    lease: lease.ok_or_else(|| self.strange("a lease without an id"))?,
                    note: Note::read(&self.read::<String>(first, "note")?),
                    token: self.number(first, "token")?.unwrap_or(0),
                    since_ms: self.number(first, "since_ms")?.unwrap_or(0),
                    held_for: Duration::from_millis(self.number(first, "held_ms")?.unwrap_or(0)),
                    remaining,
                };
                let resource = self.read(first, "resource")?;
                Ok(Look::InTheWay(InTheWay { resource, other: Some(other), place: None }))
            }
            "ended" => Err(foreign::ended()),
            outcome => Err(self.strange(outcome)),
        }
    }

    async fn renew(&self, lease: &Wish) -> Result<Result<Validity, Error>, Error> {
        let ttl = foreign::ttl_ms(lease.ttl).map(whole);
        let id = id(lease);
        let with: [Typed<'_>; 3] = [(&id, Type::INT8), (&lease.resources, Type::TEXT_ARRAY), (&ttl, Type::INT8)];
        let (sent, rows) = self.ask(RENEW, &with).await?;
        let row = rows.first().ok_or_else(|| self.strange("no row"))?;
        match self.read::<String>(row, "outcome")?.as_str() {
            "renewed" => Ok(Ok(Validity::new(sent, remaining(self.number(row, "left_ms")?)))),
            "lost" => Ok(Err(foreign::lost(lease, self.number(row, "token")?))),
            outcome => Err(self.strange(outcome)),
        }
    }

    /// Runs a statement: one attempt and one round trip. Tells when it was sent.
    async fn ask(&self, statement: &str, with: &[Typed<'_>]) -> Result<(Moment, Vec<Row>), Error> {
        let client = self.client().await?;
        let sent = Moment::now();
        match tokio::time::timeout(foreign::ANSWER_TIMEOUT, client.query_typed(statement, with)).await {
            Ok(Ok(rows)) => Ok((sent, rows)),
            Ok(Err(error)) => Err(self.failed(&error)),
            Err(_) => {
                *self.client.lock().await = None;
                Err(self.unreachable("no answer in time".to_owned()))
            }
        }
    }

    async fn client(&self) -> Result<Arc<Client>, Error> {
        let mut kept = self.client.lock().await;
        if let Some(client) = kept.as_ref().filter(|client| !client.is_closed()) {
            return Ok(client.clone());
        }
        let made = tokio::time::timeout(foreign::ANSWER_TIMEOUT, self.connect()).await;
        let made = made.unwrap_or_else(|_| Err(self.unreachable("no answer in time".to_owned())))?;
        Ok(kept.insert(Arc::new(made)).clone())
    }

    async fn connect(&self) -> Result<Client, Error> {
        let failed = |error| self.failed(&error);
        let (client, connection) = self.config.connect(NoTls).await.map_err(failed)?;
        // It ends with its client; what went wrong is told to those who wait for an answer.
        tokio::spawn(connection.map(drop));
        client.batch_execute(SETTINGS).await.map_err(failed)?;
        let row = client.query_one(HAS_SCHEMA, &[]).await.map_err(failed)?;
        if !self.read::<bool>(&row, "?column?")? {
            let locked = format!("BEGIN; SELECT pg_advisory_xact_lock({SCHEMA_LOCK}); {SCHEMA} COMMIT");
            client.batch_execute(&locked).await.map_err(failed)?;
        }
        Ok(client)
    }

    fn failed(&self, error: &tokio_postgres::Error) -> Error {
        let refusal = error.as_db_error();
        let is_denial = refusal.is_some_and(|refusal| {
            [&SqlState::INSUFFICIENT_PRIVILEGE, &SqlState::INVALID_PASSWORD].contains(&refusal.code())
                || refusal.code() == &SqlState::INVALID_AUTHORIZATION_SPECIFICATION
        });
        match refusal {
            Some(refusal) if is_denial => foreign::denied(format!("{} refuses: {}", self.addr, refusal.message())),
            Some(refusal) => self.unreachable(refusal.message().to_owned()),
            None => self.unreachable(cause_of(error)),
        }
    }

    fn unreachable(&self, cause: String) -> Error {
        Error::Unreachable { addr: self.addr.clone(), cause }
    }

    fn strange(&self, what: &str) -> Error {
        self.unreachable(format!("the answer makes no sense: {what}"))
    }

    fn read<'a, T: tokio_postgres::types::FromSql<'a>>(&self, row: &'a Row, column: &str) -> Result<T, Error> {
        row.try_get(column).map_err(|error| self.strange(&error.to_string()))
    }

    fn number(&self, row: &Row, column: &str) -> Result<Option<u64>, Error> {
        Ok(self.read::<Option<i64>>(row, column)?.map(|number| u64::try_from(number).unwrap_or(0)))
    }
}

/// Where the server is, without the password.
fn addr(config: &Config) -> String {
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(host)) => host.clone(),
        #[cfg(unix)]
        Some(Host::Unix(path)) => path.display().to_string(),
        None => "localhost".to_owned(),
    };
    let port = config.get_ports().first().copied().unwrap_or(5432);
    format!("postgres://{host}:{port}")
}

fn id(wish: &Wish) -> i64 {
    whole(wish.id.number())
}

/// A number as PostgreSQL counts; ids and bounded durations fit.
fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn remaining(left_ms: Option<u64>) -> Remaining {
    left_ms.map_or(Remaining::Endless, |left| Remaining::For(Span(left)))
}

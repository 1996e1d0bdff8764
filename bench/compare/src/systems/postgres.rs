//! PostgreSQL as a lease table: a row for each name, with its holder, a token that rises with every grant, and when it ends.
//!
//! Every statement is prepared and is a transaction of its own, so an answer comes after its flush. Those who wait listen to
//! a channel. To tell it makes all commits wait for one another, so a lock is only told of once somebody has wanted it while
//! it was held. The server refuses to run as root, so root starts it as `nobody`.

use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::stream::{self, StreamExt as _};
use rustix::process::Signal;
use tokio::sync::broadcast::{self, error::RecvError};
use tokio_postgres::types::ToSql;
use tokio_postgres::{AsyncMessage, NoTls, Row, Statement};

use super::said;
use crate::client::{Client, Granter, Lender, Life, Locker, Renewer, Work, Writer, lent};
use crate::process::{Server, command, free_address, program, version};
use crate::system::{About, Running, System};

/// Where the program is.
const VARIABLE: &str = "LEASEHOLD_POSTGRES";
const PROGRAM: &str = "postgres";
/// The user and group `nobody` of Debian.
const NOBODY: u32 = 65534;
/// More than any workload has callers.
const CONNECTIONS: &str = "max_connections=1200";

/// Rows are replaced all the time: half of each page is kept free, so that this touches no index.
const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS lease (
        name text PRIMARY KEY, holder text NOT NULL, token bigint NOT NULL, expires_at timestamptz NOT NULL,
        wanted boolean NOT NULL DEFAULT false
    ) WITH (fillfactor = 50);
    CREATE TABLE IF NOT EXISTS entry (key text PRIMARY KEY, value bytea NOT NULL) WITH (fillfactor = 50);";
/// Only one at a time makes them.
const TABLES_LOCK: &str = "SELECT pg_advisory_lock(1)";
const TABLES_UNLOCK: &str = "SELECT pg_advisory_unlock(1)";

const ACQUIRE: &str = "
    INSERT INTO lease AS held (name, holder, token, expires_at) VALUES ($1, $2, 1, now() + interval '10 minutes')
    ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, token = held.token + 1, expires_at = excluded.expires_at
    WHERE held.expires_at <= now() RETURNING token";
/// The same for those who wait, where a row is known to be there: one that is held is not even locked by this.
const TAKE: &str = "
    UPDATE lease SET holder = $2, token = token + 1, expires_at = now() + interval '10 minutes'
    WHERE name = $1 AND expires_at <= now() RETURNING token";
/// The row stays, so that tokens go on rising.
const RELEASE: &str = "
    WITH released AS (
        UPDATE lease SET expires_at = '-infinity' WHERE name = $1 AND token = $2 RETURNING name, wanted
    ) SELECT CASE WHEN wanted THEN pg_notify('released', name) END FROM released";
const WANT: &str = "UPDATE lease SET wanted = true WHERE name = $1 AND NOT wanted";
const RENEW: &str = "
    UPDATE lease SET expires_at = now() + interval '10 minutes' FROM unnest($1::text[], $2::bigint[]) AS kept (name, token)
    WHERE lease.name = kept.name AND lease.token = kept.token AND lease.expires_at > now()";
const LIVES: &str = "SELECT 1 FROM lease WHERE name = $1 AND expires_at > now()";
const PUT: &str = "INSERT INTO entry VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET value = excluded.value";

const HOLDER: &str = "bench@host/4711";

pub(super) struct Postgres;

impl System for Postgres {
    fn name(&self) -> &'static str {
        "postgres"
    }

    fn find(&self) -> Result<(), String> {
        program(VARIABLE, PROGRAM).map(drop)
    }

    fn about(&self) -> About {
        About {
            version: program(VARIABLE, PROGRAM).map_or_else(|why| why, |program| version(&program)),
            durability: "fdatasync, of grants, renewals and releases alike (synchronous_commit = on)",
            fencing: "token in the row, rising with every grant, kept by the server",
            queue: "no order: all are told by NOTIFY, and who asks first has it",
            client: "tokio-postgres 0.7, prepared statements; those who share pipeline on one connection, done one by one",
        }
    }

    fn start(&self, directory: &Path) -> Result<Running, String> {
        let found = program(VARIABLE, PROGRAM)?;
        // A link may lead to the program, but what belongs to it lies beside the file itself.
        let postgres = fs::canonicalize(&found).unwrap_or(found);
        let data = directory.join("data");
        let mut make = as_user(&postgres.with_file_name("initdb"), directory)?;
        make.args(["--username", "leasehold", "--auth", "trust", "--no-sync", "--encoding", "UTF8", "--locale", "C"]);
        let made = make.arg("--pgdata").arg(&data).output().map_err(said)?;
        if !made.status.success() {
            return Err(format!("initdb: {}", String::from_utf8_lossy(&made.stderr)));
        }
        let address = free_address()?;
        let port = address.rsplit(':').next().unwrap_or_default();
        let mut serve = as_user(&postgres, directory)?;
        serve.arg("-D").arg(&data).args(["-h", "127.0.0.1", "-p", port, "-k", "", "-c", CONNECTIONS]);
        let mut server = Server::start(serve, directory)?;
        // It ends all its processes at once then, without writing anything down.
        server.end_with(Signal::QUIT);
        Ok(Running { endpoint: format!("postgres://leasehold@{address}/postgres"), servers: vec![server] })
    }

    /// They are in files, and in a cache that has its size from the start.
    fn grows_with_leases(&self) -> bool {
        false
    }

    fn connect<'a>(&'a self, running: &'a Running) -> Work<'a, Box<dyn Client>> {
        Box::pin(async move { Ok(Box::new(Wire(Arc::new(Link::open(&running.endpoint).await?))) as Box<dyn Client>) })
    }
}

fn as_user(program: &Path, home: &Path) -> Result<Command, String> {
    let mut command = command(program);
    command.current_dir(home);
    if rustix::process::geteuid().is_root() {
        chown(home, Some(NOBODY), Some(NOBODY)).map_err(|error| format!("{}: {error}", home.display()))?;
        command.uid(NOBODY).gid(NOBODY);
    }
    Ok(command)
}

/// A connection and its prepared statements.
struct Link {
    client: tokio_postgres::Client,
    acquire: Statement,
    take: Statement,
    release: Statement,
    want: Statement,
    renew: Statement,
    put: Statement,
    /// The names of locks that were given back, once somebody listens.
    released: broadcast::Sender<String>,
}

impl Link {
    async fn open(endpoint: &str) -> Result<Link, String> {
        let (client, mut connection) = tokio_postgres::connect(endpoint, NoTls).await.map_err(in_full)?;
        let (released, _) = broadcast::channel(1024);
        let tell = released.clone();
        tokio::spawn(async move {
            let mut messages = stream::poll_fn(move |context| connection.poll_message(context));
            while let Some(Ok(message)) = messages.next().await {
                if let AsyncMessage::Notification(told) = message {
                    // Nobody may be listening.
                    let _ = tell.send(told.payload().to_owned());
                }
            }
        });
        for statements in [TABLES_LOCK, TABLES, TABLES_UNLOCK] {
            client.batch_execute(statements).await.map_err(in_full)?;
        }
        let prepare = async |statement| client.prepare(statement).await.map_err(in_full);
        let (acquire, release, want) = (prepare(ACQUIRE).await?, prepare(RELEASE).await?, prepare(WANT).await?);
        let (take, renew, put) = (prepare(TAKE).await?, prepare(RENEW).await?, prepare(PUT).await?);
        Ok(Link { client, acquire, take, release, want, renew, put, released })
    }

    async fn query(&self, statement: &Statement, with: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, String> {
        self.client.query(statement, with).await.map_err(in_full)
    }

    async fn execute(&self, statement: &Statement, with: &[&(dyn ToSql + Sync)]) -> Result<u64, String> {
        self.client.execute(statement, with).await.map_err(in_full)
    }

    /// The token of a lock, if it was free.
    async fn token(&self, acquire: &Statement, name: &str) -> Result<Option<i64>, String> {
        let rows = self.query(acquire, &[&name, &HOLDER]).await?;
        rows.first().map(|row| row.try_get(0).map_err(said)).transpose()
    }
}

/// What the server complains of is behind the error itself.
fn in_full(error: tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(complaint) => format!("{error}: {}", complaint.message()),
        None => error.to_string(),
    }
}

struct Wire(Arc<Link>);

impl Client for Wire {
    fn share(&self) -> Box<dyn Client> {
        Box::new(Wire(Arc::clone(&self.0)))
    }

    fn greet(&self) -> Work<'_> {
        Box::pin(async { self.0.client.batch_execute("SELECT 1").await.map_err(in_full) })
    }

    fn writer(&self) -> Option<Box<dyn Writer>> {
        Some(Box::new(Caller(Arc::clone(&self.0))))
    }

    fn granter(&self) -> Option<Box<dyn Granter>> {
        Some(Box::new(Caller(Arc::clone(&self.0))))
    }

    fn lender(&self) -> Option<Box<dyn Lender>> {
        Some(Box::new(Caller(Arc::clone(&self.0))))
    }

    fn renewer(&self, leases: usize) -> Option<Work<'_, Box<dyn Renewer>>> {
        Some(Box::pin(async move {
            let names: Vec<String> = (0..leases).map(|_| format!("kept/{:016x}", rand::random::<u64>())).collect();
            let mut tokens = Vec::new();
            for name in &names {
                tokens.push(self.0.token(&self.0.acquire, name).await?.ok_or("the name is not new")?);
            }
            Ok(Box::new(Renews { link: Arc::clone(&self.0), names, tokens }) as Box<dyn Renewer>)
        }))
    }

    fn locker(&self, life: Life) -> Option<Work<'_, Box<dyn Locker>>> {
        match life {
            // A row ends at a time of its own.
            Life::Kept => None,
            Life::PerLock => Some(Box::pin(async {
                Ok(Box::new(Locks { link: Arc::clone(&self.0), listens: false, held: None }) as Box<dyn Locker>)
            })),
        }
    }
}

struct Caller(Arc<Link>);

/// A row. It ends when somebody looks at the time that it has; nobody is told.
impl Lender for Caller {
    fn lend(&self, number: u64, ttl: Duration) -> Work<'_, Instant> {
        Box::pin(async move {
            let asked = Instant::now();
            self.0.token(&self.0.acquire, &lent(number)).await?.ok_or("the name is not new")?;
            Ok(asked + ttl)
        })
    }

    fn lives(&self, number: u64) -> Work<'_, bool> {
        Box::pin(async move {
            let found = self.0.client.query(LIVES, &[&lent(number)]).await.map_err(in_full)?;
            Ok(!found.is_empty())
        })
    }
}

impl Writer for Caller {
    fn put<'a>(&'a mut self, key: &'a str, value: &'a [u8]) -> Work<'a> {
        Box::pin(async move { self.0.execute(&self.0.put, &[&key, &value]).await.map(drop) })
    }
}

impl Granter for Caller {
    fn grant(&mut self) -> Work<'_> {
        Box::pin(async move {
            let name = format!("lease/{:016x}", rand::random::<u64>());
            self.0.token(&self.0.acquire, &name).await?.map(drop).ok_or_else(|| "the name is not new".to_owned())
        })
    }
}

/// Leases that are renewed by one statement.
struct Renews {
    link: Arc<Link>,
    names: Vec<String>,
    tokens: Vec<i64>,
}

impl Renewer for Renews {
    fn renew(&mut self) -> Work<'_> {
        Box::pin(async move {
            let renewed = self.link.execute(&self.link.renew, &[&self.names, &self.tokens]).await?;
            if renewed == self.names.len() as u64 { Ok(()) } else { Err("a lease is gone".to_owned()) }
        })
    }
}

struct Locks {
    link: Arc<Link>,
    /// Whether the connection tells of locks that are given back.
    listens: bool,
    /// The name and the token of the lock that is held.
    held: Option<(String, i64)>,
}

impl Locks {
    /// Waits for a lock that somebody else holds.
    async fn wait(&mut self, name: &str) -> Result<i64, String> {
        if !self.listens {
            self.link.client.batch_execute("LISTEN released").await.map_err(in_full)?;
            self.listens = true;
        }
        self.link.execute(&self.link.want, &[&name]).await?;
        loop {
            // From before the look: whoever gives the lock back after it tells, because it is wanted.
            let mut told = self.link.released.subscribe();
            if let Some(token) = self.link.token(&self.link.take, name).await? {
                return Ok(token);
            }
            released(&mut told, name).await?;
        }
    }
}

/// Waits until a lock was given back, or until that may have been missed.
async fn released(told: &mut broadcast::Receiver<String>, name: &str) -> Result<(), String> {
    loop {
        match told.recv().await {
            Ok(of) if of != name => {}
            Ok(_) | Err(RecvError::Lagged(_)) => return Ok(()),
            Err(RecvError::Closed) => return Err("the connection has ended".to_owned()),
        }
    }
}

impl Locker for Locks {
    fn lock<'a>(&'a mut self, name: &'a str) -> Work<'a> {
        Box::pin(async move {
            let token = match self.link.token(&self.link.acquire, name).await? {
                Some(token) => token,
                None => self.wait(name).await?,
            };
            self.held = Some((name.to_owned(), token));
            Ok(())
        })
    }

    fn unlock(&mut self) -> Work<'_> {
        Box::pin(async move {
            let (name, token) = self.held.take().ok_or("nothing is held")?;
            match self.link.query(&self.link.release, &[&name, &token]).await?.len() {
                1 => Ok(()),
                _ => Err("the lock was no longer held".to_owned()),
            }
        })
    }
}

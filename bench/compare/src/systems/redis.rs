//! Redis as a server of locks: one server with an append-only file, flushed before every answer or every second.
//!
//! A lock is a key with a random token and a ttl; a script gives it back if the token is still its own, and tells those who
//! wait for it through a channel of its name. All of them hear it, and whoever asks first has it. Nothing numbers the grants.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use futures_util::{FutureExt as _, StreamExt as _};
use redis::aio::{MultiplexedConnection, PubSubStream};
use redis::io::tcp::TcpSettings;
use redis::{AsyncConnectionConfig, Cmd, IntoConnectionInfo as _, Pipeline, Script, cmd};

use super::said;
use crate::client::{
    Client, Endings, Granter, LENT, Lender, Life, Locker, Renewer, Watcher, Work, Writer, lent, number_of,
};
use crate::process::{Server, command, free_address, program, version};
use crate::system::{About, Running, System};

/// Where the program is.
const VARIABLE: &str = "LEASEHOLD_REDIS_SERVER";
const PROGRAM: &str = "redis-server";
/// How long keys live, in milliseconds: longer than any measurement.
const TTL: u64 = 600_000;

/// Gives a key back if it has this token, and tells those who wait.
static RELEASE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if redis.call('GET', KEYS[1]) == ARGV[1] then \
         redis.call('DEL', KEYS[1]) redis.call('PUBLISH', KEYS[1], '') return 1 end return 0",
    )
});
/// Extends a key if it has this token.
static RENEW: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0",
    )
});

/// When the file is flushed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Redis {
    Always,
    EverySecond,
}

impl System for Redis {
    fn name(&self) -> &'static str {
        match self {
            Redis::Always => "redis-always",
            Redis::EverySecond => "redis-everysec",
        }
    }

    fn find(&self) -> Result<(), String> {
        program(VARIABLE, PROGRAM).map(drop)
    }

    fn about(&self) -> About {
        About {
            version: program(VARIABLE, PROGRAM).map_or_else(|why| why, |program| version(&program)),
            durability: match self {
                Redis::Always => "fsync, of grants, renewals and releases alike",
                Redis::EverySecond => {
                    "a write to memory; flushed every second, so a crash takes back a second of grants, renewals and releases"
                }
            },
            fencing: "none: a random token keeps others from giving a lock back, but does not tell which of two is newer",
            queue: "no order: all are told through a channel, and who asks first has it",
            client: "redis 1, EVALSHA; those who share pipeline on one connection; waiting takes one more, to listen; \
                watchers hear of keys and ask for values, so they see the latest, not each",
        }
    }

    fn start(&self, directory: &Path) -> Result<Running, String> {
        let address = free_address()?;
        let port = address.rsplit(':').next().unwrap_or_default();
        let flush = match self {
            Redis::Always => "always",
            Redis::EverySecond => "everysec",
        };
        let mut redis = command(&program(VARIABLE, PROGRAM)?);
        redis.args(["--bind", "127.0.0.1", "--port", port, "--appendonly", "yes", "--appendfsync", flush]);
        redis.args(["--save", ""]).arg("--dir").arg(directory);
        Ok(Running { endpoint: format!("redis://{address}"), servers: vec![Server::start(redis, directory)?] })
    }

    fn connect<'a>(&'a self, running: &'a Running) -> Work<'a, Box<dyn Client>> {
        Box::pin(async move {
            let info = running.endpoint.as_str().into_connection_info().map_err(said)?;
            let client = redis::Client::open(info.set_tcp_settings(TcpSettings::default().set_nodelay(true)));
            let client = client.map_err(said)?;
            // An answer may take as long as the disk does.
            let patient = AsyncConnectionConfig::new().set_response_timeout(None);
            let mut calls = client.get_multiplexed_async_connection_with_config(&patient).await.map_err(said)?;
            for script in [&RELEASE, &RENEW] {
                script.load_async(&mut calls).await.map_err(said)?;
            }
            Ok(Box::new(Wire { client, calls }) as Box<dyn Client>)
        })
    }
}

#[derive(Clone)]
struct Wire {
    client: redis::Client,
    calls: MultiplexedConnection,
}

impl Client for Wire {
    fn share(&self) -> Box<dyn Client> {
        Box::new(self.clone())
    }

    fn greet(&self) -> Work<'_> {
        Box::pin(async { cmd("PING").exec_async(&mut self.calls.clone()).await.map_err(said) })
    }

    fn writer(&self) -> Option<Box<dyn Writer>> {
        Some(Box::new(Caller(self.calls.clone())))
    }

    fn granter(&self) -> Option<Box<dyn Granter>> {
        Some(Box::new(Caller(self.calls.clone())))
    }

    fn renewer(&self, leases: usize) -> Option<Work<'_, Box<dyn Renewer>>> {
        Some(Box::pin(async move {
            let mut calls = self.calls.clone();
            let mut renewals = Pipeline::new();
            for _ in 0..leases {
                let (name, token) = (format!("kept/{:016x}", rand::random::<u64>()), token());
                take(&name, &token, TTL).exec_async(&mut calls).await.map_err(said)?;
                let mut renewal = evaluate(&RENEW, &name, &token);
                renewal.arg(TTL);
                renewals.add_command(renewal);
            }
            Ok(Box::new(Renews { calls, renewals }) as Box<dyn Renewer>)
        }))
    }

    fn locker(&self, life: Life) -> Option<Work<'_, Box<dyn Locker>>> {
        match life {
            // A key has a ttl of its own.
            Life::Kept => None,
            Life::PerLock => Some(Box::pin(async {
                Ok(Box::new(Locks { wire: self.clone(), news: None, held: None }) as Box<dyn Locker>)
            })),
        }
    }

    fn watcher<'a>(&'a self, prefix: &'a str) -> Option<Work<'a, Box<dyn Watcher>>> {
        Some(Box::pin(async move {
            let news = self.told("K$", &format!("{SPACE}{prefix}*")).await?;
            Ok(Box::new(Watches { calls: self.calls.clone(), news }) as Box<dyn Watcher>)
        }))
    }

    fn lender(&self) -> Option<Box<dyn Lender>> {
        Some(Box::new(Caller(self.calls.clone())))
    }

    fn endings(&self) -> Option<Work<'_, Box<dyn Endings>>> {
        Some(Box::pin(async {
            Ok(Box::new(Expired(self.told("Kx", &format!("{SPACE}{LENT}*")).await?)) as Box<dyn Endings>)
        }))
    }
}

impl Wire {
    /// Makes the server tell of these kinds of events, and listens to channels of this pattern. Not before it is needed: it
    /// makes every write dearer.
    async fn told(&self, events: &str, channels: &str) -> Result<PubSubStream, String> {
        let mut tell = cmd("CONFIG");
        tell.arg("SET").arg("notify-keyspace-events").arg(events);
        tell.exec_async(&mut self.calls.clone()).await.map_err(said)?;
        let mut news = self.client.get_async_pubsub().await.map_err(said)?;
        news.psubscribe(channels).await.map_err(said)?;
        Ok(news.into_on_message())
    }
}

/// What channels are called that tell of keys.
const SPACE: &str = "__keyspace@0__:";

fn token() -> String {
    format!("{:016x}", rand::random::<u64>())
}

/// Takes a key that is free.
fn take(name: &str, token: &str, ttl_ms: u64) -> Cmd {
    let mut take = cmd("SET");
    take.arg(name).arg(token).arg("NX").arg("PX").arg(ttl_ms);
    take
}

/// Calls a script that the server has.
fn evaluate(script: &Script, name: &str, token: &str) -> Cmd {
    let mut call = cmd("EVALSHA");
    call.arg(script.get_hash()).arg(1).arg(name).arg(token);
    call
}

struct Caller(MultiplexedConnection);

impl Writer for Caller {
    fn put<'a>(&'a mut self, key: &'a str, value: &'a [u8]) -> Work<'a> {
        Box::pin(async move { cmd("SET").arg(key).arg(value).exec_async(&mut self.0).await.map_err(said) })
    }
}

impl Granter for Caller {
    fn grant(&mut self) -> Work<'_> {
        Box::pin(async move {
            let name = format!("lease/{:016x}", rand::random::<u64>());
            take(&name, &token(), TTL).exec_async(&mut self.0).await.map_err(said)
        })
    }
}

impl Lender for Caller {
    fn lend(&self, number: u64, ttl: Duration) -> Work<'_, Instant> {
        let ttl_ms = u64::try_from(ttl.as_millis()).unwrap_or(TTL);
        Box::pin(async move {
            let asked = Instant::now();
            take(&lent(number), &token(), ttl_ms).exec_async(&mut self.0.clone()).await.map_err(said)?;
            Ok(asked + Duration::from_millis(ttl_ms))
        })
    }

    fn lives(&self, number: u64) -> Work<'_, bool> {
        Box::pin(async move { cmd("EXISTS").arg(lent(number)).query_async(&mut self.0.clone()).await.map_err(said) })
    }
}

/// Hears of keys that have expired.
struct Expired(PubSubStream);

impl Endings for Expired {
    fn next<'a>(&'a mut self, see: &'a mut (dyn FnMut(u64) + Send)) -> Work<'a> {
        Box::pin(async move {
            let told = self.0.next().await.ok_or("the connection that listens has ended")?;
            let key = told.get_channel_name().strip_prefix(SPACE).unwrap_or_default();
            number_of(key).into_iter().for_each(see);
            Ok(())
        })
    }
}

/// Leases that are renewed in one pipeline.
struct Renews {
    calls: MultiplexedConnection,
    renewals: Pipeline,
}

impl Renewer for Renews {
    fn renew(&mut self) -> Work<'_> {
        Box::pin(async move {
            let renewed: Vec<i64> = self.renewals.query_async(&mut self.calls).await.map_err(said)?;
            if renewed.contains(&0) { Err("a lease is gone".to_owned()) } else { Ok(()) }
        })
    }
}

struct Locks {
    wire: Wire,
    /// What tells that a lock may be free: the channel of one name, kept for the next time.
    news: Option<(String, PubSubStream)>,
    /// The name and the token of the lock that is held.
    held: Option<(String, String)>,
}

impl Locks {
    async fn is_taken(&mut self, name: &str, token: &str) -> Result<bool, String> {
        let taken: Option<String> = take(name, token, TTL).query_async(&mut self.wire.calls).await.map_err(said)?;
        Ok(taken.is_some())
    }

    /// Listens to the channel of this name; from then on nothing is missed.
    async fn listen(&mut self, name: &str) -> Result<&mut PubSubStream, String> {
        let news = match self.news.take() {
            Some((of, news)) if of == name => news,
            Some(_) | None => {
                let mut news = self.wire.client.get_async_pubsub().await.map_err(said)?;
                news.subscribe(name).await.map_err(said)?;
                news.into_on_message()
            }
        };
        Ok(&mut self.news.insert((name.to_owned(), news)).1)
    }

    /// Waits until it is told that a lock was given back, or until it has expired, which nobody tells.
    async fn heard(&mut self, name: &str) -> Result<(), String> {
        let news = self.listen(name).await?;
        match tokio::time::timeout(Duration::from_millis(TTL), news.next()).await {
            Ok(None) => Err("the connection that listens has ended".to_owned()),
            Ok(Some(_)) | Err(_) => Ok(()),
        }
    }
}

impl Locker for Locks {
    fn lock<'a>(&'a mut self, name: &'a str) -> Work<'a> {
        Box::pin(async move {
            let token = token();
            let mut taken = self.news.is_none() && self.is_taken(name, &token).await?;
            while !taken {
                let news = self.listen(name).await?;
                // Whatever was told up to now, the next look sees.
                while let Some(Some(_)) = news.next().now_or_never() {}
                taken = self.is_taken(name, &token).await?;
                if !taken {
                    self.heard(name).await?;
                }
            }
            self.held = Some((name.to_owned(), token));
            Ok(())
        })
    }

    fn unlock(&mut self) -> Work<'_> {
        Box::pin(async move {
            let (name, token) = self.held.take().ok_or("nothing is held")?;
            let given: i64 = evaluate(&RELEASE, &name, &token).query_async(&mut self.wire.calls).await.map_err(said)?;
            if given == 1 { Ok(()) } else { Err("the lock was no longer held".to_owned()) }
        })
    }
}

/// Hears which keys were written, and asks for the values of all it has heard of, as they are then.
struct Watches {
    calls: MultiplexedConnection,
    news: PubSubStream,
}

impl Watcher for Watches {
    fn next<'a>(&'a mut self, see: &'a mut (dyn FnMut(&[u8]) + Send)) -> Work<'a> {
        Box::pin(async move {
            let mut keys = BTreeSet::new();
            let mut written = self.news.next().await;
            if written.is_none() {
                return Err("the connection that listens has ended".to_owned());
            }
            while let Some(told) = written {
                keys.insert(told.get_channel_name().strip_prefix(SPACE).unwrap_or_default().to_owned());
                written = self.news.next().now_or_never().flatten();
            }
            let values = cmd("MGET").arg(keys).query_async(&mut self.calls).await;
            let values: Vec<Option<Vec<u8>>> = values.map_err(said)?;
            values.iter().flatten().for_each(|value| see(value));
            Ok(())
        })
    }
}

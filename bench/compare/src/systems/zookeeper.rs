//! ZooKeeper: one server, standing alone, as Debian packages it, with its own settings but for the number of connections
//! and the longest session.
//!
//! Locks follow the usual recipe: a node that goes with its session, numbered in order below the name; whoever has the least
//! number holds, and the others each watch the one before them. A session belongs to a connection, so a lease for each lock is
//! a connection for each lock, and callers that share a connection share one lease.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use tokio::sync::mpsc::UnboundedReceiver;

use super::said;
use super::zookeeper_wire::{Change, Kind, Session};
use crate::client::{
    Client, Endings, Granter, LENT, Lender, Life, Locker, Renewer, Watcher, Work, Writer, lent, number_of,
};
use crate::process::{Server, free_address, program};
use crate::system::{About, Running, System};

/// Where the program is, and what runs it.
const VARIABLE: &str = "LEASEHOLD_ZOOKEEPER";
const JAVA: &str = "LEASEHOLD_JAVA";
const MAIN: &str = "org.apache.zookeeper.server.quorum.QuorumPeerMain";
const VERSION: &str = "org.apache.zookeeper.version.VersionInfoMain";
/// Where Debian puts it.
const USUAL: &str = "/usr/share/java/zookeeper.jar";
/// What lies beside it and is needed.
const LIBRARIES: [&str; 7] =
    ["zookeeper-jute", "slf4j-api", "slf4j-simple", "commons-cli", "commons-io", "metrics-core", "snappy-java"];
/// How long sessions live, in milliseconds: longer than any measurement.
const TTL: i32 = 600_000;
/// How finely it tells time, in milliseconds: what the configuration has that comes with it.
const TICK: u32 = 2000;

pub(super) struct ZooKeeper;

impl System for ZooKeeper {
    fn name(&self) -> &'static str {
        "zookeeper"
    }

    fn find(&self) -> Result<(), String> {
        java(&[]).map(drop)
    }

    fn about(&self) -> About {
        About {
            version: java(&[VERSION]).and_then(|mut java| java.output().map_err(said)).map_or_else(
                |why| why,
                |said| String::from_utf8_lossy(&said.stdout).lines().next().unwrap_or("unknown").to_owned(),
            ),
            durability: "fsync, of grants and releases; pings in memory only, and every session begins anew with a restart",
            fencing: "number of the node, rising within one name; checked by nobody",
            queue: "in order of arrival; each watches the one before it, and looks again when that is gone",
            client: "its wire, pipelined; a session for each connection, told once of what several of its callers watch; \
                watchers ask for values, so they see the latest, not each; locks by \
                the usual recipe; warmed up 8 times longer, because Java compiles while it runs",
        }
    }

    fn start(&self, directory: &Path) -> Result<Running, String> {
        let address = free_address()?;
        let port = address.rsplit(':').next().unwrap_or_default();
        let settings = format!(
            "dataDir={}\nclientPort={port}\nclientPortAddress=127.0.0.1\nmaxClientCnxns=0\n\
             tickTime={TICK}\nmaxSessionTimeout={TTL}\nadmin.enableServer=false\n",
            directory.join("data").display()
        );
        let file = directory.join("zoo.cfg");
        fs::write(&file, settings).map_err(|error| format!("{}: {error}", file.display()))?;
        let mut java = java(&["-Xmx512m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", MAIN])?;
        java.arg(&file);
        Ok(Running { endpoint: address, servers: vec![Server::start(java, directory)?] })
    }

    /// Its heap grows until garbage is collected, whatever it has.
    fn grows_with_leases(&self) -> bool {
        false
    }

    fn warm_up_times(&self) -> u32 {
        8
    }

    fn connect<'a>(&'a self, running: &'a Running) -> Work<'a, Box<dyn Client>> {
        Box::pin(async move {
            let session = Session::open(&running.endpoint, TTL).await?;
            Ok(Box::new(Wire { session, address: running.endpoint.clone(), shared: false }) as Box<dyn Client>)
        })
    }
}

/// The program and its libraries, run with these words.
fn java(words: &[&str]) -> Result<Command, String> {
    let named = std::env::var_os(VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from);
    let jar = named.unwrap_or_else(|| USUAL.into());
    let libraries = LIBRARIES.map(|name| jar.with_file_name(format!("{name}.jar")));
    if let Some(missing) = [&jar].into_iter().chain(&libraries).find(|file| !file.is_file()) {
        let missing = missing.display();
        return Err(format!(
            "there is no {missing}; `cargo xtask bench --compare` fetches it, or {VARIABLE} says where zookeeper.jar is"
        ));
    }
    let all = std::env::join_paths([jar].into_iter().chain(libraries)).map_err(said)?;
    // Not with the libraries that came with other servers: it has its own.
    let mut java = Command::new(program(JAVA, "java")?);
    java.arg("-cp").arg(all).args(words);
    Ok(java)
}

struct Wire {
    session: Session,
    address: String,
    /// Whether others are on the same session.
    shared: bool,
}

impl Client for Wire {
    fn share(&self) -> Box<dyn Client> {
        Box::new(Wire { session: self.session.clone(), address: self.address.clone(), shared: true })
    }

    fn greet(&self) -> Work<'_> {
        Box::pin(async { self.session.children("/").await.map(drop) })
    }

    fn writer(&self) -> Option<Box<dyn Writer>> {
        Some(Box::new(Puts(self.session.clone())))
    }

    fn granter(&self) -> Option<Box<dyn Granter>> {
        Some(Box::new(Grants(self.session.clone())))
    }

    fn renewer(&self, leases: usize) -> Option<Work<'_, Box<dyn Renewer>>> {
        let alone = !self.shared && leases == 1;
        alone.then(|| -> Work<'_, Box<dyn Renewer>> {
            Box::pin(async { Ok(Box::new(Pings(self.session.clone())) as Box<dyn Renewer>) })
        })
    }

    fn locker(&self, life: Life) -> Option<Work<'_, Box<dyn Locker>>> {
        let lease = match life {
            Life::Kept => Lease::Kept(self.session.clone()),
            Life::PerLock if self.shared => return None,
            Life::PerLock => Lease::PerLock(self.address.clone()),
        };
        Some(Box::pin(async { Ok(Box::new(Locks { lease, held: None }) as Box<dyn Locker>) }))
    }

    fn lender(&self) -> Option<Box<dyn Lender>> {
        Some(Box::new(Lends(self.address.clone())))
    }

    fn endings(&self) -> Option<Work<'_, Box<dyn Endings>>> {
        Some(Box::pin(async move {
            let (path, session) = (path(LENT), self.session.clone());
            session.make_way(&path).await?;
            let told = session.watch_below(&path).await?;
            Ok(Box::new(Gone { _session: session, told }) as Box<dyn Endings>)
        }))
    }

    fn watcher<'a>(&'a self, prefix: &'a str) -> Option<Work<'a, Box<dyn Watcher>>> {
        Some(Box::pin(async move {
            let (path, session) = (path(prefix), self.session.clone());
            session.make_way(&path).await?;
            let told = session.watch_below(&path).await?;
            Ok(Box::new(Watches { session, told }) as Box<dyn Watcher>)
        }))
    }
}

fn path(name: &str) -> String {
    format!("/{}", name.trim_end_matches('/'))
}

struct Puts(Session);

impl Writer for Puts {
    fn put<'a>(&'a mut self, key: &'a str, value: &'a [u8]) -> Work<'a> {
        Box::pin(async move {
            let path = path(key);
            if !self.0.set(&path, value).await? {
                self.0.make_way(&path).await?;
                self.0.set(&path, value).await?;
            }
            Ok(())
        })
    }
}

/// Nodes that go with the session are what a lease is granted for.
struct Grants(Session);

impl Granter for Grants {
    fn grant(&mut self) -> Work<'_> {
        Box::pin(async move {
            let name = format!("/lease-{:016x}", rand::random::<u64>());
            self.0.create(&name, Kind::Ephemeral).await?.map(drop).ok_or_else(|| "there is no root".to_owned())
        })
    }
}

/// A session for each lease, with a node that goes with it. Its connection is closed, and nobody takes it up again.
struct Lends(String);

/// How many sessions there are at most: each needs a connection while it is granted.
const SESSIONS: usize = 500;

impl Lender for Lends {
    fn most(&self) -> usize {
        SESSIONS
    }

    fn lend(&self, number: u64, ttl: Duration) -> Work<'_, Instant> {
        let ttl_ms = i32::try_from(ttl.as_millis()).unwrap_or(TTL);
        Box::pin(async move {
            let session = Session::open(&self.0, ttl_ms).await?;
            session.make_way(&path(LENT)).await?;
            // The session was last heard of now.
            let asked = Instant::now();
            session.create(&path(&lent(number)), Kind::Ephemeral).await?.ok_or("there is nothing to make it below")?;
            Ok(asked + ttl)
        })
    }

    fn lives(&self, number: u64) -> Work<'_, bool> {
        Box::pin(async move {
            let session = Session::open(&self.0, TTL).await?;
            let nodes = session.children(&path(LENT)).await?;
            session.close().await?;
            Ok(nodes.contains(&number.to_string()))
        })
    }
}

/// Is told which nodes are gone.
struct Gone {
    /// What is told comes over it.
    _session: Session,
    told: UnboundedReceiver<Change>,
}

impl Endings for Gone {
    fn next<'a>(&'a mut self, see: &'a mut (dyn FnMut(u64) + Send)) -> Work<'a> {
        Box::pin(async move {
            let change = self.told.recv().await.ok_or("the session is over")?;
            let name = change.path.strip_prefix('/').filter(|_| change.gone);
            name.and_then(number_of).into_iter().for_each(see);
            Ok(())
        })
    }
}

struct Pings(Session);

impl Renewer for Pings {
    fn renew(&mut self) -> Work<'_> {
        Box::pin(self.0.ping())
    }
}

/// What a lock is held by.
enum Lease {
    /// One session for all.
    Kept(Session),
    /// A session for each lock, at this address.
    PerLock(String),
}

struct Locks {
    lease: Lease,
    /// The session and the node of the lock that is held.
    held: Option<(Session, String)>,
}

impl Locker for Locks {
    fn lock<'a>(&'a mut self, name: &'a str) -> Work<'a> {
        Box::pin(async move {
            let session = match &self.lease {
                Lease::Kept(session) => session.clone(),
                Lease::PerLock(address) => Session::open(address, TTL).await?,
            };
            let folder = path(name);
            let own = queued(&session, &folder).await?;
            while let Some(before) = before(&session, &folder, &own).await? {
                if let Some(gone) = session.watched(&before).await? {
                    gone.await.map_err(|_| "the session is over")?;
                }
            }
            self.held = Some((session, own));
            Ok(())
        })
    }

    fn unlock(&mut self) -> Work<'_> {
        Box::pin(async move {
            let (session, node) = self.held.take().ok_or("nothing is held")?;
            match self.lease {
                Lease::Kept(_) => session.delete(&node).await,
                // The node goes with it.
                Lease::PerLock(_) => session.close().await,
            }
        })
    }
}

/// Makes a node at the end of a queue.
async fn queued(session: &Session, folder: &str) -> Result<String, String> {
    let name = format!("{folder}/n-");
    if let Some(node) = session.create(&name, Kind::EphemeralInOrder).await? {
        return Ok(node);
    }
    session.make_way(folder).await?;
    session.create(&name, Kind::EphemeralInOrder).await?.ok_or_else(|| format!("{folder} is gone"))
}

/// The node before this one, if there is any: numbers have leading zeros, so they are in the order of their texts.
async fn before(session: &Session, folder: &str, own: &str) -> Result<Option<String>, String> {
    let nodes = session.children(folder).await?;
    let own = own.rsplit('/').next().unwrap_or_default();
    let before = nodes.iter().filter(|node| node.as_str() < own).max();
    Ok(before.map(|node| format!("{folder}/{node}")))
}

/// Is told which nodes have changed, and asks for what all it was told of contain, as they are then.
struct Watches {
    session: Session,
    told: UnboundedReceiver<Change>,
}

impl Watcher for Watches {
    fn next<'a>(&'a mut self, see: &'a mut (dyn FnMut(&[u8]) + Send)) -> Work<'a> {
        Box::pin(async move {
            let mut changed = BTreeSet::from([self.told.recv().await.ok_or("the session is over")?.path]);
            while let Ok(further) = self.told.try_recv() {
                changed.insert(further.path);
            }
            let values = try_join_all(changed.iter().map(|path| self.session.get(path))).await?;
            values.iter().for_each(|value| see(value));
            Ok(())
        })
    }
}

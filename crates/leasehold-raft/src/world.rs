//! What a node stands on beside its files: threads, the network between nodes, and how long a flush takes.
//!
//! Normally that is the machine, and nothing here is used. A simulation puts a [`World`] of its own in its place: the
//! node then lives on the one thread of the runtime that opened it, its connections are the world's, and a flush takes
//! the time the world says, so that everything happens in an order which the world decides. What is written, flushed,
//! framed and agreed on is the same code either way.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::mpsc;
use tokio::task::JoinError;

/// A connection of a world.
pub trait Wire: AsyncRead + AsyncWrite + Send + Sync + Unpin + 'static {}

impl<T: AsyncRead + AsyncWrite + Send + Sync + Unpin + 'static> Wire for T {}

/// A connection being made.
pub type Connecting = Pin<Box<dyn Future<Output = io::Result<Box<dyn Wire>>> + Send>>;

/// The network and the disk of one node in a simulation.
pub trait World: std::fmt::Debug + Send + Sync + 'static {
    /// Connects this node to an address.
    fn connect(&self, address: &str) -> Connecting;

    /// Listens on an address; connections to it come out of the channel.
    fn listen(&self, address: SocketAddr) -> io::Result<mpsc::UnboundedReceiver<Box<dyn Wire>>>;

    /// How long the next flush of the log takes.
    fn flush_takes(&self) -> Duration;

    /// Notes that so many bytes of a log file were written and are not durable.
    fn written(&self, file: &Path, at: u64, bytes: u64);

    /// Notes that everything in this directory of log files is durable.
    fn flushed(&self, log: &Path);
}

/// The world of a node; none is the machine.
pub(crate) type Elsewhere = Option<Arc<dyn World>>;

/// Whatever another node came by.
pub(crate) enum Arrived {
    Tcp(TcpStream),
    Other(Box<dyn Wire>),
}

/// Where other nodes come in.
pub(crate) enum Listener {
    Tcp(TcpListener),
    Other(mpsc::UnboundedReceiver<Box<dyn Wire>>),
}

impl Listener {
    /// Listens on an address.
    pub(crate) async fn bind(address: SocketAddr, world: &Elsewhere) -> io::Result<Listener> {
        match world {
            None => TcpListener::bind(address).await.map(Listener::Tcp),
            Some(world) => world.listen(address).map(Listener::Other),
        }
    }

    /// Returns the next connection and where it comes from.
    pub(crate) async fn accept(&mut self) -> io::Result<(Arrived, String)> {
        match self {
            Listener::Tcp(listener) => {
                listener.accept().await.map(|(stream, from)| (Arrived::Tcp(stream), from.ip().to_string()))
            }
            Listener::Other(wires) => match wires.recv().await {
                Some(wire) => Ok((Arrived::Other(wire), "a simulated node".to_owned())),
                None => std::future::pending().await,
            },
        }
    }
}

/// Makes a connection.
pub(crate) async fn connect(address: &str, world: &Elsewhere) -> io::Result<Arrived> {
    match world {
        None => {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            Ok(Arrived::Tcp(stream))
        }
        Some(world) => world.connect(address).await.map(Arrived::Other),
    }
}

/// Does work that may block: on a thread for that, or in place where the runtime has only one.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, JoinError> {
    if Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread {
        return Ok(work());
    }
    tokio::task::spawn_blocking(work).await
}

//! A connection to another node, plain or over TLS, and its two halves.
//!
//! Everything above reads and writes bytes and does not know which it is. What is written over TLS must be flushed to
//! leave; for a plain connection that costs nothing. A failure of TLS reads as words that say what to do.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio_rustls::TlsStream;

use super::hello::{Hello, Purpose};
use super::secure::{self, Secure};
use crate::world::{self, Arrived, Elsewhere, Wire};

/// The first byte of whoever begins a TLS handshake; ours is an `L`.
pub(super) const TLS_HANDSHAKE: u8 = 0x16;
/// For both sides' logs.
const PLAIN_REFUSED: &str = "the connecting node does not use TLS, the other demands it; start it with certificates of \
                             the cluster's CA (--peer-ca, --peer-cert, --peer-key)";

/// A connection.
pub(crate) enum Stream {
    Plain(TcpStream),
    Secure(Box<TlsStream<TcpStream>>),
    Other(Box<dyn Wire>),
}

/// The half that reads.
pub(crate) enum ReadHalf {
    Plain(OwnedReadHalf),
    Secure(tokio::io::ReadHalf<TlsStream<TcpStream>>),
    Other(tokio::io::ReadHalf<Box<dyn Wire>>),
}

/// The half that writes.
pub(crate) enum WriteHalf {
    Plain(OwnedWriteHalf),
    Secure(tokio::io::WriteHalf<TlsStream<TcpStream>>),
    Other(tokio::io::WriteHalf<Box<dyn Wire>>),
}

impl Stream {
    /// Connects to a node; over TLS it is certain then that a node answers.
    pub(crate) async fn connect(
        address: &str,
        secure: Option<&Arc<Secure>>,
        world: &Elsewhere,
    ) -> Result<Stream, String> {
        match (world::connect(address, world).await.map_err(|error| error.to_string())?, secure) {
            (Arrived::Other(wire), _) => Ok(Stream::Other(wire)),
            (Arrived::Tcp(stream), None) => Ok(Stream::Plain(stream)),
            (Arrived::Tcp(stream), Some(secure)) => Ok(Stream::Secure(Box::new(secure.connect(stream).await?.into()))),
        }
    }

    /// Takes a connection. Over TLS it is of this node's CA then; [`Stream::is_of_node`] says whether of a node.
    pub(crate) async fn accept(arrived: Arrived, secure: Option<&Arc<Secure>>) -> Result<Stream, String> {
        let stream = match arrived {
            Arrived::Tcp(stream) => stream,
            Arrived::Other(wire) => return Ok(Stream::Other(wire)),
        };
        let _ = stream.set_nodelay(true);
        let Some(secure) = secure else { return Ok(Stream::Plain(stream)) };
        let mut first = [0];
        let is_plain = matches!(stream.peek(&mut first).await, Ok(1) if first[0] != TLS_HANDSHAKE);
        if is_plain {
            return Err(refuse_plain(stream).await);
        }
        Ok(Stream::Secure(Box::new(secure.accept(stream).await?.into())))
    }

    /// Checks that the other side has shown the certificate of a node, where certificates are shown.
    pub(crate) fn is_of_node(&self) -> Result<(), String> {
        match self {
            Stream::Plain(_) | Stream::Other(_) => Ok(()),
            Stream::Secure(stream) => secure::is_of_node(stream.get_ref().1.peer_certificates()),
        }
    }

    pub(crate) fn into_split(self) -> (ReadHalf, WriteHalf) {
        match self {
            Stream::Plain(stream) => {
                let (read, write) = stream.into_split();
                (ReadHalf::Plain(read), WriteHalf::Plain(write))
            }
            Stream::Secure(stream) => {
                let (read, write) = tokio::io::split(*stream);
                (ReadHalf::Secure(read), WriteHalf::Secure(write))
            }
            Stream::Other(wire) => {
                let (read, write) = tokio::io::split(wire);
                (ReadHalf::Other(read), WriteHalf::Other(write))
            }
        }
    }
}

/// Tells a node that came without TLS why it is refused, without saying who this is; returns what to log.
async fn refuse_plain(mut stream: TcpStream) -> String {
    match Hello::read(&mut stream).await {
        Ok(_) => {
            let words = PLAIN_REFUSED.to_owned();
            let refusal =
                Hello { purpose: Purpose::Refused, group: 0, cluster: 0, from: 0, to: 0, incarnation: 0, words };
            let _ = stream.write_all(&refusal.to_bytes()).await;
            PLAIN_REFUSED.to_owned()
        }
        Err(_) => "it does not use TLS and is no node".to_owned(),
    }
}

/// Reads from a TLS stream. Its end without the farewell of TLS is an end like any other: a frame has its length.
fn read_secure(
    stream: Pin<&mut impl AsyncRead>,
    context: &mut Context<'_>,
    into: &mut ReadBuf<'_>,
) -> Poll<io::Result<()>> {
    match ready!(stream.poll_read(context, into)) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Poll::Ready(Ok(())),
        read => Poll::Ready(read.map_err(secure::explained)),
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_read(context, into),
            Stream::Other(wire) => Pin::new(wire).poll_read(context, into),
            Stream::Secure(stream) => read_secure(Pin::new(stream), context, into),
        }
    }
}

impl AsyncRead for ReadHalf {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            ReadHalf::Plain(half) => Pin::new(half).poll_read(context, into),
            ReadHalf::Other(half) => Pin::new(half).poll_read(context, into),
            ReadHalf::Secure(half) => read_secure(Pin::new(half), context, into),
        }
    }
}

/// Both kinds of what writes, each call handed on to the one that is there.
macro_rules! handed_on {
    ($kind:ident) => {
        impl AsyncWrite for $kind {
            fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
                match self.get_mut() {
                    $kind::Plain(to) => Pin::new(to).poll_write(context, bytes),
                    $kind::Secure(to) => Pin::new(to).poll_write(context, bytes),
                    $kind::Other(to) => Pin::new(to).poll_write(context, bytes),
                }
            }

            fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
                match self.get_mut() {
                    $kind::Plain(to) => Pin::new(to).poll_flush(context),
                    $kind::Secure(to) => Pin::new(to).poll_flush(context),
                    $kind::Other(to) => Pin::new(to).poll_flush(context),
                }
            }

            fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
                match self.get_mut() {
                    $kind::Plain(to) => Pin::new(to).poll_shutdown(context),
                    $kind::Secure(to) => Pin::new(to).poll_shutdown(context),
                    $kind::Other(to) => Pin::new(to).poll_shutdown(context),
                }
            }
        }
    };
}

handed_on!(Stream);
handed_on!(WriteHalf);

//! A listener for clients: bounded in connections and in patience with each of them.

use std::convert::Infallible;
use std::future::Future;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::response::Response;
use http::Request;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch};
use tower::Service;
use tracing::{debug, warn};

use crate::authority::Authorities;
use crate::threads::Threads;

/// A client that does not finish its request head within this time is cut.
const HEAD_WITHIN: Duration = Duration::from_secs(10);
/// A connection of HTTP/2 shows that it is alive this often, and is cut if it does not within as long again.
const ALIVE_EVERY: Duration = Duration::from_secs(20);
/// How much a stream of HTTP/2 may send ahead of us: a message of many commands and more.
const STREAM_WINDOW: u32 = 1 << 20;
/// How much all streams of a connection may send ahead of us.
const CONNECTION_WINDOW: u32 = 2 << 20;
/// How many connections the kernel keeps until they are accepted; it may keep fewer (`net.core.somaxconn`).
const BACKLOG: u32 = 4096;
/// How long calls under way may take after the server was told to stop.
const FINISH_WITHIN: Duration = Duration::from_secs(5);

/// A bound listener.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: TcpListener,
    /// The address it is bound to.
    pub(crate) address: SocketAddr,
    connections: usize,
    /// Whether names of servers are mended; see `authority.rs`.
    mends_authorities: bool,
}

impl Listener {
    pub(crate) fn bind(address: SocketAddr, connections: usize) -> std::io::Result<Self> {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        // A restarted server gets its address although old connections still linger there.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        let socket = socket.listen(BACKLOG)?;
        let address = socket.local_addr()?;
        Ok(Self { socket, address, connections, mends_authorities: false })
    }

    /// Takes requests that name their server by a whole URL.
    pub(crate) fn mending_authorities(self) -> Self {
        Self { mends_authorities: true, ..self }
    }

    /// Serves every client with what `service_for` gives until told to stop, then lets calls under way finish.
    pub(crate) async fn serve<S>(
        self,
        service_for: impl Fn(SocketAddr) -> S,
        threads: Arc<Threads>,
        mut stop: watch::Receiver<bool>,
    ) where
        S: Service<Request<Incoming>, Response = Response, Error = Infallible> + Clone + Send + 'static,
        S::Future: Send,
    {
        let mut builder = Builder::new(TokioExecutor::new());
        builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_WITHIN);
        builder.http2().timer(TokioTimer::new()).max_concurrent_streams(1024);
        builder.http2().initial_stream_window_size(STREAM_WINDOW).initial_connection_window_size(CONNECTION_WINDOW);
        builder.http2().keep_alive_interval(ALIVE_EVERY).keep_alive_timeout(ALIVE_EVERY);
        let builder = Arc::new(builder);
        let places = Arc::new(Semaphore::new(self.connections));
        let graceful = GracefulShutdown::new();
        loop {
            // Without a free place nobody is accepted: the kernel's queue is the waiting room.
            let place = tokio::select! {
                place = Arc::clone(&places).acquire_owned() => place.expect("the semaphore is never closed"),
                _ = stop.changed() => break,
            };
            let (stream, client) = tokio::select! {
                accepted = self.socket.accept() => match accepted {
                    Ok(accepted) => accepted,
                    Err(error) => {
                        // Out of file descriptors, most likely: pause instead of spinning.
                        warn!(%error, "cannot accept a connection");
                        tokio::time::sleep(Duration::from_millis(50)).await;
                        continue;
                    }
                },
                _ = stop.changed() => break,
            };
            let thread = threads.next();
            let stream = match moved(stream, thread) {
                Ok(stream) => stream,
                Err(error) => {
                    debug!(%error, "a connection was gone before it was served");
                    continue;
                }
            };
            let service = TowerToHyperService::new(service_for(client));
            let authorities = self.mends_authorities.then(Authorities::default);
            let io = {
                let _there = thread.enter();
                TokioIo::new(Prompt::new(prepared(stream), authorities))
            };
            let connection = builder.serve_connection(io, service).into_owned();
            let connection = graceful.watch(connection);
            thread.spawn(async move {
                if let Err(error) = connection.await {
                    debug!(%error, "a connection ended badly");
                }
                drop(place);
            });
        }
        drop(self.socket);
        if tokio::time::timeout(FINISH_WITHIN, graceful.shutdown()).await.is_err() {
            warn!("calls under way did not finish in time and are cut");
        }
    }
}

/// Hands a connection to the thread that will serve it.
fn moved(stream: TcpStream, thread: &Handle) -> io::Result<TcpStream> {
    if thread.id() == Handle::current().id() {
        return Ok(stream);
    }
    let stream = stream.into_std()?;
    let _there = thread.enter();
    TcpStream::from_std(stream)
}

fn prepared(stream: TcpStream) -> TcpStream {
    if let Err(error) = stream.set_nodelay(true) {
        debug!(%error, "a connection keeps its small-packet delay");
    }
    stream
}

/// A connection that must begin to speak within [`HEAD_WITHIN`].
///
/// The time limit on request heads begins once the protocol is known, which takes a few bytes: without this, a
/// connection that sends less would keep its place for ever.
struct Prompt {
    stream: TcpStream,
    unheard: Option<Pin<Box<tokio::time::Sleep>>>,
    heard: usize,
    authorities: Option<Authorities>,
    /// Whether others that are ready have had their turn since the last flush.
    waited: bool,
}

/// By then it is known which protocol is spoken: the length of HTTP/2's preface.
const PREFACE: usize = 24;

impl Prompt {
    fn new(stream: TcpStream, authorities: Option<Authorities>) -> Self {
        let unheard = Some(Box::pin(tokio::time::sleep(HEAD_WITHIN)));
        Self { stream, unheard, heard: 0, authorities, waited: false }
    }
}

impl Prompt {
    /// Lets everybody else who is ready have a turn before something is written: what they have to say on this connection
    /// goes out with it, in one write instead of many.
    fn wait_for_others(&mut self, cx: &Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.waited, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl AsyncRead for Prompt {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        if let Poll::Ready(read) = Pin::new(&mut self.stream).poll_read(cx, into) {
            self.heard += into.filled().len() - before;
            if let Some(authorities) = &mut self.authorities {
                authorities.mend(&mut into.filled_mut()[before..]);
            }
            if self.heard >= PREFACE {
                self.unheard = None;
            }
            return Poll::Ready(read);
        }
        match &mut self.unheard {
            Some(unheard) => unheard.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into())),
            None => Poll::Pending,
        }
    }
}

impl AsyncWrite for Prompt {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.wait_for_others(cx));
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.wait_for_others(cx));
        Pin::new(&mut self.stream).poll_write_vectored(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.waited = false;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

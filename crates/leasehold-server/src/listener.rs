//! A listener for clients: bounded in connections and in patience with each of them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tracing::{debug, warn};

/// A client that does not finish its request head within this time is cut.
const HEAD_WITHIN: Duration = Duration::from_secs(10);
/// How long calls under way may take after the server was told to stop.
const FINISH_WITHIN: Duration = Duration::from_secs(5);

/// A bound listener.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: TcpListener,
    /// The address it is bound to.
    pub(crate) address: SocketAddr,
    connections: usize,
}

impl Listener {
    pub(crate) async fn bind(address: SocketAddr, connections: usize) -> std::io::Result<Self> {
        let socket = TcpListener::bind(address).await?;
        let address = socket.local_addr()?;
        Ok(Self { socket, address, connections })
    }

    /// Serves `router` until told to stop, then lets calls under way finish.
    pub(crate) async fn serve(self, router: axum::Router, mut stop: watch::Receiver<bool>) {
        let mut builder = Builder::new(TokioExecutor::new());
        builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_WITHIN);
        builder.http2().timer(TokioTimer::new()).max_concurrent_streams(1024);
        let builder = Arc::new(builder);
        let places = Arc::new(Semaphore::new(self.connections));
        let graceful = GracefulShutdown::new();
        loop {
            // Without a free place nobody is accepted: the kernel's queue is the waiting room.
            let place = tokio::select! {
                place = Arc::clone(&places).acquire_owned() => place.expect("the semaphore is never closed"),
                _ = stop.changed() => break,
            };
            let stream = tokio::select! {
                accepted = self.socket.accept() => match accepted {
                    Ok((stream, _)) => stream,
                    Err(error) => {
                        // Out of file descriptors, most likely: pause instead of spinning.
                        warn!(%error, "cannot accept a connection");
                        tokio::time::sleep(Duration::from_millis(50)).await;
                        continue;
                    }
                },
                _ = stop.changed() => break,
            };
            let service = TowerToHyperService::new(router.clone());
            let io = TokioIo::new(prepared(stream));
            let connection = builder.serve_connection(io, service).into_owned();
            let connection = graceful.watch(connection);
            tokio::spawn(async move {
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

fn prepared(stream: TcpStream) -> TcpStream {
    if let Err(error) = stream.set_nodelay(true) {
        debug!(%error, "a connection keeps its small-packet delay");
    }
    stream
}

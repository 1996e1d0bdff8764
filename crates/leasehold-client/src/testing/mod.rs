//! A kit for testing code that uses leases: no server, no sleeping, and every fault at will.
//!
//! [`TestServer`] is a server in this process on a [`VirtualClock`]. Time stands still until the test moves it, and
//! [`TestServer::advance`] returns when everything that had to happen by then has happened: renewals were sent,
//! losses told, waiters served. Faults are caused by a call: the server freezes, a reply is lost, a client is cut off.
//!
//! ```
//! use std::time::Duration;
//!
//! use leasehold_client::testing::TestServer;
//! use leasehold_client::{Client, Error};
//!
//! // The code under test: a job that must not run twice at a time.
//! async fn job(client: Client) -> Result<u64, Error> {
//!     let guard = client.lock("jobs/nightly").ttl(Duration::from_secs(10)).try_acquire().await?;
//!     client.clock().sleep(Duration::from_secs(60)).await; // work
//!     guard.token()
//! }
//!
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! let server = TestServer::new();
//! let first = tokio::spawn(job(server.client()));
//! server.advance(Duration::from_secs(30)).await; // takes no time at all
//! assert!(matches!(job(server.client()).await, Err(Error::Held(_))));
//! server.advance(Duration::from_secs(40)).await;
//! assert!(first.await.unwrap().is_ok());
//!
//! // The same job while the server answers nothing: it ends with an error instead of a stale token.
//! let second = tokio::spawn(job(server.client()));
//! server.advance(Duration::from_secs(1)).await;
//! server.freeze();
//! server.advance(Duration::from_secs(60)).await;
//! assert!(matches!(second.await.unwrap(), Err(Error::Lost { .. })));
//! # });
//! ```
//!
//! Tests run in a current-thread runtime, as `#[tokio::test]` gives it: then the test's own tasks take part too.

mod clock;
mod link;
mod server;

pub use clock::VirtualClock;
pub use server::TestServer;

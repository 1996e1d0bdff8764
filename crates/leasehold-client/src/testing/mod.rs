//! A kit for testing code that uses leases, without sleeping and without a server.

mod clock;

mod server;

pub use clock::VirtualClock;
pub use server::TestServer;

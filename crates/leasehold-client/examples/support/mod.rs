//! The client of the examples: of the server that `LEASE_ADDR` names, or of a store in this process.

use leasehold_client::store::Memory;
use leasehold_client::{Client, Error};

/// The client to use.
pub(crate) async fn client() -> Result<Client, Error> {
    match std::env::var_os("LEASE_ADDR") {
        Some(_) => Client::from_env().await,
        None => Ok(Client::over(Memory::new())),
    }
}

//! A cached copy that may be used until its lease ends, and is not renewed.
//!
//! Readers share the right to use a copy; one who wants to change the original waits until no copy is valid any
//! more, so nobody reads what is out of date. Run it against a server with `LEASE_ADDR=http://127.0.0.1:7117`, or
//! without one.
#![allow(clippy::print_stdout, reason = "an example talks")]

mod support;

use std::time::Duration;

use leasehold_client::{Client, Error, Guard};

/// A copy of a value, usable while its lease is valid.
struct Copy {
    value: u32,
    lease: Guard,
}

impl Copy {
    async fn fetch(client: &Client, original: u32) -> Result<Copy, Error> {
        // The preset lasts 10 minutes; an example has less time.
        let lease = client.cache("prices/apples").shared().ttl(Duration::from_millis(500)).acquire().await?;
        Ok(Copy { value: original, lease })
    }

    fn value(&self) -> Option<u32> {
        self.lease.ensure_valid(Duration::ZERO).is_ok().then_some(self.value)
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let client = support::client().await?;
    let mut original = 10;
    let copies = [Copy::fetch(&client, original).await?, Copy::fetch(&client, original).await?];
    println!("two readers use {:?} without asking again", copies[0].value());

    let change = client.lock("prices/apples").reason("new price").acquire().await?;
    assert!(copies.iter().all(|copy| copy.value().is_none()), "no copy outlives its lease");
    original = 12;
    println!("the price is {original}; the copies have expired: {:?}", copies[0].value());
    change.release().await?;

    println!("a reader fetches {:?}", Copy::fetch(&client, original).await?.value());
    Ok(())
}

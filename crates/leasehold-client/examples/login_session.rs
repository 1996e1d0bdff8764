//! A login session that lasts as long as its user is active.
//!
//! Every request of the user touches the session, and that renews it; a user that goes away is logged out by
//! time. Run it against a server with `LEASE_ADDR=http://127.0.0.1:7117`, or without one.
#![allow(clippy::print_stdout, reason = "an example talks")]

mod support;

use std::time::{Duration, Instant};

use leasehold_client::{Error, LostCause};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let client = support::client().await?;
    // The preset lasts 15 minutes; an example has less time.
    let session = client.session("sessions/ann").holder("ann").ttl(Duration::from_millis(1500)).acquire().await?;

    let begun = Instant::now();
    for click in 1..=12 {
        tokio::time::sleep(Duration::from_millis(300)).await;
        session.token()?; // still logged in?
        session.touch();
        println!("click {click} after {:.1} s", begun.elapsed().as_secs_f32());
    }
    assert!(begun.elapsed() > Duration::from_millis(3000), "it outlived two of its ttls");

    println!("ann goes for lunch");
    let cause = session.lost().await;
    println!("logged out: {cause}");
    assert_eq!(cause, LostCause::Expired);
    Ok(())
}

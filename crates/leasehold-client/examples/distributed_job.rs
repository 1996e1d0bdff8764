//! A job that must run once at a time, however many machines start it.
//!
//! The first to get the lock does the work, step by step, and shows its token with every write; the others find
//! that it is taken. Run it against a server with `LEASE_ADDR=http://127.0.0.1:7117`, or without one.
#![allow(clippy::print_stdout, reason = "an example talks")]

mod support;

use std::time::Duration;

use leasehold_client::{Client, Error, Fence, Guard};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = support::client().await?;
    let database = Fence::new();

    // Two machines start the same job at the same time.
    let (one, two) = tokio::join!(job(&client, &database, "machine 1"), job(&client, &database, "machine 2"));
    assert_eq!([one?, two?].iter().filter(|done| **done).count(), 1, "the job runs once");
    Ok(())
}

/// Does the job, unless another one does it now.
async fn job(client: &Client, database: &Fence, machine: &str) -> Result<bool, Box<dyn std::error::Error>> {
    let lock = client.lock("jobs/nightly-report").holder(machine).reason("report of yesterday");
    let guard = match lock.try_acquire().await {
        Ok(guard) => guard,
        Err(Error::Held(problem)) => {
            println!("{machine}: not needed here: {}", problem.detail);
            return Ok(false);
        }
        Err(error) => return Err(error.into()),
    };
    println!("{machine}: got the job, token {}", guard.token()?);
    // The work stops where it waits if the lease is lost.
    tokio::select! {
        result = steps(&guard, database, machine) => result?,
        cause = guard.lost() => return Err(format!("{machine}: stopped: {cause}").into()),
    }
    guard.release().await?;
    println!("{machine}: done");
    Ok(true)
}

async fn steps(guard: &Guard, database: &Fence, machine: &str) -> Result<(), Box<dyn std::error::Error>> {
    for step in 1..=3 {
        guard.ensure_valid(Duration::from_secs(1))?; // a look at the clock, no round trip
        tokio::time::sleep(Duration::from_millis(50)).await;
        // What is written to refuses a holder that was paused and does not know yet that it lost the lease.
        database.write("jobs/nightly-report", guard.token()?, || println!("{machine}: step {step} written"))?;
    }
    Ok(())
}

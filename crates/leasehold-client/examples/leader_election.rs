//! Leader election with fail-over: when the incumbent fails, another candidate leads within a ttl.
//!
//! Replica 1 is elected first and hangs, so nothing renews its term; its work is stopped before replica 2 begins. An
//! observer sees both. Run it against a server with `LEASE_ADDR=http://127.0.0.1:7117`, or without one.
#![allow(clippy::print_stdout, reason = "an example talks")]

mod support;

use std::time::Duration;

use leasehold_client::{Client, Election, Error, Renewal, Term};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let client = support::client().await?;
    let observer = tokio::spawn(observe(election(&client, "observer")));

    // A term that nobody renews ends by time, as it does when its incumbent has crashed.
    let faulty = election(&client, "replica 1").renewal(Renewal::None);
    let first = faulty.campaign().await?;
    println!("replica 1: elected, token {}", first.token()?);
    let replica = tokio::spawn(lead(client.clone(), "replica 2"));

    println!("replica 1: hangs, and is stopped: {}", first.lost().await);
    println!("{}", replica.await.expect("a replica does not panic")?);
    assert_eq!(observer.await.expect("the observer does not panic")?, ["replica 1", "replica 2"]);
    Ok(())
}

/// The presets of an election last 10 s; an example has less time.
fn election(client: &Client, name: &str) -> Election {
    client.election("scheduler").candidate(name).ttl(Duration::from_secs(1))
}

/// Stands for election; does the work once elected, and leads until it is done.
async fn lead(client: Client, name: &'static str) -> Result<String, Error> {
    let lead = async |term: Term| {
        println!("{name}: elected, token {}", term.token()?);
        // If the term is lost meanwhile, this future is dropped where it waits and the next campaign begins.
        tokio::time::sleep(Duration::from_millis(1500)).await;
        term.ensure_valid(Duration::from_millis(100))?;
        Ok::<String, Error>(format!("{name}: kept its term for longer than a ttl, and is done"))
    };
    election(&client, name).run(lead).await
}

/// The names of the first two incumbents.
async fn observe(election: Election) -> Result<Vec<String>, Error> {
    let (mut incumbents, mut seen) = (election.observe(), Vec::new());
    while seen.len() < 2 {
        if let Some(incumbent) = incumbents.next().await? {
            println!("observer: {} leads with token {:?}", incumbent.holder, incumbent.token);
            seen.push(incumbent.holder);
        }
    }
    Ok(seen)
}

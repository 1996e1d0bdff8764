//! A board in the laboratory, reserved for hours and renewed by hand.
//!
//! Nobody else gets it meanwhile, and others see who has it and why. Run it against a server with
//! `LEASE_ADDR=http://127.0.0.1:7117`, or without one.
#![allow(clippy::print_stdout, reason = "an example talks")]

mod support;

use std::time::Duration;

use leasehold_client::Error;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let client = support::client().await?;
    // The preset lasts 8 hours.
    let board = client.reservation("lab/board-3").holder("ann").reason("thermal tests").acquire().await?;
    println!("reserved for {:.1} h", hours(board.valid_for()));

    match client.reservation("lab/board-3").holder("bob").try_acquire().await {
        Err(Error::Held(problem)) => println!("bob: {}", problem.detail),
        other => panic!("it is reserved: {other:?}"),
    }

    // A longer test than planned: nothing renews it but its holder.
    board.renew().await?;
    board.ensure_valid(Duration::from_secs(7 * 3600))?;
    println!("renewed: {:.1} h", hours(board.valid_for()));

    board.release().await?;
    client.reservation("lab/board-3").holder("bob").try_acquire().await?.release().await?;
    println!("bob: got it");
    Ok(())
}

fn hours(left: Option<Duration>) -> f32 {
    left.unwrap_or_default().as_secs_f32() / 3600.0
}

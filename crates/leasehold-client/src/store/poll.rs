//! Waiting by looking again, for systems that keep no queue of ours: after a short random pause, or when the
//! holder's time should be over. Who comes first after an end gets it.

use std::time::Duration;

use leasehold_core::Remaining;

use super::foreign::{InTheWay, Wait, pause};
use super::{Granted, ProgressTo, Wish};
use crate::Error;

/// What one look of a waiter led to.
#[derive(Debug)]
pub(super) enum Look {
    /// It is granted.
    Granted(Granted),
    /// Somebody is in the way.
    InTheWay(InTheWay),
}

/// Looks again and again until the wish is granted or its patience is over.
pub(super) async fn poll<F>(wish: &Wish, progress: &ProgressTo, mut look: impl FnMut() -> F) -> Result<Granted, Error>
where
    F: Future<Output = Result<Look, Error>>,
{
    let wait = Wait::begin(wish.patience);
    let mut waited = Duration::ZERO;
    loop {
        let in_the_way = match look().await? {
            Look::Granted(granted) => return Ok(Granted { waited, ..granted }),
            Look::InTheWay(in_the_way) => in_the_way,
        };
        let left = wait.left(&in_the_way)?;
        progress.tell(in_the_way.progress());
        let over = match in_the_way.other.as_ref().map(|other| other.remaining) {
            // One more, because a server counts what is left in whole milliseconds, rounded down.
            Some(Remaining::For(span)) => Duration::from_millis(span.0.saturating_add(1)),
            Some(Remaining::Endless) | None => Duration::MAX,
        };
        tokio::time::sleep(pause().min(over).min(left)).await;
        waited = wait.elapsed();
    }
}

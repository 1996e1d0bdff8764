//! Leases that end by themselves, as a watcher is told of them: how late it is told of each.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

use super::client::Endings;
use super::lending::Lent;
use super::sample::Latencies;

/// How long after the last deadline it is waited for those that are late.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// When it was told of the end of each lease, by number.
pub(crate) struct Told {
    ends: Arc<Mutex<Vec<Option<Instant>>>>,
    listening: JoinHandle<Result<(), String>>,
}

/// How late ends were told.
#[derive(Debug)]
pub(crate) struct Late {
    pub(crate) latencies: Latencies,
    /// From the last deadline until the last end was told.
    pub(crate) last: Duration,
    /// How many were never told.
    pub(crate) never: usize,
}

impl Told {
    pub(crate) fn listen(mut endings: Box<dyn Endings>) -> Told {
        let ends = Arc::new(Mutex::new(Vec::new()));
        let note = Arc::clone(&ends);
        let listening = tokio::spawn(async move {
            loop {
                let mut see = |number: u64| {
                    let (mut ends, number) = (locked(&note), number as usize);
                    let length = ends.len().max(number + 1);
                    ends.resize(length, None);
                    ends[number].get_or_insert_with(Instant::now);
                };
                endings.next(&mut see).await?;
            }
        });
        Told { ends, listening }
    }

    /// Waits until all ends were told, or for as long as it is patient.
    pub(crate) async fn all(self, lent: &[Lent]) -> Result<Late, String> {
        let last = lent.iter().map(|lent| lent.deadline).max().unwrap_or_else(Instant::now);
        loop {
            let missing = locked(&self.ends).iter().flatten().count() < lent.len();
            if !missing || last.elapsed() > PATIENCE {
                break;
            }
            if self.listening.is_finished() {
                return self.listening.await.map_err(|error| error.to_string())?.and(Err("nobody listens".to_owned()));
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        self.listening.abort();
        Ok(late(lent, &locked(&self.ends), last))
    }
}

/// How late each was; what was not told is so late by now.
fn late(lent: &[Lent], ends: &[Option<Instant>], last: Instant) -> Late {
    let (now, latencies) = (Instant::now(), Latencies::new());
    let mut late = Late { latencies, last: Duration::ZERO, never: 0 };
    for Lent { number, deadline } in lent {
        let end = ends.get(*number as usize).copied().flatten();
        late.never += usize::from(end.is_none());
        let end = end.unwrap_or(now);
        late.latencies.add(end.saturating_duration_since(*deadline));
        late.last = late.last.max(end.saturating_duration_since(last));
    }
    late
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("nobody panics with it")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lateness_counts_from_each_deadline_and_the_last_from_the_latest() {
        let begun = Instant::now().checked_sub(Duration::from_secs(10)).unwrap();
        let at = |ms| begun + Duration::from_millis(ms);
        let lent = [(0, at(100)), (1, at(200)), (2, at(300))].map(|(number, deadline)| Lent { number, deadline });
        let told = late(&lent, &[Some(at(110)), Some(at(260)), Some(at(330))], at(300));
        assert_eq!((told.never, told.last), (0, Duration::from_millis(30)));
        assert!((told.latencies.at(1.0) - 60.0).abs() < 0.1, "{}", told.latencies.at(1.0));
    }

    #[test]
    fn what_was_never_told_counts_as_late_as_it_is_by_now() {
        let deadline = Instant::now().checked_sub(Duration::from_secs(10)).unwrap();
        let told = late(&[Lent { number: 3, deadline }], &[], deadline);
        assert_eq!(told.never, 1);
        assert!(told.latencies.at(0.5) >= 9_990.0 && told.last >= Duration::from_secs(10));
    }
}

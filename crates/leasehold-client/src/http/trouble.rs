//! What went wrong with one call, at which address, and whether to go on trying.
//!
//! A server that has no leader or is stopping is worth another attempt for as long as the call has patience, at the next
//! address if there is one. Answers that are lost are asked for again a few times at each address.

use std::time::{Duration, Instant};

use super::Error;
use super::transport::unreachable;

/// How often an answer is asked for again at each address before its caller is told that it is lost.
const LOSSES_MAX: usize = 3;
/// The pause before the next attempt, and the longest one it grows to.
const PAUSE: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// What went wrong so far.
#[derive(Debug)]
pub(super) struct Trouble {
    /// The latest cause at each address, in the order they were met.
    causes: Vec<(String, String)>,
    addresses: usize,
    /// How many attempts ended without an answer.
    losses: usize,
    /// Whether a server answered that it cannot serve now.
    answered: bool,
    begun: Instant,
    patience: Duration,
    pause: Duration,
}

impl Trouble {
    /// No trouble yet, for a call to so many addresses.
    pub(super) fn new(addresses: usize, patience: Duration) -> Trouble {
        let (causes, begun) = (Vec::new(), Instant::now());
        Trouble { causes, addresses, losses: 0, answered: false, begun, patience, pause: PAUSE }
    }

    /// Notes that a server cannot serve now.
    pub(super) fn note(&mut self, addr: &str, cause: String) {
        self.answered = true;
        self.put(addr, cause);
    }

    /// Notes that an address cannot be reached, or that its answer was lost.
    pub(super) fn note_lost(&mut self, addr: &str, cause: String) {
        self.losses += 1;
        self.put(addr, cause);
    }

    fn put(&mut self, addr: &str, cause: String) {
        match self.causes.iter_mut().find(|(known, _)| known == addr) {
            Some((_, latest)) => *latest = cause,
            None => self.causes.push((addr.to_owned(), cause)),
        }
    }

    /// Whether a server was there, though it could not serve.
    pub(super) fn was_answered(&self) -> bool {
        self.answered
    }

    /// Whether more than one address was met.
    pub(super) fn is_of_several(&self) -> bool {
        self.causes.len() > 1
    }

    /// Whether another attempt is worth it.
    pub(super) fn may_try_again(&self) -> bool {
        let lost = !self.answered && self.losses >= LOSSES_MAX * self.addresses;
        !lost && self.patience_left() > self.pause
    }

    pub(super) fn patience_left(&self) -> Duration {
        self.patience.saturating_sub(self.begun.elapsed())
    }

    /// Pauses before the next attempt, longer every time.
    pub(super) async fn pause(&mut self) {
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(PAUSE_MAX);
    }

    /// The error that names each address and its cause once.
    pub(super) fn error(&self) -> Error {
        unreachable(&self.causes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_is_named_once_with_its_latest_cause() {
        let mut trouble = Trouble::new(2, Duration::from_secs(10));
        trouble.note("http://a:1", "it stops".to_owned());
        trouble.note_lost("http://b:1", "connection refused".to_owned());
        trouble.note_lost("http://a:1", "connection refused".to_owned());
        let told = "cannot reach http://a:1: connection refused; nor http://b:1: connection refused";
        assert_eq!(trouble.error().to_string(), told);
    }

    #[test]
    fn lost_answers_are_given_up_sooner_than_a_server_that_is_there() {
        let mut trouble = Trouble::new(1, Duration::from_secs(10));
        for _ in 0..LOSSES_MAX {
            assert!(trouble.may_try_again());
            trouble.note_lost("http://a:1", "connection closed".to_owned());
        }
        assert!(!trouble.may_try_again());
        trouble.note("http://a:1", "nobody leads".to_owned());
        assert!(trouble.may_try_again());
        assert!(!Trouble::new(1, Duration::ZERO).may_try_again());
    }
}

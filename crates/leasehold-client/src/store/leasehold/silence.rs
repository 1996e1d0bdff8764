//! Listens whether a server is alive: it says something at least every 80 ms while a command is to be answered soon.
//!
//! Time is counted in short naps instead of read from a clock. A process that was paused has not listened meanwhile, and
//! must not take its own silence for the server's.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// How often one listens.
const NAP: Duration = Duration::from_millis(50);

/// What is known about the silence of a server.
#[derive(Debug, Default)]
pub(super) struct Silence {
    /// How often something was heard.
    heard: AtomicU64,
    /// Whether somebody listens.
    listens: Mutex<bool>,
    /// Rings when somebody should.
    rings: Notify,
}

impl Silence {
    /// Something was heard.
    pub(super) fn broken(&self) {
        self.heard.fetch_add(1, Ordering::AcqRel);
    }

    /// Something is to be answered soon from now on.
    pub(super) fn begins(&self) {
        let listened = std::mem::replace(&mut *self.listens.lock(), true);
        if !listened {
            self.rings.notify_one();
        }
    }

    /// Returns when nothing was heard for `patience` although something `is_owed`; for one listener.
    pub(super) async fn is_too_long(&self, patience: Duration, is_owed: impl Fn() -> bool) {
        loop {
            self.rings.notified().await;
            let mut heard = self.heard.load(Ordering::Acquire);
            let mut silent = Duration::ZERO;
            while self.goes_on(&is_owed) {
                if silent > patience {
                    return;
                }
                tokio::time::sleep(NAP).await;
                let now = self.heard.load(Ordering::Acquire);
                silent = if now == heard { silent + NAP } else { Duration::ZERO };
                heard = now;
            }
        }
    }

    /// Whether there is a reason to go on listening; if not, the next command rings.
    fn goes_on(&self, is_owed: impl Fn() -> bool) -> bool {
        let mut listens = self.listens.lock();
        *listens = is_owed();
        *listens
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    use tokio::time::{Instant, sleep, timeout};

    use super::*;

    const PATIENCE: Duration = Duration::from_millis(200);

    struct Line {
        silence: Silence,
        owed: AtomicBool,
    }

    impl Line {
        fn new() -> Arc<Line> {
            Arc::new(Line { silence: Silence::default(), owed: AtomicBool::new(false) })
        }

        fn ask(&self) {
            self.owed.store(true, Ordering::Release);
            self.silence.begins();
        }

        async fn is_too_long(self: Arc<Line>) {
            self.silence.is_too_long(PATIENCE, || self.owed.load(Ordering::Acquire)).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_owes_nothing_may_be_silent_for_ever() {
        let line = Line::new();
        assert!(timeout(Duration::from_secs(3600), Arc::clone(&line).is_too_long()).await.is_err());
        line.ask();
        line.silence.broken();
        line.owed.store(false, Ordering::Release);
        assert!(timeout(Duration::from_secs(3600), line.is_too_long()).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_owes_an_answer_and_says_nothing_is_silent_for_too_long() {
        let line = Line::new();
        let listening = tokio::spawn(Arc::clone(&line).is_too_long());
        sleep(Duration::from_secs(60)).await;
        let asked = Instant::now();
        line.ask();
        listening.await.unwrap();
        assert!((200..=300).contains(&asked.elapsed().as_millis()), "{:?}", asked.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_says_something_now_and_then_may_take_its_time_until_it_stops() {
        let line = Line::new();
        let listening = tokio::spawn(Arc::clone(&line).is_too_long());
        line.ask();
        for _ in 0..50 {
            sleep(Duration::from_millis(80)).await;
            line.silence.broken();
        }
        assert!(!listening.is_finished());
        let stopped = Instant::now();
        listening.await.unwrap();
        assert!((200..=300).contains(&stopped.elapsed().as_millis()), "{:?}", stopped.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_of_this_process_is_not_the_silence_of_the_server() {
        let line = Line::new();
        let listening = tokio::spawn(Arc::clone(&line).is_too_long());
        line.ask();
        sleep(Duration::from_millis(60)).await;
        // Everything stands still, then goes on where it was.
        tokio::time::advance(Duration::from_secs(10)).await;
        tokio::task::yield_now().await;
        assert!(!listening.is_finished());
        line.silence.broken();
        sleep(Duration::from_millis(120)).await;
        assert!(!listening.is_finished());
    }
}

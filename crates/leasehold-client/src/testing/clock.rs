//! A clock that stands still until a test moves it.
//!
//! It knows who sleeps by it. Moving goes from one sleeper to the next, and after each waits until all clients
//! that live by it are idle again, so what happens does not depend on how fast the machine is.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;

use crate::{Clock, Moment, Settle};

/// How often other tasks of the test's runtime get a turn before all is taken to be done.
const TURNS: usize = 16;

/// A clock that stands still until a test moves it. Clones are the same clock.
#[derive(Clone, Debug, Default)]
pub struct VirtualClock {
    face: Arc<Mutex<Face>>,
}

#[derive(Debug, Default)]
struct Face {
    now: Duration,
    next: u64,
    sleepers: BTreeMap<(Duration, u64), Option<Waker>>,
    clients: Vec<Settle>,
}

impl VirtualClock {
    /// A clock that shows zero.
    pub fn new() -> VirtualClock {
        VirtualClock::default()
    }

    /// How long it has been running.
    pub fn elapsed(&self) -> Duration {
        self.face.lock().now
    }

    /// Moves time and returns when everything that had to happen by then has happened.
    ///
    /// That holds for the clients, and for tasks of the test if they run in the same current-thread runtime
    /// (as in a plain `#[tokio::test]`).
    pub async fn advance(&self, duration: Duration) {
        let target = self.elapsed() + duration;
        self.settle().await;
        while self.fire_next(target) {
            self.settle().await;
        }
        self.set(target);
        self.settle().await;
    }

    /// Makes the clock show a later time although no timer fires, as after the machine was suspended. Timers that
    /// are overdue fire when it is [moved](VirtualClock::advance) next.
    pub fn jump(&self, duration: Duration) {
        self.face.lock().now += duration;
    }

    /// Returns when all clients have done what there is to do for now.
    pub async fn settle(&self) {
        loop {
            let before = self.polls();
            // What the test's own tasks want of the clients is asked for before these are found idle.
            for _ in 0..TURNS {
                tokio::task::yield_now().await;
            }
            let mut ended = false;
            for client in self.clients() {
                ended |= client.idle().await.is_none();
            }
            if ended {
                self.forget_ended().await;
            } else if self.polls() == before {
                return;
            }
        }
    }

    fn clients(&self) -> Vec<Settle> {
        self.face.lock().clients.clone()
    }

    fn polls(&self) -> u64 {
        self.face.lock().clients.iter().map(Settle::polls).sum()
    }

    async fn forget_ended(&self) {
        let mut living = Vec::new();
        for client in self.clients() {
            if client.idle().await.is_some() {
                living.push(client);
            }
        }
        self.face.lock().clients = living;
    }

    /// Wakes those who sleep until the earliest moment not after `target`. Tells whether there are any.
    fn fire_next(&self, target: Duration) -> bool {
        let mut face = self.face.lock();
        let Some((at, _)) = face.sleepers.first_key_value().map(|(key, _)| *key).filter(|(at, _)| *at <= target) else {
            return false;
        };
        face.now = face.now.max(at);
        let now = face.now;
        let rest = face.sleepers.split_off(&(now, u64::MAX));
        let woken = std::mem::replace(&mut face.sleepers, rest);
        drop(face);
        woken.into_values().flatten().for_each(Waker::wake);
        true
    }

    fn set(&self, target: Duration) {
        let mut face = self.face.lock();
        face.now = face.now.max(target);
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Moment {
        Moment::at(self.elapsed())
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let mut face = self.face.lock();
        face.next += 1;
        let (until, number) = (face.now.saturating_add(duration), face.next);
        Box::pin(Sleep { face: Arc::clone(&self.face), key: (until, number) })
    }

    fn longest_nap(&self) -> Duration {
        Duration::MAX
    }

    fn attach(&self, client: Settle) {
        self.face.lock().clients.push(client);
    }
}

struct Sleep {
    face: Arc<Mutex<Face>>,
    key: (Duration, u64),
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut face = self.face.lock();
        if face.now >= self.key.0 {
            face.sleepers.remove(&self.key);
            return Poll::Ready(());
        }
        face.sleepers.insert(self.key, Some(context.waker().clone()));
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.face.lock().sleepers.remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[tokio::test]
    async fn sleepers_wake_in_order_at_their_own_time() {
        let clock = VirtualClock::new();
        let woken = Arc::new(Mutex::new(Vec::new()));
        for seconds in [3, 1, 2, 9] {
            let (clock, woken) = (clock.clone(), Arc::clone(&woken));
            tokio::spawn(async move {
                clock.sleep(Duration::from_secs(seconds)).await;
                woken.lock().push((seconds, clock.elapsed().as_secs()));
            });
        }
        clock.advance(Duration::from_secs(5)).await;
        assert_eq!(*woken.lock(), [(1, 1), (2, 2), (3, 3)]);
        assert_eq!(clock.elapsed(), Duration::from_secs(5));
    }

    #[tokio::test]
    async fn a_sleeper_that_sleeps_again_is_woken_again() {
        let clock = VirtualClock::new();
        let rounds = Arc::new(AtomicU64::new(0));
        let (theirs, count) = (clock.clone(), Arc::clone(&rounds));
        tokio::spawn(async move {
            loop {
                theirs.sleep(Duration::from_millis(100)).await;
                count.fetch_add(1, Ordering::SeqCst);
            }
        });
        clock.advance(Duration::from_secs(1)).await;
        assert_eq!(rounds.load(Ordering::SeqCst), 10);
    }

    #[tokio::test]
    async fn a_jump_fires_nothing_until_time_moves() {
        let clock = VirtualClock::new();
        let sleep = tokio::spawn(clock.sleep(Duration::from_secs(1)));
        clock.settle().await;
        clock.jump(Duration::from_secs(5));
        clock.settle().await;
        assert!(!sleep.is_finished());
        clock.advance(Duration::ZERO).await;
        assert!(sleep.is_finished());
    }
}

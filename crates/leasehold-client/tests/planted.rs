//! Each mistake of the client changes how long a holder believes that it holds.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

#[path = "../../leasehold-core/tests/contrast/mod.rs"]
mod contrast;

use std::time::Duration;

use contrast::contrast;
use futures_util::FutureExt as _;
use leasehold_client::testing::TestServer;
use leasehold_client::{Moment, Span, Validity};
use leasehold_core::Remaining;
use leasehold_core::planted::Bug;

fn at(seconds: u64) -> Moment {
    Moment::at(Duration::from_secs(seconds))
}

#[test]
fn deadline_from_reply() {
    // Sent at 0 s, answered at 5 s.
    let left = || Validity::of_answer(at(0), at(5), Remaining::For(Span::seconds(102))).left_at(at(5)).unwrap();
    contrast(Bug::DeadlineFromReply, left, Duration::from_secs(93), Duration::from_secs(98));
}

#[test]
fn drift_one_sided() {
    let left = || Validity::new(at(0), Remaining::For(Span::seconds(51))).left_at(at(0)).unwrap();
    contrast(Bug::DriftOneSided, left, Duration::from_secs(49), Duration::from_millis(49_980));
}

#[test]
fn valid_until_release_answered() {
    // Whether the holder knows that it must not act while its release is on its way.
    let scenario = async {
        let server = TestServer::new();
        let guard = server.client().lock("a").ttl(Duration::from_secs(10)).acquire().await.unwrap();
        let lost = guard.lost();
        server.freeze();
        // Begun here and now: a task of its own might not have begun by the time it is looked at.
        let mut releasing = Box::pin(guard.release());
        assert!(releasing.as_mut().now_or_never().is_none());
        server.settle().await;
        let knows = lost.now_or_never().is_some();
        server.thaw();
        releasing.await.unwrap();
        knows
    };
    let run = || tokio::runtime::Runtime::new().unwrap().block_on(scenario);
    contrast(Bug::ValidUntilReleaseAnswered, run, true, false);
}

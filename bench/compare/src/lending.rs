//! Leases that are left to themselves, granted as fast as a system takes them: what workloads need that look at many.

use std::time::{Duration, Instant};

use futures_util::stream::{self, StreamExt as _};

use super::client::Lender;

/// How many grants are under way together.
pub(crate) const TOGETHER: usize = 512;

/// A lease that was granted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lent {
    pub(crate) number: u64,
    /// When its ttl is over.
    pub(crate) deadline: Instant,
}

/// How leases are granted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// How many are wanted.
    pub(crate) leases: usize,
    /// How many grants are under way together.
    pub(crate) together: usize,
    /// After so long it has to do with those that there are.
    pub(crate) within: Duration,
}

/// Grants leases, each for as long as `ttl` says when it is asked for. Tells of those that there are when all are granted, or
/// when the time is over.
pub(crate) async fn lend(
    lender: &dyn Lender,
    plan: Plan,
    ttl: impl Fn(u64) -> Duration + Sync,
) -> Result<Vec<Lent>, String> {
    let (begun, leases) = (Instant::now(), plan.leases.min(lender.most()));
    let mut all = Vec::with_capacity(leases);
    let grants = stream::iter(0..leases as u64).take_while(|_| {
        let goes_on = begun.elapsed() < plan.within;
        async move { goes_on }
    });
    let ttl = &ttl;
    let grant = move |number| async move {
        let deadline = lender.lend(number, ttl(number)).await?;
        Ok::<Lent, String>(Lent { number, deadline })
    };
    let mut granted = std::pin::pin!(grants.map(grant).buffer_unordered(plan.together));
    while let Some(lent) = granted.next().await {
        all.push(lent?);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Work;

    /// Takes some time for each grant, and refuses the one of this number.
    struct Slow {
        each: Duration,
        refused: u64,
    }

    impl Lender for Slow {
        fn most(&self) -> usize {
            1000
        }
        fn lend(&self, number: u64, ttl: Duration) -> Work<'_, Instant> {
            Box::pin(async move {
                tokio::time::sleep(self.each).await;
                if number == self.refused { Err("no".to_owned()) } else { Ok(Instant::now() + ttl) }
            })
        }
        fn lives(&self, _number: u64) -> Work<'_, bool> {
            Box::pin(async { Ok(true) })
        }
    }

    const HOUR: Duration = Duration::from_secs(3600);

    #[tokio::test]
    async fn no_more_are_granted_than_a_system_can_have() {
        let lender = Slow { each: Duration::ZERO, refused: u64::MAX };
        let plan = Plan { leases: 5000, together: 64, within: HOUR };
        assert_eq!(lend(&lender, plan, |_| HOUR).await.unwrap().len(), 1000);
    }

    #[tokio::test]
    async fn what_takes_too_long_ends_with_those_that_there_are() {
        let lender = Slow { each: Duration::from_millis(20), refused: u64::MAX };
        let plan = Plan { leases: 1000, together: 1, within: Duration::from_millis(100) };
        let lent = lend(&lender, plan, |_| HOUR).await.unwrap().len();
        assert!((1..100).contains(&lent), "{lent}");
    }

    #[tokio::test]
    async fn a_refusal_is_told() {
        let lender = Slow { each: Duration::ZERO, refused: 7 };
        let plan = Plan { leases: 10, together: 2, within: HOUR };
        assert!(lend(&lender, plan, |_| HOUR).await.is_err());
    }
}

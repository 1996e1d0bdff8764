//! Leases that end by themselves: how late a watcher is told, where they end one after the other and where all end at once.
//!
//! A deadline counts from just before its lease was asked for, so the time a grant takes is part of the lateness: no system
//! looks better than it is. What is not told within [`PATIENCE`](crate::ends::PATIENCE) after the last deadline counts as that late.

use std::time::{Duration, Instant};

use crate::client::{Lender, Work};
use crate::ends::Told;
use crate::lending::{Lent, Plan, lend};
use crate::sample::{Figure, LEASES, Sample};
use crate::workload::{Effort, Measure, Stage, Window, Workload};

/// No lease is granted for less: some systems have none that are shorter.
const TTL_MIN: Duration = Duration::from_secs(4);
/// How long the deadlines of those that end one after the other are spread over; in a quick look, less.
const SPREAD: Duration = Duration::from_secs(20);
const SPREAD_QUICK: Duration = Duration::from_secs(2);
/// When those end that end at once; in a quick look, sooner. Slow systems may not have granted all by then; there the rest ends
/// as soon as a lease can.
const AT_ONCE: Duration = Duration::from_secs(12);
const AT_ONCE_QUICK: Duration = Duration::from_secs(7);
/// For how long leases are granted at most.
const GRANTED_WITHIN: Duration = Duration::from_secs(45);
/// Few, so that a grant is not asked for long before the server hears of it.
const TOGETHER: usize = 32;

pub(super) fn all() -> Vec<Box<dyn Workload>> {
    vec![
        Box::new(Expiry { leases: 10_000, at_once: false }),
        Box::new(Expiry { leases: 100_000, at_once: false }),
        Box::new(Expiry { leases: 10_000, at_once: true }),
    ]
}

struct Expiry {
    leases: usize,
    at_once: bool,
}

/// The figure of those that end at once.
const LAST: &str = "last one gone";

impl Workload for Expiry {
    fn kind(&self) -> &'static str {
        if self.at_once { "mass expiry" } else { "expiry" }
    }

    fn case(&self) -> String {
        format!("{} leases{}", self.leases, if self.at_once { " at one instant" } else { ", one after the other" })
    }

    fn measure(&self) -> Measure {
        if self.at_once { Measure::Figure(LAST) } else { Measure::Tail }
    }

    fn effort(&self) -> Effort {
        if self.leases > 10_000 { Effort::Longest } else { Effort::Long }
    }

    fn is_quick(&self) -> bool {
        self.effort() == Effort::Long
    }

    fn run<'a>(&'a self, stage: &'a Stage<'a>) -> Work<'a, Option<Sample>> {
        Box::pin(async move {
            let (granting, listening) = (stage.client().await?, stage.client().await?);
            let (Some(lender), Some(endings)) = (granting.lender(), listening.endings()) else { return Ok(None) };
            let told = Told::listen(endings.await?);
            let (lent, window) = self.grant(&*lender, stage.quick).await?;
            let used = stage.used_in(window);
            let late = async {
                tokio::time::sleep_until(window.until.into()).await;
                told.all(&lent).await
            };
            let (used, late) = tokio::join!(used, late);
            let (used, late) = (used?, late?);
            let mut sample = used.sample(lent.len() as u64, &late.latencies);
            sample.more.push(Figure::count(LEASES, lent.len()));
            sample.more.push(Figure { name: "deadlines over, s", value: apart(&lent).as_secs_f64(), unit: None });
            sample.more.push(Figure::count("never told", late.never));
            if self.at_once {
                sample.more.push(Figure::new(LAST, late.last.as_secs_f64() * 1e3, "ms"));
            }
            Ok(Some(sample))
        })
    }
}

/// How far the deadlines lie apart. With whole seconds they are never at one instant, and those that end earlier are out of
/// the way of the last.
fn apart(lent: &[Lent]) -> Duration {
    let deadlines = || lent.iter().map(|lent| lent.deadline);
    deadlines().max().zip(deadlines().min()).map_or(Duration::ZERO, |(last, first)| last - first)
}

impl Expiry {
    /// Grants all, and tells in which stretch of time they end. Where all end at once the stretch goes on for a second, so
    /// that what it costs is seen.
    async fn grant(&self, lender: &dyn Lender, quick: bool) -> Result<(Vec<Lent>, Window), String> {
        let begun = Instant::now();
        let (spread, at_once) = if quick { (SPREAD_QUICK, AT_ONCE_QUICK) } else { (SPREAD, AT_ONCE) };
        let leases = self.leases.min(lender.most());
        let wanted = |number: u64| match self.at_once {
            true => begun + at_once,
            false => begun + TTL_MIN + spread.mul_f64(number as f64 / leases as f64),
        };
        let ttl = |number| wanted(number).saturating_duration_since(Instant::now()).max(TTL_MIN);
        let plan = Plan { leases, together: TOGETHER, within: GRANTED_WITHIN };
        let lent = lend(lender, plan, ttl).await?;
        let deadlines = || lent.iter().map(|lent| lent.deadline);
        // Those that came first may be over already.
        let from = deadlines().min().unwrap_or(begun).max(Instant::now());
        let last = deadlines().max().unwrap_or(begun).max(from);
        let until = if self.at_once { last + Duration::from_secs(1) } else { last };
        Ok((lent, Window { from, until }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_lie_apart_as_far_as_the_first_and_the_last() {
        let begun = Instant::now();
        let lent = [300, 100, 250].map(|ms| Lent { number: ms, deadline: begun + Duration::from_millis(ms) });
        assert_eq!(apart(&lent), Duration::from_millis(200));
        assert_eq!(apart(&[]), Duration::ZERO);
    }
}

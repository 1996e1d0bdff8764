//! A cluster whose leader is killed: for how long clients cannot renew, and how much longer leases live that nobody renews.
//!
//! Clients on connections of their own, spread over the nodes, renew a lease each every [`EVERY`]; beside them are leases that
//! nobody renews, and the leader is killed in the middle of their life. A client's latency here is the longest time between
//! two of its renewals, with the pause between them; a renewal that fails is tried again at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::client::{Client, Renewer, Work};
use crate::ends::Told;
use crate::lending::{Plan, lend};
use crate::load::finish;
use crate::sample::{Figure, Latencies, Sample};
use crate::workload::{Connections, Effort, Measure, Stage, Workload};

const CLIENTS: usize = 90;
const EVERY: Duration = Duration::from_millis(50);
/// How long a renewal may take before another way is looked for, and how long it is before it is tried again.
const ANSWERED_WITHIN: Duration = Duration::from_millis(200);
const AGAIN_AFTER: Duration = Duration::from_millis(10);
/// The leases that nobody renews.
const LEASES: usize = 100;
const TTL: Duration = Duration::from_secs(6);
/// How long clients go on after the leader was killed, at least.
const GO_ON: Duration = Duration::from_secs(8);

pub(super) fn all() -> Vec<Box<dyn Workload>> {
    vec![Box::new(FailOver)]
}

struct FailOver;

impl Workload for FailOver {
    fn kind(&self) -> &'static str {
        "fail-over"
    }

    fn case(&self) -> String {
        format!("{CLIENTS} clients renew every {} ms", EVERY.as_millis())
    }

    fn measure(&self) -> Measure {
        Measure::Latency
    }

    fn effort(&self) -> Effort {
        Effort::Long
    }

    fn fits(&self, nodes: usize) -> bool {
        nodes > 1
    }

    fn run<'a>(&'a self, stage: &'a Stage<'a>) -> Work<'a, Option<Sample>> {
        Box::pin(async move {
            let Some(leader) = stage.system.leader(stage.running) else { return Ok(None) };
            let leader = leader.await?;
            // It watches and lends at a node that stays.
            let client = stage.client_of((leader + 1) % stage.system.nodes()).await?;
            let (Some(lender), Some(endings)) = (client.lender(), client.endings()) else { return Ok(None) };
            let told = Told::listen(endings.await?);
            let clients = stage.clients(CLIENTS, Connections::Own).await?;
            let Some(renewing) = Renewing::begin(&clients).await? else { return Ok(None) };
            let before = stage.used_until_now();
            let plan = Plan { leases: LEASES, together: LEASES, within: TTL };
            let lent = lend(&*lender, plan, |_| TTL).await?;
            tokio::time::sleep(TTL / 2).await;
            stage.running.servers[leader].crash();
            let killed = Instant::now();
            let late = told.all(&lent).await?;
            tokio::time::sleep_until((killed + GO_ON).into()).await;
            let (latencies, renewals) = renewing.end().await?;
            let mut sample = stage.used_since(&before).sample(renewals, &latencies);
            sample.more.push(Figure::new("longest of all", latencies.at(1.0), "ms"));
            sample.more.push(Figure::new("extra life, p50", late.latencies.at(0.5), "ms"));
            sample.more.push(Figure::new("extra life, most", late.latencies.at(1.0), "ms"));
            sample.more.push(Figure::count("never told", late.never));
            Ok(Some(sample))
        })
    }
}

/// Clients that renew.
struct Renewing {
    ends: Arc<AtomicBool>,
    renewals: Arc<AtomicU64>,
    /// For each client the longest time without one.
    longest: Latencies,
    tasks: JoinSet<Result<(), String>>,
}

impl Renewing {
    /// Has each client renew a lease; none if the system has nothing of the kind.
    async fn begin(clients: &[Box<dyn Client>]) -> Result<Option<Renewing>, String> {
        let (ends, renewals) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let mut renewing = Renewing { ends, renewals, longest: Latencies::new(), tasks: JoinSet::new() };
        for client in clients {
            let Some(renewer) = client.renewer(1) else { return Ok(None) };
            let (renewer, ends, renewals) =
                (renewer.await?, Arc::clone(&renewing.ends), Arc::clone(&renewing.renewals));
            renewing.tasks.spawn(renew(renewer, ends, renewals, renewing.longest.clone()));
        }
        Ok(Some(renewing))
    }

    async fn end(self) -> Result<(Latencies, u64), String> {
        self.ends.store(true, Ordering::Relaxed);
        finish(self.tasks).await?;
        Ok((self.longest, self.renewals.load(Ordering::Relaxed)))
    }
}

/// Renews until the end, and notes the longest time without a renewal.
async fn renew(
    mut renewer: Box<dyn Renewer>,
    ends: Arc<AtomicBool>,
    renewals: Arc<AtomicU64>,
    latencies: Latencies,
) -> Result<(), String> {
    let (mut last, mut longest) = (Instant::now(), Duration::ZERO);
    while !ends.load(Ordering::Relaxed) {
        let begun = Instant::now();
        let renewed = tokio::time::timeout(ANSWERED_WITHIN, renewer.renew()).await;
        longest = longest.max(last.elapsed());
        if let Ok(Ok(())) = renewed {
            last = Instant::now();
            renewals.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep_until((begun + EVERY).into()).await;
        } else {
            // If there is no other way yet, the next renewal fails as well.
            let _ = tokio::time::timeout(ANSWERED_WITHIN, renewer.mend()).await;
            tokio::time::sleep(AGAIN_AFTER).await;
        }
    }
    latencies.add(longest.max(last.elapsed().saturating_sub(EVERY)));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails for a while once, until it is mended often enough.
    struct Breaks {
        works: u32,
        fails: u32,
    }

    impl Renewer for Breaks {
        fn renew(&mut self) -> Work<'_> {
            Box::pin(async move {
                if self.works > 0 {
                    self.works -= 1;
                    return Ok(());
                }
                if self.fails > 0 { Err("the leader is gone".to_owned()) } else { Ok(()) }
            })
        }
        fn mend(&mut self) -> Work<'_> {
            Box::pin(async move {
                self.fails = self.fails.saturating_sub(1);
                Ok(())
            })
        }
    }

    #[tokio::test]
    async fn the_longest_time_without_a_renewal_is_noted() {
        let (ends, renewals, latencies) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default(), Latencies::new());
        let client = renew(
            Box::new(Breaks { works: 2, fails: 30 }),
            Arc::clone(&ends),
            Arc::clone(&renewals),
            latencies.clone(),
        );
        let client = tokio::spawn(client);
        while renewals.load(Ordering::Relaxed) < 4 {
            tokio::time::sleep(EVERY).await;
        }
        ends.store(true, Ordering::Relaxed);
        client.await.unwrap().unwrap();
        // Thirty attempts, each after a pause, behind the pause between two renewals.
        assert!(latencies.at(1.0) >= 300.0, "{}", latencies.at(1.0));
    }
}

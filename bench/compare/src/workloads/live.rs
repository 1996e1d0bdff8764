//! More and more leases that live: what the same work costs beside them, what memory each takes, and how soon a server that has
//! them serves again after a crash.
//!
//! Each lease holds a name, in whatever way the system does that. They are granted as fast as the system takes them, for a
//! minute at most; how many there are then stands beside the figures. The work is locks taken and given back by sixteen
//! callers on one connection, with a lease for each.

use std::time::{Duration, Instant};

use super::lock;
use crate::client::Work;
use crate::lending::{Plan, TOGETHER, lend};
use crate::process::Server;
use crate::sample::{Figure, LEASES, Sample};
use crate::workload::{Connections, Effort, Measure, Stage, Workload};

const CALLERS: usize = 16;
/// Longer than any measurement.
const TTL: Duration = Duration::from_secs(600);
/// For how long leases are granted at most.
const GRANTED_WITHIN: Duration = Duration::from_secs(60);
/// How long a server is left alone before its memory counts.
const SETTLED_AFTER: Duration = Duration::from_secs(1);
/// How long it may take until it serves again, how long one question may, and how often it is asked.
const AGAIN_WITHIN: Duration = Duration::from_secs(60);
const ANSWERED_WITHIN: Duration = Duration::from_secs(5);
const ASKED_EVERY: Duration = Duration::from_millis(2);

/// How many leases live.
const AMOUNTS: [usize; 4] = [1000, 10_000, 100_000, 1_000_000];

struct Live {
    leases: usize,
}

pub(super) fn all() -> Vec<Box<dyn Workload>> {
    AMOUNTS.map(|leases| Box::new(Live { leases }) as Box<dyn Workload>).into()
}

impl Workload for Live {
    fn kind(&self) -> &'static str {
        "live leases"
    }

    fn case(&self) -> String {
        format!("{} leases, {CALLERS} callers, shared", self.leases)
    }

    fn measure(&self) -> Measure {
        Measure::Rate
    }

    fn effort(&self) -> Effort {
        if self.leases > 10_000 { Effort::Longest } else { Effort::Short }
    }

    fn is_quick(&self) -> bool {
        self.leases == 10_000
    }

    fn amount(&self) -> Option<f64> {
        Some(self.leases as f64)
    }

    fn run<'a>(&'a self, stage: &'a Stage<'a>) -> Work<'a, Option<Sample>> {
        Box::pin(async move {
            let client = stage.client().await?;
            let Some(lender) = client.lender() else { return Ok(None) };
            // The least amount is told with what a system can have; more of it would be the same again.
            if lender.most() < self.leases && self.leases > AMOUNTS[0] {
                return Ok(None);
            }
            let (memory, begun) = (memory(stage), Instant::now());
            let plan = Plan { leases: self.leases, together: TOGETHER, within: GRANTED_WITHIN };
            let lent = lend(&*lender, plan, |_| TTL).await?.len();
            let granted = lent as f64 / begun.elapsed().as_secs_f64();
            tokio::time::sleep(SETTLED_AFTER).await;
            let grown = self::memory(stage).saturating_sub(memory);
            // A system that cannot do this beside them still has the other figures.
            let work = lock::uncontended(stage, CALLERS, Connections::Shared).await?;
            drop((lender, client));
            let restarted = restart(stage).await?;
            let mut sample = work.unwrap_or_default();
            sample.more.push(Figure::count(LEASES, lent));
            sample.more.push(Figure { name: "granted/s", value: granted, unit: None });
            if stage.system.grows_with_leases() {
                sample.more.push(Figure::new("memory each", grown as f64 / lent.max(1) as f64, "B"));
            }
            sample.more.push(Figure::new("restart", restarted.as_secs_f64() * 1e3, "ms"));
            Ok(Some(sample))
        })
    }
}

fn memory(stage: &Stage<'_>) -> u64 {
    stage.running.servers.iter().map(Server::memory).sum()
}

/// Crashes all servers and starts them again: how long it takes until one of the leases is found.
async fn restart(stage: &Stage<'_>) -> Result<Duration, String> {
    stage.running.servers.iter().for_each(Server::crash);
    let begun = Instant::now();
    for server in &stage.running.servers {
        server.start_again()?;
    }
    loop {
        // What was granted first is on disk even where that is written every second only.
        let looked = tokio::time::timeout(ANSWERED_WITHIN, async {
            let lender = stage.client().await?.lender().ok_or("it does not lend any more")?;
            lender.lives(0).await
        });
        match looked.await {
            Ok(Ok(true)) => return Ok(begun.elapsed()),
            Ok(Ok(false)) => return Err("the leases did not survive a crash".to_owned()),
            Ok(Err(_)) | Err(_) if begun.elapsed() < AGAIN_WITHIN => tokio::time::sleep(ASKED_EVERY).await,
            Ok(Err(why)) => return Err(format!("it does not serve again: {why}")),
            Err(_) => return Err("it does not serve again".to_owned()),
        }
    }
}

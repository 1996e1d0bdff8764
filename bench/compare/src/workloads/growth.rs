//! What the same work costs while more and more leases live: locks taken and given back by sixteen callers on one connection.

use super::live::{GRANTED_WITHIN, TTL};
use super::lock;
use crate::client::Work;
use crate::lending::{Plan, TOGETHER, lend};
use crate::sample::Sample;
use crate::workload::{Connections, Measure, Stage, Workload};

const CALLERS: usize = 16;

struct Growth {
    leases: usize,
}

pub(super) fn all() -> Vec<Box<dyn Workload>> {
    [1000, 10_000, 100_000, 1_000_000].map(|leases| Box::new(Growth { leases }) as Box<dyn Workload>).into()
}

impl Workload for Growth {
    fn kind(&self) -> &'static str {
        "growth"
    }

    fn case(&self) -> String {
        format!("{} leases live, {CALLERS} callers, shared", self.leases)
    }

    fn measure(&self) -> Measure {
        Measure::Rate
    }

    fn is_long(&self) -> bool {
        self.leases > 10_000
    }

    fn amount(&self) -> Option<f64> {
        Some(self.leases as f64)
    }

    fn run<'a>(&'a self, stage: &'a Stage<'a>) -> Work<'a, Option<Sample>> {
        Box::pin(async move {
            let client = stage.client().await?;
            let Some(lender) = client.lender() else { return Ok(None) };
            if lender.most() < self.leases {
                return Ok(None);
            }
            let plan = Plan { leases: self.leases, together: TOGETHER, within: GRANTED_WITHIN };
            let lent = lend(&*lender, plan, |_| TTL).await?.len();
            if lent < self.leases {
                return Err(format!("it had granted no more than {lent} within {} s", GRANTED_WITHIN.as_secs()));
            }
            lock::uncontended(stage, CALLERS, Connections::Shared).await
        })
    }
}

//! Leases granted that nothing is bound to.

use crate::client::{Granter, Work};
use crate::load::{self, Caller};
use crate::sample::Sample;
use crate::workload::{Connections, Measure, Stage, Workload};

struct Grant {
    callers: usize,
    connections: Connections,
}

pub(super) fn all() -> Vec<Box<dyn Workload>> {
    vec![
        Box::new(Grant { callers: 1, connections: Connections::Own }),
        Box::new(Grant { callers: 64, connections: Connections::Own }),
        Box::new(Grant { callers: 64, connections: Connections::Shared }),
    ]
}

impl Workload for Grant {
    fn kind(&self) -> &'static str {
        "grant"
    }

    fn case(&self) -> String {
        format!("{} callers, {}", self.callers, self.connections.word())
    }

    fn measure(&self) -> Measure {
        Measure::Rate
    }

    fn run<'a>(&'a self, stage: &'a Stage<'a>) -> Work<'a, Option<Sample>> {
        Box::pin(async move {
            let clients = stage.clients(self.callers, self.connections).await?;
            let granters: Option<Vec<_>> = clients.iter().map(|client| client.granter()).collect();
            let Some(granters) = granters else { return Ok(None) };
            let callers = granters.into_iter().map(|granter| Box::new(Granting(granter)) as Box<dyn Caller>);
            load::closed(stage, callers.collect()).await.map(Some)
        })
    }
}

/// A caller that is granted leases.
struct Granting(Box<dyn Granter>);

impl Caller for Granting {
    fn call(&mut self) -> Work<'_> {
        self.0.grant()
    }
}

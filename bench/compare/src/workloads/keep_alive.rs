//! Leases kept alive: by many clients one at a time, and by one client many under way together.

use crate::client::{Renewer, Work};
use crate::load::{self, Caller};
use crate::sample::Sample;
use crate::workload::{Connections, Measure, Stage, Workload};

struct KeepAlive {
    clients: usize,
    /// Of each client, on one stream.
    leases: usize,
    connections: Connections,
}

pub(super) fn all() -> Vec<Box<dyn Workload>> {
    vec![
        Box::new(KeepAlive { clients: 64, leases: 1, connections: Connections::Own }),
        Box::new(KeepAlive { clients: 64, leases: 1, connections: Connections::Shared }),
        Box::new(KeepAlive { clients: 1, leases: 512, connections: Connections::Own }),
        Box::new(KeepAlive { clients: 1, leases: 4096, connections: Connections::Own }),
    ]
}

impl Workload for KeepAlive {
    fn kind(&self) -> &'static str {
        "keep-alive"
    }

    fn case(&self) -> String {
        let connections = self.connections.word();
        match (self.clients, self.leases) {
            (clients, 1) => format!("{clients} clients, a lease each, {connections}"),
            (1, leases) => format!("1 client, {leases} leases together"),
            (clients, leases) => format!("{clients} clients, {leases} leases each, {connections}"),
        }
    }

    fn measure(&self) -> Measure {
        Measure::Rate
    }

    fn run<'a>(&'a self, stage: &'a Stage<'a>) -> Work<'a, Option<Sample>> {
        Box::pin(async move {
            let clients = stage.clients(self.clients, self.connections).await?;
            let mut callers: Vec<Box<dyn Caller>> = Vec::new();
            for client in &clients {
                let Some(renewer) = client.renewer(self.leases) else { return Ok(None) };
                callers.push(Box::new(Renewing { renewer: renewer.await?, leases: self.leases }));
            }
            load::closed(stage, callers).await.map(Some)
        })
    }
}

/// A caller that keeps its leases alive.
struct Renewing {
    renewer: Box<dyn Renewer>,
    leases: usize,
}

impl Caller for Renewing {
    fn call(&mut self) -> Work<'_> {
        self.renewer.renew()
    }

    fn operations(&self) -> u64 {
        self.leases as u64
    }
}

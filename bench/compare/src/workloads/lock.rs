//! Locks taken and given back where nobody else wants them; an operation is both.

use crate::client::{Life, Locker, Work};
use crate::load::{self, Caller};
use crate::sample::Sample;
use crate::workload::{Connections, Measure, Stage, Workload};

struct Lock {
    callers: usize,
    connections: Connections,
    life: Life,
}

pub(super) fn all() -> Vec<Box<dyn Workload>> {
    let mut all: Vec<Box<dyn Workload>> = Vec::new();
    for life in [Life::Kept, Life::PerLock] {
        for (callers, connections) in Connections::cases([1, 16, 64, 256]) {
            all.push(Box::new(Lock { callers, connections, life }));
        }
    }
    all
}

impl Workload for Lock {
    fn kind(&self) -> &'static str {
        "lock"
    }

    fn case(&self) -> String {
        let life = match self.life {
            Life::Kept => "a kept lease",
            Life::PerLock => "a lease per lock",
        };
        format!("{life}, {} callers, {}", self.callers, self.connections.word())
    }

    fn measure(&self) -> Measure {
        Measure::Rate
    }

    fn fits(&self, nodes: usize) -> bool {
        // Several nodes do what is compared there, and no more: it takes long enough.
        nodes == 1 || self.callers == 64
    }

    fn run<'a>(&'a self, stage: &'a Stage<'a>) -> Work<'a, Option<Sample>> {
        Box::pin(async move {
            let Some(callers) = callers(stage, self.callers, self.connections, self.life).await? else {
                return Ok(None);
            };
            load::closed(stage, callers).await.map(Some)
        })
    }
}

/// Callers that have a name each, with a lease for each lock; none if the system has nothing of the kind.
pub(super) async fn uncontended(
    stage: &Stage<'_>,
    count: usize,
    connections: Connections,
) -> Result<Option<Sample>, String> {
    let Some(callers) = callers(stage, count, connections, Life::PerLock).await? else { return Ok(None) };
    load::closed(stage, callers).await.map(Some)
}

async fn callers(
    stage: &Stage<'_>,
    count: usize,
    connections: Connections,
    life: Life,
) -> Result<Option<Vec<Box<dyn Caller>>>, String> {
    let clients = stage.clients(count, connections).await?;
    let mut callers: Vec<Box<dyn Caller>> = Vec::new();
    for (number, client) in clients.iter().enumerate() {
        let Some(locker) = client.locker(life) else { return Ok(None) };
        callers.push(Box::new(Locking { locker: locker.await?, name: format!("lock/{number}") }));
    }
    Ok(Some(callers))
}

/// A caller that has a name for itself.
struct Locking {
    locker: Box<dyn Locker>,
    name: String,
}

impl Caller for Locking {
    fn call(&mut self) -> Work<'_> {
        Box::pin(async move {
            self.locker.lock(&self.name).await?;
            self.locker.unlock().await
        })
    }
}

//! Values written under keys: each caller has a hundred keys of its own and writes them in turn.

use crate::client::{Work, Writer};
use crate::load::{self, Caller};
use crate::sample::Sample;
use crate::workload::{Connections, Measure, Stage, Workload};

const KEYS: u64 = 100;
const VALUE: [u8; 64] = [b'v'; 64];

/// How callers come.
#[derive(Clone, Copy, Debug)]
enum Pace {
    /// Each when it has the answer to the last.
    Closed,
    /// So many times a second.
    Open(u32),
}

struct Put {
    callers: usize,
    connections: Connections,
    pace: Pace,
}

pub(super) fn all() -> Vec<Box<dyn Workload>> {
    let mut all: Vec<Box<dyn Workload>> = Vec::new();
    for (callers, connections) in Connections::cases([1, 16, 64, 256]) {
        all.push(Box::new(Put { callers, connections, pace: Pace::Closed }));
    }
    for rate in [500, 2000] {
        all.push(Box::new(Put { callers: 64, connections: Connections::Own, pace: Pace::Open(rate) }));
    }
    all
}

impl Workload for Put {
    fn kind(&self) -> &'static str {
        "put"
    }

    fn case(&self) -> String {
        let connections = self.connections.word();
        match self.pace {
            Pace::Closed => format!("{} callers, {connections}", self.callers),
            Pace::Open(rate) => format!("{rate}/s arrive, {} callers, {connections}", self.callers),
        }
    }

    fn measure(&self) -> Measure {
        match self.pace {
            Pace::Closed => Measure::Rate,
            Pace::Open(_) => Measure::Latency,
        }
    }

    fn run<'a>(&'a self, stage: &'a Stage<'a>) -> Work<'a, Option<Sample>> {
        Box::pin(async move {
            let clients = stage.clients(self.callers, self.connections).await?;
            let mut callers: Vec<Box<dyn Caller>> = Vec::new();
            for (caller, client) in clients.iter().enumerate() {
                let Some(writer) = client.writer() else { return Ok(None) };
                callers.push(Box::new(Putting { writer, caller, next: 0 }));
            }
            let sample = match self.pace {
                Pace::Closed => load::closed(stage, callers).await?,
                Pace::Open(rate) => load::open(stage, callers, rate).await?,
            };
            Ok(Some(sample))
        })
    }
}

/// A caller that writes.
struct Putting {
    writer: Box<dyn Writer>,
    caller: usize,
    next: u64,
}

impl Caller for Putting {
    fn call(&mut self) -> Work<'_> {
        let key = format!("put/{}/{}", self.caller, self.next % KEYS);
        self.next += 1;
        Box::pin(async move { self.writer.put(&key, &VALUE).await })
    }
}

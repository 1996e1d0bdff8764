//! A service of its own for each input, on one thread and on a clock that jumps instead of waiting.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use leasehold_service::{Clocks, MemoryLog, Options, Reading, Replica, Service};
use tokio::time::Instant;

/// Runs a future on this thread, on virtual time.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.expect("a runtime of one thread needs nothing").block_on(future)
}

/// The virtual clock of the runtime.
#[derive(Clone)]
struct VirtualClocks(Instant);

impl Clocks for VirtualClocks {
    fn read(&self) -> Reading {
        let gone = Instant::now().duration_since(self.0);
        Reading { monotonic: gone, raw: gone }
    }
}

/// A fresh service that leads.
pub(crate) async fn service() -> Service {
    let replica = Arc::new(Replica::new());
    let log = MemoryLog::start(Arc::clone(&replica));
    let service = Service::start(log, replica, VirtualClocks(Instant::now()), Options::default());
    while !service.health().ready {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    service
}

//! The store in memory, by the machine's clock.

use std::sync::Arc;

use leasehold_client::store::{Memory, Store};

use crate::harness::{Harness, Missing};

pub(crate) struct InMemory(Memory);

pub(crate) fn start() -> Result<InMemory, Missing> {
    Ok(InMemory(Memory::new()))
}

impl Harness for InMemory {
    fn client(&self) -> Arc<dyn Store> {
        Arc::new(self.0.clone())
    }

    fn absent(&self) -> Option<(Arc<dyn Store>, String)> {
        None
    }

    fn version(&self) -> String {
        "in this process".to_owned()
    }
}

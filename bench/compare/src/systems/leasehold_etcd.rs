//! Leasehold through its dialect of etcd: `lease serve --etcd`, one node, with its own settings.

use std::path::Path;

use super::etcd_wire;
use super::leasehold::{DURABILITY, QUEUE, lease, serve};
use crate::client::{Client, Work};
use crate::process::{free_address, version};
use crate::system::{About, Running, System};

pub(super) struct LeaseholdEtcd;

impl System for LeaseholdEtcd {
    fn name(&self) -> &'static str {
        "leasehold-etcd"
    }

    fn find(&self) -> Result<(), String> {
        etcd_wire::find().and_then(|()| lease()).map(drop)
    }

    fn about(&self) -> About {
        About {
            version: lease().map_or_else(|why| why, |program| version(&program)),
            durability: DURABILITY,
            fencing: "token of the claim (the same revision), kept by the server",
            queue: QUEUE,
            client: etcd_wire::CLIENT,
        }
    }

    fn start(&self, directory: &Path) -> Result<Running, String> {
        let etcd = free_address()?;
        let running = serve(directory, &["--etcd", &etcd])?;
        Ok(Running { endpoint: format!("http://{etcd}"), ..running })
    }

    fn connect<'a>(&'a self, running: &'a Running) -> Work<'a, Box<dyn Client>> {
        etcd_wire::connect(&running.endpoint)
    }
}

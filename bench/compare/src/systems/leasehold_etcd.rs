//! Leasehold through its dialect of etcd: `lease serve --etcd`, one node, with its own settings.

use std::path::{Path, PathBuf};

use super::etcd_wire;
use crate::client::{Client, Work};
use crate::process::{Server, command, free_address, version};
use crate::system::{About, Running, System};

pub(super) struct LeaseholdEtcd;

impl System for LeaseholdEtcd {
    fn name(&self) -> &'static str {
        "leasehold-etcd"
    }

    fn about(&self) -> About {
        About {
            version: lease().map_or_else(|why| why, |program| version(&program)),
            durability: "fdatasync before every answer, keep-alives too",
            fencing: "token of the claim (the same revision), kept by the server",
            client: etcd_wire::CLIENT,
        }
    }

    fn start(&self, directory: &Path) -> Result<Running, String> {
        let (own, etcd) = (free_address()?, free_address()?);
        let mut serve = command(&lease()?);
        serve.args(["serve", "--listen", &own, "--etcd", &etcd]).arg("--data").arg(directory.join("data"));
        Ok(Running { endpoint: format!("http://{etcd}"), servers: vec![Server::start(serve, directory)?] })
    }

    fn connect<'a>(&'a self, running: &'a Running) -> Work<'a, Box<dyn Client>> {
        etcd_wire::connect(&running.endpoint)
    }
}

/// The binary: the one that `LEASEHOLD_LEASE` names, or the one that was built beside this program.
pub(super) fn lease() -> Result<PathBuf, String> {
    if let Some(path) = std::env::var_os("LEASEHOLD_LEASE").filter(|path| !path.is_empty()) {
        return Ok(path.into());
    }
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    let lease = this.with_file_name("lease");
    if lease.is_file() { Ok(lease) } else { Err(format!("{} is not there; build it", lease.display())) }
}

//! A system that is measured: how it is started, and what is to be known when its figures stand beside others.

use std::path::Path;

use super::client::{Client, Work};
use super::process::Server;

/// A system that is measured.
pub(crate) trait System: Send + Sync {
    /// What it is called on the command line and in tables.
    fn name(&self) -> &'static str;

    /// How many nodes it has.
    fn nodes(&self) -> usize {
        1
    }

    /// Makes sure that all it needs is on this machine; if not, tells what is missing and how to get it.
    fn find(&self) -> Result<(), String>;

    /// What must be known to compare its figures with others.
    fn about(&self) -> About;

    /// Starts it in an empty directory, on free ports of the loopback. It need not serve yet.
    fn start(&self, directory: &Path) -> Result<Running, String>;

    /// How many times longer it is warmed up than others, because it compiles itself while it runs.
    fn warm_up_times(&self) -> u32 {
        1
    }

    /// Whether its memory grows with its leases, so that it tells what each takes.
    fn grows_with_leases(&self) -> bool {
        true
    }

    /// Which of its nodes leads, from 0; none where nodes do not elect one.
    fn leader<'a>(&'a self, running: &'a Running) -> Option<Work<'a, usize>> {
        let _ = running;
        None
    }

    /// Opens a connection.
    fn connect<'a>(&'a self, running: &'a Running) -> Work<'a, Box<dyn Client>>;
}

/// What must be known to compare figures.
#[derive(Clone, Debug)]
pub(crate) struct About {
    /// What it says it is.
    pub(crate) version: String,
    /// When an answer is given, that to a release too, and what a crash can take back.
    pub(crate) durability: &'static str,
    /// What keeps a holder that was replaced from doing harm.
    pub(crate) fencing: &'static str,
    /// In which order those are served who wait for a lock, and how they hear of it.
    pub(crate) queue: &'static str,
    /// What it is driven with.
    pub(crate) client: &'static str,
}

/// A system that was started. Its processes end with it.
#[derive(Debug)]
pub(crate) struct Running {
    /// Where its clients go; with several nodes all of their addresses, in a list with commas.
    pub(crate) endpoint: String,
    /// Its processes.
    pub(crate) servers: Vec<Server>,
}

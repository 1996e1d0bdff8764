//! A system that is never started, for tests of what needs one and does not use it.

use std::path::Path;

use crate::client::{Client, Work};
use crate::system::{About, Running, System};

/// A system that is never started.
pub(crate) struct Nothing;

impl System for Nothing {
    fn name(&self) -> &'static str {
        "nothing"
    }
    fn find(&self) -> Result<(), String> {
        Ok(())
    }
    fn about(&self) -> About {
        About { version: String::new(), durability: "", fencing: "", queue: "", client: "" }
    }
    fn start(&self, _directory: &Path) -> Result<Running, String> {
        Ok(Running { endpoint: String::new(), servers: Vec::new() })
    }
    fn connect<'a>(&'a self, _running: &'a Running) -> Work<'a, Box<dyn Client>> {
        Box::pin(async { Err("there is nothing".to_owned()) })
    }
}

//! What stands for the client of etcd where it was not built: it says so.

use crate::client::{Client, Work};

pub(super) const CLIENT: &str = "none";

pub(super) fn connect(_endpoint: &str) -> Work<'_, Box<dyn Client>> {
    Box::pin(async { Err("built without the client of etcd; `cargo xtask bench --compare` builds it".to_owned()) })
}

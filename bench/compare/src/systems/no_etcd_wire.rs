//! What stands for the client of etcd where it was not built: it says so.

use crate::client::{Client, Work};

pub(super) const CLIENT: &str = "none";
const WHY: &str = "this was built without the client of etcd; `cargo xtask bench --compare` builds it";

pub(super) fn find() -> Result<(), String> {
    Err(WHY.to_owned())
}

pub(super) async fn leads(_endpoint: &str) -> Result<bool, String> {
    Err(WHY.to_owned())
}

pub(super) fn connect(_endpoint: &str) -> Work<'_, Box<dyn Client>> {
    Box::pin(async { Err(WHY.to_owned()) })
}

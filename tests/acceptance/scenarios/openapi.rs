//! `/openapi.json` against the server that serves it: a validator, and requests generated from the document.
//!
//! `tests/openapi/check.py` does it, with the Python packages that `cargo xtask test` installs.

use std::path::Path;
use std::process::Command;

use super::etcd::found;
use crate::server::{Server, heavy};

#[test]
fn openapi_document_is_valid_and_answers_match_it() {
    let Some(python) = found("LEASEHOLD_PYTHON_OPENAPI") else { return };
    let _alone = heavy();
    let server = Server::start();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/openapi/check.py");
    let mut command = Command::new(python);
    command.arg(script).arg(format!("http://{}", server.address)).env("PYTHONDONTWRITEBYTECODE", "1");
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    println!("{said}");
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "the document and the server differ:\n{said}\n{complaints}");
}

//! Resources that run out: descriptors and memory, with bounds on what the process really uses.

mod descriptors;

use std::fs;

use crate::server::Server;

/// Returns how many descriptors the server has open.
fn open_descriptors(server: &Server) -> usize {
    fs::read_dir(format!("/proc/{}/fd", server.pid())).unwrap().count()
}

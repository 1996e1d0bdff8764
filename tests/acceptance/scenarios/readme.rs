//! The README's first five minutes, played as they are printed there: commands, answers, errors and exit codes.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use tempfile::TempDir;

use crate::server::free_port;
use crate::transcript::{Stage, transcripts};

#[test]
fn the_first_five_minutes_go_as_the_readme_says() {
    let document = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md")).unwrap();
    let blocks = transcripts(&document);
    let minutes = blocks.iter().find(|lines| lines.len() > 10).expect("the README has a transcript");
    let home = TempDir::new().unwrap();
    let port = free_port();
    // The server of the transcript listens where nothing else does; everything else is as a reader types it.
    let serve = format!("serve) shift; exec {LEASE} serve --listen 127.0.0.1:{port} \"$@\";;");
    write_script(&home.path().join("bin/lease"), &format!("case \"$1\" in {serve} esac\nexec {LEASE} \"$@\""));
    write_script(&home.path().join("backfill.sh"), "while :; do sleep 0.1; done");
    let path = format!("{}:{}", home.path().join("bin").display(), std::env::var("PATH").unwrap());
    let environment = vec![
        ("PATH", path),
        ("USER", "ana".to_owned()),
        ("HOME", home.path().display().to_string()),
        ("LEASE_ADDR", format!("http://127.0.0.1:{port}")),
    ];
    Stage::new(home.path(), environment).play(minutes);
}

const LEASE: &str = env!("CARGO_BIN_EXE_lease");

fn write_script(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

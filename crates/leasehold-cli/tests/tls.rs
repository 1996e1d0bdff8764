//! `lease tls init` as it is typed: files, modes, what a second run does, and what is refused.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

fn init(dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lease"));
    command.env_clear().args(["tls", "init", "--dir"]).arg(dir).args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Every file with its bytes.
fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let name = |entry: &fs::DirEntry| entry.file_name().into_string().unwrap();
    fs::read_dir(dir).unwrap().map(|entry| entry.unwrap()).map(|e| (name(&e), fs::read(e.path()).unwrap())).collect()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_ca_and_nodes_are_made_with_keys_for_their_owner_only() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("new/certs");
    let output = init(&dir, &["--node", "n1=10.0.0.1,n1.example", "--node", "n2"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let made: Vec<_> = files(&dir).into_keys().collect();
    assert_eq!(made, ["ca-key.pem", "ca.pem", "n1-key.pem", "n1.pem", "n2-key.pem", "n2.pem"]);
    assert_eq!(mode(&dir), 0o700);
    for (name, bytes) in files(&dir) {
        let (kind, expected) = if name.ends_with("-key.pem") { ("PRIVATE KEY", 0o600) } else { ("CERTIFICATE", 0o644) };
        assert!(text(&bytes).starts_with(&format!("-----BEGIN {kind}-----")), "{name}");
        // The mask of the process may take more away.
        assert_eq!(mode(&dir.join(&name)) & !expected, 0, "{name}");
    }
    assert_eq!(text(&output.stdout).lines().filter(|line| line.starts_with("made")).count(), 6);
    let shown = dir.display();
    let how = format!(
        "lease serve --name n2 ... --peer-ca {shown}/ca.pem --peer-cert {shown}/n2.pem --peer-key {shown}/n2-key.pem"
    );
    assert!(text(&output.stderr).contains(&how), "{}", text(&output.stderr));
}

#[test]
fn a_second_run_makes_only_what_is_missing_and_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    assert!(init(dir.path(), &["--node", "n1"]).status.success());
    let before = files(dir.path());
    let again = init(dir.path(), &["--node", "n1"]);
    assert_eq!((again.status.code(), files(dir.path())), (Some(0), before.clone()));
    assert_eq!(text(&again.stdout).lines().filter(|line| line.starts_with("kept")).count(), 4);

    let more = init(dir.path(), &["--node", "n1", "--node", "n2", "-o", "json"]);
    assert!(more.status.success(), "{}", text(&more.stderr));
    let shown: serde_json::Value = serde_json::from_slice(&more.stdout).unwrap();
    let made = shown["files"].as_array().unwrap().iter().filter(|file| file["made"] == true);
    let made: Vec<_> = made.map(|file| (file["what"].as_str().unwrap(), file["node"].as_str().unwrap())).collect();
    assert_eq!(made, [("certificate", "n2"), ("key", "n2")]);
    let after = files(dir.path());
    assert!(before.iter().all(|(name, bytes)| after[name] == *bytes));
    assert_eq!(after.len(), 6);

    // A node's folder has no key of the CA; nothing needs to be signed.
    fs::remove_file(dir.path().join("ca-key.pem")).unwrap();
    let kept = init(dir.path(), &["--node", "n1", "-o", "name"]);
    assert!(kept.status.success());
    assert_eq!(text(&kept.stdout).lines().count(), 3, "{}", text(&kept.stdout));
}

#[test]
fn half_a_pair_and_a_foreign_ca_are_refused_and_nothing_is_made() {
    let dir = tempfile::tempdir().unwrap();
    assert!(init(dir.path(), &["--node", "n1"]).status.success());
    let path = |name: &str| dir.path().join(name);
    let refused = |args: &[&str], words: &[&str]| {
        let before = files(dir.path());
        let output = init(dir.path(), args);
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(73), "{told}");
        assert!(words.iter().all(|word| told.contains(word)), "{told}");
        assert_eq!(files(dir.path()), before);
        assert!(output.stdout.is_empty());
    };
    fs::rename(path("n1-key.pem"), path("away")).unwrap();
    refused(&["--node", "n1"], &["n1.pem is there, but", "n1-key.pem is not", "put the missing file back"]);
    fs::rename(path("away"), path("n1-key.pem")).unwrap();
    fs::rename(path("ca-key.pem"), path("away")).unwrap();
    refused(&["--node", "n2"], &["ca.pem is there, but", "ca-key.pem is not"]);
    // A new CA would not be the one that signed n1.pem.
    fs::rename(path("ca.pem"), path("away-ca")).unwrap();
    refused(&["--node", "n1"], &["n1.pem is there, but", "ca.pem is not"]);
    refused(&["--node", "n1", "--node", "n2"], &["n1.pem is there, but", "ca.pem is not"]);
    fs::rename(path("away-ca"), path("ca.pem")).unwrap();
    // The key of another CA.
    let other = tempfile::tempdir().unwrap();
    assert!(init(other.path(), &["--node", "n1"]).status.success());
    fs::copy(other.path().join("ca-key.pem"), path("ca-key.pem")).unwrap();
    refused(&["--node", "n2"], &["ca.pem: its key does not fit its certificate"]);
}

#[test]
fn bad_usage_ends_with_2_and_a_folder_that_cannot_be_made_with_74() {
    let dir = tempfile::tempdir().unwrap();
    let cases: [(&[&str], &str); 6] = [
        (&[], "--node"),
        (&["--node", "ca"], "cannot be called `ca`"),
        (&["--node", "n1=10.0.0.1:7118"], "without a port"),
        (&["--node", "a/b"], "a name has letters"),
        (&["--node", "n1", "--node", "n1"], "node n1 is given twice"),
        (&["--node", "n1", "--days", "0"], "0"),
    ];
    for (args, words) in cases {
        let output = init(dir.path(), args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains(words), "{args:?}: {}", text(&output.stderr));
    }
    assert_eq!(files(dir.path()).len(), 0);
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    let output = init(&file.join("certs"), &["--node", "n1"]);
    assert_eq!(output.status.code(), Some(74), "{}", text(&output.stderr));
}

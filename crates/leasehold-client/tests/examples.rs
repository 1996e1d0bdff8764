//! Every example runs to its end, against the store in memory.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::path::PathBuf;
use std::process::Command;

/// Runs an example that cargo has built beside this test; gives what it printed.
fn run(name: &str) -> String {
    let tests = std::env::current_exe().unwrap();
    let folder: PathBuf = tests.ancestors().nth(2).unwrap().join("examples");
    let path = folder.join(name);
    assert!(path.exists(), "{} is not built; `cargo test` builds it, `cargo test --test` does not", path.display());
    let output = Command::new(path).env_remove("LEASE_ADDR").output().unwrap();
    let (told, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{name}: {told}{errors}");
    told.into_owned()
}

#[test]
fn a_job_runs_once() {
    let told = run("distributed_job");
    assert_eq!(told.matches("got the job").count(), 1, "{told}");
    assert_eq!(told.matches("not needed here").count(), 1, "{told}");
    assert!(told.contains("step 3 written"), "{told}");
}

#[test]
fn candidates_lead_one_after_the_other() {
    let told = run("leader_election");
    assert_eq!(told.matches("elected, token").count(), 2, "{told}");
    assert!(told.contains("replica 1: hangs, and is stopped") && told.contains("replica 2: kept its term"), "{told}");
}

#[test]
fn a_session_lasts_as_long_as_it_is_used() {
    let told = run("login_session");
    assert!(told.contains("click 12") && told.contains("logged out: its time ran out"), "{told}");
}

#[test]
fn a_reservation_is_renewed_by_hand() {
    let told = run("reservation");
    assert!(told.contains("reserved for 7.7 h") && told.contains("bob: got it"), "{told}");
}

#[test]
fn a_copy_is_not_used_after_its_time() {
    let told = run("cache_entry");
    assert!(told.contains("the copies have expired: None") && told.contains("fetches Some(12)"), "{told}");
}

//! The real binary without a server: help, usage, settings, and nobody there.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::process::{Command, Output};

/// Runs `lease` with a clean environment and these variables.
fn lease_with(env: &[(&str, &str)], args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lease")).env_clear().envs(env.iter().copied()).args(args).output().unwrap()
}

fn lease(args: &[&str]) -> Output {
    lease_with(&[], args)
}

fn unused_addr() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

const COMMANDS: [&[&str]; 17] = [
    &["serve"],
    &["acquire"],
    &["renew"],
    &["release"],
    &["show"],
    &["ls"],
    &["describe"],
    &["history"],
    &["check"],
    &["watch"],
    &["entry"],
    &["entry", "put"],
    &["entry", "get"],
    &["entry", "ls"],
    &["entry", "rm"],
    &["completions"],
    &["man"],
];

#[test]
fn every_command_helps_with_an_example() {
    for command in COMMANDS {
        let output = lease(&[command, &["--help"]].concat());
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{command:?}");
        assert!(text.contains("Example") && text.contains("lease "), "{command:?}: {text}");
    }
}

#[test]
fn usage_errors_end_with_2_and_say_what_is_wrong() {
    let cases: [(&[&str], &str); 14] = [
        (&["frobnicate"], "frobnicate"),
        (&["acquire"], "<RES>"),
        (&["acquire", "a/../b"], "`..`"),
        (&["acquire", "a", "--ttl", "10"], "no unit"),
        (&["acquire", "a", "--ttl", "0s"], "longer than zero"),
        (&["acquire", "a", "--ttl", "-5s"], "cannot be negative"),
        (&["acquire", "a", "--wait", "soon"], "soon"),
        (&["acquire", "a", "-E", "256"], "256"),
        (&["renew", "~1a2b3c4d5e"], "digest"),
        (&["release", "xyz"], "16 hex digits"),
        (&["check", "a", "twelve"], "twelve"),
        (&["ls", "-o", "xml"], "xml"),
        (&["ls", "--addr", "https://a:1"], "https is not supported yet"),
        (&["entry", "get", ""], "empty"),
    ];
    for (args, hint) in cases {
        let output = lease(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(hint), "{args:?}: {}", stderr(&output));
        assert!(output.stdout.is_empty(), "{args:?}");
    }
}

#[test]
fn nobody_there_ends_with_69_and_says_what_to_do() {
    let addr = unused_addr();
    let text =
        format!("error: cannot reach {addr}: connection refused\n  start one with `lease serve`, or set LEASE_ADDR\n");
    let id = "0000000000000007";
    let commands: [&[&str]; 12] = [
        &["ls"],
        &["describe", "a"],
        &["history", "a"],
        &["check", "a", "1"],
        &["show", id],
        &["renew", id],
        &["renew", id, id],
        &["release", id],
        &["acquire", "a"],
        &["watch"],
        &["entry", "get", "a"],
        &["entry", "put", "a", "b"],
    ];
    for args in commands {
        let output = lease_with(&[("LEASE_ADDR", &addr)], args);
        assert_eq!((stderr(&output), output.status.code()), (text.clone(), Some(69)), "{args:?}");
        assert!(output.stdout.is_empty(), "{args:?}");
    }
}

#[test]
fn every_address_that_failed_is_told() {
    let (one, two) = (unused_addr(), unused_addr());
    let output = lease(&["ls", "--addr", &format!("{one},{two}")]);
    let text = format!("cannot reach {one}: connection refused; nor {two}: connection refused");
    assert!(stderr(&output).contains(&text), "{}", stderr(&output));
}

#[test]
fn a_bad_variable_ends_with_78_and_is_named() {
    let cases = [
        ("LEASE_ADDR", "ftp://x", "scheme"),
        ("LEASE_OUTPUT", "xml", "human, json, jsonl or name"),
        ("LEASE_NAMESPACE", "No Such", "not allowed"),
        ("LEASE_HOLDER", "a\tb", "control character"),
    ];
    for (name, value, hint) in cases {
        let output = lease_with(&[(name, value)], &["ls"]);
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(78), "{text}");
        assert!(text.starts_with(&format!("error: {name} is ")) && text.contains(hint), "{text}");
    }
    // A flag goes before it, so it does not matter.
    let output = lease_with(&[("LEASE_OUTPUT", "xml")], &["ls", "-o", "json", "--addr", &unused_addr()]);
    assert_eq!(output.status.code(), Some(69));
}

#[test]
fn completions_and_man_pages_need_no_server_and_no_settings() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = lease_with(&[("LEASE_ADDR", "ftp://x")], &["completions", shell]);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && text.contains("describe"), "{shell}: {text}");
    }
    let page = String::from_utf8(lease(&["man", "entry", "put"]).stdout).unwrap();
    assert!(page.contains(".TH lease-entry-put 1"), "{page}");
    let output = lease(&["man", "frobnicate"]);
    assert_eq!(output.status.code(), Some(66), "{}", stderr(&output));
}

#[test]
fn the_version_is_told() {
    let output = lease(&["--version"]);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("lease {}\n", env!("CARGO_PKG_VERSION")));
}

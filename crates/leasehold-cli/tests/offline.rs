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

const COMMANDS: [&[&str]; 33] = [
    &["serve"],
    &["acquire"],
    &["renew"],
    &["release"],
    &["show"],
    &["ls"],
    &["describe"],
    &["history"],
    &["check"],
    &["revoke"],
    &["request-handover"],
    &["watch"],
    &["top"],
    &["entry"],
    &["entry", "put"],
    &["entry", "get"],
    &["entry", "ls"],
    &["entry", "rm"],
    &["cluster"],
    &["cluster", "status"],
    &["cluster", "members"],
    &["cluster", "add"],
    &["cluster", "remove"],
    &["cluster", "transfer"],
    &["completions"],
    &["man"],
    &["config"],
    &["config", "check"],
    &["config", "dump"],
    &["lab"],
    &["lab", "fencing"],
    &["tls"],
    &["tls", "init"],
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
    let commands: [&[&str]; 15] = [
        &["ls"],
        &["describe", "a"],
        &["history", "a"],
        &["check", "a", "1"],
        &["show", id],
        &["renew", id],
        &["renew", id, id],
        &["release", id],
        &["acquire", "a"],
        &["revoke", "a", "--reason", "why"],
        &["request-handover", "a"],
        &["watch"],
        &["top", "--once"],
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
fn a_configuration_is_checked_with_its_line_and_what_was_meant() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.toml");
    let name = path.to_str().unwrap();
    let check = |text: &str| {
        std::fs::write(&path, text).unwrap();
        lease(&["config", "check", name])
    };
    let good = check("listen = '127.0.0.1:0'\n");
    assert_eq!((String::from_utf8(good.stdout).unwrap(), good.status.code()), (format!("{name}: ok\n"), Some(0)));
    let bad = check("\n[raft]\nhartbeat = '1s'\n");
    let text = format!("error: {name}:3: unknown key `hartbeat`; did you mean `heartbeat`?\n");
    assert_eq!((stderr(&bad), bad.status.code()), (text, Some(78)));
    let bad = check("listen = '0.0.0.0:1'\n");
    assert!(stderr(&bad).starts_with(&format!("error: {name}: 0.0.0.0:1 can be reached")), "{}", stderr(&bad));
    assert_eq!(lease(&["config", "check", "/nonexistent/x"]).status.code(), Some(78));
    assert_eq!(lease(&["config", "check"]).status.code(), Some(0));
}

#[test]
fn the_dump_tells_where_each_value_came_from_and_no_secret() {
    let folder = tempfile::tempdir().unwrap();
    let (client, server) = (folder.path().join("c.toml"), folder.path().join("s.toml"));
    std::fs::write(&client, "addr = 'http://10.0.0.1:7117'\nnamespace = 'shop'\n").unwrap();
    std::fs::write(&server, "connections = 7\n").unwrap();
    let env = [("LEASE_CONFIG", client.to_str().unwrap()), ("LEASE_NAMESPACE", "env"), ("LEASE_TOKEN", "open sesame")];
    let output = lease_with(
        &env,
        &["config", "dump", "--holder", "me", "-o", "json", "--config", server.to_str().unwrap(), "--data", "/d"],
    );
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(!text.contains("sesame"), "{text}");
    let found: serde_json::Value = serde_json::from_str(&text).unwrap();
    let of = |part: &str, key: &str| {
        let rows = found[part].as_array().unwrap();
        let row = rows.iter().find(|row| row["key"] == key).unwrap();
        format!("{} <- {}", row["value"].as_str().unwrap(), row["from"].as_str().unwrap())
    };
    assert_eq!(of("client", "addr"), format!("http://10.0.0.1:7117 <- file {}", client.display()));
    assert_eq!(of("client", "namespace"), "env <- environment LEASE_NAMESPACE");
    assert_eq!(of("client", "holder"), "me <- flag --holder");
    assert!(of("client", "token").ends_with("<- environment LEASE_TOKEN"));
    assert_eq!(of("server", "data"), "/d <- flag --data");
    assert_eq!(of("server", "connections"), format!("7 <- file {}", server.display()));
    assert_eq!(of("server", "listen"), "127.0.0.1:7117 <- default");
    let human = String::from_utf8(lease(&["config", "dump"]).stdout).unwrap();
    assert!(human.starts_with("CLIENT") && human.contains("\n\nSERVER"), "{human}");
}

#[test]
fn a_misspelt_key_of_the_clients_file_ends_every_command_with_78() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.toml");
    std::fs::write(&path, "adr = 'http://10.0.0.1:7117'\n").unwrap();
    let output = lease_with(&[("LEASE_CONFIG", path.to_str().unwrap())], &["ls"]);
    assert_eq!(output.status.code(), Some(78));
    assert!(stderr(&output).contains("c.toml:1: unknown key `adr`; did you mean `addr`?"), "{}", stderr(&output));
}

#[test]
fn the_lab_shows_a_sleeper_refused_by_its_token_and_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let env = [("TMPDIR", folder.path().to_str().unwrap())];
    let output = lease_with(&env, &["lab", "fencing", "--fast", "-o", "json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let steps = found["steps"].as_array().unwrap();
    let told: Vec<String> = steps
        .iter()
        .map(|step| format!("{} {}", step["who"].as_str().unwrap(), step["what"].as_str().unwrap()))
        .collect();
    let story = [
        "A acquired",
        "A read",
        "A renewed",
        "A paused",
        "B waits",
        "A expired",
        "B acquired",
        "B wrote",
        "A wrote",
        "A stale",
    ];
    assert_eq!(told, story);
    let token = |index: usize| steps[index]["token"].as_u64().unwrap();
    assert!(token(6) > token(0), "{found}");
    let (b, a) = (&steps[7], &steps[8]);
    assert_eq!((&b["with_fencing"]["accepted"], &b["with_fencing"]["balance"]), (&true.into(), &250.into()));
    assert_eq!((&a["with_fencing"]["accepted"], &a["with_fencing"]["balance"]), (&false.into(), &250.into()));
    assert_eq!((&a["without_fencing"]["accepted"], &a["without_fencing"]["balance"]), (&true.into(), &110.into()));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn the_version_is_told() {
    let output = lease(&["--version"]);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("lease {}\n", env!("CARGO_PKG_VERSION")));
}

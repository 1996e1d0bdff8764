//! Backups of a busy server, and what comes back of them: higher tokens, whole ttls, a rest, a told gap.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::clients::{ENTRIES, LEASES, RESOURCES, Run, grant, id_of, lease};
use crate::http::span;
use crate::server::{Server, Setup, heavy};

/// `lease` with these arguments, in JSON.
fn cli(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lease"));
    for name in ["LEASE_ADDR", "LEASE_TOKEN", "LEASE_NAMESPACE", "LEASE_HOLDER", "LEASE_OUTPUT", "LEASE_CONFIG"] {
        command.env_remove(name);
    }
    command.args(["-o", "json"]).args(arguments).output().unwrap()
}

/// What a command that must succeed printed.
#[track_caller]
fn told(arguments: &[&str]) -> Value {
    let output = cli(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// What a command that must fail said, and its exit code.
#[track_caller]
fn refused(arguments: &[&str]) -> (i32, String) {
    let output = cli(arguments);
    assert!(!output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stdout));
    (output.status.code().unwrap(), String::from_utf8_lossy(&output.stderr).into_owned())
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn back_up(server: &Server, file: &Path) -> Value {
    told(&["--addr", &format!("http://{}", server.address), "backup", text(file)])
}

fn restore(file: &Path, data: &Path, flags: &[&str]) -> Value {
    told(&[&["restore", text(file), "--data", text(data)], flags].concat())
}

fn serve(data: PathBuf) -> Server {
    Server::with(Setup { data: Some(data), ..Setup::default() })
}

#[test]
fn a_busy_server_is_backed_up_and_its_copy_goes_on_with_higher_tokens() {
    let _alone = heavy();
    let home = TempDir::new().unwrap();
    let (file, data) = (home.path().join("monday"), home.path().join("restored"));
    let server = Server::start();
    let mut client = server.client();
    let held = client.post(LEASES, &grant("ann", 60_000, "held")).expect(201);
    client.put(&format!("{ENTRIES}/config"), "on").expect(200);
    let run = Run::new(server.address, 7);
    let mut clients: Vec<_> = (0..6).map(|number| run.contend(number)).collect();
    clients.extend((0..2).map(|number| run.count(number)));
    thread::sleep(Duration::from_secs(1));
    let backup = back_up(&server, &file);
    let after = client.post(LEASES, &grant("bob", 3000, "fresh")).expect(201);
    assert!(backup["revision"].as_u64().unwrap() < after.token(), "{backup}");
    thread::sleep(Duration::from_millis(500));
    run.stop();
    let grants: usize = clients.into_iter().map(|client| client.join().unwrap().holds.len()).sum();
    assert!(grants > 10, "there was hardly any load");
    let last = client.get("/v1/cluster").expect(200).revision();
    drop(server);

    let restored = restore(&file, &data, &[]);
    assert_eq!(restored["revision_before"], backup["revision"]);
    assert_eq!(restored["rest"], "1m", "the longest ttl that was granted");
    let server = serve(data);
    let mut client = server.client();
    let now = client.get("/v1/cluster").expect(200).revision();
    assert!(now >= restored["revision"].as_u64().unwrap() && now > last, "{now} is not above {last}");
    // What was held is held, with its token and its whole ttl; what was granted later is not known.
    let lease_now = client.get(&lease(&id_of(&held))).expect(200);
    assert_eq!(lease_now.token(), held.token());
    assert!(lease_now.remaining() > Duration::from_secs(50), "{:?}", lease_now.remaining());
    client.get(&lease(&id_of(&after))).refused(404, "unknown_lease");
    assert_eq!(client.get(&format!("{ENTRIES}/config")).expect(200).json["value"], "on");
    // A watch from before the restore is told that there is a gap.
    client.get(&format!("/v1/ns/default/watch?since={last}")).refused(410, "compacted");
    // Nobody new is granted anything: bob may still act on what is lost.
    let resting = client.post(LEASES, &grant("cat", 3000, "fresh")).refused(409, "held");
    assert!(span(&resting.json["rests"]) > Duration::from_secs(30), "{}", resting.text);
}

#[test]
fn resources_rest_for_the_longest_ttl_and_whoever_waited_is_served_then() {
    let home = TempDir::new().unwrap();
    let (file, data) = (home.path().join("copy"), home.path().join("restored"));
    let server = Server::start();
    let mut client = server.client();
    client.post(LEASES, &grant("ann", 4000, "a")).expect(201);
    back_up(&server, &file);
    let lost = client.post(LEASES, &grant("bob", 4000, "b")).expect(201);
    drop(server);

    assert_eq!(restore(&file, &data, &[])["rest"], "4s");
    let started = Instant::now();
    let server = serve(data);
    let mut client = server.client();
    client.post(LEASES, &grant("cat", 4000, "b")).refused(409, "held");
    client.post(LEASES, &grant("cat", 4000, "unheard/of")).refused(409, "held");
    let granted = client.post(&format!("{LEASES}?wait=30s"), &grant("cat", 4000, "b")).expect(201);
    assert!(granted.token() > lost.token());
    assert!(started.elapsed() >= Duration::from_secs(4), "it rested for {:?} only", started.elapsed());
    client.post(LEASES, &grant("dan", 4000, "unheard/of")).expect(201);
    // Ann's lease had its whole ttl and was not renewed.
    client.post(&format!("{LEASES}?wait=30s"), &grant("eve", 4000, "a")).expect(201);
}

#[test]
fn the_same_copy_restored_twice_gives_rising_tokens_and_another_cluster_each_time() {
    let home = TempDir::new().unwrap();
    let file = home.path().join("copy");
    let server = Server::start();
    let mut highest = server.client().post(LEASES, &grant("ann", 60_000, "a")).expect(201).token();
    back_up(&server, &file);
    drop(server);
    let mut clusters = Vec::new();
    for round in 0..3 {
        let data = home.path().join(format!("restored-{round}"));
        clusters.push(restore(&file, &data, &["--no-rest"])["cluster"].clone());
        let server = serve(data);
        let mut client = server.client();
        for resource in ["b", "c"] {
            let token = client.post(LEASES, &grant("bob", 60_000, resource)).expect(201).token();
            assert!(token > highest, "{token} is not above {highest} in round {round}");
            highest = token;
        }
        client.get(&format!("{RESOURCES}/a")).expect(200);
    }
    clusters.sort_by_key(Value::to_string);
    clusters.dedup();
    assert_eq!(clusters.len(), 3);
}

#[test]
fn a_restored_directory_survives_kills_like_any_other() {
    let home = TempDir::new().unwrap();
    let (file, data) = (home.path().join("copy"), home.path().join("restored"));
    let server = Server::start();
    let id = id_of(&server.client().post(LEASES, &grant("ann", 60_000, "a")).expect(201));
    back_up(&server, &file);
    drop(server);
    restore(&file, &data, &["--rest", "1h"]);
    let mut server = serve(data);
    for round in 0..3 {
        server.client().put(&format!("{ENTRIES}/round"), &round.to_string()).expect(200);
        server.kill();
        server.restart();
        let mut client = server.client();
        client.get(&lease(&id)).expect(200);
        assert_eq!(client.get(&format!("{ENTRIES}/round")).expect(200).json["value"], round.to_string());
        // The rest is in the state.
        client.post(LEASES, &grant("bob", 3000, "b")).refused(409, "held");
    }
}

#[test]
fn a_damaged_or_cut_backup_is_refused_by_name_and_nothing_is_made() {
    let home = TempDir::new().unwrap();
    let (file, data) = (home.path().join("copy"), home.path().join("restored"));
    let server = Server::start();
    let mut client = server.client();
    for n in 0..200 {
        client.post(LEASES, &grant(&format!("holder-{n}"), 60_000, &format!("r/{n}"))).expect(201);
    }
    let backup = back_up(&server, &file);
    assert_eq!(
        (backup["leases"].as_u64(), backup["bytes"].as_u64()),
        (Some(200), Some(file.metadata().unwrap().len()))
    );
    assert_eq!(told(&["backup", "--verify", text(&file)])["revision"], backup["revision"]);

    let whole = std::fs::read(&file).unwrap();
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 4;
    for (damaged, what) in
        [(&flipped[..], "is damaged"), (&whole[..whole.len() - 1], "ends too early"), (b"", "ends too early")]
    {
        std::fs::write(&file, damaged).unwrap();
        for arguments in [&["restore", text(&file), "--data", text(&data)][..], &["backup", "--verify", text(&file)]] {
            let (exit, said) = refused(arguments);
            assert_eq!(exit, 74, "{said}");
            assert!(said.contains(text(&file)) && said.contains("offset") && said.contains(what), "{said}");
        }
        assert!(!data.exists(), "nothing was made");
    }
    std::fs::remove_file(&file).unwrap();
    assert_eq!(refused(&["restore", text(&file), "--data", text(&data)]).0, 66);
}

#[test]
fn nothing_is_written_over_unasked() {
    let home = TempDir::new().unwrap();
    let file = home.path().join("copy");
    let server = Server::start();
    back_up(&server, &file);
    let before = std::fs::read(&file).unwrap();
    server.client().post(LEASES, &json!({ "holder": "ann", "ttl": "1m" })).expect(201);
    let addr = format!("http://{}", server.address);
    let (exit, said) = refused(&["--addr", &addr, "backup", text(&file)]);
    assert!(exit == 73 && said.contains("--force"), "{exit} {said}");
    assert_eq!(std::fs::read(&file).unwrap(), before);
    assert_eq!(told(&["--addr", &addr, "backup", "--force", text(&file)])["leases"], 1);
    assert!(!home.path().join("copy.partial").exists());
    // Nor is a directory in use.
    let (exit, said) = refused(&["restore", text(&file), "--data", text(&server.data)]);
    assert!(exit == 73 && said.contains("not empty"), "{exit} {said}");
}

/// Answers one request with these bytes, as if they were all there is.
fn answer_once(bytes: Vec<u8>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        assert!(stream.read(&mut [0; 4096]).unwrap() > 0, "it is asked");
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", bytes.len());
        let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&bytes));
    });
    address
}

#[test]
fn a_transfer_that_is_damaged_or_not_whole_leaves_no_file() {
    let home = TempDir::new().unwrap();
    let (file, copy) = (home.path().join("whole"), home.path().join("copy"));
    let server = Server::start();
    server.client().put(&format!("{ENTRIES}/large"), &"x".repeat(600_000)).expect(200);
    back_up(&server, &file);
    let whole = std::fs::read(&file).unwrap();
    let mut flipped = whole.clone();
    flipped[300_000] ^= 1;
    for (bytes, what) in [(flipped, "is damaged"), (whole[..400_000].to_vec(), "ends too early")] {
        let (exit, said) = refused(&["--addr", &answer_once(bytes), "backup", text(&copy)]);
        assert!(exit == 74 && said.contains(what), "{exit} {said}");
        assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 1, "only the whole one is there");
    }
    assert_eq!(told(&["--addr", &answer_once(whole), "backup", text(&copy)])["entries"], 1);
}

#[test]
fn without_a_server_no_file_is_made() {
    let home = TempDir::new().unwrap();
    let file = home.path().join("copy");
    let mut server = Server::start();
    let address = format!("http://{}", server.address);
    server.kill();
    let (exit, said) = refused(&["--addr", &address, "backup", text(&file)]);
    assert!(exit == 69 && said.contains("cannot reach"), "{exit} {said}");
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
}

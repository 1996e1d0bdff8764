//! The data directory: one process at a time, private, and damage is cut or refused, never guessed over.

use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use serde_json::json;

use crate::clients::{ENTRIES, LEASES, grant, id_of, lease};
use crate::server::{Server, Setup, free_port};

#[test]
fn in_an_empty_directory_it_starts_without_configuration_on_a_port_of_its_choice() {
    let server = Server::with(Setup { listen: Some("127.0.0.1:0".into()), ..Setup::default() });
    assert_ne!(server.address.port(), 0);
    assert_eq!(server.client().get("/readyz").expect(200).json["ready"], true);
    assert_eq!(server.client().get("/v1/cluster").expect(200).revision(), 0);
}

#[test]
fn a_second_process_on_the_directory_is_refused_and_told_who_has_it() {
    let mut server = Server::start();
    let id = id_of(&server.client().post(LEASES, &grant("ann", 60_000, "a")).expect(201));
    let second = server.attempt_beside(&format!("127.0.0.1:{}", free_port()), &server.data);
    let Err(refused) = second else { panic!("two processes have one directory") };
    assert_eq!(refused.status.code(), Some(69), "{}", refused.stderr);
    assert!(refused.stderr.contains(&format!("process {}", server.pid())), "{}", refused.stderr);
    assert!(refused.stderr.contains("--data"), "it says what to do: {}", refused.stderr);
    assert!(refused.after < Duration::from_secs(10), "it took {:?}", refused.after);
    server.client().post(&format!("{}/renew", lease(&id)), &json!({})).expect(200);
    assert!(server.runs());
    server.kill();
    server.restart();
    server.client().get(&lease(&id)).expect(200);
}

#[test]
fn an_address_in_use_is_refused_with_what_to_do() {
    let mut server = Server::start();
    let home = tempfile::TempDir::new().unwrap();
    let Err(refused) = server.attempt_beside(&server.address.to_string(), &home.path().join("data")) else {
        panic!("two processes have one address")
    };
    assert_eq!(refused.status.code(), Some(69), "{}", refused.stderr);
    assert!(refused.stderr.contains(&server.address.to_string()), "{}", refused.stderr);
    assert!(refused.stderr.contains("--listen"), "{}", refused.stderr);
    assert!(server.runs());
}

#[test]
fn an_address_that_others_can_reach_is_refused_without_permission() {
    let home = tempfile::TempDir::new().unwrap();
    let data = home.path().join("data");
    let setup =
        Setup { listen: Some(format!("0.0.0.0:{}", free_port())), data: Some(data.clone()), ..Setup::default() };
    let Err(refused) = Server::attempt(setup) else { panic!("everybody can reach it") };
    assert_eq!(refused.status.code(), Some(78), "{}", refused.stderr);
    assert!(refused.stderr.contains("--insecure"), "{}", refused.stderr);
    assert!(!data.exists(), "nothing was made");
}

#[test]
fn a_configuration_with_a_mistake_is_refused_with_its_name() {
    for (config, word) in [("lisen = \"127.0.0.1:1\"", "lisen"), ("[limits]\nttl_min = \"0s\"", "ttl_min"), ("x", "x")]
    {
        let Err(refused) = Server::attempt(Setup { config: Some(config.into()), ..Setup::default() }) else {
            panic!("{config} is taken")
        };
        assert_eq!(refused.status.code(), Some(78), "{}", refused.stderr);
        assert!(refused.stderr.contains(word), "{config}: {}", refused.stderr);
    }
}

#[test]
fn only_its_owner_can_look_into_the_directory() {
    // With small snapshots and much to write, so that every kind of file is there.
    let server = Server::configured("[raft]\nsnapshot_bytes = 20000\n");
    let mut client = server.client();
    for number in 0..60 {
        client.put(&format!("{ENTRIES}/{number}"), &"x".repeat(1000)).expect(200);
    }
    let mut files = 0;
    private(&server.data, &mut files);
    assert!(files >= 3, "LOCK, identity and a log at least, not {files}");
}

#[test]
fn existing_directory_is_made_private() {
    let home = tempfile::TempDir::new().unwrap();
    let data = home.path().join("data");
    std::fs::create_dir(&data).unwrap();
    std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o755)).unwrap();
    let _server = Server::with(Setup { data: Some(data.clone()), ..Setup::default() });
    private(&data, &mut 0);
}

#[test]
fn directory_with_other_files_is_refused_untouched() {
    let home = tempfile::TempDir::new().unwrap();
    std::fs::write(home.path().join("thesis.tex"), "do not touch").unwrap();
    let Err(refused) = Server::attempt(Setup { data: Some(home.path().to_owned()), ..Setup::default() }) else {
        panic!("it took somebody's folder")
    };
    assert_eq!(refused.status.code(), Some(69), "{}", refused.stderr);
    assert!(refused.stderr.contains("thesis.tex") && refused.stderr.contains("--data"), "{}", refused.stderr);
    let names: Vec<_> = std::fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["thesis.tex"], "nothing was added");
}

fn private(path: &Path, files: &mut usize) {
    // A file that goes away meanwhile, as an older snapshot does, is as private as can be.
    let Ok(meta) = path.symlink_metadata() else { return };
    let expected = if meta.is_dir() { 0o700 } else { 0o600 };
    assert_eq!(meta.permissions().mode() & 0o7777, expected, "{}", path.display());
    if !meta.is_dir() {
        *files += 1;
        return;
    }
    for entry in std::fs::read_dir(path).unwrap() {
        private(&entry.unwrap().path(), files);
    }
}

/// A killed server with some leases and entries; the last write is an entry called `last`.
fn written() -> (Server, Vec<String>) {
    let mut server = Server::start();
    let mut client = server.client();
    let ids = (0..20)
        .map(|n| id_of(&client.post(LEASES, &grant(&format!("holder-{n}"), 600_000, &format!("r/{n}"))).expect(201)))
        .collect();
    client.put(&format!("{ENTRIES}/last"), &"x".repeat(500)).expect(200);
    server.kill();
    (server, ids)
}

#[test]
fn a_torn_tail_is_cut_and_told_and_everything_before_is_there() {
    for before in [1, 300, 600] {
        let (mut server, ids) = written();
        let newest = server.log_files().pop().unwrap();
        // One sector of the last write never got to the disk.
        let sector = (newest_record_end(&newest) - before) / SECTOR * SECTOR;
        let file = std::fs::OpenOptions::new().write(true).open(&newest).unwrap();
        file.write_all_at(&[0; SECTOR as usize], sector).unwrap();
        server.restart();
        let said = server.stderr_with("cut from");
        assert!(said.contains("cut from") && said.contains(newest.file_name().unwrap().to_str().unwrap()), "{said}");
        let mut client = server.client();
        for id in &ids {
            client.get(&lease(id)).expect(200);
        }
        client.get(&format!("{ENTRIES}/last")).refused(404, "not_found");
        // It is a good log again.
        client.put(&format!("{ENTRIES}/last"), "y").expect(200);
        server.kill();
        server.restart();
        assert!(!server.stderr().contains("cut from"), "{}", server.stderr());
        server.client().get(&format!("{ENTRIES}/last")).expect(200);
    }
}

/// What a disk writes at once.
const SECTOR: u64 = 512;

/// Where the record of the entry `last` ends: behind its value of many `x`.
fn newest_record_end(file: &Path) -> u64 {
    let bytes = std::fs::read(file).unwrap();
    let value = bytes.windows(500).rposition(|part| part.iter().all(|byte| *byte == b'x')).expect("the value is there");
    value as u64 + 500
}

#[test]
fn damage_in_the_middle_refuses_the_start_and_names_file_and_offset() {
    let (mut server, _) = written();
    let newest = server.log_files().pop().unwrap();
    let healthy = std::fs::read(&newest).unwrap();
    let used = healthy.iter().rposition(|byte| *byte != 0).unwrap();
    for place in [used / 3, used / 2] {
        let mut damaged = healthy.clone();
        damaged[place] ^= 0x10;
        std::fs::write(&newest, &damaged).unwrap();
        let refused = server.try_restart().expect_err("a damaged log is not used");
        assert_eq!(refused.status.code(), Some(69), "{}", refused.stderr);
        let said = &refused.stderr;
        assert!(said.contains(newest.file_name().unwrap().to_str().unwrap()), "{said}");
        let offset = said.split("offset ").nth(1).and_then(|rest| rest.split(|c: char| !c.is_ascii_digit()).next());
        let offset: usize = offset.and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("no offset in {said}"));
        assert!(offset <= place && place < offset + 4096, "{said}: the damage is at {place}");
        assert_eq!(std::fs::read(&newest).unwrap(), damaged, "nothing was changed");
    }
    std::fs::write(&newest, &healthy).unwrap();
    server.restart();
    server.client().get(&format!("{ENTRIES}/last")).expect(200);
}

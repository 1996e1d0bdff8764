//! A full disk gives refusals, nothing is lost, and service returns with the space.
//!
//! The disk is a small one of its own, in memory. It needs the right to mount; where that is missing the tests
//! are skipped and say so, which is a failure in CI.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use tempfile::TempDir;

use crate::clients::{ENTRIES, LEASES, grant, id_of, lease};
use crate::http::Client;
use crate::server::{Server, Setup, heavy};

pub(crate) const MIB: u64 = 1 << 20;

/// A small disk of its own.
pub(crate) struct Disk {
    mount: TempDir,
}

impl Disk {
    pub(crate) fn new(mib: u64) -> Option<Disk> {
        let mount = TempDir::new().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={mib}m"), "lease-acceptance"])
            .arg(mount.path())
            .output();
        let reason = match mounted {
            Ok(output) if output.status.success() => return Some(Disk { mount }),
            Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            Err(error) => error.to_string(),
        };
        println!("SKIPPED: a small disk cannot be mounted: {reason}");
        assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "CI must not skip this: {reason}");
        None
    }

    pub(crate) fn path(&self) -> &Path {
        self.mount.path()
    }

    fn free(&self) -> u64 {
        let disk = rustix::fs::statvfs(self.path()).unwrap();
        disk.f_bavail * disk.f_frsize
    }

    /// Fills the disk with a file until so much is free.
    pub(crate) fn fill_to(&self, free: u64) {
        let file = std::fs::File::options().create(true).append(true).open(self.filler()).unwrap();
        let mut file = std::io::BufWriter::new(file);
        let excess = self.free().saturating_sub(free);
        std::io::copy(&mut std::io::Read::take(std::io::repeat(7), excess), &mut file).unwrap();
    }

    pub(crate) fn make_room(&self) {
        std::fs::remove_file(self.filler()).unwrap();
    }

    fn filler(&self) -> PathBuf {
        self.path().join("filler")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}

fn becomes(client: &mut Client, status: u16, ask: impl Fn(&mut Client) -> crate::http::Answer) -> crate::http::Answer {
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        let answer = ask(client);
        if answer.status == status {
            return answer;
        }
        assert!(Instant::now() < until, "it stays {}: {}", answer.status, answer.text);
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn on_a_full_disk_new_work_is_refused_then_everything_and_service_returns_with_space() {
    let Some(disk) = Disk::new(48) else { return };
    let config = format!("disk_reserve = {}\n", 16 * MIB);
    let data = disk.path().join("data");
    let mut server = Server::with(Setup { config: Some(config), data: Some(data), ..Setup::default() });
    let (mut client, pid) = (server.client(), server.pid());
    let held = client.post(LEASES, &grant("ann", 60_000, "a")).expect(201);
    let short = id_of(&client.post(LEASES, &grant("bob", 3000, "b")).expect(201));
    let freed = id_of(&client.post(LEASES, &grant("eve", 60_000, "c")).expect(201));
    let id = id_of(&held);
    client.put(&format!("{ENTRIES}/k"), "before").expect(200);
    let renew = |client: &mut Client| client.post(&format!("{}/renew", lease(&id)), &json!({}));
    let new_lease = |client: &mut Client| client.post(LEASES, &json!({ "holder": "new", "ttl": "10s" }));

    // Low: what is there is kept and given back, new work is refused.
    disk.fill_to(8 * MIB);
    becomes(&mut client, 507, new_lease).refused(507, "disk_full");
    let revision = client.get("/v1/cluster").expect(200).revision();
    let refused = new_lease(&mut client).refused(507, "disk_full");
    assert!(refused.header("retry-after").is_some());
    client.put(&format!("{ENTRIES}/k"), "refused").refused(507, "disk_full");
    renew(&mut client).expect(200);
    client.delete(&lease(&freed)).expect(204);
    assert_eq!(client.get(&format!("{ENTRIES}/k")).expect(200).json["value"], "before");
    assert_eq!(client.get("/readyz").expect(200).json["disk_full"], true);
    assert!(client.get("/v1/cluster").revision() <= revision + 2, "only a release and at most one end happened");

    // None: nothing is written, so lease time stands still; reads go on.
    disk.fill_to(2 * MIB);
    becomes(&mut client, 507, renew).refused(507, "disk_full");
    client.get("/readyz").expect(503);
    let before = client.get(&lease(&id)).expect(200);
    thread::sleep(Duration::from_secs(4));
    let after = client.get(&lease(&id)).expect(200);
    assert_eq!(after.time(), before.time(), "lease time stands still");
    let lives = client.get(&lease(&short)).status;

    disk.make_room();
    becomes(&mut client, 201, new_lease);
    renew(&mut client).expect(200);
    if lives == 200 {
        // At most a second of the stall counts, so a lease of three seconds may go on from where it was.
        println!("a lease of 3 s lived through 4 s without room");
    }
    assert_eq!(client.get(&lease(&id)).expect(200).token(), held.token());
    client.get(&lease(&freed)).refused(410, "lease_ended");
    assert!(server.runs() && server.pid() == pid, "it is the same process");
    server.kill();
    server.restart();
    let mut client = server.client();
    assert_eq!(client.get(&lease(&id)).expect(200).token(), held.token());
    assert_eq!(client.get(&format!("{ENTRIES}/k")).expect(200).json["value"], "before");
}

#[test]
fn a_snapshot_that_finds_no_room_does_not_stop_the_server() {
    let _alone = heavy();
    let Some(disk) = Disk::new(96) else { return };
    // A snapshot takes as much as the entries: 24 MiB. When it is due there will be 16 MiB, above the reserve.
    let config = format!("disk_reserve = {}\n[raft]\nsnapshot_bytes = {}\n", 6 * MIB, 30 * MIB);
    let data = disk.path().join("data");
    let mut server = Server::with(Setup { config: Some(config), data: Some(data), ..Setup::default() });
    let mut client = server.client();
    let id = id_of(&client.post(LEASES, &grant("ann", 600_000, "a")).expect(201));
    let big = "x".repeat(MIB as usize / 2);
    for number in 0..48 {
        client.put(&format!("{ENTRIES}/big/{number}"), &big).expect(200);
    }
    disk.fill_to(24 * MIB);
    let mut refused = 0;
    for number in 0..24 {
        let answer = client.put(&format!("{ENTRIES}/big/{number}"), &big);
        assert!(matches!(answer.status, 200 | 507), "{}", answer.text);
        refused += usize::from(answer.status == 507);
        thread::sleep(Duration::from_millis(50));
    }
    println!("{refused} of 24 writes were refused, {} KiB are free", disk.free() / 1024);
    thread::sleep(Duration::from_secs(1));
    assert!(server.runs(), "the server stopped: {}", server.stderr());
    let said = server.stderr_with("no room for");
    assert!(said.contains("no room for"), "none was tried: {said}");
    client.get(&lease(&id)).expect(200);
    disk.make_room();
    becomes(&mut client, 200, |client| client.put(&format!("{ENTRIES}/k"), "after"));
    becomes(&mut client, 200, |client| client.post(&format!("{}/renew", lease(&id)), &json!({})));
    server.kill();
    server.restart();
    assert_eq!(server.client().get(&format!("{ENTRIES}?prefix=big/&limit=1")).expect(200).json["count"], 48);
}

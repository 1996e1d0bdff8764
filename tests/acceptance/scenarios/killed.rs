//! `kill -9` at any moment: nothing acknowledged is lost, and every promise holds over it.

use std::thread;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::load::{Load, seed};
use crate::server::{Server, Setup, command, free_port, heavy};

#[test]
fn killed_again_and_again_under_load_it_keeps_its_promises() {
    let _alone = heavy();
    let seed = seed();
    let mut rng = StdRng::seed_from_u64(seed);
    // Small snapshots, so that a kill also meets one being written, and restarts begin from one.
    let mut server = Server::configured("[raft]\nsnapshot_bytes = 65536\n");
    let load = Load::start(vec![server.address], seed, 10);

    let began = Instant::now();
    let (mut kills, mut pauses, mut cuts, mut slowest) = (0, 0, 0, Duration::ZERO);
    while began.elapsed() < Duration::from_secs(24) || kills < 5 {
        thread::sleep(Duration::from_millis(rng.random_range(300..2500)));
        if rng.random_bool(0.3) {
            server.pause();
            pauses += 1;
            thread::sleep(Duration::from_millis(rng.random_range(50..1800)));
            server.resume();
            continue;
        }
        server.kill();
        kills += 1;
        thread::sleep(Duration::from_millis(rng.random_range(0..400)));
        let again = Instant::now();
        server.restart();
        slowest = slowest.max(again.elapsed());
        cuts += usize::from(server.stderr().contains("were cut from"));
    }
    thread::sleep(Duration::from_millis(500));
    let history = load.end();
    println!("{kills} kills, {pauses} pauses, {cuts} cut tails, slowest restart {slowest:?}");
    assert!(history.holds.len() > 50 && history.puts.len() > 200, "there was hardly any load");
}

#[test]
fn killed_while_it_starts_in_an_empty_directory_it_always_starts_again() {
    let home = tempfile::TempDir::new().unwrap();
    let data = home.path().join("data");
    let mut rng = StdRng::seed_from_u64(seed());
    for round in 0..25 {
        if round % 8 == 0 {
            let _ = std::fs::remove_dir_all(&data);
        }
        let mut process = command(&format!("127.0.0.1:{}", free_port()), &data, None).spawn().unwrap();
        // From before the first file is made until after it is ready.
        thread::sleep(Duration::from_micros(rng.random_range(0..120_000)));
        process.kill().unwrap();
        process.wait().unwrap();
    }
    let mut server = Server::with(Setup { data: Some(data), ..Setup::default() });
    let grant = crate::clients::grant("ann", 10_000, "a");
    server.client().post(crate::clients::LEASES, &grant).expect(201);
    assert!(server.runs());
}

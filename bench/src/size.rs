//! A million living leases: memory, restart, and a snapshot while others write.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use leasehold_core::{Command, Release, Span};
use leasehold_service::Service;
use tokio::sync::Semaphore;

use crate::figures::Figures;
use crate::setup::{Bench, caller, directory, grant, namespace, random_id};

const LEASES: usize = 1_000_000;

/// A million bare leases.
pub(crate) fn bare() {
    measure(false);
}

/// A million leases that hold a lock each.
pub(crate) fn locks() {
    measure(true);
}

fn measure(locked: bool) {
    let directory = directory();
    let bench = Bench::open(directory.path());
    let before = resident();
    let began = Instant::now();
    bench.runtime.block_on(grant_all(&bench.service, locked));
    println!("granted in {:.1} s", began.elapsed().as_secs_f32());
    println!("memory {} MB above an empty server's {} MB", (resident() - before) >> 20, before >> 20);

    let service = bench.service.clone();
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> =
        (0..16).map(|n| bench.runtime.spawn(write_on(service.clone(), n, Arc::clone(&stop)))).collect();
    std::thread::sleep(Duration::from_secs(1));
    let began = Instant::now();
    bench.runtime.block_on(bench.node.snapshot_now()).expect("the disk takes it");
    println!("snapshot in {:.2} s while 16 callers write", began.elapsed().as_secs_f32());
    stop.store(true, Ordering::Relaxed);
    let mut figures = Figures::default();
    for writer in writers {
        figures.join(bench.runtime.block_on(writer).expect("a writer does not panic"));
    }
    println!("their commands: {}", figures.line());
    println!("memory {} MB after it", resident() >> 20);
    bench.close();
    // In a process of its own: memory that was used before says nothing.
    let program = std::env::current_exe().expect("this program has a path");
    let restarted = std::process::Command::new(program).arg("restart").env(DIRECTORY, directory.path()).status();
    assert!(restarted.is_ok_and(|status| status.success()), "the restart was measured");
}

/// The directory that a restart is measured on.
const DIRECTORY: &str = "LEASEHOLD_BENCH_DIRECTORY";

/// Opens a directory that another measurement left.
pub(crate) fn restart() {
    let Some(directory) = std::env::var_os(DIRECTORY) else { return };
    let began = Instant::now();
    let bench = Bench::open(std::path::Path::new(&directory));
    println!("restart in {:.2} s", began.elapsed().as_secs_f32());
    let leases = bench.replica.look(|state| state.counts().leases);
    println!("{leases} leases, memory {} MB after the restart", resident() >> 20);
    bench.close();
}

pub(crate) async fn grant_all(service: &Service, locked: bool) {
    let places = Arc::new(Semaphore::new(4096));
    for n in 0..LEASES {
        let place = Arc::clone(&places).acquire_owned().await.expect("it is never closed");
        let service = service.clone();
        tokio::spawn(async move {
            let resource = locked.then(|| format!("jobs/{n}"));
            let seen = service.present().0;
            let command = grant(random_id(), Span::seconds(3600), resource.as_deref(), seen);
            service.execute(&caller(), &namespace(), command).await.expect("the id is new");
            drop(place);
        });
    }
    let _all = places.acquire_many(4096).await.expect("it is never closed");
}

pub(crate) async fn write_on(service: Service, number: usize, stop: Arc<AtomicBool>) -> Figures {
    let mut figures = Figures::default();
    let resource = format!("writers/{number}");
    while !stop.load(Ordering::Relaxed) {
        let id = random_id();
        let began = Instant::now();
        let command = grant(id, Span::seconds(30), Some(&resource), service.present().0);
        service.execute(&caller(), &namespace(), command).await.expect("the lock is free");
        figures.add(began.elapsed());
        let began = Instant::now();
        let release = Command::Release(Release { lease: id });
        service.execute(&caller(), &namespace(), release).await.expect("it is held");
        figures.add(began.elapsed());
    }
    figures
}

/// The resident memory of this process, in bytes.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kb| kb.parse::<u64>().ok()).unwrap_or_default() * 1024
}

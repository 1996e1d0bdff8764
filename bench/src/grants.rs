//! Rates and latencies of durable commands.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use leasehold_core::{Command, LeaseId, Release, Renew, Span};
use leasehold_service::Service;

use crate::figures::Figures;
use crate::setup::{Bench, caller, directory, grant, namespace, random_id};

/// How long each measurement runs.
const RUN: Duration = Duration::from_secs(5);

/// What the disk itself can do: append 512 bytes, fdatasync.
pub(crate) fn disk() {
    let directory = directory();
    let mut file = OpenOptions::new().create(true).append(true).open(directory.path().join("bare")).expect("a file");
    let mut figures = Figures::default();
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(2) {
        let began = Instant::now();
        file.write_all(&[7; 512]).expect("the disk takes it");
        rustix::fs::fdatasync(&file).expect("the disk takes it");
        figures.add(began.elapsed());
    }
    println!("append 512 B + fdatasync: {}", figures.line());
}

/// Acquire and release of a lock by a number of callers, each one at a time.
pub(crate) fn grants() {
    let only = std::env::var("CALLERS").ok().and_then(|text| text.parse::<usize>().ok());
    for callers in [1, 16, 64, 512].into_iter().filter(|n| only.is_none_or(|only| only == *n)) {
        let directory = directory();
        let bench = Bench::open(directory.path());
        let (commands, mut figures, took) =
            bench.runtime.block_on(callers_at_work(&bench.service, callers, acquire_release));
        let rate = commands as f64 / took.as_secs_f64();
        println!("{callers:>4} callers: {rate:>9.0} commands/s   a command: {}", figures.line());
        bench.close();
    }
}

/// Renewals: by many callers one lease at a time, and by one caller many leases at a time.
pub(crate) fn renewals() {
    for callers in [1, 64, 512] {
        let directory = directory();
        let bench = Bench::open(directory.path());
        let (commands, mut figures, took) = bench.runtime.block_on(callers_at_work(&bench.service, callers, renew));
        let rate = commands as f64 / took.as_secs_f64();
        println!("{callers:>4} callers, a lease each: {rate:>9.0} renewals/s   {}", figures.line());
        bench.close();
    }
    for leases in [512, 4096] {
        let directory = directory();
        let bench = Bench::open(directory.path());
        let (batches, mut figures, took) = bench.runtime.block_on(renew_many(&bench.service, leases));
        let rate = (batches * leases) as f64 / took.as_secs_f64();
        println!("   1 caller, {leases} leases in a command: {rate:>9.0} renewals/s   {}", figures.line());
        bench.close();
    }
}

pub(crate) async fn callers_at_work<F>(
    service: &Service,
    callers: usize,
    work: impl Fn(Service, usize, Instant) -> F,
) -> (usize, Figures, Duration)
where
    F: Future<Output = Figures> + Send + 'static,
{
    let started = Instant::now();
    let tasks: Vec<_> = (0..callers).map(|n| tokio::spawn(work(service.clone(), n, started + RUN))).collect();
    let mut all = Figures::default();
    for task in tasks {
        all.join(task.await.expect("a caller does not panic"));
    }
    (all.len(), all, started.elapsed())
}

pub(crate) async fn acquire_release(service: Service, caller_number: usize, until: Instant) -> Figures {
    let (caller, namespace) = (caller(), namespace());
    let resource = format!("orders/{caller_number}");
    let mut figures = Figures::default();
    while Instant::now() < until {
        let id = random_id();
        let began = Instant::now();
        let command = grant(id, Span::seconds(30), Some(&resource), service.present().0);
        service.execute(&caller, &namespace, command).await.expect("the lock is free");
        figures.add(began.elapsed());
        let began = Instant::now();
        let release = Command::Release(Release { lease: id });
        service.execute(&caller, &namespace, release).await.expect("it is held");
        figures.add(began.elapsed());
    }
    figures
}

pub(crate) async fn renew(service: Service, _caller_number: usize, until: Instant) -> Figures {
    let (caller, namespace) = (caller(), namespace());
    let id = random_id();
    let command = grant(id, Span::seconds(30), None, service.present().0);
    service.execute(&caller, &namespace, command).await.expect("the id is new");
    let mut figures = Figures::default();
    while Instant::now() < until {
        let began = Instant::now();
        let renew = Command::Renew(Renew { leases: vec![id], ttl: None });
        service.execute(&caller, &namespace, renew).await.expect("it lives");
        figures.add(began.elapsed());
    }
    figures
}

async fn renew_many(service: &Service, leases: usize) -> (usize, Figures, Duration) {
    let (caller, namespace) = (Arc::new(caller()), namespace());
    let ids: Vec<LeaseId> = (0..leases).map(|_| random_id()).collect();
    for id in &ids {
        let command = grant(*id, Span::seconds(30), None, service.present().0);
        service.execute(&caller, &namespace, command).await.expect("the id is new");
    }
    let mut figures = Figures::default();
    let started = Instant::now();
    while started.elapsed() < RUN {
        let began = Instant::now();
        let renew = Command::Renew(Renew { leases: ids.clone(), ttl: None });
        service.execute(&caller, &namespace, renew).await.expect("they live");
        figures.add(began.elapsed());
    }
    (figures.len(), figures, started.elapsed())
}

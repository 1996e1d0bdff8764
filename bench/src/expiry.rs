//! How late leases end, and what others notice of it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use leasehold_core::{Command, Fact, LeaseId, Renew, Span};
use leasehold_service::{Delivery, Service, WatchFilter};
use tokio::sync::Semaphore;

use crate::figures::Figures;
use crate::setup::{Bench, caller, directory, grant, namespace, random_id};

const LEASES: usize = 100_000;

/// 100,000 leases that end spread over five seconds.
pub(crate) fn lateness() {
    measure("100,000 leases ending over 5 s", |n| Span(12_000 + (n as u64 * 5_000) / LEASES as u64));
}

/// 100,000 leases that end within one second, and a bystander that goes on renewing.
pub(crate) fn burst() {
    measure("100,000 leases ending within 1 s", |n| Span(12_000 + (n as u64 * 1_000) / LEASES as u64));
}

fn measure(title: &str, ttl: impl Fn(usize) -> Span) {
    let directory = directory();
    let bench = Bench::open(directory.path());
    let service = bench.service.clone();
    let (mut late, mut bystander) = bench.runtime.block_on(async move {
        let mut watch =
            service.watch(&caller(), &namespace(), WatchFilter::default(), None).await.expect("the service answers");
        let began = Instant::now();
        // All deadlines are counted from one moment, whenever the grant is sent.
        let promised = grant_all(&service, began, &ttl).await;
        println!("granted {} leases in {:.1} s", promised.len(), began.elapsed().as_secs_f32());
        let bystander = tokio::spawn(keep_renewing(service.clone(), began + Duration::from_millis(11_500)));
        let mut late = Figures::default();
        while late.len() < LEASES {
            let Some(Delivery::Change(change)) = watch.next().await else { continue };
            let now = Instant::now();
            for event in change.events {
                if let Fact::LeaseEnded { lease, .. } = event.fact
                    && let Some(deadline) = promised.get(&lease)
                {
                    late.add(now.saturating_duration_since(*deadline));
                }
            }
        }
        let bystander = bystander.await.expect("the bystander does not panic");
        (late, bystander)
    });
    println!("{title}: seen by a watch after the deadline: {}", late.line());
    println!("a bystander's renewals meanwhile ({}): {}", bystander.len(), bystander.line());
    bench.close();
}

/// Grants all leases; tells until when each was promised.
async fn grant_all(service: &Service, began: Instant, ttl: &impl Fn(usize) -> Span) -> HashMap<LeaseId, Instant> {
    let places = Arc::new(Semaphore::new(64));
    let mut tasks = Vec::with_capacity(LEASES);
    for n in 0..LEASES {
        let place = Arc::clone(&places).acquire_owned().await.expect("it is never closed");
        let (service, ttl) = (service.clone(), ttl(n));
        tasks.push(tokio::spawn(async move {
            let id = random_id();
            let sent = Instant::now();
            let left = ttl.0.saturating_sub(began.elapsed().as_millis() as u64).max(200);
            let seen = service.present().0;
            let done = service.execute(&caller(), &namespace(), grant(id, Span(left), None, seen)).await;
            done.expect("the id is new");
            drop(place);
            // Counted from the sending, before any clock of the server was read: what is found is never too little.
            (id, sent + Duration::from_millis(left))
        }));
    }
    let mut promised = HashMap::with_capacity(LEASES);
    for task in tasks {
        let (id, deadline) = task.await.expect("a caller does not panic");
        promised.insert(id, deadline);
    }
    promised
}

async fn keep_renewing(service: Service, from: Instant) -> Figures {
    tokio::time::sleep_until(from.into()).await;
    let id = random_id();
    let command = grant(id, Span::seconds(30), Some("bystander"), service.present().0);
    service.execute(&caller(), &namespace(), command).await.expect("the id is new");
    let mut figures = Figures::default();
    while from.elapsed() < Duration::from_millis(2_500) {
        let began = Instant::now();
        let renew = Command::Renew(Renew { leases: vec![id], ttl: None });
        service.execute(&caller(), &namespace(), renew).await.expect("it lives");
        figures.add(began.elapsed());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    figures
}

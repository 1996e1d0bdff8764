//! Measures what a durable proposal costs over a bare append and fdatasync on the same disk.
//!
//! `cargo run --release -p leasehold-raft --example bare [DIR]`; DIR is where to write, by default a temporary place.
#![allow(clippy::print_stdout, reason = "it prints its measurements")]

use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use leasehold_core::{Applied, LeaderId};
use leasehold_raft::{Node, Options};
use leasehold_service::log::{Committed, Leadership, Log, Machine, Position, View};

const ROUNDS: usize = 2000;

struct Nothing;

impl Machine for Nothing {
    type View = Nothing;

    fn apply(&self, _: Position, _: Committed<'_>) -> Applied {
        Applied::default()
    }

    fn view(&self) -> Nothing {
        Nothing
    }

    fn install(&self, snapshot: &mut dyn Read) -> io::Result<()> {
        io::copy(snapshot, &mut io::sink()).map(drop)
    }
}

impl View for Nothing {
    fn write(&self, _: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::main(flavor = "multi_thread", worker_threads = 1)]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let temporary = tempfile::tempdir()?;
    let dir = std::env::args_os().nth(1).map_or(temporary.path().to_path_buf(), Into::into);
    std::fs::create_dir_all(&dir)?;
    report("bare append + fdatasync, 512 B", bare(&dir.join("bare"), 512)?);

    let data = dir.join("node");
    let started = Instant::now();
    let (node, _) = Node::open(Options::new(&data), Arc::new(Nothing)).await?;
    println!("fresh start                          {:>9.2?}", started.elapsed());
    let node = Arc::new(node);
    let Leadership::Leads(leader) = *node.leadership().borrow() else { return Err("the node does not lead".into()) };

    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let started = Instant::now();
        propose(&node, leader, Bytes::from_static(&[7; 512])).await;
        times.push(started.elapsed());
    }
    report("lone propose, 512 B", times);
    report("bare append + fdatasync, 512 B", bare(&dir.join("bare"), 512)?);

    together("64 callers, 512 B", &node, leader, 64, 400, 512).await;
    together("512 callers, 512 B", &node, leader, 512, 100, 512).await;
    together("2 in flight, 64 KiB", &node, leader, 2, 500, 64 * 1024).await;
    together("2 in flight, 256 KiB", &node, leader, 2, 250, 256 * 1024).await;

    let started = Instant::now();
    for _ in 0..1000 {
        node.read_barrier().await?;
    }
    println!("read barrier, mean                   {:>9.2?}", started.elapsed() / 1000);
    println!("{:?}", node.metrics());
    node.shutdown().await;
    let started = Instant::now();
    let (node, opened) = Node::open(Options::new(&data), Arc::new(Nothing)).await?;
    println!("restart with {:?} entries     {:>9.2?}", opened.last_log, started.elapsed());
    node.shutdown().await;
    Ok(())
}

fn bare(path: &Path, length: usize) -> io::Result<Vec<Duration>> {
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    let bytes = vec![7; length];
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let started = Instant::now();
        file.write_all(&bytes)?;
        file.sync_data()?;
        times.push(started.elapsed());
    }
    Ok(times)
}

async fn propose(node: &Node<Nothing>, leader: LeaderId, payload: Bytes) {
    let (tell, answer) = tokio::sync::oneshot::channel();
    node.propose(leader, payload, Box::new(move |result| drop(tell.send(result)))).await;
    answer.await.expect("every proposal is answered").expect("the node leads");
}

async fn together(
    what: &str,
    node: &Arc<Node<Nothing>>,
    leader: LeaderId,
    callers: usize,
    rounds: usize,
    length: usize,
) {
    let payload = Bytes::from(vec![7; length]);
    let started = Instant::now();
    let tasks: Vec<_> = (0..callers)
        .map(|_| {
            let (node, payload) = (node.clone(), payload.clone());
            tokio::spawn(async move {
                for _ in 0..rounds {
                    propose(&node, leader, payload.clone()).await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("a caller does not panic");
    }
    let rate = (callers * rounds) as f64 / started.elapsed().as_secs_f64();
    println!("{what:<36} {rate:>9.0} entries/s, {:.1} MB/s", rate * length as f64 / 1e6);
}

fn report(what: &str, mut times: Vec<Duration>) {
    times.sort();
    let at = |part: f64| times[(times.len() as f64 * part) as usize];
    println!("{what:<36} p50 {:>9.2?}  p90 {:>9.2?}  p99 {:>9.2?}", at(0.5), at(0.9), at(0.99));
}

//! The Rust client over its stream, against a server in a process of its own: every answer comes after fdatasync.

use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use leasehold_client::{Client, Guard};
use leasehold_server::Flags;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::figures::Figures;
use crate::setup;

/// The word that makes this program a server.
pub(crate) const SERVE: &str = "--serve";
/// How many leases one client keeps, and for how long.
const LEASES: usize = 10_000;
const TTL: Duration = Duration::from_secs(10);
const KEPT_FOR: Duration = Duration::from_secs(60);
/// How long a rate is measured.
const MEASURED_FOR: Duration = Duration::from_secs(5);

/// Runs a server on an address and a directory, as `lease serve` does.
pub(crate) fn serve(address: &str, directory: &str) -> ExitCode {
    leasehold_server::run(Flags { listen: Some(address.to_owned()), data: Some(directory.into()), ..Flags::default() })
}

/// A server in a process of its own, ended with this value.
struct Server {
    process: Child,
    address: String,
}

impl Server {
    fn start(directory: &Path) -> Server {
        let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
        let address = free.expect("a port is free").to_string();
        let this = std::env::current_exe().expect("this program is somewhere");
        let started = Command::new(this)
            .args([SERVE, &address])
            .arg(directory)
            .stdout(Stdio::null())
            .spawn()
            .expect("a server can be started");
        let server = Server { process: started, address };
        while std::net::TcpStream::connect(&server.address).is_err() {
            std::thread::sleep(Duration::from_millis(5));
        }
        server
    }

    fn client(&self) -> Client {
        Client::connect(&self.address).expect("it is an address")
    }

    fn cpu(&self) -> Duration {
        cpu_of(self.process.id())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It keeps nothing that anybody needs.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The processor time a process has taken.
fn cpu_of(process: u32) -> Duration {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
    Duration::from_millis((ticks(11) + ticks(12)) * 1000 / rustix::param::clock_ticks_per_second())
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a thread can be started")
}

/// Many leases kept by one process over one stream.
pub(crate) fn keeping() {
    let directory = setup::directory();
    let server = Server::start(directory.path());
    let client = server.client();
    runtime().block_on(async {
        let begun = Instant::now();
        let mut pending = JoinSet::new();
        for number in 0..LEASES {
            pending.spawn(client.lock(format!("kept/{number}")).ttl(TTL).acquire());
        }
        let mut guards: Vec<Guard> = Vec::new();
        while let Some(granted) = pending.join_next().await {
            guards.push(granted.expect("no panic").expect("granted"));
        }
        println!("{LEASES} leases granted in {:.2} s", begun.elapsed().as_secs_f64());
        let (own, served, kept) = (cpu_of(std::process::id()), server.cpu(), Instant::now());
        tokio::time::sleep(KEPT_FOR).await;
        let lost = guards.iter().filter(|guard| guard.token().is_err()).count();
        let seconds = kept.elapsed().as_secs_f64();
        let share = |before: Duration, after: Duration| (after - before).as_secs_f64() / seconds * 100.0;
        println!(
            "{LEASES} leases, ttl {TTL:?}, {seconds:.0} s: {lost} lost; client {:.1} %, server {:.1} % of a core",
            share(own, cpu_of(std::process::id())),
            share(served, server.cpu())
        );
    });
}

/// Locks taken and given back over one stream.
pub(crate) fn locking() {
    for callers in [1, 16, 64, 256] {
        let directory = setup::directory();
        let server = Server::start(directory.path());
        let client = server.client();
        let (pairs, mut figures) = runtime().block_on(async {
            let mut tasks = JoinSet::new();
            let until = Instant::now() + MEASURED_FOR;
            for number in 0..callers {
                tasks.spawn(lock_again_and_again(client.clone(), number, until));
            }
            let mut figures = Figures::default();
            while let Some(done) = tasks.join_next().await {
                figures.join(done.expect("no panic"));
            }
            (figures.len(), figures)
        });
        let rate = pairs as f64 / MEASURED_FOR.as_secs_f64();
        let server_us = server.cpu().as_secs_f64() * 1e6 / pairs.max(1) as f64;
        println!(
            "{callers:>4} callers: {rate:>8.0} acquire+release/s, {}; server {server_us:.1} µs CPU each",
            figures.line()
        );
    }
}

async fn lock_again_and_again(client: Client, number: usize, until: Instant) -> Figures {
    let mut figures = Figures::default();
    while Instant::now() < until {
        let begun = Instant::now();
        let guard = client.lock(format!("job/{number}")).acquire().await.expect("nobody else wants it");
        guard.release().await.expect("it is given back");
        figures.add(begun.elapsed());
    }
    figures
}

//! Clients that keep a server busy while it is hurt, and write down what they saw.
//!
//! Each repeats a command with the same id or `seq` until it has an answer, as every good client does. One that has
//! several addresses moves on to the next when a node refuses, breaks the connection or is silent.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use leasehold_sim::history::{
    Call, History, KeyCall, KeyOutcome, KeyWhat, Outcome, Put, ReadBack, Told, Watched, What,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

use crate::history::{self, moment};
use crate::http::{Answer, Client, Events, Streamed};

/// Where leases are.
pub(crate) const LEASES: &str = "/v1/ns/default/leases";
/// Where entries are.
pub(crate) const ENTRIES: &str = "/v1/ns/default/entries";
/// Where resources are.
pub(crate) const RESOURCES: &str = "/v1/ns/default/resources";
/// Everything that happens, from the first revision on.
pub(crate) const EVERYTHING: &str = "/v1/ns/default/watch?since=0";

/// How long a client repeats before something is wrong.
const INSIST: Duration = Duration::from_secs(30);
/// How long a node may be silent before a client with several addresses tries another.
const SILENT: Duration = Duration::from_millis(1500);
/// How long contenders wait in a queue.
const WAIT: Duration = Duration::from_secs(3);
/// How often a connection is lost before the answer, beside what the server's ends do to them.
const LOST: f64 = 0.05;
const LOCKS: [&str; 5] = ["lock/a", "lock/b", "lock/c", "lock/d", "lock/e"];

/// A grant of a lease with one claim.
pub(crate) fn grant(holder: &str, ttl_ms: u64, resource: &str) -> Value {
    json!({ "holder": holder, "ttl": ttl_ms, "resource": resource })
}

/// The address of a lease.
pub(crate) fn lease(id: &str) -> String {
    format!("{LEASES}/{id}")
}

/// The id in a grant's answer.
#[track_caller]
pub(crate) fn id_of(answer: &Answer) -> String {
    answer.json["id"].as_str().unwrap_or_else(|| panic!("there is no id in {}", answer.text)).to_owned()
}

/// A random lease id.
pub(crate) fn random_id(rng: &mut StdRng) -> String {
    format!("{:016x}", rng.random_range(1..=i64::MAX as u64))
}

/// What the clients of a run share.
#[derive(Debug)]
pub(crate) struct Run {
    addresses: Mutex<Vec<SocketAddr>>,
    seed: u64,
    stop: AtomicBool,
    /// The revision that watchers must see before they end; zero while it is not known.
    last: AtomicU64,
}

/// One client of a run.
struct Worker {
    run: Arc<Run>,
    name: String,
    rng: StdRng,
    client: Client,
    /// Which address the client has.
    at: usize,
    /// Whether the latest answer needed more than one attempt.
    repeated: bool,
    /// When the first attempt was sent that led to the latest answer.
    began: Instant,
    seen: History,
}

impl Run {
    /// Clients of one server.
    pub(crate) fn new(address: SocketAddr, seed: u64) -> Arc<Run> {
        Run::over(vec![address], seed)
    }

    /// Clients of several nodes: each begins at another one and moves on.
    pub(crate) fn over(addresses: Vec<SocketAddr>, seed: u64) -> Arc<Run> {
        Arc::new(Run { addresses: Mutex::new(addresses), seed, stop: AtomicBool::new(false), last: AtomicU64::new(0) })
    }

    /// The address with this number, counted round and round.
    fn address(&self, at: usize) -> SocketAddr {
        let addresses = self.addresses.lock().unwrap();
        addresses[at % addresses.len()]
    }

    /// All addresses.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        self.addresses.lock().unwrap().clone()
    }

    /// Tells everybody of one more node.
    pub(crate) fn also_at(&self, address: SocketAddr) {
        self.addresses.lock().unwrap().push(address);
    }

    /// How long an answer may take: a lone server is waited for.
    fn patience(&self, waits: bool) -> Duration {
        match (self.addresses().len(), waits) {
            (1, _) => INSIST,
            (_, true) => WAIT + SILENT,
            (_, false) => SILENT,
        }
    }

    /// Tells everybody to come to an end.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    /// Tells watchers how far they must see.
    pub(crate) fn end_watches_after(&self, revision: u64) {
        self.last.store(revision, Ordering::Release);
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    fn worker(self: &Arc<Run>, kind: &str, number: u64) -> Worker {
        let at = number as usize;
        Worker {
            run: Arc::clone(self),
            name: format!("{kind}{number}"),
            rng: StdRng::seed_from_u64(self.seed ^ (number << 8) ^ kind.len() as u64),
            client: Client::new(self.address(at)),
            at,
            repeated: false,
            began: Instant::now(),
            seen: History::default(),
        }
    }

    /// Fights for the locks: grants, waits, renewals, entries, releases, and sometimes walks away.
    pub(crate) fn contend(self: &Arc<Run>, number: u64) -> thread::JoinHandle<History> {
        let mut worker = self.worker("contender", number);
        thread::spawn(move || {
            let mut turn = 0;
            while !worker.run.stopped() {
                turn += 1;
                worker.hold_a_lock(turn);
            }
            worker.seen
        })
    }

    /// Keeps one lease all the time and looks at it after every interruption.
    pub(crate) fn keep(self: &Arc<Run>, number: u64) -> thread::JoinHandle<History> {
        let mut worker = self.worker("keeper", number);
        thread::spawn(move || {
            let id = random_id(&mut worker.rng);
            let holder = worker.name.clone();
            let resource = format!("kept/{number}");
            let body = json!({ "id": id, "holder": holder, "ttl": "10s", "resource": resource });
            let answer = worker.insist("POST", LEASES, &body).expect(201);
            worker.note_hold(&holder, &resource, &answer);
            while !worker.run.stopped() {
                thread::sleep(Duration::from_millis(150));
                worker.renew(&holder, &id);
                if worker.repeated {
                    worker.look(&holder, &id);
                }
            }
            worker.look(&holder, &id);
            worker.seen
        })
    }

    /// Counts up in one entry, by compare-and-set with `seq`.
    pub(crate) fn count(self: &Arc<Run>, number: u64) -> thread::JoinHandle<History> {
        let mut worker = self.worker("counter", number);
        thread::spawn(move || {
            let session = random_id(&mut worker.rng);
            let holder = worker.name.clone();
            let body = json!({ "id": session, "holder": holder, "ttl": "60s" });
            worker.insist("POST", LEASES, &body).expect(201);
            let key = format!("count/{number}");
            let (mut value, mut revision) = (0, 0);
            while !worker.run.stopped() {
                value += 1;
                revision = worker.put(&key, value, revision, &session);
                if worker.repeated || value % 50 == 0 {
                    worker.read_back(&key);
                    worker.renew(&holder, &session);
                }
                thread::sleep(Duration::from_millis(3));
            }
            worker.read_back(&key);
            worker.seen
        })
    }

    /// Watches everything from the first revision, going on after every interruption.
    pub(crate) fn watch(self: &Arc<Run>) -> thread::JoinHandle<History> {
        self.watch_from(0)
    }

    /// Watches everything, beginning at this address.
    pub(crate) fn watch_from(self: &Arc<Run>, first: usize) -> thread::JoinHandle<History> {
        let run = Arc::clone(self);
        thread::spawn(move || {
            let mut seen = Watched::everything(format!("watcher{first}"));
            let (mut last, mut at, mut heard) = (0, first, Instant::now());
            while !run.watched(last) {
                let patience = run.patience(false);
                let resume = (last > 0).then_some(last);
                match Events::open_within(patience, run.address(at), EVERYTHING, resume) {
                    Ok(Ok(events)) => {
                        heard = Instant::now();
                        last = run.read(&events, last, &mut seen);
                    }
                    Ok(Err(answer)) if answer.status == 503 => thread::sleep(Duration::from_millis(20)),
                    Ok(Err(answer)) => panic!("the watch after {last} was refused: {}", answer.text),
                    Err(_) => thread::sleep(Duration::from_millis(20)),
                }
                assert!(heard.elapsed() < INSIST, "no watch for {INSIST:?}");
                at += 1;
            }
            History { watched: vec![seen], ..History::default() }
        })
    }

    /// Reads a stream until it ends, is silent, or has told enough; returns the last revision that it told.
    fn read(&self, events: &Events, mut last: u64, seen: &mut Watched) -> u64 {
        let mut heard = Instant::now();
        while !self.watched(last) && heard.elapsed() < self.patience(false) {
            match events.next_within(Duration::from_millis(100)) {
                Some(Streamed::Message(message)) => {
                    heard = Instant::now();
                    last = message.id;
                    match message.event.as_str() {
                        "change" => seen.told.push(Told::Change(history::change(&message))),
                        "progress" => seen.told.push(Told::Progress(message.id)),
                        other => panic!("the watch was cut: {other}"),
                    }
                }
                Some(Streamed::Ended | Streamed::Broke) => break,
                None => {}
            }
        }
        last
    }

    /// Whether watchers have seen enough.
    fn watched(&self, last: u64) -> bool {
        let end = self.last.load(Ordering::Acquire);
        end > 0 && last >= end
    }
}

impl Worker {
    /// Sends a request until it has an answer that is not "try again".
    fn insist(&mut self, method: &str, path: &str, body: &Value) -> Answer {
        let text = if body.is_null() { String::new() } else { body.to_string() };
        self.insist_with(method, path, &[("content-type", "application/json")], &text)
    }

    fn insist_with(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        self.began = Instant::now();
        self.client.patience = self.run.patience(path.contains("?wait="));
        self.repeated = self.rng.random_bool(LOST);
        if self.repeated {
            self.client.send_and_leave(method, path, headers, body.as_bytes());
            self.pause(0, 10);
        }
        loop {
            let answer: io::Result<Answer> = self.client.send(method, path, headers, body.as_bytes());
            match answer {
                Ok(answer) if answer.status == 503 => self.move_on(),
                Ok(answer) => {
                    // Refusals that no state was asked for are not answers of one.
                    if answer.status < 300 {
                        self.seen.answers.push(history::answered(&self.name, &answer));
                    }
                    return answer;
                }
                Err(_) => self.move_on(),
            }
            assert!(self.began.elapsed() < INSIST, "{}: no answer to {method} {path} for {INSIST:?}", self.name);
            self.repeated = true;
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn move_on(&mut self) {
        self.at += 1;
        let patience = self.client.patience;
        self.client = Client::new(self.run.address(self.at));
        self.client.patience = patience;
    }

    fn hold_a_lock(&mut self, turn: u64) {
        let holder = format!("{}-{turn}", self.name);
        let id = random_id(&mut self.rng);
        let resource = LOCKS[self.rng.random_range(0..LOCKS.len())];
        let ttl = self.rng.random_range(700..1800);
        let body = json!({ "id": id, "holder": holder, "ttl": ttl, "resource": resource });
        let waits = self.rng.random_bool(0.7);
        let path = if waits { format!("{LEASES}?wait={}s", WAIT.as_secs()) } else { LEASES.to_owned() };
        let answer = self.insist("POST", &path, &body);
        let what = What::TryAcquire { lease: holder.clone() };
        let outcome = match (answer.status, answer.json["holders"][0]["token"].as_u64()) {
            (201, _) => Outcome::Granted { token: answer.token() },
            (409, Some(token)) => Outcome::HeldBy { token },
            (_, _) => Outcome::Unknown,
        };
        self.note_call(resource, what, outcome, &answer);
        match (answer.status, answer.code()) {
            (201, _) => self.note_hold(&holder, resource, &answer),
            (410, "lease_ended") => return self.seen.ends.push(history::end(&holder, &answer)),
            (409, "held") | (408, "wait_elapsed") => return self.pause(5, 40),
            (status, _) => panic!("{holder}: {status} {}", answer.text),
        }
        // After a wait the answer alone makes nobody valid: it counts from the moment the wait was asked for.
        if waits && !self.renew(&holder, &id) {
            return;
        }
        if self.rng.random_bool(0.5) {
            // Bound to the lease, so it must go with it; an empty value, which the counters never write.
            let path = format!("{ENTRIES}/held/{holder}?lease={id}&session={id}&seq=1");
            let answer = self.insist_with("PUT", &path, &[("content-type", "application/octet-stream")], "");
            assert!(matches!(answer.status, 200 | 410), "{holder}: {}", answer.text);
        }
        for _ in 0..self.rng.random_range(0..4) {
            self.pause(5, 60);
            if !self.renew(&holder, &id) {
                return;
            }
        }
        if self.rng.random_bool(0.03) {
            return;
        }
        self.release(&holder, &id, resource);
        if self.rng.random_bool(0.2) {
            let answer = self.insist("GET", &format!("{RESOURCES}/{resource}"), &Value::Null);
            // A resource that nobody needs to remember is unknown, and free.
            assert!(matches!(answer.status, 200 | 404), "{resource}: {}", answer.text);
            let outcome = Outcome::Seen { holder: answer.json["holders"][0]["token"].as_u64() };
            self.note_call(resource, What::Look, outcome, &answer);
        }
        if self.rng.random_bool(0.3) {
            self.look(&holder, &id);
        }
    }

    fn note_call(&mut self, resource: &str, what: What, outcome: Outcome, answer: &Answer) {
        let answered = (outcome != Outcome::Unknown).then(|| moment(answer.answered));
        let (client, resource) = (self.name.clone(), resource.to_owned());
        self.seen.calls.push(Call { client, resource, what, sent: moment(self.began), answered, outcome });
    }

    fn note_key_call(&mut self, key: &str, what: KeyWhat, outcome: KeyOutcome, answer: &Answer) {
        let (client, key, answered) = (self.name.clone(), key.to_owned(), Some(moment(answer.answered)));
        self.seen.key_calls.push(KeyCall { client, key, what, sent: moment(self.began), answered, outcome });
    }

    fn pause(&mut self, from: u64, to: u64) {
        thread::sleep(Duration::from_millis(self.rng.random_range(from..to)));
    }

    fn note_hold(&mut self, holder: &str, resource: &str, answer: &Answer) {
        assert_eq!(answer.json["state"], "live", "{}", answer.text);
        self.seen.acks.push(history::ack(holder, answer));
        self.seen.holds.push(history::hold(holder, resource, answer));
    }

    /// Renews; tells whether the lease lives.
    fn renew(&mut self, holder: &str, id: &str) -> bool {
        let answer = self.insist("POST", &format!("{}/renew", lease(id)), &Value::Null);
        match answer.status {
            200 => {
                self.seen.acks.push(history::ack(holder, &answer));
                true
            }
            410 => {
                self.seen.ends.push(history::end(holder, &answer));
                self.seen.looks.push(history::look(holder, &answer));
                false
            }
            // Tombstones last longer than any run: an unknown lease was lost. The checker says so if it was valid.
            404 => {
                self.seen.looks.push(history::look(holder, &answer));
                false
            }
            status => panic!("{holder}: {status} {}", answer.text),
        }
    }

    fn release(&mut self, holder: &str, id: &str, resource: &str) {
        let sent = Instant::now();
        let answer = self.insist("DELETE", &lease(id), &Value::Null);
        assert_eq!(answer.status, 204, "{holder}: {}", answer.text);
        self.seen.releases.push(history::release(holder, sent, &answer));
        let what = What::Release { lease: holder.to_owned(), token: None };
        self.note_call(resource, what, Outcome::Released, &answer);
    }

    fn look(&mut self, holder: &str, id: &str) {
        let answer = self.insist("GET", &lease(id), &Value::Null);
        assert!(matches!(answer.status, 200 | 404 | 410), "{holder}: {}", answer.text);
        if answer.status == 410 {
            self.seen.ends.push(history::end(holder, &answer));
        }
        self.seen.looks.push(history::look(holder, &answer));
    }

    /// Writes the next number if the entry is as the last write left it; returns its revision.
    fn put(&mut self, key: &str, number: u64, revision: u64, session: &str) -> u64 {
        let path = format!("{ENTRIES}/{key}?session={session}&seq={number}&acked={}", number - 1);
        let tag = format!("\"{revision}\"");
        let condition = if revision == 0 { ("if-none-match", "*") } else { ("if-match", tag.as_str()) };
        let answer = self.insist_with("PUT", &path, &[condition], &number.to_string());
        assert_eq!(answer.status, 200, "write {number} of {key} (repeated: {}): {}", self.repeated, answer.text);
        let revision = answer.json["revision"].as_u64().unwrap();
        let version = answer.json["version"].as_u64();
        let expected = (number > 1).then_some(number - 1);
        self.note_key_call(key, KeyWhat::CompareAndSet { expected, number }, KeyOutcome::Done, &answer);
        let answered = moment(answer.answered);
        self.seen.puts.push(Put { key: key.to_owned(), number, revision, version, answered });
        revision
    }

    fn read_back(&mut self, key: &str) {
        let answer = self.insist("GET", &format!("{ENTRIES}/{key}"), &Value::Null);
        let number = match answer.status {
            200 => answer.json["value"].as_str().and_then(|text| text.parse().ok()).unwrap(),
            404 => 0,
            status => panic!("{key}: {status} {}", answer.text),
        };
        let version = answer.json["version"].as_u64().unwrap_or(0);
        let seen = (number > 0).then_some(number);
        self.note_key_call(key, KeyWhat::Read, KeyOutcome::Read { number: seen }, &answer);
        self.seen.reads.push(ReadBack { key: key.to_owned(), number, version, sent: moment(answer.sent) });
    }
}

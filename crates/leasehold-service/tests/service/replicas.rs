//! Replicas that took the same entries write the same bytes, whatever road led there: nodes compare the hashes of them.
//!
//! One replica runs all the time. Others are restarted from a snapshot again and again, get a snapshot over a state of
//! their own, or are looked at and frozen all the while. At every checkpoint all must write the same bytes.

use std::sync::Arc;

use leasehold_core::{
    Ask, AskHandover, Asks, Binding, Caller, Claim, Class, Command, Grant, Holder, Identity, Key, KeyRange, LeaderId,
    LeaseId, LeaseTime, Limits, Metadata, Mode, Namespace, Once, Patience, Release, Renew, Request, ResourceName,
    Revoke, Rights, Span, Stamp, Ttl, WallTime, Write, WriteOp,
};
use leasehold_log::{Origin, Pack, read_body};
use leasehold_service::Replica;
use leasehold_service::log::{Committed, Machine, Position, View};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const NAMES: [&str; 12] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];

/// An entry of the log.
enum Logged {
    TakeOver,
    Checkpoint,
    Commands(Vec<u8>),
}

struct Log {
    entries: Vec<(Position, Logged)>,
}

impl Log {
    fn apply(&self, replica: &Replica, range: std::ops::Range<usize>) {
        for (at, entry) in &self.entries[range] {
            replica.apply(
                *at,
                match entry {
                    Logged::TakeOver => Committed::TakeOver,
                    Logged::Checkpoint => Committed::Internal,
                    Logged::Commands(payload) => Committed::Payload(payload),
                },
            );
        }
    }

    /// Where the bytes are compared: after each of these entries.
    fn checkpoints(&self) -> Vec<usize> {
        let is = |at: &usize| matches!(self.entries[*at].1, Logged::Checkpoint);
        (0..self.entries.len()).filter(is).collect()
    }
}

fn bytes(replica: &Replica) -> Vec<u8> {
    let mut bytes = Vec::new();
    replica.view().write(&mut bytes).unwrap();
    bytes
}

fn install(bytes: &[u8], into: &Replica) {
    into.install(&mut &bytes[..]).unwrap();
}

/// Random commands that meet each other often.
struct Random {
    random: StdRng,
    now: u64,
    value_bytes: usize,
}

impl Random {
    fn id(&mut self) -> LeaseId {
        LeaseId::new(self.random.random_range(1..40)).unwrap()
    }

    fn name(&mut self) -> ResourceName {
        ResourceName::new(NAMES[self.random.random_range(0..NAMES.len())]).unwrap()
    }

    fn key(&mut self) -> Key {
        Key::new(format!("k{}", self.random.random_range(0..30)).as_bytes()).unwrap()
    }

    fn ttl(&mut self) -> Ttl {
        Ttl::For(Span(self.random.random_range(100..3000)))
    }

    fn asks(&mut self) -> Asks {
        let mode = |random: &mut StdRng| if random.random_bool(0.3) { Mode::Shared } else { Mode::Exclusive };
        let count = self.random.random_range(0..3);
        let claims = (0..count).map(|_| Ask { resource: self.name(), mode: mode(&mut self.random) }).collect();
        let patience = match self.random.random_range(0..4) {
            0 => Patience::None,
            1 => Patience::Endless,
            _ => Patience::For(Span(self.random.random_range(0..2000))),
        };
        let cooldown = Span(if self.random.random_bool(0.2) { 250 } else { 0 });
        Asks { claims, patience, priority: self.random.random_range(-1..2), cooldown }
    }

    fn once(&mut self) -> Option<Once> {
        let seq = self.random.random_range(1..20);
        self.random.random_bool(0.5).then(|| Once { seq, acked: seq.saturating_sub(3) })
    }

    fn command(&mut self) -> Command {
        match self.random.random_range(0..20) {
            0..7 => Command::Grant(Grant {
                id: self.id(),
                holder: Holder::new(&format!("holder-{}", self.random.random_range(0..5))).unwrap(),
                ttl: self.ttl(),
                class: Class::Lock,
                parent: if self.random.random_bool(0.2) { Some(self.id()) } else { None },
                metadata: Metadata::new([("reason".to_string(), "test".to_string())]),
                asks: self.asks(),
                seen: LeaseTime(self.now),
            }),
            7..10 => {
                let count = self.random.random_range(1..6);
                let ttl = if self.random.random_bool(0.2) { Some(self.ttl()) } else { None };
                Command::Renew(Renew { leases: (0..count).map(|_| self.id()).collect(), ttl })
            }
            10..12 => Command::Release(Release { lease: self.id() }),
            12 => Command::Revoke(Revoke { lease: self.id(), reason: "test".into(), now: self.random.random() }),
            13..15 => Command::Claim(Claim { lease: self.id(), once: self.once(), asks: self.asks() }),
            15 => Command::AskHandover(AskHandover {
                resource: self.name(),
                by: Holder::new("zoe").unwrap(),
                reason: Some("test".into()),
            }),
            16..19 => {
                let binding = if self.random.random_bool(0.5) { Binding::To(self.id()) } else { Binding::None };
                let value: Arc<[u8]> = vec![self.random.random(); self.value_bytes].into();
                write(WriteOp::Put { key: self.key(), value: Some(value), binding })
            }
            _ => write(WriteOp::Delete { range: KeyRange::One(self.key()) }),
        }
    }

    fn request(&mut self, command: Command) -> Request {
        let namespace = Namespace::new(["one", "two"][usize::from(self.random.random_bool(0.2))]).unwrap();
        let rights = Rights { operator: self.random.random_bool(0.5), endless: false };
        Request { caller: Caller { identity: Some(Identity::new("ann").unwrap()), rights }, namespace, command }
    }

    /// A log of so many entries, by leaders that change, with a checkpoint now and then.
    fn log(&mut self, entries: usize, limits: Limits) -> Log {
        let mut log = Vec::new();
        let mut leader = LeaderId { term: 1, node: 1 };
        for index in 0..entries as u64 {
            let entry = match index {
                0 => Logged::TakeOver,
                _ if index % 40 == 39 => Logged::Checkpoint,
                _ if self.random.random_bool(0.01) => {
                    leader = LeaderId { term: leader.term + 1, node: self.random.random_range(1..4) };
                    Logged::TakeOver
                }
                _ => {
                    self.now += if self.random.random_bool(0.5) { self.random.random_range(0..300) } else { 0 };
                    let mut pack = Pack::new();
                    if index == 1 {
                        let caller = Caller { identity: None, rights: Rights { operator: true, endless: false } };
                        let namespace = Namespace::new("one").unwrap();
                        let command = Command::Configure(Box::new(limits.clone()));
                        pack.push(&Request { caller, namespace, command });
                    }
                    for _ in 0..self.random.random_range(0..8) {
                        let command = self.command();
                        let request = self.request(command);
                        pack.push(&request);
                    }
                    // Now and then by a leader that has gone: void, on every node.
                    let stamped_by = if self.random.random_bool(0.02) { LeaderId::default() } else { leader };
                    let stamp = Stamp { leader: stamped_by, now: LeaseTime(self.now), wall: WallTime(9 * self.now) };
                    Logged::Commands(pack.seal(stamp, Origin::default()))
                }
            };
            log.push((Position { index, leader }, entry));
        }
        Log { entries: log }
    }
}

fn write(op: WriteOp) -> Command {
    Command::Write(Write { session: None, compares: Vec::new(), then: vec![op], otherwise: Vec::new() })
}

fn assert_same(one: &[u8], other: &[u8], what: &str, at: usize) {
    assert!(one == other, "{what} differs at entry {at}: {} and {} bytes", one.len(), other.len());
}

/// Compares every road with that of a replica that ran all the time; returns the bytes at the end.
fn all_roads_lead_to_the_same_bytes(random: &mut StdRng, log: &Log) -> Vec<u8> {
    let checkpoints = log.checkpoints();
    let always = Replica::new();
    let mut restarted = Replica::new();
    let watched = Replica::new();
    let mut behind = (Replica::new(), 0);
    let (mut views, mut next) = (Vec::new(), 0);
    for end in checkpoints.iter().map(|at| at + 1) {
        log.apply(&always, next..end);
        let expected = bytes(&always);

        // A node that is restarted between: what it wrote is all it has.
        let cut = random.random_range(next..=end);
        log.apply(&restarted, next..cut);
        let saved = bytes(&restarted);
        restarted = Replica::new();
        install(&saved, &restarted);
        log.apply(&restarted, cut..end);
        assert_same(&bytes(&restarted), &expected, "a restarted replica", end);

        // A node that others look at while it works, and whose views live on for a while.
        for at in next..end {
            log.apply(&watched, at..at + 1);
            if random.random_bool(0.2) {
                views.insert(0, watched.view());
                views.truncate(3);
                watched.look(|state| state.check_invariants()).unwrap();
            }
        }
        assert_same(&bytes(&watched), &expected, "a replica that was frozen all the while", end);

        // A node that was away and gets a snapshot over an older state of its own.
        if random.random_bool(0.5) {
            install(&expected, &behind.0);
            behind.1 = end;
            assert_same(&bytes(&behind.0), &expected, "a replica with a snapshot of another", end);
        } else if behind.1 == next {
            log.apply(&behind.0, next..end);
            behind.1 = end;
            assert_same(&bytes(&behind.0), &expected, "a replica that goes on after a snapshot of another", end);
        }
        next = end;
    }
    bytes(&always)
}

#[test]
fn replicas_write_equal_bytes_whatever_road_led_there() {
    for seed in 0..6 {
        let mut random = Random { random: StdRng::seed_from_u64(seed), now: 0, value_bytes: 8 };
        // Half of the seeds with bounds so narrow that everything that is only remembered is forgotten often.
        let narrow = Limits { tombstones: 20, history: 3, idle_resources: 2, receipts: 3, ..Limits::default() };
        let narrow = Limits { tombstone_age: Span(5000), sweep_piece: 3, ..narrow };
        let log = random.log(1000, if seed % 2 == 0 { narrow } else { Limits::default() });
        let end = all_roads_lead_to_the_same_bytes(&mut random.random, &log);
        assert!(end.len() > 4000, "much happened: {} bytes", end.len());
    }
}

#[test]
fn replicas_forget_events_at_the_same_place_when_they_take_too_many_bytes() {
    let mut random = Random { random: StdRng::seed_from_u64(99), now: 0, value_bytes: 900_000 };
    let log = random.log(320, Limits::default());
    let end = all_roads_lead_to_the_same_bytes(&mut random.random, &log);
    let floor = read_body(&mut &end[..], |_| Ok(()), |_| Ok(())).unwrap();
    assert!(floor.0 > 10, "events were forgotten up to revision {floor:?}");
}

//! A long run in which every promise is kept: no checker says otherwise, and all of them together are quick.
//!
//! The run is made by a small exact service: one thing after the other, locks that are held, waited for, renewed, given
//! back and left to expire, counters, and three watchers. Then one fact at a time is spoilt, and the right checker speaks.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use leasehold_sim::checkers::{ALL, check_all};
use leasehold_sim::history::{
    Ack, Answered, Call, Change, End, Event, Held, History, Hold, KeyCall, KeyOutcome, KeyWhat, Look, Moment, Outcome,
    Put, ReadBack, Release, Span, Told, Watched, What,
};

const TTL: Duration = Duration::from_millis(500);
const LOCKS: usize = 20;

/// The service and what its clients note.
struct Run {
    now: u64,
    revision: u64,
    turn: u64,
    locks: Vec<Lock>,
    changes: Vec<Change>,
    history: History,
}

#[derive(Default)]
struct Lock {
    holder: Option<(String, u64)>,
    waiters: VecDeque<String>,
}

impl Run {
    fn new() -> Run {
        let locks = (0..LOCKS).map(|_| Lock::default()).collect();
        let calm = vec![Span { from: Moment::START, to: Moment::NEVER }];
        let history = History { calm, ..History::default() };
        Run { now: 0, revision: 0, turn: 0, locks, changes: Vec::new(), history }
    }

    /// A call that takes two milliseconds and happens in the middle, a millisecond after the one before.
    fn call(&mut self) -> (Moment, Moment) {
        self.now += 3;
        (Moment::millis(self.now - 2), Moment::millis(self.now))
    }

    fn note(&mut self, (sent, answered): (Moment, Moment)) {
        let (revision, time) = (self.revision, Some(self.now - 1));
        self.history.answers.push(Answered { client: "all".to_owned(), sent, answered, revision, time });
    }

    fn tell(&mut self, events: Vec<Event>) {
        self.revision += 1;
        let at = self.revision.to_string();
        let events = events.into_iter().map(|event| Event { at: at.clone(), ..event }).collect();
        self.changes.push(Change { revision: self.revision, events, seen: Moment::millis(self.now) });
    }

    fn ack(&mut self, lease: &str, (sent, answered): (Moment, Moment)) {
        let valid_until = self.history.bounds.valid_until(sent, TTL);
        let deadline = self.now - 1 + TTL.as_millis() as u64;
        let lease = lease.to_owned();
        self.history.acks.push(Ack { lease, sent, answered, remaining: TTL, ttl: TTL, deadline, valid_until });
    }

    fn tried(&mut self, lock: usize, what: What, (sent, answered): (Moment, Moment), outcome: Outcome) {
        let (client, resource, answered) = ("all".to_owned(), name(lock), Some(answered));
        self.history.calls.push(Call { client, resource, what, sent, answered, outcome });
    }

    /// Somebody asks for a lock and gets it, or waits.
    fn ask(&mut self, lock: usize) {
        self.turn += 1;
        let lease = format!("lease{}", self.turn);
        let call = self.call();
        let granted = event("lease_granted", &lease, "");
        if self.locks[lock].holder.is_some() {
            self.locks[lock].waiters.push_back(lease.clone());
            let position = self.locks[lock].waiters.len() as u64;
            self.tell(vec![granted, Event { position, ..event("queued", &lease, &name(lock)) }]);
            self.ack(&lease, call);
        } else {
            let given = self.give(lock, &lease, call);
            self.tell(vec![granted, given]);
            self.ack(&lease, call);
            let token = self.revision;
            self.tried(lock, What::TryAcquire { lease }, call, Outcome::Granted { token });
        }
        self.note(call);
    }

    /// The next revision gives a lock to a lease, which hears of it within the call.
    fn give(&mut self, lock: usize, lease: &str, (sent, answered): (Moment, Moment)) -> Event {
        let token = self.revision + 1;
        self.locks[lock].holder = Some((lease.to_owned(), token));
        let resource = name(lock);
        self.history.holds.push(Hold { lease: lease.to_owned(), resource, token, shared: false, sent, answered });
        Event { token, ..event("claim_granted", lease, &name(lock)) }
    }

    fn end(&mut self, lock: usize, cause: &str, call: (Moment, Moment)) {
        let Some((lease, token)) = self.locks[lock].holder.take() else { return };
        let ended = |kind, resource: &str| Event { cause: cause.to_owned(), ..event(kind, &lease, resource) };
        let lost = Event { token, ..ended("claim_ended", &name(lock)) };
        let mut events = vec![ended("lease_ended", ""), lost];
        let next = self.locks[lock].waiters.pop_front();
        if let Some(next) = &next {
            events.push(self.give(lock, next, call));
        }
        self.tell(events);
        if let Some(next) = next {
            self.ack(&next, call);
        }
    }

    fn release(&mut self, lock: usize) {
        let Some((lease, token)) = self.locks[lock].holder.clone() else { return };
        let call = self.call();
        self.end(lock, "released", call);
        let (sent, answered) = (call.0, Some(call.1));
        self.history.releases.push(Release { lease: lease.clone(), resource: None, sent, answered });
        self.tried(lock, What::Release { lease, token: Some(token) }, call, Outcome::Released);
        self.note(call);
    }

    /// Everybody else renews; the holder of this lock does not and loses it.
    fn expire(&mut self, lock: usize) {
        let Some((lease, _)) = self.locks[lock].holder.clone() else { return };
        self.renew_all(Some(&lease));
        self.now += 200;
        self.renew_all(Some(&lease));
        self.now += TTL.as_millis() as u64 - 200 - 2;
        let last = self.history.acks.iter().rfind(|ack| ack.lease == lease).map_or(0, |ack| ack.deadline);
        self.now = self.now.max(last + 1);
        let call = self.call();
        self.end(lock, "expired", call);
        let (cause, ended_by) = ("expired".to_owned(), self.now - 1);
        self.history.ends.push(End { lease, cause, ended_by, answered: call.1 });
        self.note(call);
    }

    fn renew_all(&mut self, but: Option<&str>) {
        let call = self.call();
        let locks = self.locks.iter();
        let all = locks.flat_map(|lock| lock.holder.iter().map(|(lease, _)| lease).chain(&lock.waiters)).cloned();
        for lease in all.collect::<Vec<_>>() {
            if but != Some(&lease) {
                self.ack(&lease, call);
            }
        }
        self.note(call);
    }

    fn look(&mut self, lock: usize) {
        let Some((lease, token)) = self.locks[lock].holder.clone() else { return };
        let (sent, answered) = self.call();
        let held = vec![Held { resource: name(lock), token, since: None }];
        self.history.looks.push(Look { lease, sent, answered, lives: true, held });
        self.tried(lock, What::Look, (sent, answered), Outcome::Seen { holder: Some(token) });
        self.note((sent, answered));
    }

    fn count(&mut self, number: u64) {
        let call = self.call();
        let (key, expected) = ("count".to_owned(), (number > 1).then_some(number - 1));
        let put = Event { key: key.clone(), value: number.to_string(), version: number, ..event("entry_put", "", "") };
        self.tell(vec![put]);
        let (revision, version) = (self.revision, Some(number));
        self.history.puts.push(Put { key: key.clone(), number, revision, version, answered: call.1 });
        let what = KeyWhat::CompareAndSet { expected, number };
        let (client, answered) = ("all".to_owned(), Some(call.1));
        let wrote = KeyCall { client, key: key.clone(), what, sent: call.0, answered, outcome: KeyOutcome::Done };
        self.history.key_calls.push(wrote);
        let sent = self.call().0;
        self.history.reads.push(ReadBack { key, number, version: number, sent });
    }
}

fn name(lock: usize) -> String {
    format!("lock/{lock}")
}

fn event(kind: &str, lease: &str, resource: &str) -> Event {
    let (kind, lease, resource) = (kind.to_owned(), lease.to_owned(), resource.to_owned());
    Event { kind, holder: lease.clone(), lease, resource, ..Event::default() }
}

/// A run with this many rounds, in which everything is as promised.
fn run(rounds: u64) -> History {
    let mut run = Run::new();
    for round in 1..=rounds {
        let lock = (round * 7 % LOCKS as u64) as usize;
        run.ask(lock);
        if round % 3 == 0 {
            run.ask(lock);
        }
        run.look(lock);
        if round % 2 == 0 {
            run.renew_all(None);
        }
        if round % 25 == 0 {
            run.expire(lock)
        } else {
            run.release((lock * 3) % LOCKS)
        }
        run.count(round);
    }
    for number in 0..3 {
        let told = run.changes.iter().cloned().map(Told::Change).collect();
        run.history.watched.push(Watched { told, ..Watched::everything(format!("watcher{number}")) });
    }
    run.history
}

fn facts(history: &History) -> usize {
    let leases = history.acks.len() + history.holds.len() + history.releases.len() + history.ends.len();
    let seen = history.looks.len() + history.puts.len() + history.reads.len() + history.answers.len();
    leases + seen + history.calls.len() + history.key_calls.len() + history.change_count()
}

#[test]
fn a_long_run_that_keeps_every_promise_is_judged_quickly() {
    let history = run(400);
    println!("{} facts", facts(&history));
    assert!(facts(&history) > 20_000, "there are only {} facts", facts(&history));
    let began = Instant::now();
    for (name, check) in ALL {
        let each = Instant::now();
        assert_eq!(check(&history), [], "{name}");
        println!("{name}: {:?}", each.elapsed());
    }
    println!("all: {:?}", began.elapsed());
    // Well under a second; the bound is for a busy machine.
    assert!(began.elapsed() < Duration::from_secs(10), "it took {:?}", began.elapsed());
}

/// Spoils a good run and tells which checkers speak.
fn spoilt(spoil: impl FnOnce(&mut History)) -> Vec<&'static str> {
    let mut history = run(60);
    spoil(&mut history);
    let mut names: Vec<_> = check_all(&history).into_iter().map(|found| found.checker).collect();
    names.dedup();
    names
}

fn changes(watched: &mut Watched) -> impl Iterator<Item = &mut Change> {
    watched.told.iter_mut().filter_map(|told| match told {
        Told::Change(change) => Some(change),
        Told::Progress(_) | Told::Gap(_) => None,
    })
}

#[test]
fn each_checker_finds_what_is_spoilt() {
    assert_eq!(spoilt(|_| {}), [""; 0]);
    let longer = |history: &mut History| {
        history.acks.iter_mut().for_each(|ack| {
            ack.valid_until = ack.valid_until.after(Duration::from_secs(60));
        })
    };
    assert!(spoilt(longer).contains(&"one_holder"));
    assert!(spoilt(|history| history.holds[20].token = 1).contains(&"tokens_rise"));
    assert!(spoilt(|history| history.looks[10].held.clear()).contains(&"nothing_lost"));
    assert!(spoilt(|history| history.reads[30].number = 7).contains(&"nothing_lost"));
    assert!(spoilt(|history| history.ends[0].ended_by -= 400).contains(&"never_early"));
    let lost_end = |history: &mut History| {
        history.watched.iter_mut().flat_map(changes).for_each(|change| {
            let expired = change.events.iter().any(|event| event.cause == "expired");
            change.events.retain(|event| !(expired && event.kind == "lease_ended"));
        })
    };
    assert!(spoilt(lost_end).contains(&"never_late"));
    let kept_claim = |history: &mut History| {
        history.watched.iter_mut().flat_map(changes).for_each(|change| {
            change.events.retain(|event| event.kind != "claim_ended");
        })
    };
    assert!(spoilt(kept_claim).contains(&"one_revision"));
    assert_eq!(spoilt(|history| drop(history.watched[1].told.remove(30))), ["watches"]);
    let place = |history: &mut History| {
        history.watched.iter_mut().flat_map(changes).for_each(|change| {
            change.events.iter_mut().filter(|event| event.kind == "queued").for_each(|event| event.position += 1);
        })
    };
    assert_eq!(spoilt(place), ["fifo"]);
    assert!(spoilt(|history| history.puts[30].version = Some(99)).contains(&"once"));
    let stale = |history: &mut History| {
        let look = history.calls.iter_mut().rfind(|call| call.what == What::Look).unwrap();
        look.outcome = Outcome::Seen { holder: None };
    };
    assert_eq!(spoilt(stale), ["linearizable"]);
    let undone = |history: &mut History| {
        let lease = history.releases[0].lease.clone();
        let look = Look { lease, ..history.looks.last().unwrap().clone() };
        history.looks.push(Look { held: Vec::new(), ..look });
    };
    assert_eq!(spoilt(undone), ["stays_ended"]);
    assert!(spoilt(|history| history.answers[90].revision -= 40).contains(&"revisions_rise"));
}

//! How fast and how large the core is: run by hand, in release, with `--ignored --nocapture --test-threads=1`.
//!
//! The second half are shapes that a hostile caller could build to make one command slow. They print how long the
//! worst single entry took; none may take longer than a few hundred milliseconds.
#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a measurement reads the clock")]
#![allow(clippy::print_stdout, reason = "a measurement is printed")]

use std::time::{Duration, Instant};

use leasehold_core::{
    Applied, Ask, Asks, Caller, Claim, Command, Grant, Holder, Key, LeaderId, LeaseId, LeaseTime, Limits, Metadata,
    Mode, Namespace, Outcome, Patience, Release, Renew, Request, ResourceName, Rights, Span, Stamp, State, Ttl,
    Unclaim, WallTime, Write, WriteOp,
};

fn id(number: u64) -> LeaseId {
    // Spread like the random ids of clients.
    LeaseId::new((number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 1).unwrap()
}

fn request(command: Command) -> Request {
    let caller = Caller { identity: None, rights: Rights { operator: true, endless: false } };
    Request { caller, namespace: Namespace::new("main").unwrap(), command }
}

fn ask(name: impl std::fmt::Display, mode: Mode) -> Ask {
    Ask { resource: ResourceName::new(&name.to_string()).unwrap(), mode }
}

fn grant(number: u64, claims: Vec<Ask>, patience: Patience, ttl: u64) -> Request {
    request(Command::Grant(Grant {
        id: id(number),
        holder: Holder::new(&format!("holder-{number}")).unwrap(),
        ttl: Ttl::For(Span(ttl)),
        class: Default::default(),
        parent: None,
        metadata: Metadata::default(),
        asks: Asks { claims, patience, ..Asks::default() },
        seen: LeaseTime(1 << 40),
    }))
}

fn release(number: u64) -> Request {
    request(Command::Release(Release { lease: id(number) }))
}

fn apply(state: &mut State, now: u64, requests: Vec<Request>) -> (Applied, Duration) {
    let stamp = Stamp { leader: LeaderId::default(), now: LeaseTime(now), wall: WallTime(now) };
    let begin = Instant::now();
    let applied = state.apply(LeaderId::default(), stamp, requests);
    let took = begin.elapsed();
    assert_eq!(applied.void, None);
    (applied, took)
}

/// Applies and insists that every command was carried out.
fn done(state: &mut State, now: u64, requests: Vec<Request>) -> Duration {
    let (applied, took) = apply(state, now, requests);
    for answer in &applied.answers {
        assert!(answer.is_ok(), "{answer:?}");
    }
    took
}

fn pass(state: &mut State, from: u64, to: u64) {
    for now in (from..to).step_by(900) {
        apply(state, now, Vec::new());
    }
}

fn generous() -> State {
    let mut state = State::new();
    let limits = Limits { leases_per_identity: 4_000_000, state_bytes: 1 << 40, ..Limits::default() };
    done(&mut state, 0, vec![request(Command::Configure(Box::new(limits)))]);
    state
}

fn resident_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1024.0
}

fn per_second(count: u64, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64()
}

#[test]
#[ignore = "a measurement"]
fn grant_and_release() {
    for live in [0, 1_000_000u64] {
        let mut state = generous();
        for batch in 0..live / 1000 {
            let leases = (0..1000).map(|n| grant(1 << 32 | (batch * 1000 + n), vec![], Patience::None, 86_400_000));
            done(&mut state, 0, leases.collect());
        }
        let mut took = Duration::ZERO;
        let rounds = 200u64;
        for round in 0..rounds {
            let claims = |n: u64| vec![ask(format_args!("locks/{n}"), Mode::Exclusive)];
            let grants = (0..500).map(|n| grant(round * 500 + n, claims(n), Patience::None, 10_000)).collect();
            took += done(&mut state, round, grants);
            took += done(&mut state, round, (0..500).map(|n| release(round * 500 + n)).collect());
        }
        println!("grant+claim and release beside {live} leases: {:.0} commands/s", per_second(rounds * 1000, took));
    }
}

#[test]
#[ignore = "a measurement"]
fn renewal_of_4096() {
    let mut state = generous();
    for batch in 0..1000 {
        done(&mut state, 0, (0..1000).map(|n| grant(batch * 1000 + n, vec![], Patience::None, 86_400_000)).collect());
    }
    let mut took = Duration::ZERO;
    let rounds = 100u64;
    for round in 0..rounds {
        let leases = (0..4096).map(|n| id((n * 243 + round) % 1_000_000)).filter(|id| id.number() > 1).collect();
        took += apply(&mut state, round, vec![request(Command::Renew(Renew { leases, ttl: None }))]).1;
    }
    println!(
        "renewal of 4096 of 1M leases: {:.2} ms, {:.0} leases/s",
        took.as_secs_f64() * 1000.0 / rounds as f64,
        per_second(rounds * 4096, took)
    );
}

#[test]
#[ignore = "a measurement"]
fn expiry_of_100k() {
    let mut state = generous();
    for batch in 1..=100 {
        let one = |n: u64| {
            let claim = vec![ask(format_args!("locks/{batch}/{n}"), Mode::Exclusive)];
            grant(batch * 1000 + n, claim, Patience::None, 500)
        };
        done(&mut state, 0, (0..1000).map(one).collect());
    }
    let (mut took, mut worst, mut pieces) = (Duration::ZERO, Duration::ZERO, 0);
    apply(&mut state, 500, Vec::new());
    while state.counts().leases > 0 {
        let (_, piece) = apply(&mut state, 1000, Vec::new());
        took += piece;
        worst = worst.max(piece);
        pieces += 1;
    }
    println!("expiry of 100k leases with a claim: {took:?} in {pieces} pieces, the worst {worst:?}");
}

#[test]
#[ignore = "a measurement; alone in its process"]
fn memory_of_1m_bare() {
    memory_and_views(0);
}

#[test]
#[ignore = "a measurement; alone in its process"]
fn memory_of_1m_with_a_claim() {
    let mut state = memory_and_views(1);
    let handed_on = 4;
    for round in 0..handed_on {
        for batch in 0..1000u64 {
            done(&mut state, 1000, (0..1000).map(|n| release((round * 1000 + batch) * 1000 + n)).collect());
            let next = |n| lease_with(1, batch, n, (round + 1) * 1_000_000 + batch * 1000 + n);
            done(&mut state, 1000, (0..1000).map(next).collect());
        }
    }
    println!("  after each was handed on {handed_on} times: {:.0} MiB", resident_mib());
}

fn lease_with(claims: u64, batch: u64, n: u64, number: u64) -> Request {
    let claims = (0..claims).map(|_| ask(format_args!("locks/{batch}/{n}"), Mode::Exclusive));
    grant(number, claims.collect(), Patience::None, 86_400_000)
}

fn memory_and_views(claims: u64) -> State {
    let before = resident_mib();
    let mut state = generous();
    for batch in 0..1000u64 {
        done(&mut state, batch, (0..1000).map(|n| lease_with(claims, batch, n, batch * 1000 + n)).collect());
    }
    println!("1M leases with {claims} claims: {:.0} MiB", resident_mib() - before);

    let begin = Instant::now();
    let view = state.view();
    println!("  view: {:?}", begin.elapsed());
    let renew = |state: &mut State, round: u64| {
        let leases = (0..1000).map(|n| id(n * 997 + round)).collect();
        apply(state, 1000, vec![request(Command::Renew(Renew { leases, ttl: None }))]).1
    };
    println!("  first 1000 renewals after it: {:?}, again: {:?}", renew(&mut state, 0), renew(&mut state, 0));
    let begin = Instant::now();
    let records: Vec<_> = view.records().collect();
    println!("  reading out {} records: {:?}", records.len(), begin.elapsed());
    let begin = Instant::now();
    State::from_records::<String>(records.into_iter().map(Ok)).unwrap();
    println!("  putting them together: {:?}", begin.elapsed());
    state
}

#[test]
#[ignore = "a measurement"]
fn attack_waits_for_8191_resources() {
    let mut state = generous();
    let all = |mode| (0..8191).map(|n| ask(n, mode)).collect::<Vec<_>>();
    let names = |mode, last: Mode| {
        let mut asks = all(mode);
        asks.push(ask("last", last));
        asks
    };
    done(&mut state, 0, vec![grant(1, all(Mode::Exclusive), Patience::None, 1_000_000)]);
    done(&mut state, 0, vec![grant(2, vec![ask("last", Mode::Shared)], Patience::None, 1_000_000)]);
    let waits = Patience::Endless;
    let took = done(&mut state, 0, vec![grant(3, names(Mode::Shared, Mode::Shared), waits, 1_000_000)]);
    println!("queueing for 8192: {took:?}");
    done(&mut state, 0, vec![grant(4, names(Mode::Shared, Mode::Exclusive), waits, 1_000_000)]);
    println!("releasing 8191 to one that shares and one that must wait: {:?}", done(&mut state, 0, vec![release(1)]));
    println!("releasing again: {:?}", done(&mut state, 0, vec![release(3)]));
    println!("leaving again: {:?}", done(&mut state, 0, vec![release(4)]));

    // Each of many small waits stands before one large one.
    let mut state = generous();
    done(&mut state, 0, vec![grant(1, all(Mode::Exclusive), Patience::None, 1_000_000)]);
    done(&mut state, 0, vec![grant(2, vec![ask("last", Mode::Exclusive)], Patience::None, 1_000_000)]);
    for n in 0..8191 {
        done(&mut state, 0, vec![grant(10 + n, vec![ask(n, Mode::Shared)], waits, 1_000_000)]);
    }
    done(&mut state, 0, vec![grant(3, names(Mode::Shared, Mode::Shared), waits, 1_000_000)]);
    println!("releasing 8191 to small waits before a large one: {:?}", done(&mut state, 0, vec![release(1)]));
}

#[test]
#[ignore = "a measurement"]
fn attack_16k_dead_at_one_resource() {
    for (what, ttl, patience) in [("leases", 500, 1_000_000), ("waits", 1_000_000, 500)] {
        let mut state = generous();
        for n in 0..8192 {
            let mode = if n % 2 == 0 { 1_000_000 } else { 500 };
            done(&mut state, 0, vec![grant(1 + n, vec![ask("a", Mode::Shared)], Patience::None, mode)]);
        }
        for n in 0..16_000 {
            let patience = Patience::For(Span(patience));
            done(&mut state, 0, vec![grant(100_000 + n, vec![ask("a", Mode::Exclusive)], patience, ttl)]);
        }
        apply(&mut state, 500, Vec::new());
        let newcomers = (0..1024).map(|n| grant(200_000 + n, vec![ask("a", Mode::Shared)], Patience::None, 1000));
        println!(
            "1024 newcomers at 4k dead holders, 16k dead {what}: {:?}",
            apply(&mut state, 501, newcomers.collect()).1
        );
        pass(&mut state, 502, 2000);
    }
}

#[test]
#[ignore = "a measurement"]
fn attack_16k_living_waiters() {
    let mut state = generous();
    done(&mut state, 0, vec![grant(1, vec![ask("a", Mode::Exclusive)], Patience::None, 1_000_000)]);
    let one = |n: u64| grant(100_000 + n, vec![ask("a", Mode::Exclusive)], Patience::Endless, 1_000_000);
    for n in 0..16_000 {
        done(&mut state, 0, vec![one(n)]);
    }
    let pollers = (0..1024).map(|n| grant(200_000 + n, vec![ask("a", Mode::Exclusive)], Patience::None, 1000));
    println!("1024 refusals before 16k waiters: {:?}", apply(&mut state, 1, pollers.collect()).1);
    println!("1024 repeated grants of waiters: {:?}", done(&mut state, 1, (14_000..15_024).map(one).collect()));
    let begin = Instant::now();
    State::from_records::<String>(state.view().records().map(Ok)).unwrap();
    println!("restoring 16k waiters: {:?}", begin.elapsed());
}

#[test]
#[ignore = "a measurement"]
fn attack_8192_claims_on_one_lease() {
    let names = |order: &mut dyn Iterator<Item = u64>| {
        order.map(|n| ask(format_args!("r/{n:05}"), Mode::Exclusive)).collect::<Vec<_>>()
    };
    let mut state = generous();
    let rising = names(&mut (0..8192));
    println!("8192 claims in rising order: {:?}", done(&mut state, 0, vec![grant(1, rising, Patience::None, 100_000)]));
    println!("releasing them: {:?}", done(&mut state, 0, vec![release(1)]));
    let falling = names(&mut (0..8192).rev());
    println!(
        "8192 claims in falling order: {:?}",
        done(&mut state, 0, vec![grant(2, falling, Patience::None, 100_000)])
    );
    let view = state.lease(&Namespace::new("main").unwrap(), id(2)).unwrap();
    let each = view.held.iter().take(1024).map(|held| {
        let (resource, token) = (held.resource.clone(), held.token);
        request(Command::Unclaim(Unclaim { lease: id(2), once: None, resource, token }))
    });
    println!("giving 1024 of them back one by one: {:?}", done(&mut state, 0, each.collect()));

    let mut state = generous();
    done(&mut state, 0, vec![grant(1, names(&mut (0..4096)), Patience::None, 100_000)]);
    done(&mut state, 0, vec![grant(2, names(&mut (0..4096)), Patience::Endless, 100_000)]);
    let more = names(&mut (4096..8192));
    let mut blocked = more.clone();
    blocked.pop();
    done(&mut state, 0, vec![grant(3, names(&mut (8191..8192)), Patience::None, 100_000)]);
    let asks = Asks { claims: more, ..Asks::default() };
    let claim = request(Command::Claim(Claim { lease: id(2), once: None, asks }));
    let (applied, took) = apply(&mut state, 0, vec![claim; 10]);
    assert!(applied.answers.iter().all(Result::is_err));
    println!("10 refusals of 4096 more on a lease that waits for 4096: {took:?}");
}

#[test]
#[ignore = "a measurement"]
fn attack_many_namespaces() {
    let mut state = generous();
    let put = |namespace: u64, n: u64| {
        let key = Key::new(format!("{n}").as_bytes()).unwrap();
        let op = WriteOp::Put { key, value: Some([0; 8].into()), binding: Default::default() };
        let namespace = Namespace::new(&format!("n{namespace}")).unwrap();
        Request { namespace, ..request(Command::Write(Write { then: vec![op], ..Write::default() })) }
    };
    for namespace in 0..4096 {
        done(&mut state, 0, (0..50).map(|n| put(namespace, n)).collect());
    }
    let begin = Instant::now();
    State::from_records::<String>(state.view().records().map(Ok)).unwrap();
    println!("restoring 200k entries in 4096 namespaces: {:?}", begin.elapsed());
    let (applied, _) = apply(&mut state, 0, vec![grant(1, vec![], Patience::None, 1000)]);
    assert!(matches!(applied.answers[0], Err(_) | Ok(Outcome::Granted(_))));
}

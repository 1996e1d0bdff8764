//! Random commands over few names, resolved against the state they meet.

use std::collections::BTreeMap;
use std::sync::Arc;

use leasehold_core::{
    Ask, AskHandover, Asks, Binding, Caller, Claim, Class, Command, Compare, Grant, Holder, Identity, Key, KeyRange,
    LeaseId, LeaseTime, Leave, Limits, Metadata, Mode, Namespace, Once, Operand, Patience, Relation, Release, Renew,
    Request, ResourceName, Revision, Revoke, Rights, Span, State, Token, Ttl, Unclaim, Write, WriteOp,
};
use proptest::prelude::*;

pub(crate) const NAMESPACES: [&str; 2] = ["one", "two"];
const RESOURCES: [&str; 4] = ["a", "b", "c", "d"];
pub(crate) const IDS: u64 = 8;

pub(crate) fn places() -> Vec<(&'static str, &'static str)> {
    NAMESPACES.into_iter().flat_map(|ns| RESOURCES.map(|name| (ns, name))).collect()
}

/// Some commands that come in one entry, `later` than the entry before.
#[derive(Clone, Debug)]
pub(crate) struct Shot {
    pub(crate) later: u64,
    pub(crate) commands: Vec<Wish>,
}

/// A command before its tokens, waits and times are known.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    who: u8,
    namespace: usize,
    what: What,
}

#[derive(Clone, Debug)]
enum What {
    Grant { id: u64, ttl: Ttl, parent: Option<u64>, asks: Asks, late: bool },
    GrantAgain { id: u64 },
    Renew { ids: Vec<u64>, ttl: Option<Ttl> },
    Release { id: u64 },
    Revoke { id: u64, now: bool },
    Claim { id: u64, once: Option<Once>, asks: Asks },
    Unclaim { id: u64, once: Option<Once>, resource: &'static str, wrong: bool },
    Leave { id: u64 },
    AskHandover { resource: &'static str },
    Write { session: Option<(u64, Once)>, compares: Vec<(&'static str, u8)>, then: Vec<Step>, otherwise: Vec<Step> },
}

#[derive(Clone, Debug)]
enum Step {
    Put { key: &'static str, value: Option<u8>, binding: Option<Option<u64>> },
    Delete { key: Option<&'static str> },
    Read { key: Option<&'static str> },
}

pub(crate) fn roomy() -> Limits {
    Limits { tombstone_age: Span(700), cooldown_max: Span(300), sweep_piece: 1_000_000, ..Limits::default() }
}

pub(crate) fn limits() -> impl Strategy<Value = Limits> {
    let tiny = Limits {
        leases: 5,
        leases_per_identity: 4,
        claims_per_lease: 3,
        entries_per_lease: 1,
        tree_weight: 6,
        tree_depth: 2,
        waiters: 2,
        shared_holders: 2,
        entries: 2,
        receipts: 2,
        tombstones: 3,
        history: 1,
        idle_resources: 1,
        ..roomy()
    };
    prop_oneof![2 => Just(roomy()), 1 => Just(tiny), 1 => Just(Limits { history: 0, shared_holders: 2, ..roomy() })]
}

pub(crate) fn shots(max: usize) -> impl Strategy<Value = Vec<Shot>> {
    let later = prop_oneof![4 => Just(0), 3 => 1u64..60, 3 => 60u64..300, 1 => 300u64..1000];
    let shot = (later, prop::collection::vec(wish(), 0..4)).prop_map(|(later, commands)| Shot { later, commands });
    prop::collection::vec(shot, 1..max)
}

fn wish() -> impl Strategy<Value = Wish> {
    let who = prop_oneof![8 => Just(0u8), 1 => Just(1), 1 => Just(2)];
    let namespace = prop_oneof![5 => Just(0usize), 1 => Just(1)];
    (who, namespace, what()).prop_map(|(who, namespace, what)| Wish { who, namespace, what })
}

fn id() -> impl Strategy<Value = u64> {
    1..=IDS
}

fn what() -> impl Strategy<Value = What> {
    let grant = (id(), ttl(), prop::option::weighted(0.25, id()), asks(0..4), prop::bool::weighted(0.1));
    let once = || prop::option::weighted(0.6, once());
    prop_oneof![
        8 => grant.prop_map(|(id, ttl, parent, asks, late)| What::Grant { id, ttl, parent, asks, late }),
        1 => id().prop_map(|id| What::GrantAgain { id }),
        3 => (prop::collection::vec(id(), 1..4), prop::option::weighted(0.3, ttl()))
            .prop_map(|(ids, ttl)| What::Renew { ids, ttl }),
        2 => id().prop_map(|id| What::Release { id }),
        1 => (id(), any::<bool>()).prop_map(|(id, now)| What::Revoke { id, now }),
        4 => (id(), once(), asks(0..3)).prop_map(|(id, once, asks)| What::Claim { id, once, asks }),
        2 => (id(), once(), prop::sample::select(&RESOURCES[..]), prop::bool::weighted(0.1))
            .prop_map(|(id, once, resource, wrong)| What::Unclaim { id, once, resource, wrong }),
        1 => id().prop_map(|id| What::Leave { id }),
        1 => prop::sample::select(&RESOURCES[..]).prop_map(|resource| What::AskHandover { resource }),
        4 => write(),
    ]
}

fn write() -> impl Strategy<Value = What> {
    let session = prop::option::weighted(0.2, (id(), once()));
    let compares = prop::collection::vec((key(), 0u8..4), 0..3);
    let steps = || prop::collection::vec(step(), 0..3);
    (session, compares, steps(), steps()).prop_map(|(session, compares, then, otherwise)| What::Write {
        session,
        compares,
        then,
        otherwise,
    })
}

fn key() -> impl Strategy<Value = &'static str> {
    prop::sample::select(&["k1", "k2", "k3"][..])
}

fn step() -> impl Strategy<Value = Step> {
    let binding = prop_oneof![3 => Just(None), 4 => id().prop_map(|id| Some(Some(id))), 1 => Just(Some(None))];
    prop_oneof![
        6 => (key(), prop::option::weighted(0.85, 0u8..3), binding)
            .prop_map(|(key, value, binding)| Step::Put { key, value, binding }),
        2 => prop::option::weighted(0.7, key()).prop_map(|key| Step::Delete { key }),
        1 => prop::option::weighted(0.5, key()).prop_map(|key| Step::Read { key }),
    ]
}

fn ttl() -> impl Strategy<Value = Ttl> {
    let span = prop_oneof![Just(100u64), Just(150), Just(300), Just(301), Just(1000), Just(50)];
    prop_oneof![12 => span.prop_map(|span| Ttl::For(Span(span))), 1 => Just(Ttl::Endless)]
}

fn once() -> impl Strategy<Value = Once> {
    (0u64..6, 0u64..4).prop_map(|(seq, acked)| Once { seq, acked })
}

fn asks(count: std::ops::Range<usize>) -> impl Strategy<Value = Asks> {
    let mode = prop_oneof![2 => Just(Mode::Exclusive), 1 => Just(Mode::Shared)];
    let claim = (prop::sample::select(&RESOURCES[..]), mode)
        .prop_map(|(name, mode)| Ask { resource: ResourceName::new(name).unwrap(), mode });
    let patience = prop_oneof![
        2 => Just(Patience::None),
        1 => Just(Patience::For(Span(0))),
        3 => Just(Patience::For(Span(150))),
        2 => Just(Patience::For(Span(400))),
        1 => Just(Patience::Endless),
    ];
    let priority = prop_oneof![3 => Just(0), 1 => Just(1), 1 => Just(-1)];
    let cooldown = prop_oneof![4 => Just(0u64), 1 => Just(200), 1 => Just(301)];
    (prop::collection::vec(claim, count), patience, priority, cooldown).prop_map(
        |(claims, patience, priority, cooldown)| Asks { claims, patience, priority, cooldown: Span(cooldown) },
    )
}

fn caller(who: u8) -> Caller {
    let (name, rights) = match who {
        0 => ("ann", Rights { operator: false, endless: true }),
        1 => ("bob", Rights::default()),
        _ => ("root", Rights { operator: true, endless: false }),
    };
    Caller { identity: Some(Identity::new(name).unwrap()), rights }
}

pub(crate) fn as_operator(command: Command) -> Request {
    Request { caller: caller(2), namespace: Namespace::new(NAMESPACES[0]).unwrap(), command }
}

fn lease(id: u64) -> LeaseId {
    LeaseId::new(id).unwrap()
}

/// Turns wishes into requests that fit the state they meet.
#[derive(Default)]
pub(crate) struct Resolver {
    grants: BTreeMap<(usize, u64), (u8, Grant)>,
}

impl Resolver {
    pub(crate) fn requests(&mut self, state: &State, wishes: &[Wish]) -> Vec<Request> {
        wishes.iter().map(|wish| self.request(state, wish)).collect()
    }

    /// The same without those whose outcome depends on whether a wait was served before or after them: in a backlog
    /// it may be either.
    pub(crate) fn requests_for_a_backlog(&mut self, state: &State, wishes: &[Wish]) -> Vec<Request> {
        let mut requests = self.requests(state, wishes);
        requests.retain_mut(|request| match &mut request.command {
            Command::Grant(Grant { asks, parent, .. }) => {
                asks.priority = 0;
                // A due child that is not swept keeps a parent from ending with its wait.
                asks.patience = if parent.is_some() { Patience::None } else { asks.patience };
                parent.is_none() || !somebody_waits(state, &request.namespace)
            }
            Command::Claim(claim) => {
                claim.asks.priority = 0;
                true
            }
            Command::Renew(renew) => {
                renew.ttl = None;
                true
            }
            Command::Release(_) | Command::Revoke(_) => !somebody_waits(state, &request.namespace),
            Command::Leave(_) => false,
            Command::Unclaim(_) | Command::AskHandover(_) | Command::Write(_) | Command::Configure(_) => true,
            Command::GrantAnew(_) | Command::ClaimMarked(_) => true,
        });
        requests
    }

    fn request(&mut self, state: &State, wish: &Wish) -> Request {
        let namespace = Namespace::new(NAMESPACES[wish.namespace]).unwrap();
        let view = |id: u64| state.lease(&namespace, lease(id)).ok();
        let mut who = wish.who;
        let command = match &wish.what {
            What::Grant { id, ttl, parent, asks, late } => {
                let grant = Grant {
                    id: lease(*id),
                    holder: Holder::new(&format!("h{id}")).unwrap(),
                    ttl: *ttl,
                    class: Class::Lock,
                    parent: parent.map(lease),
                    metadata: Metadata::default(),
                    asks: asks.clone(),
                    seen: LeaseTime(state.now().0.saturating_sub(if *late { 800 } else { 0 })),
                };
                self.grants.insert((wish.namespace, *id), (who, grant.clone()));
                Command::Grant(grant)
            }
            What::GrantAgain { id } => match self.grants.get(&(wish.namespace, *id)) {
                Some((granted_by, grant)) => {
                    who = *granted_by;
                    Command::Grant(grant.clone())
                }
                None => Command::Release(Release { lease: lease(*id) }),
            },
            What::Renew { ids, ttl } => {
                Command::Renew(Renew { leases: ids.iter().map(|id| lease(*id)).collect(), ttl: *ttl })
            }
            What::Release { id } => Command::Release(Release { lease: lease(*id) }),
            What::Revoke { id, now } => Command::Revoke(Revoke { lease: lease(*id), reason: "test".into(), now: *now }),
            What::Claim { id, once, asks } => {
                Command::Claim(Claim { lease: lease(*id), once: *once, asks: asks.clone() })
            }
            What::Unclaim { id, once, resource, wrong } => {
                let resource = ResourceName::new(resource).unwrap();
                let held = view(*id).and_then(|view| view.held.into_iter().find(|held| held.resource == resource));
                let token = held.filter(|_| !wrong).map_or(Token(0), |held| held.token);
                Command::Unclaim(Unclaim { lease: lease(*id), once: *once, resource, token })
            }
            What::Leave { id } => {
                let wait = view(*id).and_then(|view| view.waits.first().map(|wait| wait.wait));
                Command::Leave(Leave { lease: lease(*id), wait: wait.unwrap_or(Revision(0)) })
            }
            What::AskHandover { resource } => Command::AskHandover(AskHandover {
                resource: ResourceName::new(resource).unwrap(),
                by: Holder::new("zoe").unwrap(),
                reason: Some("test".into()),
            }),
            What::Write { session, compares, then, otherwise } => Command::Write(Write {
                session: session.map(|(id, once)| (lease(id), once)),
                compares: compares.iter().map(|(key, what)| compare(state, &namespace, key, *what)).collect(),
                then: then.iter().map(write_op).collect(),
                otherwise: otherwise.iter().map(write_op).collect(),
            }),
        };
        Request { caller: caller(who), namespace, command }
    }
}

fn somebody_waits(state: &State, namespace: &Namespace) -> bool {
    RESOURCES.into_iter().any(|name| !state.queue(namespace, &ResourceName::new(name).unwrap(), 1).is_empty())
}

fn compare(state: &State, namespace: &Namespace, name: &str, what: u8) -> Compare {
    let key = Key::new(name.as_bytes()).unwrap();
    let now = state.entry(namespace, &key);
    let operand = match what {
        0 => Operand::Version(now.map_or(0, |entry| entry.version)),
        1 => Operand::Modified(now.map_or(Revision(0), |entry| entry.modified)),
        2 => Operand::Value(Arc::from([0u8])),
        _ => Operand::Version(1),
    };
    let relation = if what == 3 { Relation::NotEqual } else { Relation::Equal };
    Compare { range: KeyRange::One(key), relation, operand }
}

fn range(key: Option<&str>) -> KeyRange {
    match key {
        Some(key) => KeyRange::One(Key::new(key.as_bytes()).unwrap()),
        None => KeyRange::Prefix(Arc::from(b"k".as_slice())),
    }
}

fn write_op(step: &Step) -> WriteOp {
    match step {
        Step::Put { key, value, binding } => WriteOp::Put {
            key: Key::new(key.as_bytes()).unwrap(),
            value: value.map(|value| Arc::from([value])),
            binding: match binding {
                None => Binding::None,
                Some(None) => Binding::Keep,
                Some(Some(id)) => Binding::To(lease(*id)),
            },
        },
        Step::Delete { key } => WriteOp::Delete { range: range(*key) },
        Step::Read { key } => WriteOp::Read { range: range(*key), limit: 10 },
    }
}

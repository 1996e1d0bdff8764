//! A client that takes locks: waits for them or not, renews them, looks at them, writes beside them, and gives them back,
//! or does not.

use std::time::Duration;

use leasehold_client::Validity;
use leasehold_core::planted::{self, Bug};
use leasehold_core::{
    Binding, Command, Key, LeaseId, Outcome as Achieved, Patience, Rejection, Release as Give, Renew,
    Span as LeaseSpan, Ttl, Write, WriteOp,
};

use super::{Client, Heard, Sure, resource, view_of};
use crate::history::{Ask, Call, Held, Look, Outcome, Release, What};
use crate::talk::{Answer, Question};

/// A lease that is held.
pub(super) struct Holding {
    pub(super) id: LeaseId,
    pub(super) holder: String,
    pub(super) ttl: u64,
    pub(super) resource: String,
    pub(super) token: u64,
    pub(super) validity: Validity,
}

pub(super) async fn run(client: Client) {
    while !client.is_resting() {
        client.nap(0, 250).await;
        if client.chance(20) {
            queue_and_go(&client).await;
        } else if let Some(holding) = acquire(&client).await {
            hold(&client, holding).await;
        }
    }
}

/// Tries to get a lock.
async fn acquire(client: &Client) -> Option<Holding> {
    let (id, holder) = client.new_lease();
    let (name, ttl) = (client.resource(), 500 + client.pick(3500));
    let patience = if client.chance(40) { Patience::None } else { Patience::For(LeaseSpan(100 + client.pick(3000))) };
    let within = match patience {
        Patience::For(span) => Duration::from_millis(span.0 + 700),
        Patience::None | Patience::Endless => Duration::from_millis(700),
    };
    let mut grant = client.grant(id, &holder, ttl, std::slice::from_ref(&name), patience);
    if client.chance(15) {
        grant.asks.priority = 5;
        let ask = Ask { lease: holder.clone(), resource: name.clone(), priority: 5 };
        client.shared.history.lock().asks.push(ask);
    }
    client.shared.trace.say(format_args!("{holder} wants {name} for {ttl} ms"));
    let (first, heard) = client.command(Command::Grant(grant), within, 4).await;
    let call = |answered, outcome| Call {
        client: client.name.clone(),
        resource: name.clone(),
        what: What::TryAcquire { lease: holder.clone() },
        sent: first,
        answered,
        outcome,
    };
    let (outcome, holding) = match heard {
        Some(Heard { sent, sent_here, answer: Sure::Answered(Ok(done)) }) => {
            let view = view_of(&done.outcome)?;
            let heard = Heard { sent, sent_here, answer: () };
            let validity = client.acknowledge(&holder, ttl, done.now, view.remaining, &heard);
            client.note_holds(&holder, view, first);
            let token = view.held.first()?.token.0;
            client.shared.trace.say(format_args!("{holder} holds {name} with {token}"));
            client.shared.known.lock().push((id, holder.clone()));
            let holding = Holding { id, holder: holder.clone(), ttl, resource: name.clone(), token, validity };
            (Outcome::Granted { token }, Some(holding))
        }
        Some(Heard { answer: Sure::Answered(Err(Rejection::Held(held))), .. }) => {
            let token = held.holders.first().map(|holder| holder.token.0);
            (token.map_or(Outcome::Unknown, |token| Outcome::HeldBy { token }), None)
        }
        Some(Heard { answer: Sure::Answered(Err(rejection)), .. }) => {
            client.shared.trace.say(format_args!("{holder} is refused: {rejection}"));
            client.note_attempt(&holder, first);
            (Outcome::Unknown, None)
        }
        Some(Heard { answer: Sure::NotInTime, .. }) => {
            client.note_attempt(&holder, first);
            (Outcome::Unknown, None)
        }
        None => {
            client.note_attempt(&holder, first);
            // Whatever came of it, it is not wanted any more.
            client.ask(Question::Command(Command::Release(Give { lease: id })));
            (Outcome::Unknown, None)
        }
    };
    let answered = (outcome != Outcome::Unknown).then(|| client.now());
    client.shared.history.lock().calls.push(call(answered, outcome));
    holding
}

/// Joins a queue without staying on the line: nobody keeps its lease alive but itself, and it may well be too late.
async fn queue_and_go(client: &Client) {
    let (id, holder) = client.new_lease();
    let (name, ttl) = (client.resource(), 500 + client.pick(1500));
    let grant = client.grant(id, &holder, ttl, std::slice::from_ref(&name), Patience::Endless);
    let question = Question::Queue(Command::Grant(grant));
    let (first, heard) = client.insist(question, Duration::from_millis(500), 3).await;
    client.shared.history.lock().calls.push(Call {
        client: client.name.clone(),
        resource: name.clone(),
        what: What::TryAcquire { lease: holder.clone() },
        sent: first,
        answered: None,
        outcome: Outcome::Unknown,
    });
    let Some(Heard { sent, sent_here, answer: Sure::Answered(Ok(done)) }) = heard else {
        return client.note_attempt(&holder, first);
    };
    let Some(view) = view_of(&done.outcome) else { return };
    let heard = Heard { sent, sent_here, answer: () };
    let validity = client.acknowledge(&holder, ttl, done.now, view.remaining, &heard);
    client.note_holds(&holder, view, first);
    let mut holding = Holding { id, holder, ttl, resource: name, token: 0, validity };
    while client.chance(60) {
        client.nap(ttl / 3, ttl).await;
        look(client, &holding).await;
        if client.chance(30) && !renew(client, &mut holding).await {
            return;
        }
    }
}

/// Holds a lock for a while, then gives it back or walks away.
async fn hold(client: &Client, mut holding: Holding) {
    let rounds = client.pick(6);
    for _ in 0..rounds {
        let third = holding.ttl / 3;
        client.nap(third / 2, third + 1).await;
        match client.pick(6) {
            0 => look(client, &holding).await,
            1 => write_beside(client, &holding).await,
            _ if !renew(client, &mut holding).await => return,
            _ => {}
        }
    }
    if client.chance(70) {
        give_back(client, &holding).await;
    } else {
        client.shared.trace.say(format_args!("{} walks away", holding.holder));
    }
}

/// Renews a lease; tells whether it is still worth holding.
pub(super) async fn renew(client: &Client, holding: &mut Holding) -> bool {
    let shorter = client.chance(10).then(|| 300 + client.pick(holding.ttl.max(400) - 300));
    let ttl = shorter.unwrap_or(holding.ttl);
    let Holding { id, holder, .. } = &*holding;
    let new_ttl = shorter.map(|ttl| Ttl::For(LeaseSpan(ttl)));
    let command = Command::Renew(Renew { leases: vec![*id], ttl: new_ttl });
    let (first, heard) = client.command(command, Duration::from_millis(400), 2).await;
    let Some(Heard { sent, sent_here, answer: Sure::Answered(Ok(done)) }) = heard else {
        client.note_attempt(holder, first);
        return !holding.validity.is_over_at(client.here());
    };
    let Achieved::Renewed(renewals) = &done.outcome else { return false };
    match renewals.first() {
        Some(Ok(renewal)) => {
            if sent > first {
                // The attempt before it may have been carried out as well, at another time.
                client.note_attempt(holder, first);
            }
            let heard = Heard { sent, sent_here, answer: () };
            let validity = client.acknowledge(holder, ttl.max(holding.ttl), done.now, renewal.remaining, &heard);
            holding.validity = holding.validity.longer(validity, client.here());
            holding.ttl = ttl;
            true
        }
        Some(Err(rejection)) => {
            client.note_end(holder, done.now, rejection);
            false
        }
        None => false,
    }
}

/// Looks at its own lease, and at who holds the resource.
pub(super) async fn look(client: &Client, holding: &Holding) {
    let question = Question::Look(holding.id, resource(&holding.resource));
    let Some(heard) = client.ask_once(question, Duration::from_millis(800)).await else { return };
    let Answer::Seen(Ok(seen)) = heard.answer else { return };
    let answered = client.now();
    let ending = seen.lease.as_ref().is_ok_and(|view| view.ending);
    if let Ok(view) = &seen.lease {
        let held = view.held.iter().map(|held| (held.token, held.held)).collect::<Vec<_>>();
        let (holder, now, left) = (&holding.holder, seen.now.0, view.remaining);
        client.shared.trace.say(format_args!("{holder} sees itself at lease time {now}: {held:?}, {left:?}"));
    }
    let mut history = client.shared.history.lock();
    if !ending {
        history.calls.push(Call {
            client: client.name.clone(),
            resource: holding.resource.clone(),
            what: What::Look,
            sent: heard.sent,
            answered: Some(answered),
            outcome: Outcome::Seen { holder: seen.held.map(|(_, token)| token.0) },
        });
        let held = seen.lease.as_ref().map_or(Vec::new(), |view| {
            let held = |held: &leasehold_core::HeldView| Held {
                resource: held.resource.as_str().to_owned(),
                token: held.token.0,
                since: Some(seen.now.0 - held.held.0),
            };
            view.held.iter().map(held).collect()
        });
        history.looks.push(Look {
            lease: holding.holder.clone(),
            sent: heard.sent,
            answered,
            lives: seen.lease.is_ok(),
            held,
        });
    }
    history.answers.push(crate::history::Answered {
        client: client.name.clone(),
        sent: heard.sent,
        answered,
        revision: seen.revision.0,
        time: Some(seen.now.0),
    });
    drop(history);
    if let Err(rejection) = &seen.lease {
        client.note_end(&holding.holder, seen.now, rejection);
    }
}

/// Puts an entry that goes when the lease ends.
async fn write_beside(client: &Client, holding: &Holding) {
    let key = format!("beside/{}/{}", holding.holder, client.pick(3));
    let put = WriteOp::Put {
        key: Key::new(key.as_bytes()).expect("it is a well-formed key"),
        value: Some(holding.token.to_string().into_bytes().into()),
        binding: Binding::To(holding.id),
    };
    let write = Write { then: vec![put], ..Write::default() };
    client.ask_once(Question::Command(Command::Write(write)), Duration::from_millis(400)).await;
}

/// Gives a lock back; from the moment of sending it is not held any more.
pub(super) async fn give_back(client: &Client, holding: &Holding) {
    client.shared.trace.say(format_args!("{} gives {} back", holding.holder, holding.resource));
    let command = Command::Release(Give { lease: holding.id });
    let (mut sent, heard) = client.command(command, Duration::from_millis(500), 5).await;
    if planted::is(Bug::ValidUntilReleaseAnswered) {
        sent = client.now();
    }
    let released = match &heard {
        Some(Heard { answer: Sure::Answered(Ok(_)), .. }) => Some(client.now()),
        Some(_) | None => None,
    };
    let mut history = client.shared.history.lock();
    history.releases.push(Release { lease: holding.holder.clone(), resource: None, sent, answered: released });
    history.calls.push(Call {
        client: client.name.clone(),
        resource: holding.resource.clone(),
        what: What::Release { lease: holding.holder.clone(), token: Some(holding.token) },
        sent,
        answered: released,
        outcome: if released.is_some() { Outcome::Released } else { Outcome::Unknown },
    });
}

//! Facts, answers and views as short stable text.

use leasehold_core::{
    Answer, EndCause, EntryView, Event, Fact, Holder, HolderView, LeaseTime, LeaseView, Mode, Outcome, Past, PastFact,
    Rejection, Remaining, Renewal, ResourceView, Span, WaitView, WaiterView, WriteResult, Written,
};

fn shared(mode: Mode) -> &'static str {
    match mode {
        Mode::Exclusive => "",
        Mode::Shared => " shared",
    }
}

/// ` name=span`, or nothing if it is zero.
fn some(name: &str, span: Span) -> String {
    if span == Span::ZERO { String::new() } else { format!(" {name}={span}") }
}

pub(crate) fn time(at: LeaseTime) -> String {
    if at == LeaseTime::NEVER { "never".to_owned() } else { Span(at.0).to_string() }
}

fn cause(cause: &EndCause) -> String {
    match cause {
        EndCause::Revoked { by, reason } => {
            let by = by.as_ref().map_or("nobody", |by| by.as_str());
            format!("revoked by={by} reason={reason}")
        }
        EndCause::Released | EndCause::Expired | EndCause::ParentEnded | EndCause::WaitElapsed | EndCause::Left => {
            cause.word().to_owned()
        }
    }
}

pub(crate) fn remaining(remaining: Remaining) -> String {
    match remaining {
        Remaining::For(span) => span.to_string(),
        Remaining::Endless => "endless".to_owned(),
    }
}

pub(crate) fn event(event: &Event, default: &str) -> String {
    let namespace = if event.namespace.as_str() == default { String::new() } else { format!("{}: ", event.namespace) };
    format!("r{} {namespace}{}", event.revision, fact(&event.fact))
}

/// Who asked for a hand-over, and why.
fn asked(by: &Holder, reason: Option<&str>) -> String {
    format!("by={by}{}", reason.map_or(String::new(), |reason| format!(" reason={reason}")))
}

fn fact(fact: &Fact) -> String {
    match fact {
        Fact::LeaseGranted { lease, holder, ttl } => format!("lease {} granted {holder} ttl={ttl}", lease.number()),
        Fact::LeaseEnded { lease, holder, cause: why } => {
            format!("lease {} ended {holder} {}", lease.number(), cause(why))
        }
        Fact::ClaimGranted { lease, holder, resource, mode, token, waited } => {
            let (mode, waited) = (shared(*mode), some("waited", *waited));
            format!("{resource} granted lease={} {holder} token={token}{mode}{waited}", lease.number())
        }
        Fact::ClaimEnded { lease, holder, resource, token, held, cause: why, rests } => {
            let (why, held, rests) = (why.word(), some("held", *held), some("rests", *rests));
            format!("{resource} ended lease={} {holder} token={token} {why}{held}{rests}", lease.number())
        }
        Fact::Queued { lease, holder, resource, mode, position } => {
            format!("{resource} queued lease={} {holder} position={position}{}", lease.number(), shared(*mode))
        }
        Fact::Unqueued { lease, holder, resource, cause } => {
            format!("{resource} unqueued lease={} {holder} {}", lease.number(), cause.word())
        }
        Fact::HandoverAsked { lease, holder, resource, by, reason } => {
            format!("{resource} handover asked lease={} {holder} {}", lease.number(), asked(by, reason.as_deref()))
        }
        Fact::EntryPut { key, value, version, created, lease, previous: _ } => {
            let lease = lease.map_or(String::new(), |lease| format!(" lease={}", lease.number()));
            let value = String::from_utf8_lossy(value);
            format!("{key} put {value} version={version} created=r{created}{lease}")
        }
        Fact::EntryDeleted { key, ended, previous: _ } => {
            let ended = ended.map_or(String::new(), |lease| format!(" with lease={}", lease.number()));
            format!("{key} deleted{ended}")
        }
    }
}

pub(crate) fn answer(answer: &Answer) -> String {
    match answer {
        Ok(outcome) => format!("-> {}", self::outcome(outcome)),
        Err(rejection) => format!("-> refused: {}", self::rejection(rejection)),
    }
}

fn outcome(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Granted(view) => format!("granted {}", lease(view)),
        Outcome::Claimed(view) => format!("claimed {}", lease(view)),
        Outcome::Renewed(each) => format!("renewed {}", each.iter().map(renewal).collect::<Vec<_>>().join(", ")),
        Outcome::Released { .. } => "released".to_owned(),
        Outcome::Revoked { may_act: Span(u64::MAX) } => "revoked, may act for ever".to_owned(),
        Outcome::Revoked { may_act } => format!("revoked, may act for {may_act}"),
        Outcome::Unclaimed => "unclaimed".to_owned(),
        Outcome::Left => "left".to_owned(),
        Outcome::HandoverAsked { holders } => format!("asked holders={holders}"),
        Outcome::Written(written) => self::written(written),
        Outcome::Configured => "configured".to_owned(),
    }
}

fn renewal(renewal: &Result<Renewal, Box<Rejection>>) -> String {
    match renewal {
        Ok(renewal) => {
            format!("remaining={} ttl={} changed=r{}", remaining(renewal.remaining), renewal.ttl, renewal.changed)
        }
        Err(why) => format!("refused: {}", rejection(why)),
    }
}

pub(crate) fn rejection(rejection: &Rejection) -> String {
    let Rejection::Held(held) = rejection else { return rejection.to_string() };
    let holders: Vec<String> = held.holders.iter().map(holder).collect();
    let rests = held.rests.map_or(String::new(), |rests| format!(" rests={rests}"));
    let estimate = held.estimate.map_or(String::new(), |estimate| format!(" estimate={estimate}"));
    let count = held.holder_count;
    format!("{rejection} [holders={count} {}queue={}{rests}{estimate}]", holders.concat(), held.queue)
}

fn holder(view: &HolderView) -> String {
    let reason = view.metadata.text("reason").map_or(String::new(), |reason| format!(" reason={reason}"));
    let (mode, ending) = (shared(view.mode), if view.ending { " ending" } else { "" });
    let (held, left) = (some("held", view.held), remaining(view.remaining));
    format!("({} token={}{mode}{held} remaining={left}{ending}{reason}) ", view.holder, view.token)
}

pub(crate) fn lease(view: &LeaseView) -> String {
    let mut text =
        format!("lease={} {} ttl={} remaining={}", view.id.number(), view.holder, view.ttl, remaining(view.remaining));
    if let Some(parent) = view.parent {
        text += &format!(" parent={}", parent.number());
    }
    for (name, number) in [("entries", view.entries), ("children", view.children)] {
        if number > 0 {
            text += &format!(" {name}={number}");
        }
    }
    if view.ending {
        text += " ending";
    }
    text += &format!(" changed=r{}", view.changed);
    for held in &view.held {
        text += &format!(" holds {}:{}{}", held.resource, held.token, shared(held.mode));
    }
    view.waits.iter().for_each(|wait| text += &self::wait(wait));
    text
}

fn wait(wait: &WaitView) -> String {
    let patience = wait.patience.map_or("endless".to_owned(), |patience| patience.to_string());
    let mut text = format!(" waits r{} patience={patience}", wait.wait);
    for place in &wait.places {
        text += &format!(" {}:{}/{}{}", place.resource, place.position, place.length, shared(place.mode));
        text += &place.estimate.map_or(String::new(), |estimate| format!(" estimate={estimate}"));
    }
    text
}

fn written(written: &Written) -> String {
    let which = if written.succeeded { "then" } else { "else" };
    let results: String = written.results.iter().map(|result| format!("; {}", write_result(result))).collect();
    format!("written {which} r{}{results}", written.revision)
}

fn write_result(result: &WriteResult) -> String {
    let list = |entries: &[EntryView]| entries.iter().map(entry).collect::<Vec<_>>().join(", ");
    match result {
        WriteResult::Put { previous: None } => "put new".to_owned(),
        WriteResult::Put { previous: Some(previous) } => format!("put over {}", entry(previous)),
        WriteResult::Deleted { previous } => format!("deleted {}: {}", previous.len(), list(previous)),
        WriteResult::Nested(written) => format!("[{}]", self::written(written)),
        WriteResult::Read { entries, count } => format!("read {} of {count}: {}", entries.len(), list(entries)),
    }
}

pub(crate) fn entry(view: &EntryView) -> String {
    let lease = view.lease.map_or(String::new(), |lease| format!(" lease={}", lease.number()));
    let value = String::from_utf8_lossy(&view.value);
    format!("{}={value} v{} created=r{} modified=r{}{lease}", view.key, view.version, view.created, view.modified)
}

pub(crate) fn resource(view: &ResourceView) -> String {
    let holders: String = view.holders.iter().map(holder).collect();
    let rests = view.rests.map_or(String::new(), |rests| format!(" rests={rests}"));
    let (count, queue, last) = (view.holder_count, view.queue, view.last_token);
    format!("{} holders={count} {holders}queue={queue} last={last}{rests}", view.name)
}

pub(crate) fn waiter(view: &WaiterView) -> String {
    let patience = view.patience.map_or("endless".to_owned(), |patience| patience.to_string());
    let (mode, priority, waited) = (shared(view.mode), view.priority, some("waited", view.waited));
    let (position, id, holder) = (view.position, view.lease.number(), &view.holder);
    format!("{position}. lease={id} {holder} r{}{mode} priority={priority} patience={patience}{waited}", view.wait)
}

pub(crate) fn past(past: &Past) -> String {
    let what = match &past.what {
        PastFact::Granted { waited } => format!("granted{}", some("waited", *waited)),
        PastFact::HandoverAsked { by, reason } => format!("handover asked {}", asked(by, reason.as_deref())),
        PastFact::Ended { held, cause: why } => format!("ended {}{}", cause(why), some("held", *held)),
    };
    format!("r{} {} token={} {what}", past.revision, past.holder, past.token)
}

//! A client that writes entries: a key of its own that counts up, each number once, and keys that it shares with others.

use std::time::Duration;

use leasehold_core::{
    Binding, Command, Compare, Key, KeyRange, LeaseId, Once, Operand, Outcome as Achieved, Patience, Rejection,
    Relation, Release, Renew, Write, WriteOp,
};

use super::{Client, Heard, Sure};
use crate::history::{KeyCall, KeyOutcome, KeyWhat, Put, ReadBack};
use crate::net::HostId;
use crate::talk::{Answer, Question};

/// The ttl of a session, in milliseconds.
const SESSION: u64 = 4_000;

pub(super) async fn run(client: Client) {
    let own = format!("count/{}", client.name);
    let mut number = 1;
    let mut unique = u64::from(client.host) << 32;
    while !client.is_resting() {
        let Some(session) = open_session(&client).await else { continue };
        let mut seq = 0;
        loop {
            client.nap(0, 400).await;
            if client.is_resting() {
                return;
            }
            if client.chance(50) {
                unique += 1;
                quarrel(&client, unique).await;
                continue;
            }
            seq += 1;
            let once = Once { seq, acked: seq - 1 };
            if !count(&client, &own, number, session, once).await {
                // Whether it is written will be seen when it is read back.
                break;
            }
            number += 1;
            let renew = Command::Renew(Renew { leases: vec![session], ttl: None });
            client.ask_once(Question::Command(renew), Duration::from_millis(300)).await;
            if client.chance(30) {
                read_back(&client, &own).await;
            }
        }
        // A number whose fate is not known must be looked up before the next one is written; and before that its session
        // must be over, or a copy of it may still be carried out.
        while !client.is_resting() {
            client.nap(50, 300).await;
            if !close_session(&client, session).await {
                continue;
            }
            if let Some(found) = read_back(&client, &own).await {
                number = found + 1;
                break;
            }
        }
    }
}

async fn open_session(client: &Client) -> Option<LeaseId> {
    let (id, holder) = client.new_lease();
    let grant = client.grant(id, &holder, SESSION, &[], Patience::None);
    let (_, heard) = client.command(Command::Grant(grant), Duration::from_millis(500), 4).await;
    match heard {
        Some(Heard { answer: Sure::Answered(Ok(_)), .. }) => Some(id),
        Some(_) | None => {
            client.nap(50, 300).await;
            None
        }
    }
}

/// Ends a session; tells whether it is certainly over.
async fn close_session(client: &Client, session: LeaseId) -> bool {
    let (_, heard) = client.command(Command::Release(Release { lease: session }), Duration::from_millis(500), 2).await;
    match heard.map(|heard| heard.answer) {
        Some(Sure::Answered(Ok(_))) => true,
        Some(Sure::Answered(Err(rejection))) => matches!(rejection, Rejection::Ended(_) | Rejection::UnknownLease),
        Some(Sure::NotInTime) | None => false,
    }
}

/// Writes the next number, as often as it takes; tells whether it is certainly written.
async fn count(client: &Client, key: &str, number: u64, session: LeaseId, once: Once) -> bool {
    let write = Write { session: Some((session, once)), then: vec![put(key, number)], ..Write::default() };
    let (_, heard) = client.command(Command::Write(write), Duration::from_millis(400), 8).await;
    match heard.map(|heard| heard.answer) {
        Some(Sure::Answered(Ok(done))) => {
            let Achieved::Written(written) = &done.outcome else { return false };
            client.shared.trace.say(format_args!("{key} is {number} at {}", written.revision));
            let (revision, answered) = (written.revision.0, client.now());
            let put = Put { key: key.to_owned(), number, revision, version: None, answered };
            client.shared.history.lock().puts.push(put);
            true
        }
        // Refused now; an earlier copy of it may have been carried out before its session ended.
        Some(Sure::Answered(Err(_)) | Sure::NotInTime) | None => false,
    }
}

/// Reads its own number.
async fn read_back(client: &Client, key: &str) -> Option<u64> {
    let node = client.pick(client.shared.plan.nodes.into()) as HostId;
    read_at(client, node, key, Duration::from_millis(800)).await
}

/// Reads a counting key at a node.
pub(super) async fn read_at(client: &Client, node: HostId, key: &str, within: Duration) -> Option<u64> {
    let mut asking = client.ask_at(node, Question::Read(key_of(key)));
    let (_, answer) = tokio::time::timeout(within, asking.answers.recv()).await.ok()??;
    let Answer::Entry(Ok((entry, _))) = answer else { return None };
    let (number, version) = entry.map_or((0, 0), |entry| (parse(&entry.value), entry.version));
    let read = ReadBack { key: key.to_owned(), number, version, sent: asking.sent };
    client.shared.history.lock().reads.push(read);
    Some(number)
}

/// Does something to a key that others write, too.
async fn quarrel(client: &Client, number: u64) {
    let key = format!("shared/{}", client.pick(2));
    let (what, question) = match client.pick(5) {
        0 | 1 => (KeyWhat::Read, Question::Read(key_of(&key))),
        2 => (KeyWhat::Put { number }, write(Vec::new(), put(&key, number))),
        3 => (KeyWhat::Delete, write(Vec::new(), WriteOp::Delete { range: KeyRange::One(key_of(&key)) })),
        _ => {
            let Some(expected) = read(client, &key).await else { return };
            let compare = match expected {
                None => Operand::Version(0),
                Some(expected) => Operand::Value(expected.to_string().into_bytes().into()),
            };
            let compare = Compare { range: KeyRange::One(key_of(&key)), relation: Relation::Equal, operand: compare };
            (KeyWhat::CompareAndSet { expected, number }, write(vec![compare], put(&key, number)))
        }
    };
    let sent = client.now();
    let heard = client.ask_once(question, Duration::from_millis(600)).await;
    let outcome = heard.map_or(KeyOutcome::Unknown, |heard| outcome_of(&what, heard.answer));
    note(client, key, what, sent, outcome);
}

async fn read(client: &Client, key: &str) -> Option<Option<u64>> {
    let heard = client.ask_once(Question::Read(key_of(key)), Duration::from_millis(600)).await?;
    let KeyOutcome::Read { number } = outcome_of(&KeyWhat::Read, heard.answer) else { return None };
    note(client, key.to_owned(), KeyWhat::Read, heard.sent, KeyOutcome::Read { number });
    Some(number)
}

fn note(client: &Client, key: String, what: KeyWhat, sent: crate::history::Moment, outcome: KeyOutcome) {
    client.shared.trace.say(format_args!("{} on {key}: {what:?} gives {outcome:?}", client.name));
    // What was only read tells nothing without an answer.
    if outcome == KeyOutcome::Unknown && what == KeyWhat::Read {
        return;
    }
    let answered = (outcome != KeyOutcome::Unknown).then(|| client.now());
    let call = KeyCall { client: client.name.clone(), key, what, sent, answered, outcome };
    client.shared.history.lock().key_calls.push(call);
}

fn outcome_of(what: &KeyWhat, answer: Answer) -> KeyOutcome {
    if let Answer::Entry(Ok((entry, _))) = answer {
        return KeyOutcome::Read { number: entry.map(|entry| parse(&entry.value)) };
    }
    let Answer::Done(Ok(done)) = answer else { return KeyOutcome::Unknown };
    let Achieved::Written(written) = &done.outcome else { return KeyOutcome::Unknown };
    match (written.succeeded, what) {
        (true, _) => KeyOutcome::Done,
        (false, KeyWhat::CompareAndSet { .. }) => KeyOutcome::NotAsExpected,
        (false, KeyWhat::Put { .. } | KeyWhat::Delete | KeyWhat::Read) => KeyOutcome::Unknown,
    }
}

fn write(compares: Vec<Compare>, then: WriteOp) -> Question {
    Question::Command(Command::Write(Write { compares, then: vec![then], ..Write::default() }))
}

fn put(key: &str, number: u64) -> WriteOp {
    WriteOp::Put { key: key_of(key), value: Some(number.to_string().into_bytes().into()), binding: Binding::None }
}

fn key_of(key: &str) -> Key {
    Key::new(key.as_bytes()).expect("it is a well-formed key")
}

fn parse(value: &[u8]) -> u64 {
    std::str::from_utf8(value).ok().and_then(|text| text.parse().ok()).unwrap_or(u64::MAX)
}

//! One question about who belongs to the cluster, and its answer, as bytes and over a connection of its own.
//!
//! A change may take long, so it shares no connection with heartbeats. The answer says whether it is worth asking
//! again. Decoding never panics; any bytes give a question or an error.

use std::time::Duration;

use leasehold_log::RecordError;
use leasehold_service::ClusterChange;
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;

use super::Local;
use super::frame::{self, SMALL_BODY_MAX};
use super::hello::{Hello, Purpose};
use super::link::{CONNECT_PATIENCE, LinkError, introduce};
use super::message;
use super::stream::Stream;

const JOIN: u8 = 11;
const CHANGE: u8 = 12;
const GONE: u8 = 13;
const MOVED: u8 = 14;
const WHAT: &str = "question about the cluster";
/// How long an answer may take: a change must be committed.
pub(crate) const ANSWER_PATIENCE: Duration = Duration::from_secs(35);

/// What one node asks another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Question {
    /// An empty directory asks to be admitted.
    Join(Joiner),
    /// An operator changes the cluster.
    Change(ClusterChange),
    /// The leader tells the other node that it was removed.
    Gone,
    /// The asking node is to be found at another address.
    Moved(String),
}

/// A node that asks to be admitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Joiner {
    pub(crate) name: String,
    pub(crate) address: String,
    /// Its data directory.
    pub(crate) incarnation: u64,
}

/// What became of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Done; the node that was admitted, or that leads now.
    Done(u64),
    /// No, and asking again gives the same.
    Refused(String),
    /// Not now; nothing was changed.
    NotNow(String),
    /// It may have happened, or happen yet.
    Unknown(String),
}

impl Question {
    pub(super) fn kind(&self) -> u8 {
        match self {
            Question::Join(_) => JOIN,
            Question::Change(_) => CHANGE,
            Question::Gone => GONE,
            Question::Moved(_) => MOVED,
        }
    }

    pub(super) fn body(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Question::Join(joiner) => {
                out.extend_from_slice(&joiner.incarnation.to_le_bytes());
                put_text(&mut out, &joiner.name);
                put_text(&mut out, &joiner.address);
            }
            Question::Change(ClusterChange::Add { name, address }) => {
                out.push(0);
                put_text(&mut out, name);
                put_text(&mut out, address);
            }
            Question::Change(ClusterChange::Remove { node }) => {
                out.push(1);
                out.extend_from_slice(&node.to_le_bytes());
            }
            // No node has the id 0.
            Question::Change(ClusterChange::Transfer { to }) => {
                out.push(2);
                out.extend_from_slice(&to.unwrap_or(0).to_le_bytes());
            }
            Question::Gone => {}
            Question::Moved(address) => put_text(&mut out, address),
        }
        out
    }

    /// Reads the body of a frame; none if frames of this kind are no questions.
    pub(crate) fn read(kind: u8, body: &[u8]) -> Option<Result<Question, RecordError>> {
        let mut from = body;
        let question = match kind {
            JOIN => joiner(&mut from).map(Question::Join),
            CHANGE => change(&mut from).map(Question::Change),
            GONE => Ok(Question::Gone),
            MOVED => text(&mut from).map(Question::Moved),
            _ => return None,
        };
        Some(question.and_then(|question| match from.len() {
            0 => Ok(question),
            found => Err(RecordError::Field { what: WHAT, field: "trailing bytes", found: found as u64 }),
        }))
    }
}

impl Verdict {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        match self {
            Verdict::Done(node) => [&[0], &node.to_le_bytes()[..]].concat(),
            Verdict::Refused(words) => [&[1], words.as_bytes()].concat(),
            Verdict::NotNow(words) => [&[2], words.as_bytes()].concat(),
            Verdict::Unknown(words) => [&[3], words.as_bytes()].concat(),
        }
    }

    pub(super) fn from_bytes(body: &[u8]) -> Option<Verdict> {
        let (outcome, rest) = body.split_first()?;
        let words = || String::from_utf8_lossy(rest).into_owned();
        match outcome {
            0 => Some(Verdict::Done(u64::from_le_bytes(rest.try_into().ok()?))),
            1 => Some(Verdict::Refused(words())),
            2 => Some(Verdict::NotNow(words())),
            3 => Some(Verdict::Unknown(words())),
            _ => None,
        }
    }
}

/// Asks a member, as one.
pub(crate) async fn ask(local: &Local, target: u64, address: &str, question: &Question) -> Result<Verdict, LinkError> {
    let meeting = timeout(CONNECT_PATIENCE, introduce(local, target, address, Purpose::Question)).await;
    let stream = meeting.unwrap_or_else(|_| Err("no answer in time".into()));
    let unreachable = |text| LinkError::Unreachable(format!("node {target} at {address} cannot be reached: {text}"));
    put(stream.map_err(unreachable)?, question).await
}

/// Asks whoever is at an address, before this node has an identity; returns the cluster with the verdict.
pub(crate) async fn ask_as_joiner(
    local: &Local,
    address: &str,
    question: &Question,
) -> Result<(u128, Verdict), LinkError> {
    let (stream, cluster) = knock(local, address).await.map_err(LinkError::Unreachable)?;
    Ok((cluster, put(stream, question).await?))
}

/// Returns the cluster of whoever is at an address.
pub(crate) async fn cluster_at(local: &Local, address: &str) -> Option<u128> {
    knock(local, address).await.ok().map(|(_, cluster)| cluster)
}

async fn knock(local: &Local, address: &str) -> Result<(Stream, u128), String> {
    let knocking = async {
        let mut stream = Stream::connect(address, local.secure.as_ref(), &local.world).await?;
        let hello = Hello { cluster: 0, from: 0, ..Hello::new(local, 0, Purpose::Question) };
        stream.write_all(&hello.to_bytes()).await.map_err(|error| error.to_string())?;
        stream.flush().await.map_err(|error| error.to_string())?;
        let answer = Hello::read(&mut stream).await.map_err(|error| error.to_string())?;
        if answer.purpose == Purpose::Welcome {
            return Ok((stream, answer.cluster));
        }
        Err(format!("it refused: {}", answer.words))
    };
    let knocked = timeout(CONNECT_PATIENCE, knocking).await.unwrap_or_else(|_| Err("no answer in time".into()));
    knocked.map_err(|text| format!("{address} cannot be reached: {text}"))
}

/// Puts one question over a connection that stands, and waits for the answer.
async fn put(mut stream: Stream, question: &Question) -> Result<Verdict, LinkError> {
    let broken = |text: String| LinkError::Broken(text);
    let (kind, mut bytes) = (question.kind(), Vec::new());
    frame::put(&mut bytes, kind, 1, &question.body());
    stream.write_all(&bytes).await.map_err(|error| broken(error.to_string()))?;
    stream.flush().await.map_err(|error| broken(error.to_string()))?;
    let answer = timeout(ANSWER_PATIENCE, frame::read(&mut stream, SMALL_BODY_MAX)).await;
    let answer = answer.map_err(|_| broken("no answer in time".into()))?.map_err(|error| broken(error.to_string()))?;
    match answer.kind {
        message::FAILED => Err(broken(format!("it answers: {}", String::from_utf8_lossy(&answer.body)))),
        found if found == kind | message::ANSWER => {
            Verdict::from_bytes(&answer.body).ok_or_else(|| broken("its answer does not read".into()))
        }
        found => Err(broken(format!("it answers a question of kind {kind} with kind {found}"))),
    }
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&(text.len() as u32).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

fn joiner(from: &mut &[u8]) -> Result<Joiner, RecordError> {
    let incarnation = number(from)?;
    Ok(Joiner { incarnation, name: text(from)?, address: text(from)? })
}

fn change(from: &mut &[u8]) -> Result<ClusterChange, RecordError> {
    match take(from, 1)?[0] {
        0 => Ok(ClusterChange::Add { name: text(from)?, address: text(from)? }),
        1 => Ok(ClusterChange::Remove { node: number(from)? }),
        2 => Ok(ClusterChange::Transfer { to: Some(number(from)?).filter(|node| *node != 0) }),
        found => Err(RecordError::Field { what: WHAT, field: "change", found: found.into() }),
    }
}

fn number(from: &mut &[u8]) -> Result<u64, RecordError> {
    Ok(u64::from_le_bytes(take(from, 8)?.try_into().expect("eight bytes were taken")))
}

fn text(from: &mut &[u8]) -> Result<String, RecordError> {
    let length = u32::from_le_bytes(take(from, 4)?.try_into().expect("four bytes were taken"));
    let bytes = take(from, length as usize)?;
    let text = std::str::from_utf8(bytes);
    Ok(text.map_err(|_| RecordError::Field { what: WHAT, field: "byte of a text", found: 0 })?.to_owned())
}

fn take<'a>(from: &mut &'a [u8], length: usize) -> Result<&'a [u8], RecordError> {
    let (taken, rest) = from.split_at_checked(length).ok_or(RecordError::Truncated { what: WHAT })?;
    *from = rest;
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_and_verdicts_are_read_as_they_were_written() {
        let (name, address) = ("n2".to_string(), "127.0.0.1:1".to_string());
        let questions = [
            Question::Join(Joiner { name: name.clone(), address: address.clone(), incarnation: 5 }),
            Question::Change(ClusterChange::Add { name, address: address.clone() }),
            Question::Change(ClusterChange::Remove { node: 7 }),
            Question::Change(ClusterChange::Transfer { to: None }),
            Question::Change(ClusterChange::Transfer { to: Some(8) }),
            Question::Gone,
            Question::Moved(address),
        ];
        for question in questions {
            let (kind, body) = (question.kind(), question.body());
            assert_eq!(Question::read(kind, &body).unwrap().unwrap(), question);
            for cut in 0..body.len() {
                Question::read(kind, &body[..cut]).unwrap().unwrap_err();
            }
            Question::read(kind, &[&body[..], &[0]].concat()).unwrap().unwrap_err();
        }
        assert!(Question::read(1, &[]).is_none());
        let words = || "no".to_string();
        for verdict in
            [Verdict::Done(9), Verdict::Refused(words()), Verdict::NotNow(words()), Verdict::Unknown(words())]
        {
            assert_eq!(Verdict::from_bytes(&verdict.to_bytes()), Some(verdict));
        }
        assert_eq!(Verdict::from_bytes(&[]), None);
        assert_eq!(Verdict::from_bytes(&[0, 1]), None);
    }
}

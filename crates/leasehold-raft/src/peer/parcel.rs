//! What a follower asks of its leader, as bytes: to take a parcel of commands, and to prove that it still leads.
//!
//! Decoding never panics; any bytes give a message or an error. What the commands are is not looked at here.

use bytes::Bytes;
use leasehold_core::LeaderId;
use leasehold_service::log::Unavailable;

use super::message::{Decoded, bytes, flag, unknown, whole};
use crate::types::PAYLOAD_MAX;

pub(crate) const PARCEL: u8 = 8;
pub(crate) const BARRIER: u8 = 9;
/// The leadership before the commands.
const PARCEL_HEAD: usize = 16;
/// The most a request on this connection may take.
pub(crate) const PARCEL_BODY_MAX: usize = PARCEL_HEAD + PAYLOAD_MAX;
/// Words are for people; longer ones are cut.
const WORDS_MAX: usize = 1024;

pub(crate) fn put_parcel(to: LeaderId, commands: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(PARCEL_HEAD + commands.len());
    put_leader(&mut out, to);
    out.extend_from_slice(commands);
    out
}

/// The commands are not copied.
pub(crate) fn parcel(body: Vec<u8>) -> Decoded<(LeaderId, Bytes)> {
    let mut from = &body[..];
    let to = leader(&mut from)?;
    Ok((to, Bytes::from(body).slice(PARCEL_HEAD..)))
}

/// What became of a parcel, in the eyes of the node that was to propose it.
pub(crate) fn put_delivery(delivery: &Result<(), Unavailable>) -> Vec<u8> {
    let mut out = Vec::new();
    match delivery {
        Ok(()) => out.push(0),
        Err(Unavailable::NotLeader { leader }) => put_not_leader(&mut out, *leader),
        // It was to propose it itself and did not; there is nobody else it can name.
        Err(Unavailable::Unreachable(_)) => put_not_leader(&mut out, None),
        Err(Unavailable::NoRoom) => out.push(2),
        Err(Unavailable::Unknown(words)) => put_words(&mut out, 3, words),
        Err(Unavailable::Stopped(words)) => put_words(&mut out, 4, words),
    }
    out
}

/// Reads it; a stopped leader is no reason to stop for the node that asked, but it does not know the outcome.
pub(crate) fn delivery(body: &[u8]) -> Decoded<Result<(), Unavailable>> {
    whole("answer to a parcel", body, |from| match bytes::<1>(from)?[0] {
        0 => Ok(Ok(())),
        1 => Ok(Err(Unavailable::NotLeader { leader: not_leader(from)? })),
        2 => Ok(Err(Unavailable::NoRoom)),
        3 => Ok(Err(Unavailable::Unknown(words(from)))),
        4 => Ok(Err(Unavailable::Unknown(format!("the leader has stopped: {}", words(from))))),
        found => Err(unknown("answer to a parcel", "outcome", found)),
    })
}

/// What a leader answers to the request for a proof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Proof {
    /// It led after the request came; everything acknowledged before is at or before this index.
    Index(u64),
    /// It does not lead.
    NotLeader(Option<LeaderId>),
    /// It could not prove it, and why.
    Unproven(String),
}

pub(crate) fn put_proof(proof: &Proof) -> Vec<u8> {
    let mut out = Vec::new();
    match proof {
        Proof::Index(index) => {
            out.push(0);
            out.extend_from_slice(&index.to_le_bytes());
        }
        Proof::NotLeader(leader) => put_not_leader(&mut out, *leader),
        Proof::Unproven(words) => put_words(&mut out, 2, words),
    }
    out
}

pub(crate) fn proof(body: &[u8]) -> Decoded<Proof> {
    whole("answer to a barrier", body, |from| match bytes::<1>(from)?[0] {
        0 => Ok(Proof::Index(u64::from_le_bytes(bytes(from)?))),
        1 => Ok(Proof::NotLeader(not_leader(from)?)),
        2 => Ok(Proof::Unproven(words(from))),
        found => Err(unknown("answer to a barrier", "outcome", found)),
    })
}

fn put_leader(out: &mut Vec<u8>, leader: LeaderId) {
    out.extend_from_slice(&leader.term.to_le_bytes());
    out.extend_from_slice(&leader.node.to_le_bytes());
}

fn leader(from: &mut &[u8]) -> Decoded<LeaderId> {
    Ok(LeaderId { term: u64::from_le_bytes(bytes(from)?), node: u64::from_le_bytes(bytes(from)?) })
}

fn put_not_leader(out: &mut Vec<u8>, leader: Option<LeaderId>) {
    out.extend_from_slice(&[1, u8::from(leader.is_some())]);
    if let Some(leader) = leader {
        put_leader(out, leader);
    }
}

fn not_leader(from: &mut &[u8]) -> Decoded<Option<LeaderId>> {
    flag(from, "leader")?.then(|| leader(from)).transpose()
}

fn put_words(out: &mut Vec<u8>, outcome: u8, words: &str) {
    out.push(outcome);
    out.extend_from_slice(&words.as_bytes()[..words.floor_char_boundary(WORDS_MAX)]);
}

/// Reads the rest as words; what is not text is shown as well as it can be.
fn words(from: &mut &[u8]) -> String {
    let words = std::mem::take(from);
    String::from_utf8_lossy(&words[..words.len().min(WORDS_MAX)]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEADER: LeaderId = LeaderId { term: 7, node: 9 };

    #[test]
    fn a_parcel_has_the_documented_bytes_and_is_read_as_it_was_written() {
        let bytes = put_parcel(LEADER, b"orders/7");
        assert_eq!(bytes, [&7u64.to_le_bytes()[..], &9u64.to_le_bytes(), b"orders/7"].concat());
        let (to, commands) = parcel(bytes).unwrap();
        assert_eq!((to, &commands[..]), (LEADER, &b"orders/7"[..]));
        for cut in 0..PARCEL_HEAD {
            parcel(vec![0; cut]).unwrap_err();
        }
    }

    #[test]
    fn what_became_of_a_parcel_is_read_as_it_was_written() {
        let not_leader = |leader| Err(Unavailable::NotLeader { leader });
        let unknown = |text: &str| Err(Unavailable::Unknown(text.into()));
        let cases = [
            (Ok(()), Ok(())),
            (not_leader(Some(LEADER)), not_leader(Some(LEADER))),
            (not_leader(None), not_leader(None)),
            (Err(Unavailable::Unreachable("x".into())), not_leader(None)),
            (Err(Unavailable::NoRoom), Err(Unavailable::NoRoom)),
            (unknown("perhaps"), unknown("perhaps")),
            (Err(Unavailable::Stopped("disk".into())), unknown("the leader has stopped: disk")),
        ];
        for (written, read) in cases {
            let found = delivery(&put_delivery(&written)).unwrap();
            assert_eq!(format!("{found:?}"), format!("{read:?}"));
        }
        for bad in [&[][..], &[0, 0], &[1], &[1, 2], &[1, 1, 5], &[2, 0], &[5]] {
            delivery(bad).unwrap_err();
        }
    }

    #[test]
    fn a_proof_is_read_as_it_was_written() {
        let unproven = Proof::Unproven("no majority".into());
        for written in [Proof::Index(812), Proof::NotLeader(Some(LEADER)), Proof::NotLeader(None), unproven] {
            assert_eq!(proof(&put_proof(&written)).unwrap(), written);
        }
        for bad in [&[][..], &[0, 1], &[1, 1], &[3]] {
            proof(bad).unwrap_err();
        }
    }

    #[test]
    fn long_words_are_cut_between_two_characters() {
        let bytes = put_delivery(&Err(Unavailable::Unknown("ü".repeat(2000))));
        assert_eq!(bytes.len(), 1 + 1024);
        let Err(Unavailable::Unknown(words)) = delivery(&bytes).unwrap() else { panic!("the outcome is not known") };
        assert_eq!(words, "ü".repeat(512));
    }
}

//! The handshake: each side says who it is and whom it means before anything else, and both check.
//!
//! The side that connects speaks first. The other answers with the same layout: welcome, or a refusal in words, after
//! which it closes. The magic and the version stand where every later version keeps them.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt};

use super::Local;
use super::frame::FRAME_VERSION;
use super::stream::TLS_HANDSHAKE;
use crate::directory::Identity;

const MAGIC: [u8; 8] = *b"LEASEHLD";
/// The fixed part, before the words.
const FIXED: usize = 58;
const WORDS_MAX: usize = 1024;

/// What a connection is for, or what became of the request for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Purpose {
    /// Entries, several requests in flight.
    Appends,
    /// Heartbeats, votes and transfers.
    Control,
    /// Snapshots.
    Snapshots,
    /// Nothing but to have met.
    Meeting,
    /// Commands for the leader and requests for its proof, several in flight.
    Forwards,
    /// One question about who belongs to the cluster; a node that is to join asks it before it has an identity.
    Question,
    /// The answer: go on.
    Welcome,
    /// The answer: no, and why.
    Refused,
    /// The answer: no, because the node was removed from the cluster.
    Gone,
}

impl Purpose {
    fn byte(self) -> u8 {
        match self {
            Purpose::Appends => 1,
            Purpose::Control => 2,
            Purpose::Snapshots => 3,
            Purpose::Meeting => 4,
            Purpose::Forwards => 5,
            Purpose::Question => 6,
            Purpose::Welcome => 16,
            Purpose::Refused => 17,
            Purpose::Gone => 18,
        }
    }

    fn from_byte(byte: u8) -> Option<Purpose> {
        use Purpose::{Appends, Control, Forwards, Gone, Meeting, Question, Refused, Snapshots, Welcome};
        let all = [Appends, Control, Snapshots, Meeting, Forwards, Question, Welcome, Refused, Gone];
        all.into_iter().find(|purpose| purpose.byte() == byte)
    }
}

/// One side's words of introduction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    pub(crate) purpose: Purpose,
    pub(crate) group: u32,
    pub(crate) cluster: u128,
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// The data directory behind the sender.
    pub(crate) incarnation: u64,
    pub(crate) words: String,
}

/// Why there is no valid hello.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HelloError {
    /// Not of our protocol.
    #[error("the other side does not speak the protocol between nodes")]
    Foreign,
    /// TLS, where plain bytes were expected.
    #[error("the other side uses TLS and this node does not; start all nodes of a cluster with certificates, or none")]
    Secure,
    /// Another version.
    #[error("the protocol between nodes has version {found} there and {FRAME_VERSION} here; upgrade the older node")]
    Version { found: u8 },
    /// Right magic and version, wrong bytes.
    #[error("the introduction is damaged")]
    Damaged,
    /// Reading failed.
    #[error("reading failed: {0}")]
    Io(#[from] io::Error),
}

impl Hello {
    pub(crate) fn new(local: &Local, to: u64, purpose: Purpose) -> Hello {
        let Identity { cluster, node } = local.identity;
        let incarnation = local.seen.incarnation();
        Hello { purpose, group: local.group, cluster, from: node, to, incarnation, words: String::new() }
    }

    /// Says whether a node speaks that has no identity yet and asks for one.
    pub(crate) fn is_joiner(&self) -> bool {
        self.purpose == Purpose::Question && self.cluster == 0 && self.from == 0 && self.to == 0
    }

    /// Compares what the other side said with what this node is; the answer is for both sides' logs.
    pub(crate) fn check(&self, local: &Local, expected: Option<u64>) -> Result<(), String> {
        let Identity { cluster, node } = local.identity;
        if self.cluster != cluster {
            return Err(format!(
                "node {node} belongs to cluster {cluster:032x}, node {} to cluster {:032x}; \
                 compare the lists of members, or start one of them with an empty data directory",
                self.from, self.cluster
            ));
        }
        if self.group != local.group {
            return Err(format!("node {node} has no group {}", self.group));
        }
        if self.to != node {
            return Err(format!("this is node {node}, not node {}; compare the addresses of the members", self.to));
        }
        if self.from == node || expected.is_some_and(|expected| expected != self.from) {
            return Err(format!("node {} is at the address of another node; compare the addresses", self.from));
        }
        Ok(())
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut end = self.words.len().min(WORDS_MAX);
        while !self.words.is_char_boundary(end) {
            end -= 1;
        }
        let words = &self.words.as_bytes()[..end];
        let mut out = Vec::with_capacity(FIXED + words.len() + 4);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&[FRAME_VERSION, self.purpose.byte(), 0, 0]);
        out.extend_from_slice(&self.group.to_le_bytes());
        out.extend_from_slice(&self.cluster.to_le_bytes());
        out.extend_from_slice(&self.from.to_le_bytes());
        out.extend_from_slice(&self.to.to_le_bytes());
        out.extend_from_slice(&self.incarnation.to_le_bytes());
        out.extend_from_slice(&(words.len() as u16).to_le_bytes());
        out.extend_from_slice(words);
        let sum = leasehold_log::checksum(&out);
        out.extend_from_slice(&sum.to_le_bytes());
        out
    }

    pub(crate) async fn read(from: &mut (impl AsyncRead + Unpin)) -> Result<Hello, HelloError> {
        let mut bytes = vec![0; FIXED];
        from.read_exact(&mut bytes[..8]).await?;
        if bytes[0] == TLS_HANDSHAKE {
            return Err(HelloError::Secure);
        }
        if bytes[..8] != MAGIC {
            return Err(HelloError::Foreign);
        }
        from.read_exact(&mut bytes[8..9]).await?;
        if bytes[8] != FRAME_VERSION {
            return Err(HelloError::Version { found: bytes[8] });
        }
        from.read_exact(&mut bytes[9..]).await?;
        let length = u16::from_le_bytes([bytes[56], bytes[57]]) as usize;
        if length > WORDS_MAX {
            return Err(HelloError::Damaged);
        }
        bytes.resize(FIXED + length, 0);
        from.read_exact(&mut bytes[FIXED..]).await?;
        let stored = from.read_u32_le().await?;
        if stored != leasehold_log::checksum(&bytes) || bytes[10..12] != [0, 0] {
            return Err(HelloError::Damaged);
        }
        Hello::parse(&bytes).ok_or(HelloError::Damaged)
    }

    fn parse(bytes: &[u8]) -> Option<Hello> {
        let number = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        Some(Hello {
            purpose: Purpose::from_byte(*bytes.get(9)?)?,
            group: u32::from_le_bytes(bytes.get(12..16)?.try_into().ok()?),
            cluster: u128::from_le_bytes(bytes.get(16..32)?.try_into().ok()?),
            from: number(32)?,
            to: number(40)?,
            incarnation: number(48)?,
            words: String::from_utf8(bytes.get(FIXED..)?.to_vec()).ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello() -> Hello {
        let words = "no".into();
        Hello { purpose: Purpose::Refused, group: 1, cluster: 2, from: 3, to: 4, incarnation: 5, words }
    }

    #[tokio::test]
    async fn a_hello_is_read_as_it_was_written() {
        let bytes = hello().to_bytes();
        assert_eq!((&bytes[..10], bytes.len()), (&b"LEASEHLD\x01\x11"[..], 58 + 2 + 4));
        assert_eq!(Hello::read(&mut &bytes[..]).await.unwrap(), hello());
    }

    #[tokio::test]
    async fn every_flipped_bit_and_every_cut_is_refused() {
        let bytes = hello().to_bytes();
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            Hello::read(&mut &damaged[..]).await.unwrap_err();
        }
        for cut in 0..bytes.len() {
            Hello::read(&mut &bytes[..cut]).await.unwrap_err();
        }
    }

    #[tokio::test]
    async fn another_version_is_refused_by_name() {
        let mut bytes = hello().to_bytes();
        bytes[8] = 9;
        let error = Hello::read(&mut &bytes[..]).await.unwrap_err();
        assert!(error.to_string().contains("version 9 there and 1 here"), "{error}");
    }
}

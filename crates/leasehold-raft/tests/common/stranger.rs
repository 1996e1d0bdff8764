//! What a stranger says on the port for other nodes, byte by byte as docs/formats/peer.md has it.

use std::io;

use leasehold_log::checksum;
use tokio::io::{AsyncRead, AsyncReadExt as _};

use super::Running;

pub(crate) const CONTROL: u8 = 2;
pub(crate) const WELCOME: u8 = 16;
pub(crate) const REFUSED: u8 = 17;

/// What a stranger says of itself.
#[derive(Clone, Copy)]
pub(crate) struct Introduction {
    pub(crate) version: u8,
    pub(crate) purpose: u8,
    pub(crate) group: u32,
    pub(crate) cluster: u128,
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) incarnation: u64,
}

impl Introduction {
    /// One that fits the node, from a node it has not met.
    pub(crate) fn to(running: &Running) -> Introduction {
        let identity = running.opened.identity;
        let (cluster, to) = (identity.cluster, identity.node);
        Introduction { version: 1, purpose: CONTROL, group: 0, cluster, from: 99, to, incarnation: 1 }
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = b"LEASEHLD".to_vec();
        bytes.extend([self.version, self.purpose, 0, 0]);
        bytes.extend(self.group.to_le_bytes());
        bytes.extend(self.cluster.to_le_bytes());
        bytes.extend(self.from.to_le_bytes());
        bytes.extend(self.to.to_le_bytes());
        bytes.extend(self.incarnation.to_le_bytes());
        bytes.extend([0, 0]);
        sealed(bytes)
    }
}

/// Puts the checksum after the bytes.
pub(crate) fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let sum = checksum(&bytes);
    bytes.extend(sum.to_le_bytes());
    bytes
}

/// Reads the answer to an introduction: its verdict and its words.
pub(crate) async fn read_introduction(from: &mut (impl AsyncRead + Unpin)) -> io::Result<(u8, String)> {
    let mut fixed = [0; 58];
    from.read_exact(&mut fixed).await?;
    assert_eq!(&fixed[..9], b"LEASEHLD\x01");
    let mut words = vec![0; u16::from_le_bytes([fixed[56], fixed[57]]) as usize];
    from.read_exact(&mut words).await?;
    let sum = from.read_u32_le().await?;
    assert_eq!(sum, checksum(&[&fixed[..], &words].concat()));
    Ok((fixed[9], String::from_utf8(words).unwrap()))
}

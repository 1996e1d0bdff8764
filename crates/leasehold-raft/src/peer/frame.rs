//! The envelope of everything nodes say to each other after the handshake: length, kind, version, number, checksum.
//!
//! Reading never trusts a length: what is above the bound of the connection is refused before a byte of the body is
//! read, and memory grows with what really arrives. What a body means is `message.rs`'s.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt};

/// The version of frames and bodies this build writes, and the newest it reads.
pub(crate) const FRAME_VERSION: u8 = 1;
/// Bytes before the body.
pub(crate) const HEADER: usize = 20;
/// The most a body may take where entries travel: a read of the log is cut at 1 MiB, after the entry that reaches it.
pub(crate) const BODY_MAX: usize = 24 * 1024 * 1024;
/// The most a body may take elsewhere.
pub(crate) const SMALL_BODY_MAX: usize = 512 * 1024;
/// What is set aside for a body before any of it has arrived.
const FIRST_ALLOCATION: usize = 64 * 1024;

/// One frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) number: u64,
    pub(crate) body: Vec<u8>,
}

/// Why no frame could be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FrameError {
    /// The other side closed the connection between two frames.
    #[error("the connection was closed")]
    Closed,
    /// A later build speaks.
    #[error("a frame has version {found}, this build reads up to {FRAME_VERSION}; upgrade this node")]
    Newer { number: u64, found: u8 },
    /// The bytes are not a frame.
    #[error("not a frame: {0}")]
    Damaged(String),
    /// Reading failed.
    #[error("reading failed: {0}")]
    Io(#[from] io::Error),
}

/// Appends a frame to `out`.
pub(crate) fn put(out: &mut Vec<u8>, kind: u8, number: u64, body: &[u8]) {
    let start = out.len();
    out.reserve(HEADER + body.len());
    out.extend_from_slice(&(body.len() as u32).to_le_bytes());
    out.extend_from_slice(&[kind, FRAME_VERSION, 0, 0]);
    out.extend_from_slice(&number.to_le_bytes());
    let sum = sum(&out[start..], body);
    out.extend_from_slice(&sum.to_le_bytes());
    out.extend_from_slice(body);
}

/// Reads the next frame; `body_max` is the bound of this connection.
pub(crate) async fn read(from: &mut (impl AsyncRead + Unpin), body_max: usize) -> Result<Frame, FrameError> {
    let mut header = [0; HEADER];
    if from.read(&mut header[..1]).await? == 0 {
        return Err(FrameError::Closed);
    }
    from.read_exact(&mut header[1..]).await?;
    let length = u32::from_le_bytes(array(&header[..4])) as usize;
    let (kind, version) = (header[4], header[5]);
    let number = u64::from_le_bytes(array(&header[8..16]));
    if version > FRAME_VERSION {
        return Err(FrameError::Newer { number, found: version });
    }
    if version == 0 || header[6..8] != [0, 0] {
        return Err(FrameError::Damaged("its header holds values that no build writes".into()));
    }
    if length > body_max {
        return Err(FrameError::Damaged(format!("a body of {length} bytes, at most {body_max} may come here")));
    }
    let mut body = Vec::with_capacity(length.min(FIRST_ALLOCATION));
    if from.take(length as u64).read_to_end(&mut body).await? < length {
        return Err(FrameError::Io(io::ErrorKind::UnexpectedEof.into()));
    }
    let stored = u32::from_le_bytes(array(&header[16..]));
    if stored != sum(&header[..16], &body) {
        return Err(FrameError::Damaged("its checksum does not fit its bytes".into()));
    }
    Ok(Frame { kind, number, body })
}

fn sum(header: &[u8], body: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(header);
    hasher.update(body);
    hasher.finalize()
}

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.try_into().expect("the caller takes as many bytes as the number has")
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read_bytes(mut bytes: &[u8]) -> Result<Frame, FrameError> {
        read(&mut bytes, 1000).await
    }

    #[tokio::test]
    async fn a_frame_is_read_as_it_was_written_and_has_the_documented_bytes() {
        let mut bytes = Vec::new();
        put(&mut bytes, 3, 0x0102, b"ab");
        assert_eq!(&bytes[..16], &[2, 0, 0, 0, 3, 1, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(&bytes[20..], b"ab");
        assert_eq!(read_bytes(&bytes).await.unwrap(), Frame { kind: 3, number: 0x0102, body: b"ab".to_vec() });
    }

    #[tokio::test]
    async fn every_flipped_bit_and_every_cut_is_refused() {
        let mut bytes = Vec::new();
        put(&mut bytes, 3, 7, b"orders/7");
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            read_bytes(&damaged).await.unwrap_err();
        }
        for cut in 1..bytes.len() {
            assert!(matches!(read_bytes(&bytes[..cut]).await.unwrap_err(), FrameError::Io(_)), "{cut}");
        }
        assert!(matches!(read_bytes(&[]).await.unwrap_err(), FrameError::Closed));
    }

    #[tokio::test]
    async fn a_newer_version_is_refused_by_name_and_a_length_above_the_bound_before_its_body() {
        let mut bytes = Vec::new();
        put(&mut bytes, 3, 7, b"");
        bytes[5] = 2;
        let error = read_bytes(&bytes).await.unwrap_err();
        assert_eq!(error.to_string(), "a frame has version 2, this build reads up to 1; upgrade this node");
        bytes[5] = 1;
        bytes[..4].copy_from_slice(&1001u32.to_le_bytes());
        let error = read_bytes(&bytes).await.unwrap_err();
        assert!(error.to_string().contains("1001 bytes"), "{error}");
    }
}

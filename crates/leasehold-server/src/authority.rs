//! Old Go clients name a server by its whole URL where HTTP/2 wants host and port: `http://box1:2379` as `:authority`.
//!
//! Our HTTP/2 refuses that, and etcd does not; `etcdctl endpoint status` of etcd 3.4 does it. So on the listener for etcd's
//! clients the three characters that do not belong there are replaced on the way in, in the head of a request and
//! nowhere else. What is put in their place is as long, in characters and in bits, so nothing else of the compressed head
//! changes its meaning. Nothing reads the name. A head that does not come in one piece is left as it is.

/// How a connection of HTTP/2 begins.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The length of what stands before each frame.
const FRAME_HEAD: usize = 9;
const HEADERS: u8 = 1;
const PADDED: u8 = 0x08;
const PRIORITY: u8 = 0x20;
/// The number of `:authority` in HPACK's table of names.
const AUTHORITY: usize = 1;
/// `http://`, but for the last bit, and `httpB--` as HPACK writes them: both have seven characters and 41 bits.
const SCHEME: [u8; 5] = [0x9d, 0x29, 0xae, 0xe3, 0x0c];
const HARMLESS: [u8; 5] = [0x9d, 0x29, 0xae, 0xea, 0xcb];
/// The same, written plainly.
const PLAIN_SCHEME: &[u8] = b"http://";
const PLAIN_HARMLESS: &[u8] = b"httpB--";

/// What is known of a connection so far.
#[derive(Debug)]
pub(crate) enum Authorities {
    /// So many bytes of the preface were seen.
    Preface(usize),
    /// So much of the present frame is still to come, and what was seen of the head of the next one.
    Frames { left: usize, head: Vec<u8> },
    /// Something else is spoken.
    Other,
}

impl Default for Authorities {
    fn default() -> Self {
        Self::Preface(0)
    }
}

impl Authorities {
    /// Goes through the next bytes of a connection.
    pub(crate) fn mend(&mut self, mut bytes: &mut [u8]) {
        if let Self::Preface(seen) = self {
            let expected = &PREFACE[*seen..];
            let length = expected.len().min(bytes.len());
            if bytes[..length] != expected[..length] {
                *self = Self::Other;
                return;
            }
            *seen += length;
            if *seen < PREFACE.len() {
                return;
            }
            bytes = &mut bytes[length..];
            *self = Self::Frames { left: 0, head: Vec::new() };
        }
        let Self::Frames { left, head } = self else { return };
        while !bytes.is_empty() {
            let skipped = (*left).min(bytes.len());
            *left -= skipped;
            bytes = &mut bytes[skipped..];
            let wanted = (FRAME_HEAD - head.len()).min(bytes.len());
            head.extend_from_slice(&bytes[..wanted]);
            bytes = &mut bytes[wanted..];
            let [a, b, c, kind, flags, ..] = head[..] else { return };
            if head.len() < FRAME_HEAD {
                return;
            }
            *left = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
            head.clear();
            if kind == HEADERS && *left <= bytes.len() {
                mend_head(&mut bytes[..*left], flags);
            }
        }
    }
}

/// Mends the head of a request, which has come in one piece.
fn mend_head(payload: &mut [u8], flags: u8) {
    let before = usize::from(flags & PADDED != 0) + if flags & PRIORITY != 0 { 5 } else { 0 };
    let Some(block) = payload.get_mut(before..) else { return };
    let mut at = 0;
    while let Some(value) = next_value(block, &mut at) {
        if let Some((start, end)) = value
            && let Some(name) = block.get_mut(start..end)
        {
            mend_name(name);
        }
    }
}

fn mend_name(name: &mut [u8]) {
    for (scheme, harmless) in [(&SCHEME[..], &HARMLESS[..]), (PLAIN_SCHEME, PLAIN_HARMLESS)] {
        if name.starts_with(scheme) {
            name[..harmless.len()].copy_from_slice(harmless);
        }
    }
}

/// Reads one field of a head: where its value is, if it is a name of the server that is written out. None at the end.
#[allow(clippy::type_complexity, reason = "a field, of which the value is wanted or not")]
fn next_value(block: &[u8], at: &mut usize) -> Option<Option<(usize, usize)>> {
    let first = *block.get(*at)?;
    let (bits, literal) = match first {
        0x80..=0xff => (7, false),
        0x40..=0x7f => (6, true),
        0x20..=0x3f => (5, false),
        0x00..=0x1f => (4, true),
    };
    let name = integer(block, at, bits)?;
    if !literal {
        return Some(None);
    }
    if name == 0 {
        string(block, at)?;
    }
    let value = string(block, at)?;
    Some((name == AUTHORITY).then_some(value))
}

/// Where a string is.
fn string(block: &[u8], at: &mut usize) -> Option<(usize, usize)> {
    let length = integer(block, at, 7)?;
    let start = *at;
    *at = start.checked_add(length).filter(|end| *end <= block.len())?;
    Some((start, *at))
}

/// A number whose first bits share a byte with something else.
fn integer(block: &[u8], at: &mut usize, bits: u32) -> Option<usize> {
    let most = (1 << bits) - 1;
    let mut number = usize::from(*block.get(*at)?) & most;
    *at += 1;
    if number < most {
        return Some(number);
    }
    for shift in (0..28).step_by(7) {
        let byte = *block.get(*at)?;
        *at += 1;
        number += usize::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `etcdctl --endpoints=http://127.0.0.1:7499 endpoint status` of etcd 3.4 sends.
    const ASKED: &[u8] = b"\x00\x00w\x01\x04\x00\x00\x00\x01\x83\x86E\x97`\xa9$\x88-\x9d\xcbeq\xaf\xa0f\xa9%\xa8u\x10\xacnH\
        \xd3j?A\x90\x9d)\xae\xe3\x0c\x04N\xae\x05\xc0\xb8n:\xd3\xef\xff_\x8b\x1du\xd0b\r&=LMedz\x8b\x9a\xca\xc8\xb4\xc7`+\
        \xb2\xca\xec\xff@\x02te\x86M\x835\x05\xb1\x1f@\x89\x9a\xca\xc8\xb2MIOj\x7f\x86i\xf7\xdah\x0f\xdb@\x8d%\x06-IXu\
        \x99n\xe5\xb1\x06=_\x033.4\x00\x00\x05\x00\x01\x00\x00\x00\x01\x00\x00\x00\x00\x00";

    fn connection() -> Vec<u8> {
        [PREFACE, b"\x00\x00\x00\x04\x00\x00\x00\x00\x00", ASKED].concat()
    }

    fn changed(before: &[u8], after: &[u8]) -> Vec<(u8, u8)> {
        before.iter().zip(after).filter(|(a, b)| a != b).map(|(a, b)| (*a, *b)).collect()
    }

    #[test]
    fn the_scheme_is_taken_from_the_name_of_the_server_and_nothing_else_is_touched() {
        let mut bytes = connection();
        Authorities::default().mend(&mut bytes);
        assert_eq!(changed(&connection(), &bytes), [(0xe3, 0xea), (0x0c, 0xcb)]);
    }

    #[test]
    fn pieces_before_the_head_do_not_matter() {
        let head = connection().len() - ASKED.len();
        for cut in 0..=head {
            let mut bytes = connection();
            let mut authorities = Authorities::default();
            let (first, second) = bytes.split_at_mut(cut);
            authorities.mend(first);
            authorities.mend(second);
            assert_eq!(changed(&connection(), &bytes).len(), 2, "cut at {cut}");
        }
    }

    #[test]
    fn bodies_and_other_protocols_are_left_alone() {
        // The same bytes as a frame of data.
        let mut data = ASKED.to_vec();
        data[3] = 0;
        let before = [PREFACE, &data].concat();
        let mut bytes = before.clone();
        Authorities::default().mend(&mut bytes);
        assert_eq!(bytes, before);
        let before = [b"POST / HTTP/1.1\r\n", ASKED].concat();
        let mut bytes = before.clone();
        Authorities::default().mend(&mut bytes);
        assert_eq!(bytes, before);
    }

    #[test]
    fn whatever_the_bytes_it_does_not_panic() {
        let mut seed = 7_u32;
        for length in 0..2000 {
            let mut bytes = PREFACE.to_vec();
            for _ in 0..length {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                bytes.push((seed >> 24) as u8 & if length % 2 == 0 { 0xff } else { 0x0f });
            }
            Authorities::default().mend(&mut bytes);
        }
    }

    #[test]
    fn a_name_that_is_written_plainly_is_mended_too() {
        let mut head = b"\x83\x41\x15http://127.0.0.1:2379\x86".to_vec();
        mend_head(&mut head, 0);
        assert_eq!(head, b"\x83\x41\x15httpB--127.0.0.1:2379\x86");
    }
}

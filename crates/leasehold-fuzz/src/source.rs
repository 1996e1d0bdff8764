//! Bytes as a series of choices: what turns any input into a value of any type.
//!
//! Every choice takes a byte or a few from the front, so a change of one byte changes one choice and leaves the others.
//! When the bytes are used up all choices are the first one; callers stop then.

/// Numbers at which things change: ends of ranges, and what is next to them.
const EDGES: [u64; 24] = [
    0,
    1,
    2,
    3,
    63,
    64,
    99,
    100,
    101,
    127,
    128,
    255,
    256,
    1000,
    1001,
    65_535,
    65_536,
    u32::MAX as u64,
    u32::MAX as u64 + 1,
    i64::MAX as u64 - 1,
    i64::MAX as u64,
    i64::MAX as u64 + 1,
    u64::MAX - 1,
    u64::MAX,
];

/// Bytes that are used up from the front.
#[derive(Clone, Debug)]
pub struct Source<'a> {
    rest: &'a [u8],
}

impl<'a> Source<'a> {
    /// Begins at the front of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Source<'a> {
        Source { rest: bytes }
    }

    /// Tells whether all bytes are used up.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Takes a byte; 0 if there is none.
    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.rest.split_first() else { return 0 };
        self.rest = rest;
        *first
    }

    /// Takes up to `count` bytes as they are.
    pub fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at(count.min(self.rest.len()));
        self.rest = rest;
        taken
    }

    /// Takes everything that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    /// Takes bytes that follow their length: one byte for short ones, three for long ones.
    pub fn piece(&mut self) -> &'a [u8] {
        let length = match self.byte() {
            255 => usize::from(u16::from_le_bytes([self.byte(), self.byte()])),
            length => usize::from(length),
        };
        self.bytes(length)
    }

    /// Chooses a number below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::from(self.byte()) % bound.max(1)
    }

    /// Says yes in `part` of 256 cases.
    pub fn chance(&mut self, part: u8) -> bool {
        self.byte() >= 255 - part.saturating_sub(1) && part > 0
    }

    /// Chooses one of some values.
    pub fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }

    /// Chooses a number: small, at an edge, or any.
    pub fn number(&mut self) -> u64 {
        match self.byte() {
            small @ 0..160 => u64::from(small % 16),
            160..240 => self.pick(&EDGES),
            240..=255 => {
                let mut bytes = [0; 8];
                let taken = self.bytes(8);
                bytes[..taken.len()].copy_from_slice(taken);
                u64::from_le_bytes(bytes)
            }
        }
    }
}

/// Appends bytes after their length, as [`Source::piece`] reads them.
pub fn put_piece(out: &mut Vec<u8>, bytes: &[u8]) {
    match u8::try_from(bytes.len()) {
        Ok(short @ 0..255) => out.push(short),
        Ok(255) | Err(_) => {
            out.push(255);
            out.extend_from_slice(&(bytes.len() as u16).to_le_bytes());
        }
    }
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_come_back_whatever_their_length() {
        for length in [0, 1, 254, 255, 256, 3000] {
            let mut bytes = Vec::new();
            put_piece(&mut bytes, &vec![7; length]);
            put_piece(&mut bytes, b"next");
            let mut source = Source::new(&bytes);
            assert_eq!((source.piece().len(), source.piece()), (length, &b"next"[..]));
            assert!(source.is_empty());
        }
    }

    #[test]
    fn a_source_without_bytes_gives_first_choices() {
        let mut source = Source::new(&[]);
        assert_eq!((source.byte(), source.number(), source.pick(&["a", "b"])), (0, 0, "a"));
        assert!(!source.chance(200) && source.bytes(3).is_empty());
    }
}

//! The binary vocabulary: how numbers, bytes and texts are written, and how they are read back.
//!
//! Every value has exactly one encoding, so equal states give equal bytes and whatever decodes encodes to
//! the same bytes again. Reading never panics, whatever the bytes are, and names the place of the damage.
//! What the values mean is left to the other files; checksums are left to whoever stores the bytes.

/// Why bytes could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// The bytes are not what any release has written.
    #[error("damaged at byte {offset}: {what} {why}")]
    Damaged {
        /// What was being read.
        what: &'static str,
        /// What is wrong with it.
        why: &'static str,
        /// Where it begins, counted from the start of the entry or body.
        offset: usize,
    },
    /// A later release has written the bytes.
    #[error(
        "{what} has format {found}, this release reads formats up to {supported}; \
         upgrade this node to the release that the others run"
    )]
    NewerVersion {
        /// What was being read.
        what: &'static str,
        /// The format that was found.
        found: u64,
        /// The latest format that this release reads.
        supported: u64,
    },
}

/// The most bytes that a number takes.
pub(crate) const VARINT_MAX: usize = 10;

/// Writes a number, seven bits to a byte, the lowest first; all but the last byte have the top bit.
#[inline]
pub(crate) fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Writes bytes after their length.
#[inline]
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Writes whatever `contents` writes, after its length.
#[inline]
pub(crate) fn put_framed(out: &mut Vec<u8>, contents: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.push(0); // Most contents are short: one byte is set aside for their length.
    contents(out);
    let length = out.len() - start - 1;
    if length < 0x80 {
        out[start] = length as u8;
    } else {
        let mut prefix = Vec::with_capacity(VARINT_MAX);
        put_varint(&mut prefix, length as u64);
        out.splice(start..=start, prefix);
    }
}

/// Reads values from the front of some bytes.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
    /// The offset of the end of `rest`: the present offset follows from it.
    end: usize,
    /// How many values that may contain each other are open.
    depth: usize,
}

impl<'a> Reader<'a> {
    /// Begins at the front of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, end: bytes.len(), depth: 0 }
    }

    /// Begins at the front of `bytes`, which lie at `offset` of something larger.
    pub(crate) fn within(bytes: &'a [u8], offset: usize) -> Self {
        Self { rest: bytes, end: offset.saturating_add(bytes.len()), depth: 0 }
    }

    /// Reads something that may contain another of its kind, at most `max` deep.
    pub(crate) fn nested<T>(
        &mut self,
        what: &'static str,
        max: usize,
        read: impl FnOnce(&mut Self) -> Result<T, FormatError>,
    ) -> Result<T, FormatError> {
        if self.depth == max {
            return Err(self.damaged(what, "is nested too deep"));
        }
        self.depth += 1;
        let value = read(self)?;
        self.depth -= 1;
        Ok(value)
    }

    /// How far from the start it stands.
    pub fn offset(&self) -> usize {
        self.end - self.rest.len()
    }

    /// How many bytes are left.
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Checks that nothing is left of `what`.
    pub fn finish(&self, what: &'static str) -> Result<(), FormatError> {
        if self.rest.is_empty() { Ok(()) } else { Err(self.damaged(what, "has bytes after its end")) }
    }

    /// The error for `what` at the present place.
    #[cold]
    pub(crate) fn damaged(&self, what: &'static str, why: &'static str) -> FormatError {
        FormatError::Damaged { what, why, offset: self.offset() }
    }

    /// Reads one byte.
    #[inline]
    pub fn byte(&mut self, what: &'static str) -> Result<u8, FormatError> {
        match self.rest {
            [byte, rest @ ..] => {
                self.rest = rest;
                Ok(*byte)
            }
            [] => Err(self.damaged(what, ENDS_EARLY)),
        }
    }

    /// Reads a byte that says no or yes.
    #[inline]
    pub fn bool(&mut self, what: &'static str) -> Result<bool, FormatError> {
        let start = self.clone();
        match self.byte(what)? {
            0 => Ok(false),
            1 => Ok(true),
            2..=u8::MAX => Err(start.damaged(what, "is neither 0 nor 1")),
        }
    }

    /// Reads `N` bytes as they are.
    #[inline]
    pub fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], FormatError> {
        match self.rest.split_first_chunk() {
            Some((bytes, rest)) => {
                self.rest = rest;
                Ok(*bytes)
            }
            None => Err(self.damaged(what, ENDS_EARLY)),
        }
    }

    /// Reads a number of variable length.
    #[inline]
    pub fn varint(&mut self, what: &'static str) -> Result<u64, FormatError> {
        match self.rest {
            [byte @ ..0x80, rest @ ..] => {
                self.rest = rest;
                Ok(u64::from(*byte))
            }
            _ => self.long_varint(what),
        }
    }

    fn long_varint(&mut self, what: &'static str) -> Result<u64, FormatError> {
        let mut number = 0;
        for (index, &byte) in self.rest.iter().take(VARINT_MAX).enumerate() {
            number |= u64::from(byte & 0x7f) << (7 * index);
            if byte >= 0x80 {
                continue;
            }
            if byte == 0 {
                return Err(self.damaged(what, "is not in its shortest form"));
            }
            if index == VARINT_MAX - 1 && byte > 1 {
                return Err(self.damaged(what, TOO_LARGE));
            }
            self.rest = &self.rest[index + 1..];
            return Ok(number);
        }
        Err(self.damaged(what, if self.rest.len() < VARINT_MAX { ENDS_EARLY } else { TOO_LARGE }))
    }

    /// Reads a number of variable length that fits a smaller type.
    #[inline]
    pub fn small<T: TryFrom<u64>>(&mut self, what: &'static str) -> Result<T, FormatError> {
        let start = self.clone();
        T::try_from(self.varint(what)?).map_err(|_| start.damaged(what, TOO_LARGE))
    }

    /// Reads bytes that follow their length.
    #[inline]
    pub fn bytes(&mut self, what: &'static str) -> Result<&'a [u8], FormatError> {
        let start = self.clone();
        let length: usize = self.small(what)?;
        match self.rest.split_at_checked(length) {
            Some((bytes, rest)) => {
                self.rest = rest;
                Ok(bytes)
            }
            None => Err(start.damaged(what, ENDS_EARLY)),
        }
    }

    /// Reads text that follows its length.
    #[inline]
    pub fn text(&mut self, what: &'static str) -> Result<&'a str, FormatError> {
        let start = self.clone();
        std::str::from_utf8(self.bytes(what)?).map_err(|_| start.damaged(what, "is not UTF-8"))
    }

    /// Reads what `put_framed` wrote, as a reader of its own.
    #[inline]
    pub fn framed(&mut self, what: &'static str) -> Result<Reader<'a>, FormatError> {
        let bytes = self.bytes(what)?;
        Ok(Reader { rest: bytes, end: self.offset(), depth: 0 })
    }

    /// Reads how many elements follow, each of at least `least` bytes: more than fit are refused at once.
    #[inline]
    pub fn count(&mut self, what: &'static str, least: usize) -> Result<usize, FormatError> {
        let start = self.clone();
        let count: usize = self.small(what)?;
        if count > self.rest.len() / least.max(1) {
            return Err(start.damaged(what, "counts more than there are bytes for"));
        }
        Ok(count)
    }
}

pub(crate) const ENDS_EARLY: &str = "ends too early";
pub(crate) const TOO_LARGE: &str = "is too large";

#[cfg(test)]
mod tests {
    use super::*;

    fn why(result: Result<u64, FormatError>) -> &'static str {
        match result {
            Err(FormatError::Damaged { why, .. }) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn numbers_take_as_few_bytes_as_they_can() {
        for (number, length) in
            [(0, 1), (127, 1), (128, 2), (16_383, 2), (16_384, 3), (u64::MAX >> 1, 9), (u64::MAX, 10)]
        {
            let mut out = Vec::new();
            put_varint(&mut out, number);
            assert_eq!(out.len(), length, "{number}");
            let mut reader = Reader::new(&out);
            assert_eq!(reader.varint("number"), Ok(number));
            assert_eq!(reader.finish("number"), Ok(()));
        }
    }

    #[test]
    fn numbers_have_one_form() {
        assert_eq!(why(Reader::new(&[0x80, 0]).varint("n")), "is not in its shortest form");
        assert_eq!(why(Reader::new(&[0xff, 0x80, 0]).varint("n")), "is not in its shortest form");
        assert_eq!(why(Reader::new(&[0xff; 10]).varint("n")), TOO_LARGE);
        assert_eq!(why(Reader::new(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]).varint("n")), TOO_LARGE);
        assert_eq!(why(Reader::new(&[0xff; 9]).varint("n")), ENDS_EARLY);
        assert_eq!(why(Reader::new(&[]).varint("n")), ENDS_EARLY);
    }

    #[test]
    fn a_bool_is_0_or_1() {
        assert_eq!(Reader::new(&[0]).bool("b"), Ok(false));
        assert_eq!(Reader::new(&[1]).bool("b"), Ok(true));
        assert!(Reader::new(&[2]).bool("b").is_err());
    }

    #[test]
    fn a_count_is_justified_by_the_bytes_that_follow() {
        assert_eq!(Reader::new(&[2, 0, 0, 0, 0]).count("list", 2), Ok(2));
        assert!(Reader::new(&[3, 0, 0, 0, 0]).count("list", 2).is_err());
        assert!(Reader::new(&[0xff, 0xff, 0xff, 0xff, 0x0f]).count("list", 1).is_err());
    }

    #[test]
    fn frames_of_any_length_come_back() {
        for length in [0, 1, 127, 128, 129, 16_383, 16_384, 70_000] {
            let contents = vec![7; length];
            let mut out = vec![9];
            put_framed(&mut out, |out| out.extend_from_slice(&contents));
            let mut plain = vec![9];
            put_bytes(&mut plain, &contents);
            assert_eq!(out, plain, "{length}");
        }
    }

    #[test]
    fn damage_is_named_by_its_place_in_the_whole() {
        let mut reader = Reader::new(&[1, 2, 3, 0x05, 9]);
        let mut inner = reader.framed("first").and_then(|_| reader.framed("second"));
        assert_eq!(
            inner.as_mut().err(),
            Some(&mut FormatError::Damaged { what: "second", why: ENDS_EARLY, offset: 2 })
        );
        let mut reader = Reader::new(&[2, 0, 7]);
        let mut inner = reader.framed("frame").unwrap();
        assert_eq!(inner.byte("zero"), Ok(0));
        assert_eq!(
            inner.bool("flag"),
            Err(FormatError::Damaged { what: "flag", why: "is neither 0 nor 1", offset: 2 })
        );
    }
}

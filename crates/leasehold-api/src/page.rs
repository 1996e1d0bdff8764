//! Pages of entries: where the next part of a range begins.

use leasehold_core::{Key, KeyRange};

use crate::{Invalid, key_after, prefix_end};

/// A key as a cursor: keys need not be text.
pub fn page_cursor(key: &Key) -> String {
    key.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What of a range lies behind the key of a cursor; nothing if no key can.
pub fn range_after(range: KeyRange, page: &str) -> Result<Option<KeyRange>, Invalid> {
    let key = page.as_bytes().chunks(2).map(|pair| {
        let digits = std::str::from_utf8(pair).ok().filter(|text| text.len() == 2 && !text.starts_with('+'))?;
        u8::from_str_radix(digits, 16).ok()
    });
    let key = key.collect::<Option<Vec<u8>>>().and_then(|bytes| Key::new(&bytes).ok());
    let key = key.ok_or_else(|| Invalid::new("page", "it is not a `next` of this list; begin again without `page`"))?;
    let Some(next) = key_after(&key) else { return Ok(None) };
    Ok(match range {
        KeyRange::One(_) => None,
        KeyRange::Prefix(prefix) => {
            let start = if next.as_bytes() < &prefix[..] { Key::new(&prefix).unwrap_or(next) } else { next };
            match prefix_end(&prefix) {
                Some(end) if start < end => Some(KeyRange::Between(start, end)),
                Some(_) => None,
                None => Some(KeyRange::From(start)),
            }
        }
        KeyRange::Between(from, to) => {
            let start = from.max(next);
            (start < to).then_some(KeyRange::Between(start, to))
        }
        KeyRange::From(from) => Some(KeyRange::From(from.max(next))),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn key(text: &str) -> Key {
        Key::new(text.as_bytes()).unwrap()
    }

    #[test]
    fn a_page_goes_on_behind_its_cursor_and_stays_in_its_range() {
        let prefix = || KeyRange::Prefix(Arc::from(&b"a/"[..]));
        let next = range_after(prefix(), &page_cursor(&key("a/7"))).unwrap();
        assert_eq!(next, Some(KeyRange::Between(key("a/7\0"), key("a0"))));
        assert_eq!(range_after(prefix(), &page_cursor(&key("b"))).unwrap(), None);
        assert_eq!(
            range_after(prefix(), &page_cursor(&key("A"))).unwrap(),
            Some(KeyRange::Between(key("a/"), key("a0")))
        );
        let all = KeyRange::Prefix(Arc::from(&b""[..]));
        assert_eq!(range_after(all, &page_cursor(&key("x"))).unwrap(), Some(KeyRange::From(key("x\0"))));
        for bad in ["", "7", "zz", "é", "+1"] {
            assert!(range_after(prefix(), bad).is_err(), "{bad}");
        }
    }
}

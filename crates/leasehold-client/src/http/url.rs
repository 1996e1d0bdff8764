//! Paths and queries: what a name becomes inside a URL.
//!
//! A name is always one segment: its slashes are escaped, so that `a/queue` and the queue of `a` differ.

use std::fmt::Write as _;

/// A path with a query, built part by part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Url {
    text: String,
    asked: bool,
}

impl Url {
    /// Begins with a path that needs no escaping.
    pub(crate) fn new(path: &str) -> Url {
        Url { text: path.to_owned(), asked: false }
    }

    /// Adds a segment of any bytes.
    pub(crate) fn segment(mut self, name: impl AsRef<[u8]>) -> Url {
        let name = name.as_ref();
        self.text.push('/');
        // A segment of dots would be taken for a step up.
        if matches!(name, b"." | b"..") {
            self.text.push_str(&"%2E".repeat(name.len()));
        } else {
            escape(name, &mut self.text);
        }
        self
    }

    /// Adds a parameter.
    pub(crate) fn query(mut self, name: &str, value: impl AsRef<[u8]>) -> Url {
        self.text.push(if self.asked { '&' } else { '?' });
        self.asked = true;
        self.text.push_str(name);
        self.text.push('=');
        escape(value.as_ref(), &mut self.text);
        self
    }

    /// Adds a parameter that may be absent.
    pub(crate) fn maybe(self, name: &str, value: Option<impl AsRef<[u8]>>) -> Url {
        match value {
            Some(value) => self.query(name, value),
            None => self,
        }
    }

    /// The path and query as text.
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }
}

fn escape(bytes: &[u8], text: &mut String) {
    for byte in bytes {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => text.push(char::from(*byte)),
            other => write!(text, "%{other:02X}").expect("a string takes any text"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_segment() {
        let url = Url::new("/v1/ns").segment("shop").segment("orders/7").segment(b"\xff ?").segment("..");
        assert_eq!(url.as_str(), "/v1/ns/shop/orders%2F7/%FF%20%3F/%2E%2E");
    }

    #[test]
    fn parameters_follow_each_other() {
        let url = Url::new("/a").query("prefix", "x&y=z").maybe("page", None::<&str>).maybe("since", Some("3"));
        assert_eq!(url.as_str(), "/a?prefix=x%26y%3Dz&since=3");
    }
}

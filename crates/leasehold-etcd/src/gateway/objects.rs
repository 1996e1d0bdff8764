//! The JSON objects of a body, one after another, as they come.
//!
//! Each byte is looked at once, whatever pieces the body comes in; what is kept is at most one object. Whether an
//! object is well-formed is left to who reads it.

use axum::body::{Body, BodyDataStream};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use tonic::Status;

use super::json::malformed;
use super::{BODY_MAX, too_large};

/// The objects of one body.
pub(crate) struct Objects {
    body: BodyDataStream,
    /// What was received and not yet taken.
    buffer: BytesMut,
    /// How many bytes of the buffer were looked at.
    seen: usize,
    place: Place,
}

/// Where in an object the next byte is.
#[derive(Default)]
struct Place {
    depth: usize,
    in_text: bool,
    escaped: bool,
}

impl Objects {
    pub(crate) fn new(body: Body) -> Objects {
        Objects { body: body.into_data_stream(), buffer: BytesMut::new(), seen: 0, place: Place::default() }
    }

    /// The next object, or none when the body has ended.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, Status> {
        loop {
            if let Some(object) = self.complete()? {
                return Ok(Some(object));
            }
            match self.body.next().await {
                Some(Ok(piece)) => self.buffer.extend_from_slice(&piece),
                Some(Err(error)) => return Err(malformed(&error)),
                None if self.buffer.is_empty() => return Ok(None),
                None => return Err(malformed(&"it ends in the middle of an object")),
            }
        }
    }

    /// Takes the object that the buffer begins with, if all of it is there.
    fn complete(&mut self) -> Result<Option<Bytes>, Status> {
        if self.place.depth == 0 {
            let space = self.buffer.len() - self.buffer.trim_ascii_start().len();
            // Space between objects is not kept.
            let _ = self.buffer.split_to(space);
            if self.buffer.first().is_some_and(|byte| *byte != b'{') {
                return Err(malformed(&"an object was expected"));
            }
        }
        while let Some(byte) = self.buffer.get(self.seen) {
            self.seen += 1;
            if self.seen > BODY_MAX {
                return Err(too_large());
            }
            if self.place.ends_with(*byte) {
                let object = self.buffer.split_to(self.seen).freeze();
                self.seen = 0;
                return Ok(Some(object));
            }
        }
        Ok(None)
    }
}

impl Place {
    /// Takes one byte; tells whether the object ends with it.
    fn ends_with(&mut self, byte: u8) -> bool {
        if self.in_text {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => self.in_text = false,
                _ => {}
            }
            return false;
        }
        match byte {
            b'"' => self.in_text = true,
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => self.depth -= 1,
            _ => {}
        }
        self.depth == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::stream;

    async fn split(pieces: &[&str]) -> (Vec<String>, Option<String>) {
        let pieces: Vec<Result<Bytes, std::io::Error>> =
            pieces.iter().map(|piece| Ok(Bytes::copy_from_slice(piece.as_bytes()))).collect();
        let mut objects = Objects::new(Body::from_stream(stream::iter(pieces)));
        let mut found = Vec::new();
        loop {
            match objects.next().await {
                Ok(Some(object)) => found.push(String::from_utf8(object.to_vec()).unwrap()),
                Ok(None) => return (found, None),
                Err(status) => return (found, Some(status.message().to_owned())),
            }
        }
    }

    #[tokio::test]
    async fn objects_are_found_whatever_pieces_they_come_in() {
        let text = r#" {"a":"}\"{","b":[{"c":"\\"}]}
            {}{"d":1} "#;
        let whole = [r#"{"a":"}\"{","b":[{"c":"\\"}]}"#, "{}", r#"{"d":1}"#];
        assert_eq!(split(&[text]).await, (whole.map(String::from).to_vec(), None));
        for cut in 1..text.len() {
            let (one, two) = text.split_at(cut);
            assert_eq!(split(&[one, two]).await, (whole.map(String::from).to_vec(), None), "cut at {cut}");
        }
    }

    #[tokio::test]
    async fn an_object_that_does_not_end_is_refused() {
        let (found, refused) = split(&["{}{\"a\":", "\"b"]).await;
        assert_eq!(found, ["{}"]);
        assert_eq!(refused.unwrap(), "the request cannot be read: it ends in the middle of an object");
    }

    #[tokio::test]
    async fn what_is_no_object_is_refused_at_once() {
        for text in ["x", "[1]", "null", "}"] {
            let (found, refused) = split(&["{} ", text]).await;
            assert_eq!(found, ["{}"]);
            assert_eq!(refused.unwrap(), "the request cannot be read: an object was expected", "{text}");
        }
    }

    #[tokio::test]
    async fn an_object_without_measure_is_refused() {
        let piece = format!("{{\"a\":\"{}", "x".repeat(BODY_MAX));
        let (found, refused) = split(&["{}", &piece, "never read"]).await;
        assert_eq!(found, ["{}"]);
        assert_eq!(refused.unwrap(), too_large().message());
    }

    #[tokio::test]
    async fn space_without_measure_is_not_kept() {
        let spaces = " ".repeat(BODY_MAX);
        assert_eq!(split(&[&spaces, &spaces, "{}"]).await, (vec!["{}".to_owned()], None));
    }
}

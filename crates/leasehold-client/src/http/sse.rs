//! Server-sent events: bytes in, events out.
//!
//! The parser takes bytes in pieces of any size and gives the same events however they are cut. It knows the
//! fields `id`, `event`, `data` and `retry`, ignores others, and tells of comments because they prove life.

use std::time::Duration;

/// The longest line, and the most data of one event, that is accepted: more than any server of ours sends.
const MAX_BYTES: usize = 64 << 20;

/// What a stream delivers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerEvent {
    /// An event with data.
    Message {
        /// The id to resume after: of this event, or the latest before it.
        id: Option<String>,
        /// Its type; empty if it has none.
        event: String,
        /// Its data.
        data: String,
    },
    /// A line for nobody, which keeps the connection alive.
    Comment,
    /// How long to wait before connecting again.
    Retry(Duration),
}

/// A line or an event is longer than any server of ours sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event is longer than {MAX_BYTES} bytes")]
pub struct TooLong;

/// Reads a stream of events.
#[derive(Clone, Debug, Default)]
pub struct Parser {
    line: Vec<u8>,
    /// The last byte was a carriage return: a line feed right after it belongs to the same line end.
    after_return: bool,
    begun: bool,
    id: Option<String>,
    event: String,
    data: Option<String>,
}

impl Parser {
    /// Takes the next bytes and appends the events they complete to `events`.
    pub fn feed(&mut self, bytes: &[u8], events: &mut Vec<ServerEvent>) -> Result<(), TooLong> {
        for &byte in bytes {
            let after_return = std::mem::replace(&mut self.after_return, byte == b'\r');
            match byte {
                b'\n' if after_return => {}
                b'\n' | b'\r' => self.end_line(events)?,
                byte if self.line.len() < MAX_BYTES => self.line.push(byte),
                _ => return Err(TooLong),
            }
        }
        Ok(())
    }

    fn end_line(&mut self, events: &mut Vec<ServerEvent>) -> Result<(), TooLong> {
        let bytes = std::mem::take(&mut self.line);
        let line = String::from_utf8_lossy(&bytes);
        let mut line = &*line;
        if !std::mem::replace(&mut self.begun, true) {
            line = line.strip_prefix('\u{feff}').unwrap_or(line);
        }
        if line.is_empty() {
            self.dispatch(events);
            return Ok(());
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "" => events.push(ServerEvent::Comment),
            "data" => return self.add_data(value),
            "event" => value.clone_into(&mut self.event),
            "id" if !value.contains('\0') => self.id = Some(value.to_owned()),
            "retry" => {
                if let Ok(millis) = value.parse() {
                    events.push(ServerEvent::Retry(Duration::from_millis(millis)));
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn add_data(&mut self, value: &str) -> Result<(), TooLong> {
        match &mut self.data {
            Some(data) if data.len() + value.len() > MAX_BYTES => return Err(TooLong),
            Some(data) => {
                data.push('\n');
                data.push_str(value);
            }
            None => self.data = Some(value.to_owned()),
        }
        Ok(())
    }

    fn dispatch(&mut self, events: &mut Vec<ServerEvent>) {
        let event = std::mem::take(&mut self.event);
        if let Some(data) = self.data.take() {
            events.push(ServerEvent::Message { id: self.id.clone(), event, data });
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(pieces: &[&[u8]]) -> Vec<ServerEvent> {
        let (mut parser, mut events) = (Parser::default(), Vec::new());
        pieces.iter().for_each(|piece| parser.feed(piece, &mut events).unwrap());
        events
    }

    fn message(id: Option<&str>, event: &str, data: &str) -> ServerEvent {
        ServerEvent::Message { id: id.map(str::to_owned), event: event.to_owned(), data: data.to_owned() }
    }

    #[test]
    fn fields_make_an_event() {
        let found = parse(&[b"id: 7\nevent: change\ndata: {\ndata:  }\n\n:ping\n\nretry: 250\ndata\n\n"]);
        let expected = [
            message(Some("7"), "change", "{\n }"),
            ServerEvent::Comment,
            ServerEvent::Retry(Duration::from_millis(250)),
            message(Some("7"), "", ""),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn what_is_unknown_unfinished_or_empty_is_no_event() {
        assert_eq!(
            parse(&[b"\xef\xbb\xbfdata: a\r\n\r\nfoo: bar\n\nid: 1\n\nid: \0\ndata: b\n\ndata: cut"]),
            [message(None, "", "a"), message(Some("1"), "", "b"),]
        );
    }

    #[test]
    fn a_line_without_end_is_refused() {
        let (mut parser, mut events) = (Parser::default(), Vec::new());
        let piece = vec![b'x'; 1 << 20];
        assert!((0..64).all(|_| parser.feed(&piece, &mut events).is_ok()));
        assert_eq!(parser.feed(b"x", &mut events), Err(TooLong));
    }

    fn stream() -> impl Strategy<Value = Vec<u8>> {
        let part = prop_oneof![
            Just("id: 12".to_owned()),
            Just("event: change".to_owned()),
            Just("data: {\"ü\":1}".to_owned()),
            Just("data".to_owned()),
            Just(": hi".to_owned()),
            Just("retry: 3".to_owned()),
            Just("\n".to_owned()),
            Just("\r\n".to_owned()),
            Just("\r".to_owned()),
            "[a-z: \u{feff}é]{0,6}",
        ];
        prop::collection::vec(part, 0..40).prop_map(|parts| parts.concat().into_bytes())
    }

    proptest! {
        #[test]
        fn any_cutting_gives_the_same_events(bytes in stream(), cuts in prop::collection::vec(0..200_usize, 0..20)) {
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
            prop_assert_eq!(parse(&pieces), parse(&[&bytes]));
        }

        #[test]
        fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            parse(&[&bytes]);
        }
    }
}

//! A small blocking HTTP/1.1 client: one kept connection, time limits, JSON both ways, server-sent events.
//!
//! It never repeats a request by itself: whether a repetition is safe is what the tests are about.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

/// How long an answer may take unless told otherwise.
const USUAL: Duration = Duration::from_secs(30);
/// A kept connection that was idle for longer may just be closed by the server, so a new one is made.
const IDLE_MAX: Duration = Duration::from_secs(5);

/// An answer.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) text: String,
    /// The body, if it is JSON.
    pub(crate) json: Value,
    /// How long before the answer the request was begun.
    pub(crate) sent: Instant,
    pub(crate) answered: Instant,
}

impl Answer {
    /// Insists on a status.
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Answer {
        assert_eq!(self.status, status, "{}", self.text);
        self
    }

    /// Insists on a refusal with this status and stable code.
    #[track_caller]
    pub(crate) fn refused(self, status: u16, code: &str) -> Answer {
        assert_eq!((self.status, self.code()), (status, code), "{}", self.text);
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{}", self.text);
        self
    }

    /// The stable code of a refusal.
    pub(crate) fn code(&self) -> &str {
        self.json["code"].as_str().unwrap_or_default()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    /// The revision that the answer is true at.
    pub(crate) fn revision(&self) -> u64 {
        self.header("lease-revision").expect("every answer carries it").parse().unwrap()
    }

    /// The lease time that the answer is true at, in milliseconds.
    pub(crate) fn time(&self) -> u64 {
        self.header("lease-time").expect("every answer carries it").parse().unwrap()
    }

    /// The fencing token of a lease with one claim.
    #[track_caller]
    pub(crate) fn token(&self) -> u64 {
        self.json["token"].as_u64().unwrap_or_else(|| panic!("there is no token in {}", self.text))
    }

    /// The remaining time of a granted, renewed or read lease.
    #[track_caller]
    pub(crate) fn remaining(&self) -> Duration {
        span(&self.json["remaining"])
    }
}

/// Reads a duration like `1m30s` or `900ms`.
#[track_caller]
pub(crate) fn span(value: &Value) -> Duration {
    let text = value.as_str().unwrap_or_else(|| panic!("{value} is not a duration"));
    let (mut total, mut number, mut unit) = (0, String::new(), String::new());
    let mut add = |number: &mut String, unit: &mut String| {
        let size = match unit.as_str() {
            "d" => 86_400_000,
            "h" => 3_600_000,
            "m" => 60_000,
            "s" => 1000,
            "ms" => 1,
            other => panic!("`{other}` in {text} is not a unit"),
        };
        total += number.parse::<u64>().unwrap() * size;
        number.clear();
        unit.clear();
    };
    for c in text.chars() {
        if c.is_ascii_digit() && !unit.is_empty() {
            add(&mut number, &mut unit);
        }
        if c.is_ascii_digit() { number.push(c) } else { unit.push(c) }
    }
    add(&mut number, &mut unit);
    Duration::from_millis(total)
}

/// A client with one kept connection.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) address: SocketAddr,
    pub(crate) patience: Duration,
    kept: Option<(BufReader<TcpStream>, Instant)>,
}

impl Client {
    pub(crate) fn new(address: SocketAddr) -> Client {
        Client { address, patience: USUAL, kept: None }
    }

    #[track_caller]
    pub(crate) fn get(&mut self, path: &str) -> Answer {
        self.send("GET", path, &[], b"").unwrap_or_else(|error| panic!("GET {path}: {error}"))
    }

    #[track_caller]
    pub(crate) fn delete(&mut self, path: &str) -> Answer {
        self.send("DELETE", path, &[], b"").unwrap_or_else(|error| panic!("DELETE {path}: {error}"))
    }

    #[track_caller]
    pub(crate) fn post(&mut self, path: &str, body: &Value) -> Answer {
        self.try_post(path, body).unwrap_or_else(|error| panic!("POST {path}: {error}"))
    }

    /// Puts a bare value.
    #[track_caller]
    pub(crate) fn put(&mut self, path: &str, value: &str) -> Answer {
        self.send("PUT", path, &[], value.as_bytes()).unwrap_or_else(|error| panic!("PUT {path}: {error}"))
    }

    pub(crate) fn try_post(&mut self, path: &str, body: &Value) -> io::Result<Answer> {
        self.send("POST", path, &[("content-type", "application/json")], body.to_string().as_bytes())
    }

    /// Sends a request and reads the answer. After an error the connection is gone and the outcome is not known.
    pub(crate) fn send(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> io::Result<Answer> {
        let bytes = self.request(method, path, headers, body);
        self.exchange(&bytes)
    }

    fn request(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
        let mut head = format!("{method} {path} HTTP/1.1\r\nhost: {}\r\n", self.address);
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if !body.is_empty() || method == "POST" || method == "PUT" {
            head.push_str(&format!("content-length: {}\r\n", body.len()));
        }
        head.push_str("\r\n");
        [head.as_bytes(), body].concat()
    }

    /// Sends bytes as they are and reads one answer.
    pub(crate) fn exchange(&mut self, bytes: &[u8]) -> io::Result<Answer> {
        let mut connection = match self.kept.take() {
            Some((kept, used)) if used.elapsed() < IDLE_MAX => kept,
            Some(_) | None => connect(self.address)?,
        };
        connection.get_ref().set_read_timeout(Some(self.patience))?;
        let sent = Instant::now();
        // A server may refuse and close before it has read everything; then the answer counts, not the failed write.
        let written = connection.get_mut().write_all(bytes);
        let answer = match read_answer(&mut connection, sent) {
            Ok(answer) => answer,
            Err(error) => return Err(written.err().unwrap_or(error)),
        };
        let closes = answer.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
        if !closes && written.is_ok() {
            self.kept = Some((connection, Instant::now()));
        }
        Ok(answer)
    }

    /// Sends a request and closes the connection at once: the outcome is not known.
    pub(crate) fn send_and_leave(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) {
        if let Ok(mut connection) = connect(self.address) {
            let _ = connection.get_mut().write_all(&self.request(method, path, headers, body));
        }
    }
}

pub(crate) fn connect(address: SocketAddr) -> io::Result<BufReader<TcpStream>> {
    let stream = TcpStream::connect_timeout(&address, Duration::from_secs(5))?;
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(USUAL))?;
    Ok(BufReader::new(stream))
}

/// Status and headers; names in lower case.
fn read_head(from: &mut impl BufRead) -> io::Result<(u16, Vec<(String, String)>)> {
    let bad = |text: &str| io::Error::new(io::ErrorKind::InvalidData, format!("not HTTP: {text:?}"));
    let mut line = String::new();
    if from.read_line(&mut line)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let status = line.split(' ').nth(1).and_then(|text| text.trim().parse().ok()).ok_or_else(|| bad(&line))?;
    let mut headers = Vec::new();
    loop {
        line.clear();
        if from.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let Some((name, value)) = line.trim_end().split_once(':') else { return Ok((status, headers)) };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
}

fn read_answer(from: &mut BufReader<TcpStream>, sent: Instant) -> io::Result<Answer> {
    let (status, headers) = read_head(from)?;
    let find = |name: &str| headers.iter().find(|(given, _)| given == name).map(|(_, value)| value.clone());
    let mut body = Vec::new();
    if find("transfer-encoding").is_some() {
        while let Some(piece) = read_chunk(from)? {
            body.extend(piece);
        }
    } else if status != 204 {
        let length = find("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
        body.resize(length, 0);
        from.read_exact(&mut body)?;
    }
    let text = String::from_utf8_lossy(&body).into_owned();
    let json = serde_json::from_str(&text).unwrap_or_default();
    Ok(Answer { status, headers, text, json, sent, answered: Instant::now() })
}

/// The next piece of a chunked body; none at its proper end.
fn read_chunk(from: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut line = String::new();
    if from.read_line(&mut line)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let length = usize::from_str_radix(line.trim(), 16)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, format!("not the length of a chunk: {line:?}")))?;
    let mut piece = vec![0; length + 2];
    from.read_exact(&mut piece)?;
    piece.truncate(length);
    Ok((length > 0).then_some(piece))
}

/// A server-sent event.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) event: String,
    pub(crate) id: u64,
    pub(crate) data: Value,
    pub(crate) seen: Instant,
}

/// What comes out of a stream of events.
#[derive(Debug)]
pub(crate) enum Streamed {
    Message(Message),
    /// The server ended the stream properly.
    Ended,
    /// The connection broke.
    Broke,
}

/// An open stream of events, read by a thread of its own.
pub(crate) struct Events {
    socket: TcpStream,
    messages: mpsc::Receiver<Streamed>,
}

impl Events {
    /// Opens a stream; an answer that is not one is given back.
    pub(crate) fn open(address: SocketAddr, path: &str, last: Option<u64>) -> io::Result<Result<Events, Answer>> {
        Events::open_within(USUAL, address, path, last)
    }

    /// Opens a stream of a server that may be silent for only so long.
    pub(crate) fn open_within(
        patience: Duration,
        address: SocketAddr,
        path: &str,
        last: Option<u64>,
    ) -> io::Result<Result<Events, Answer>> {
        let mut connection = connect(address)?;
        connection.get_ref().set_read_timeout(Some(patience))?;
        let resume = last.map(|id| format!("last-event-id: {id}\r\n")).unwrap_or_default();
        let sent = Instant::now();
        let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\naccept: text/event-stream\r\n{resume}\r\n");
        connection.get_mut().write_all(request.as_bytes())?;
        if connection.fill_buf()?.starts_with(b"HTTP/1.1 200") {
            read_head(&mut connection)?;
        } else {
            return read_answer(&mut connection, sent).map(Err);
        }
        Events::after_head(connection).map(Ok)
    }

    /// Begins to read a stream that was asked for on a bare connection.
    pub(crate) fn from_open(mut connection: BufReader<TcpStream>) -> io::Result<Events> {
        read_head(&mut connection)?;
        Events::after_head(connection)
    }

    fn after_head(connection: BufReader<TcpStream>) -> io::Result<Events> {
        let socket = connection.get_ref().try_clone()?;
        socket.set_read_timeout(None)?;
        let (send, messages) = mpsc::channel();
        thread::spawn(move || read_events(connection, &send));
        Ok(Events { socket, messages })
    }

    /// The next thing within a time.
    pub(crate) fn next_within(&self, time: Duration) -> Option<Streamed> {
        self.messages.recv_timeout(time).ok()
    }

    /// The next change within a time; marks are skipped.
    pub(crate) fn change_within(&self, time: Duration) -> Option<Message> {
        let until = Instant::now() + time;
        loop {
            match self.next_within(until.saturating_duration_since(Instant::now()))? {
                Streamed::Message(message) if message.event == "change" => return Some(message),
                Streamed::Message(_) => {}
                Streamed::Ended | Streamed::Broke => return None,
            }
        }
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}

fn read_events(mut from: BufReader<TcpStream>, into: &mpsc::Sender<Streamed>) {
    let mut text = Vec::new();
    loop {
        match read_chunk(&mut from) {
            Ok(Some(piece)) => text.extend(piece),
            Ok(None) => {
                let _ = into.send(Streamed::Ended);
                return;
            }
            Err(_) => {
                let _ = into.send(Streamed::Broke);
                return;
            }
        }
        while let Some(end) = text.windows(2).position(|pair| pair == b"\n\n") {
            let block: Vec<u8> = text.drain(..end + 2).collect();
            if let Some(message) = message(&String::from_utf8_lossy(&block))
                && into.send(Streamed::Message(message)).is_err()
            {
                return;
            }
        }
    }
}

/// A message; none for the sign of life of a silent stream.
fn message(block: &str) -> Option<Message> {
    let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    Some(Message {
        event: field("event")?.to_owned(),
        id: field("id")?.parse().ok()?,
        data: serde_json::from_str(field("data")?).ok()?,
        seen: Instant::now(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn durations_are_read() {
        for (text, millis) in [("900ms", 900), ("1m30s", 90_000), ("2d1ms", 172_800_001), ("0ms", 0)] {
            assert_eq!(span(&json!(text)), Duration::from_millis(millis), "{text}");
        }
    }

    #[test]
    fn messages_are_read_and_signs_of_life_are_not() {
        let found = message("event: change\nid: 7\ndata: {\"revision\":7}\n\n").unwrap();
        assert_eq!((found.event.as_str(), found.id, found.data["revision"].as_u64()), ("change", 7, Some(7)));
        assert!(message(":\n\n").is_none());
    }
}

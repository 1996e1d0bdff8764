//! A server that reacts to each request as its script says, in order, and remembers what it was asked.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// What the server does with one request.
#[derive(Clone, Debug)]
pub(crate) enum Reaction {
    /// Answers with a status and a body.
    Answer(u16, String),
    /// Answers so, but takes its time.
    #[allow(dead_code, reason = "not every suite that uses the server needs it")]
    Late(Duration, u16, String),
    /// Answers with no content, and this header.
    #[allow(dead_code, reason = "not every suite that uses the server needs it")]
    Header(&'static str, &'static str),
    /// Reads the request and closes the connection without an answer.
    Drop,
    /// Begins a stream of events, sends this text and closes the connection.
    Stream(String),
    /// Reads the request and keeps the caller waiting until it goes.
    Hang,
}

/// A request as it arrived.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// Method and path with query.
    pub line: String,
    /// The headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: String,
}

impl Seen {
    /// The value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// The body as JSON.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).expect("the body is JSON")
    }
}

/// A scripted server; it ends with the process.
#[derive(Clone, Debug)]
pub(crate) struct Fake {
    addr: String,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Fake {
    /// Starts a server with this script; requests beyond it are answered with 500.
    pub(crate) fn start(script: Vec<Reaction>) -> Fake {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let addr = format!("http://{}", listener.local_addr().expect("it is bound"));
        let seen = Arc::new(Mutex::new(Vec::new()));
        let remembered = Arc::clone(&seen);
        thread::spawn(move || {
            let mut script = script.into_iter();
            for stream in listener.incoming() {
                let stream = stream.expect("loopback accepts");
                let Some(request) = read(&stream) else { continue };
                remembered.lock().expect("no test panicked with it").push(request);
                let unscripted = Reaction::Answer(500, "beyond the script".to_owned());
                react(stream, script.next().unwrap_or(unscripted));
            }
        });
        Fake { addr, seen }
    }

    /// Where it listens.
    pub(crate) fn addr(&self) -> &str {
        &self.addr
    }

    /// What it was asked so far.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().expect("no test panicked with it").clone()
    }
}

fn read(stream: &TcpStream) -> Option<Seen> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|length| *length > 0)?;
    let mut headers = Vec::new();
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let Some((name, value)) = header.trim_end().split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length").map_or(0, |(_, n)| n.parse().unwrap_or(0));
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let line = line.trim_end().trim_end_matches(" HTTP/1.1").to_owned();
    Some(Seen { line, headers, body: String::from_utf8_lossy(&body).into_owned() })
}

fn react(mut stream: TcpStream, reaction: Reaction) {
    let _ = match reaction {
        Reaction::Answer(status, body) => write!(
            stream,
            "HTTP/1.1 {status} X\r\nlease-time: 4200\r\nlease-revision: 40\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        ),
        Reaction::Late(time, status, body) => {
            thread::spawn(move || {
                thread::sleep(time);
                react(stream, Reaction::Answer(status, body));
            });
            Ok(())
        }
        Reaction::Header(name, value) => {
            write!(stream, "HTTP/1.1 204 X\r\nlease-time: 4200\r\nconnection: close\r\n{name}: {value}\r\n\r\n")
        }
        Reaction::Drop => Ok(()),
        Reaction::Stream(text) => write!(
            stream,
            "HTTP/1.1 200 OK\r\nlease-revision: 40\r\ncontent-type: text/event-stream\r\n\
             connection: close\r\n\r\n{text}"
        ),
        Reaction::Hang => {
            thread::spawn(move || {
                let _ = stream.read(&mut [0; 1]);
            });
            Ok(())
        }
    };
}

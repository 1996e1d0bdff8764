//! Watching: every event once, in order, over reconnects.
//!
//! The watch remembers the revision up to which it has everything and resumes after it, at the next address if a server
//! is gone or cannot serve. It gives up only if the service refuses, above all with `compacted`, or if no server can be
//! reached at the very first.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use futures_util::Stream;
use http::header::{ACCEPT, HeaderValue};
use http::{HeaderMap, HeaderName, Response};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use leasehold_api::{Change, Code, Mark, Problem, Retry};
use serde::Deserialize;

use super::client::listing;
use super::transport::{CALL_TIMEOUT, Call, refusal};
use super::{Error, HttpClient, Parser, ServerEvent};

/// After how long without a byte the connection counts as lost.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// The pause before a reconnect, unless the server names one, and the longest one it grows to.
const PAUSE: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// The longest refusal that is read.
const REFUSAL_MAX: usize = 1 << 20;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// What a watch delivers.
#[derive(Clone, Debug, PartialEq)]
pub enum Delivery {
    /// The events of one revision.
    Change(Change),
    /// Nothing for this watch up to this revision: a point to resume after.
    Mark(Mark),
    /// The connection was lost and is made again; nothing is missed.
    Lost(Error),
}

/// A subscription to what happens.
#[derive(Debug)]
pub struct Watch {
    client: HttpClient,
    prefix: String,
    /// Everything up to this revision was delivered.
    last: Option<u64>,
    connection: Option<Connection>,
    ready: VecDeque<ServerEvent>,
    pause: Duration,
    /// Whether a server has ever answered.
    contact: bool,
    /// Whether `last` was told by a server, not by the caller.
    told: bool,
    /// When the first attempt was made.
    begun: Option<Instant>,
    over: bool,
}

/// An open connection.
#[derive(Debug)]
struct Connection {
    addr: String,
    body: Incoming,
    parser: Parser,
}

/// What an event's data can be, told apart by its fields.
#[derive(Deserialize)]
#[serde(untagged)]
enum Data {
    Problem(Box<Problem>),
    Change(Change),
    Mark(Mark),
}

impl Watch {
    pub(crate) fn new(client: HttpClient, prefix: &str, since: Option<u64>) -> Watch {
        Watch {
            client,
            prefix: prefix.to_owned(),
            last: since,
            connection: None,
            ready: VecDeque::new(),
            pause: PAUSE,
            contact: false,
            told: false,
            begun: None,
            over: false,
        }
    }

    /// The revision up to which everything was delivered, if one is known.
    pub fn revision(&self) -> Option<u64> {
        self.last
    }

    /// The next delivery; an error is the last one.
    pub async fn next(&mut self) -> Result<Delivery, Error> {
        loop {
            match self.step().await {
                Ok(Some(delivery)) => return Ok(delivery),
                Ok(None) => {}
                Err(error) if self.may_pass(&error) => {
                    if let Some(connection) = self.connection.take() {
                        self.client.transport().leave(&connection.addr);
                    }
                    self.ready.clear();
                    tokio::time::sleep(self.pause).await;
                    self.pause = (self.pause * 2).min(PAUSE_MAX);
                    if self.contact {
                        return Ok(Delivery::Lost(error));
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether it may be better after a reconnect. Before the first contact a server is waited for only if it is there.
    fn may_pass(&self, error: &Error) -> bool {
        let begun = self.begun.is_some_and(|begun| begun.elapsed() < CALL_TIMEOUT);
        match error {
            Error::Unreachable { .. } => self.contact,
            // Another server told of that revision, this one has not reached it.
            Error::Refused(problem) if self.told && problem.field.as_deref() == Some("since") => true,
            Error::Refused(problem) => {
                let passes = matches!(problem.known_code().map(Code::retry), Some(Retry::Later | Retry::SameId));
                passes && (self.contact || begun)
            }
            Error::Protocol { .. } => false,
        }
    }

    /// Delivers what is there, or else reads, or else connects.
    async fn step(&mut self) -> Result<Option<Delivery>, Error> {
        if let Some(event) = self.ready.pop_front() {
            return self.deliver(event);
        }
        match &mut self.connection {
            Some(connection) => connection.read(&mut self.ready).await?,
            None => self.connect().await?,
        }
        Ok(None)
    }

    /// The deliveries as a stream that ends after an error.
    pub fn into_stream(self) -> impl Stream<Item = Result<Delivery, Error>> {
        futures_util::stream::unfold(self, async |mut watch| {
            if watch.over {
                return None;
            }
            let item = watch.next().await;
            watch.over = item.is_err();
            Some((item, watch))
        })
    }

    async fn connect(&mut self) -> Result<(), Error> {
        self.begun.get_or_insert_with(Instant::now);
        let last = match self.last {
            Some(last) => last,
            // "From now on" is fixed before the first connection, so that the second one misses nothing.
            None => {
                self.told = true;
                self.client.cluster().await?.revision
            }
        };
        self.last = Some(last);
        let mut url = listing(self.client.url("watch"), &self.prefix, None);
        let mut headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("text/event-stream"))]);
        if self.contact {
            headers.insert(LAST_EVENT_ID, HeaderValue::from(last));
        } else {
            url = url.query("since", last.to_string());
        }
        let call = Call { headers, ..Call::get(url) };
        let opened = self.client.transport().open(&call).await;
        let (addr, _, response) = opened.map_err(|failure| failure.error)?;
        let response = match accepted(&addr, response).await {
            Ok(response) => response,
            Err(error) => {
                self.client.transport().leave(&addr);
                return Err(error);
            }
        };
        (self.contact, self.told) = (true, true);
        self.connection = Some(Connection { addr, body: response.into_body(), parser: Parser::default() });
        Ok(())
    }

    /// What an event means for the caller, if anything.
    fn deliver(&mut self, event: ServerEvent) -> Result<Option<Delivery>, Error> {
        let data = match event {
            ServerEvent::Comment => return Ok(None),
            ServerEvent::Retry(pause) => {
                self.pause = pause.min(PAUSE_MAX);
                return Ok(None);
            }
            ServerEvent::Message { data, .. } => data,
        };
        self.pause = PAUSE;
        match serde_json::from_str(&data) {
            Ok(Data::Problem(problem)) => Err(Error::Refused(problem)),
            // A repetition after a reconnect was delivered before.
            Ok(Data::Change(change)) if self.last.is_some_and(|last| change.revision <= last) => Ok(None),
            Ok(Data::Change(change)) => {
                self.last = Some(change.revision);
                Ok(Some(Delivery::Change(change)))
            }
            Ok(Data::Mark(mark)) => {
                self.last = self.last.max(Some(mark.revision));
                Ok(Some(Delivery::Mark(mark)))
            }
            Err(_) => Err(Error::Protocol {
                addr: self.connection.as_ref().map(|connection| connection.addr.clone()).unwrap_or_default(),
                detail: "an event of the watch cannot be read; is the server newer than this client?".to_owned(),
            }),
        }
    }
}

impl Connection {
    /// Reads once; the end of the stream is a lost connection.
    async fn read(&mut self, ready: &mut VecDeque<ServerEvent>) -> Result<(), Error> {
        let lost = |cause: String| Error::Unreachable { addr: self.addr.clone(), cause };
        let frame = match tokio::time::timeout(SILENCE_MAX, self.body.frame()).await {
            Err(_) => return Err(lost("nothing was heard for half a minute".to_owned())),
            Ok(None) => return Err(lost("the server ended the watch".to_owned())),
            Ok(Some(Err(error))) => return Err(lost(super::error::cause_of(&error))),
            Ok(Some(Ok(frame))) => frame,
        };
        let Ok(bytes) = frame.into_data() else { return Ok(()) };
        let mut events = Vec::new();
        self.parser
            .feed(&bytes, &mut events)
            .map_err(|error| Error::Protocol { addr: self.addr.clone(), detail: error.to_string() })?;
        ready.extend(events);
        Ok(())
    }
}

/// The response if it is a stream, or the refusal.
pub(super) async fn accepted(addr: &str, response: Response<Incoming>) -> Result<Response<Incoming>, Error> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let body = tokio::time::timeout(CALL_TIMEOUT, Limited::new(response.into_body(), REFUSAL_MAX).collect()).await;
    let body = body.ok().and_then(Result::ok).map(|body| body.to_bytes()).unwrap_or_default();
    Err(refusal(addr.to_owned(), status, &body))
}

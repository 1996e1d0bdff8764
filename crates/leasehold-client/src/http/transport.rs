//! Calls over HTTP/1: which address, how long, and whether to try again.
//!
//! An address that cannot be reached, breaks the connection, has no leader or is stopping is left for the next one. A call
//! whose answer is lost is repeated only if that is safe; otherwise the caller is told that it may have happened. What
//! went wrong where is kept in `trouble.rs`.

use std::fmt::Display;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use leasehold_api::{Code, Problem};
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Error;
use super::error::cause_of;
use super::trouble::Trouble;
use super::url::Url;
use crate::{Endpoints, Moment};

/// How long an address may take to accept a connection: without another one to try, and with.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
const CONNECT_TIMEOUT_OF_SEVERAL: Duration = Duration::from_secs(1);
/// How long an answer may take, beyond the time it was asked to wait.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// After how long without a byte a silent connection is probed, so that a long wait notices a dead server.
const PROBE_AFTER: Duration = Duration::from_secs(15);
/// The least that an address may take for an answer before another one is asked: longer than an election takes.
const ATTEMPT_MIN: Duration = Duration::from_secs(3);
/// The least that any attempt is given.
const ATTEMPT_LEAST: Duration = Duration::from_secs(1);
/// After how long a caller that goes away has found the address too slow.
const SLOW: Duration = Duration::from_millis(500);
/// The longest answer that is read.
const ANSWER_MAX: usize = 64 << 20;
/// How much of a strange answer is shown.
const EXCERPT_MAX: usize = 80;

const LEASE_TIME: &str = "lease-time";

/// One call of the API.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// How long one attempt may take in all; none if there is no bound.
    pub(crate) timeout: Option<Duration>,
    /// Whether it may be repeated if its answer is lost.
    pub(crate) repeatable: bool,
}

impl Call {
    /// A call without a body; safe to repeat if it only reads.
    pub(crate) fn new(method: Method, url: Url) -> Call {
        let repeatable = method == Method::GET;
        Call { method, url, headers: HeaderMap::new(), body: Bytes::new(), timeout: Some(CALL_TIMEOUT), repeatable }
    }

    /// Reads something.
    pub(crate) fn get(url: Url) -> Call {
        Call::new(Method::GET, url)
    }

    /// The same call with a JSON body.
    pub(crate) fn json(mut self, body: &impl Serialize) -> Call {
        self.body = serde_json::to_vec(body).expect("the types of the contract serialize").into();
        self.headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
        self
    }

    /// The same call, which has the same effect however often it is made.
    pub(crate) fn repeatable(mut self) -> Call {
        self.repeatable = true;
        self
    }
}

/// An answer, whatever its status.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) addr: String,
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// When the request was sent, before it left.
    pub(crate) sent: Moment,
    /// The addresses that could not be reached before, and why.
    skipped: Vec<(String, String)>,
}

/// A call without an answer.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: Error,
    /// What went wrong at each address that was tried.
    pub(crate) causes: Vec<(String, String)>,
    /// Whether the request may have reached a server.
    pub(crate) sent: bool,
}

/// The connections to the servers, and what all calls remember.
#[derive(Debug)]
pub(crate) struct Transport {
    http: legacy::Client<HttpConnector, Full<Bytes>>,
    endpoints: Endpoints,
    /// The address to ask next, counted round and round.
    current: AtomicUsize,
    /// The latest lease time seen; zero if none.
    lease_time: AtomicU64,
}

impl Transport {
    pub(crate) fn new(endpoints: Endpoints) -> Transport {
        let mut connector = HttpConnector::new();
        let several = endpoints.count() > 1;
        connector.set_connect_timeout(Some(if several { CONNECT_TIMEOUT_OF_SEVERAL } else { CONNECT_TIMEOUT }));
        connector.set_nodelay(true);
        connector.set_keepalive(Some(PROBE_AFTER));
        connector.set_keepalive_interval(Some(PROBE_AFTER / 3));
        connector.set_keepalive_retries(Some(3));
        let http = legacy::Client::builder(TokioExecutor::new()).pool_timer(TokioTimer::new()).build(connector);
        Transport { http, endpoints, current: AtomicUsize::new(0), lease_time: AtomicU64::new(0) }
    }

    /// The latest lease time that an answer told.
    pub(crate) fn lease_time(&self) -> Option<u64> {
        Some(self.lease_time.load(Ordering::Relaxed)).filter(|time| *time > 0)
    }

    /// Makes a call and reads its answer as `T`.
    pub(crate) async fn ask<T: DeserializeOwned>(&self, call: &Call) -> Result<T, Error> {
        self.call(call).await?.read()
    }

    /// Makes a call, again where that is safe: if its answer was lost, or if it was refused by a server in whose place
    /// another may do better.
    pub(crate) async fn call(&self, call: &Call) -> Result<Answer, Error> {
        let mut trouble = Trouble::new(self.endpoints.count(), call.timeout.unwrap_or(CALL_TIMEOUT));
        loop {
            // The last attempt gets a chance, even if little patience is left.
            let left = call.timeout.map(|_| trouble.patience_left().max(ATTEMPT_LEAST));
            let limit = [self.slot(call), left].into_iter().flatten().min();
            match self.attempt(call, limit).await {
                Ok(answer) => {
                    let Some((cause, may_have_happened)) = answer.trouble() else { return Ok(answer) };
                    answer.skipped.iter().for_each(|(addr, cause)| trouble.note_lost(addr, cause.clone()));
                    trouble.note(&answer.addr, cause);
                    let again = (call.repeatable || !may_have_happened) && trouble.may_try_again();
                    if !again {
                        return if trouble.is_of_several() { Err(trouble.error()) } else { Ok(answer) };
                    }
                }
                Err(failure) => {
                    let again = if failure.sent { call.repeatable } else { trouble.was_answered() };
                    failure.causes.iter().for_each(|(addr, cause)| trouble.note_lost(addr, cause.clone()));
                    if !again || !trouble.may_try_again() {
                        return Err(failure.told(call, &trouble));
                    }
                }
            }
            trouble.pause().await;
        }
    }

    /// Makes a call once, at the first address that can be reached.
    pub(crate) async fn once(&self, call: &Call) -> Result<Answer, Failure> {
        self.attempt(call, self.slot(call)).await
    }

    /// Makes a call once and returns when the answer begins.
    pub(crate) async fn open(&self, call: &Call) -> Result<(String, Moment, Response<Incoming>), Failure> {
        let attempt = Attempt::new(self);
        attempt.within(self.slot(call), self.begin(call, &attempt)).await
    }

    /// Asks another address next time, unless that is so already.
    pub(crate) fn leave(&self, addr: &str) {
        let now = self.current.load(Ordering::Relaxed);
        if self.endpoints.at(now) == addr {
            // Whoever was faster left it too.
            let _ = self.current.compare_exchange(now, now.wrapping_add(1), Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    async fn attempt(&self, call: &Call, limit: Option<Duration>) -> Result<Answer, Failure> {
        let attempt = Attempt::new(self);
        let answer = async {
            let (addr, sent, response) = self.begin(call, &attempt).await?;
            let (parts, body) = response.into_parts();
            match Limited::new(body, ANSWER_MAX).collect().await {
                Ok(body) => {
                    let (status, headers, body) = (parts.status, parts.headers, body.to_bytes());
                    Ok(Answer { addr, status, headers, body, sent, skipped: attempt.skipped() })
                }
                Err(error) => {
                    self.leave(&addr);
                    Err(attempt.lost(cause_of(&*error)))
                }
            }
        };
        let answer = attempt.within(limit, answer).await?;
        if answer.trouble().is_some() {
            self.leave(&answer.addr);
        }
        Ok(answer)
    }

    /// How long one attempt may take: with other addresses to ask, a call that may be repeated asks them too.
    fn slot(&self, call: &Call) -> Option<Duration> {
        let count = u32::try_from(self.endpoints.count()).unwrap_or(u32::MAX).max(1);
        let timeout = call.timeout?;
        if count == 1 || !call.repeatable {
            return Some(timeout);
        }
        Some(timeout.saturating_sub(CALL_TIMEOUT) + (CALL_TIMEOUT / count).max(ATTEMPT_MIN))
    }

    async fn begin(&self, call: &Call, attempt: &Attempt<'_>) -> Result<(String, Moment, Response<Incoming>), Failure> {
        let first = self.current.load(Ordering::Relaxed);
        for step in 0..self.endpoints.count() {
            let index = first.wrapping_add(step);
            attempt.index.store(index, Ordering::Relaxed);
            let addr = self.endpoints.at(index);
            let request = request(addr, call).map_err(|detail| Failure::bad_request(addr, detail))?;
            let sent = Moment::now();
            match self.http.request(request).await {
                Ok(response) => {
                    self.remember(response.headers());
                    return Ok((addr.to_owned(), sent, response));
                }
                Err(error) if error.is_connect() => {
                    self.leave(addr);
                    attempt.skipped.lock().push((addr.to_owned(), cause_of(&error)));
                }
                Err(error) => {
                    self.leave(addr);
                    return Err(attempt.lost(cause_of(&error)));
                }
            }
        }
        Err(Failure::unreachable(attempt.skipped()))
    }

    fn remember(&self, headers: &HeaderMap) {
        let time = headers.get(LEASE_TIME).and_then(|value| value.to_str().ok()).and_then(|text| text.parse().ok());
        if let Some(time) = time {
            self.lease_time.fetch_max(time, Ordering::Relaxed);
        }
    }
}

fn request(addr: &str, call: &Call) -> Result<Request<Full<Bytes>>, http::Error> {
    let mut request = Request::builder()
        .method(call.method.clone())
        .uri(format!("{addr}{}", call.url.as_str()))
        .body(Full::new(call.body.clone()))?;
    request.headers_mut().extend(call.headers.clone());
    Ok(request)
}

/// An attempt under way. One that is given up after long has found its address too slow.
struct Attempt<'a> {
    transport: &'a Transport,
    /// Which address is asked.
    index: AtomicUsize,
    /// The addresses that could not be reached, and why.
    skipped: Mutex<Vec<(String, String)>>,
    begun: Instant,
    over: AtomicBool,
}

impl<'a> Attempt<'a> {
    fn new(transport: &'a Transport) -> Attempt<'a> {
        let (index, skipped, over) = Default::default();
        Attempt { transport, index, skipped, begun: Instant::now(), over }
    }

    fn addr(&self) -> &str {
        self.transport.endpoints.at(self.index.load(Ordering::Relaxed))
    }

    fn skipped(&self) -> Vec<(String, String)> {
        self.skipped.lock().clone()
    }

    /// The failure of an answer that was lost.
    fn lost(&self, cause: String) -> Failure {
        let mut causes = self.skipped();
        causes.push((self.addr().to_owned(), cause));
        Failure { error: unreachable(&causes), causes, sent: true }
    }

    async fn within<T>(
        &self,
        limit: Option<Duration>,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let result = match limit {
            Some(limit) => tokio::time::timeout(limit, work).await.map_err(|_| limit),
            None => Ok(work.await),
        };
        match result {
            Ok(result) => {
                self.over.store(true, Ordering::Relaxed);
                result
            }
            Err(limit) => {
                self.transport.leave(self.addr());
                Err(self.lost(format!("no answer within {}", words(limit))))
            }
        }
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if !self.over.load(Ordering::Relaxed) && self.begun.elapsed() >= SLOW {
            self.transport.leave(self.addr());
        }
    }
}

impl Failure {
    fn unreachable(causes: Vec<(String, String)>) -> Failure {
        Failure { error: unreachable(&causes), causes, sent: false }
    }

    fn bad_request(addr: &str, detail: http::Error) -> Failure {
        let detail = format!("the request cannot be written: {detail}");
        Failure { error: Error::Protocol { addr: addr.to_owned(), detail }, causes: Vec::new(), sent: false }
    }

    /// The error for the caller, with a warning if the call may have changed something.
    fn told(self, call: &Call, trouble: &Trouble) -> Error {
        let error = if trouble.is_of_several() { trouble.error() } else { self.error };
        match error {
            Error::Unreachable { addr, cause } if self.sent && !call.repeatable => Error::Unreachable {
                addr,
                cause: format!("{cause}; the request was sent and may have taken effect, look before repeating it"),
            },
            error @ (Error::Unreachable { .. } | Error::Refused(_) | Error::Protocol { .. }) => error,
        }
    }
}

/// The error of addresses that failed, each with its cause.
pub(super) fn unreachable(causes: &[(String, String)]) -> Error {
    let (addr, mut cause) = causes.first().cloned().unwrap_or_default();
    for (addr, other) in causes.iter().skip(1) {
        cause.push_str(&format!("; nor {addr}: {other}"));
    }
    Error::Unreachable { addr, cause }
}

impl Answer {
    /// The answer as `T`, or the refusal.
    pub(crate) fn read<T: DeserializeOwned>(self) -> Result<T, Error> {
        let answer = self.accepted()?;
        serde_json::from_slice(&answer.body).map_err(|error| Error::Protocol {
            addr: answer.addr,
            detail: format!("its answer cannot be read: {error}"),
        })
    }

    /// What a header says.
    pub(crate) fn header<T: FromStr<Err: Display>>(&self, name: &'static str) -> Result<T, Error> {
        let wrong = |detail| Error::Protocol { addr: self.addr.clone(), detail };
        let value = self.headers.get(name).ok_or_else(|| wrong(format!("its answer has no header {name}")))?;
        let text = value.to_str().unwrap_or_default();
        text.parse().map_err(|error| wrong(format!("the header {name} of its answer cannot be read: {error}")))
    }

    /// What keeps this very server from serving, and whether the call may have had an effect; none if another one would
    /// answer no better.
    fn trouble(&self) -> Option<(String, bool)> {
        match self.status {
            StatusCode::SERVICE_UNAVAILABLE => {
                let problem: Problem = serde_json::from_slice(&self.body).ok()?;
                matches!(problem.known_code(), Some(Code::NoQuorum | Code::ShuttingDown))
                    .then_some((problem.detail, problem.may_have_happened.unwrap_or(true)))
            }
            // A proxy that cannot reach the server speaks in its place.
            StatusCode::BAD_GATEWAY | StatusCode::GATEWAY_TIMEOUT => {
                Some((format!("it answered {}", self.status), true))
            }
            _ => None,
        }
    }

    /// The answer if it is a good one, or the refusal.
    pub(crate) fn accepted(self) -> Result<Answer, Error> {
        if self.status.is_success() { Ok(self) } else { Err(refusal(self.addr, self.status, &self.body)) }
    }
}

/// The refusal that an answer carries.
pub(crate) fn refusal(addr: String, status: StatusCode, body: &[u8]) -> Error {
    match serde_json::from_slice::<Problem>(body) {
        Ok(problem) => Error::Refused(Box::new(problem)),
        Err(_) => {
            let text = String::from_utf8_lossy(body);
            let text: String = text.trim().chars().take(EXCERPT_MAX).collect();
            let said = if text.is_empty() { String::new() } else { format!(" and said {text:?}") };
            let said = format!("it answered {status}{said}");
            // A proxy that cannot reach the server speaks in its place.
            match status {
                StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => {
                    Error::Unreachable { addr, cause: said }
                }
                _ => Error::Protocol { addr, detail: said },
            }
        }
    }
}

/// A duration in words, for messages.
fn words(duration: Duration) -> String {
    leasehold_core::Span(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_strange_answer_is_shown_in_part() {
        let error = refusal("http://a:1".to_owned(), StatusCode::NOT_FOUND, &[b'x'; 500]);
        let Error::Protocol { detail, .. } = error else { panic!("{error}") };
        assert!(detail.starts_with("it answered 404 Not Found and said \"xxx"), "{detail}");
        assert!(detail.len() < 150, "{detail}");
    }

    #[test]
    fn a_proxy_without_a_server_behind_it_is_no_server() {
        let error = refusal("http://a:1".to_owned(), StatusCode::BAD_GATEWAY, b"");
        assert_eq!(error.to_string(), "cannot reach http://a:1: it answered 502 Bad Gateway");
    }

    #[test]
    fn all_addresses_that_failed_are_told() {
        let causes = [("http://a:1", "x"), ("http://b:1", "y")];
        let failure = Failure::unreachable(causes.map(|(addr, cause)| (addr.to_owned(), cause.to_owned())).to_vec());
        assert_eq!(failure.error.to_string(), "cannot reach http://a:1: x; nor http://b:1: y");
    }
}

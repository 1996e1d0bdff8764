//! Calls over HTTP/1: which address, how long, and whether to try again.
//!
//! An address that cannot be reached is skipped for the next one. A call whose answer is lost is repeated only
//! if that is safe; otherwise the caller is told that it may have happened.

use std::fmt::Display;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use leasehold_api::Problem;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Error;
use super::error::cause_of;
use super::url::Url;
use crate::{Endpoints, Moment};

/// How long an address may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// How long an answer may take, beyond the time it was asked to wait.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// After how long without a byte a silent connection is probed, so that a long wait notices a dead server.
const PROBE_AFTER: Duration = Duration::from_secs(15);
/// How often a call that is safe to repeat is made before its caller is told.
const ATTEMPTS: u32 = 3;
/// How long to pause before the next attempt.
const PAUSE: Duration = Duration::from_millis(100);
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
}

/// A call without an answer.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: Error,
    /// Whether the request may have reached a server.
    pub(crate) sent: bool,
}

/// The connections to the servers, and what all calls remember.
#[derive(Debug)]
pub(crate) struct Transport {
    http: legacy::Client<HttpConnector, Full<Bytes>>,
    endpoints: Endpoints,
    /// The address that answered last.
    current: AtomicUsize,
    /// The latest lease time seen; zero if none.
    lease_time: AtomicU64,
}

impl Transport {
    pub(crate) fn new(endpoints: Endpoints) -> Transport {
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
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

    /// Makes a call, again if that is safe and its answer was lost.
    pub(crate) async fn call(&self, call: &Call) -> Result<Answer, Error> {
        let mut attempt = 1;
        loop {
            match self.once(call).await {
                Ok(answer) => return Ok(answer),
                Err(failure) if failure.sent && call.repeatable && attempt < ATTEMPTS => {
                    tokio::time::sleep(PAUSE * attempt).await;
                    attempt += 1;
                }
                Err(failure) => return Err(failure.told(call)),
            }
        }
    }

    /// Makes a call once, at the first address that can be reached.
    pub(crate) async fn once(&self, call: &Call) -> Result<Answer, Failure> {
        let answer = async {
            let (addr, sent, response) = self.begin(call).await?;
            let (parts, body) = response.into_parts();
            match Limited::new(body, ANSWER_MAX).collect().await {
                Ok(body) => {
                    Ok(Answer { addr, status: parts.status, headers: parts.headers, body: body.to_bytes(), sent })
                }
                Err(error) => Err(Failure::lost(&addr, cause_of(&*error))),
            }
        };
        self.within(call.timeout, answer).await
    }

    /// Makes a call once and returns when the answer begins.
    pub(crate) async fn open(&self, call: &Call) -> Result<(String, Moment, Response<Incoming>), Failure> {
        self.within(call.timeout, self.begin(call)).await
    }

    async fn within<T>(
        &self,
        timeout: Option<Duration>,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let Some(timeout) = timeout else { return work.await };
        match tokio::time::timeout(timeout, work).await {
            Ok(result) => result,
            Err(_) => {
                // The next attempt had better ask someone else.
                let index = self.current.fetch_add(1, Ordering::Relaxed);
                Err(Failure::lost(self.endpoints.at(index), format!("no answer within {}", words(timeout))))
            }
        }
    }

    async fn begin(&self, call: &Call) -> Result<(String, Moment, Response<Incoming>), Failure> {
        let first = self.current.load(Ordering::Relaxed);
        let mut causes = Vec::new();
        for index in first..first + self.endpoints.count() {
            let addr = self.endpoints.at(index);
            let request = request(addr, call).map_err(|detail| Failure::bad_request(addr, detail))?;
            let sent = Moment::now();
            match self.http.request(request).await {
                Ok(response) => {
                    self.current.store(index % self.endpoints.count(), Ordering::Relaxed);
                    self.remember(response.headers());
                    return Ok((addr.to_owned(), sent, response));
                }
                Err(error) if error.is_connect() => causes.push((addr, cause_of(&error))),
                Err(error) => return Err(Failure::lost(addr, cause_of(&error))),
            }
        }
        Err(Failure::unreachable(&causes))
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

impl Failure {
    fn unreachable(causes: &[(&str, String)]) -> Failure {
        let (addr, mut cause) = causes.first().map_or(("", String::new()), |(addr, cause)| (*addr, cause.clone()));
        for (addr, other) in causes.iter().skip(1) {
            cause.push_str(&format!("; nor {addr}: {other}"));
        }
        Failure { error: Error::Unreachable { addr: addr.to_owned(), cause }, sent: false }
    }

    fn lost(addr: &str, cause: String) -> Failure {
        Failure { error: Error::Unreachable { addr: addr.to_owned(), cause }, sent: true }
    }

    fn bad_request(addr: &str, detail: http::Error) -> Failure {
        let detail = format!("the request cannot be written: {detail}");
        Failure { error: Error::Protocol { addr: addr.to_owned(), detail }, sent: false }
    }

    /// The error for the caller, with a warning if the call may have changed something.
    fn told(self, call: &Call) -> Error {
        match self.error {
            Error::Unreachable { addr, cause } if self.sent && !call.repeatable => Error::Unreachable {
                addr,
                cause: format!("{cause}; the request was sent and may have taken effect, look before repeating it"),
            },
            error @ (Error::Unreachable { .. } | Error::Refused(_) | Error::Protocol { .. }) => error,
        }
    }
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
        let failure = Failure::unreachable(&[("http://a:1", "x".to_owned()), ("http://b:1", "y".to_owned())]);
        assert_eq!(failure.error.to_string(), "cannot reach http://a:1: x; nor http://b:1: y");
    }
}

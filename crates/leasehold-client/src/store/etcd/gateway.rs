//! Calls of etcd's JSON gateway: the same operations as its gRPC API, on the same port, as JSON over HTTP/1.
//!
//! Bytes travel as base64 and 64-bit numbers as text; a field with its default value is left out. A call goes to
//! the first address that can be reached, beginning with the one that answered last.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;

use super::super::foreign::{self, ANSWER_TIMEOUT, CONNECT_TIMEOUT};
use crate::http::cause_of;
use crate::{Endpoints, Error, Moment};

/// The longest answer that is read.
const ANSWER_MAX: usize = 16 << 20;

/// gRPC's codes, as far as they mean something here.
pub(super) const NOT_FOUND: u64 = 5;
pub(super) const FAILED_PRECONDITION: u64 = 9;
const PERMISSION_DENIED: u64 = 7;
const UNAUTHENTICATED: u64 = 16;

/// The connections to the servers of one cluster.
#[derive(Debug)]
pub(super) struct Gateway {
    http: legacy::Client<HttpConnector, Full<Bytes>>,
    endpoints: Endpoints,
    current: AtomicUsize,
}

/// Why a call has no good answer.
#[derive(Debug)]
pub(super) enum Failed {
    /// etcd refused it with this code.
    Refused { code: u64, error: Error },
    /// There was no answer.
    NoAnswer(Error),
}

impl From<Failed> for Error {
    fn from(failed: Failed) -> Error {
        match failed {
            Failed::Refused { error, .. } | Failed::NoAnswer(error) => error,
        }
    }
}

impl Failed {
    /// Whether etcd refused it with this code.
    pub(super) fn is(&self, wanted: u64) -> bool {
        matches!(self, Failed::Refused { code, .. } if *code == wanted)
    }
}

impl Gateway {
    pub(super) fn new(endpoints: Endpoints) -> Gateway {
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
        connector.set_nodelay(true);
        let http = legacy::Client::builder(TokioExecutor::new()).build(connector);
        Gateway { http, endpoints, current: AtomicUsize::new(0) }
    }

    /// Makes a call with one answer and tells when it was sent.
    pub(super) async fn call(&self, path: &str, body: &Value) -> Result<(Moment, Value), Failed> {
        let (sent, mut answers) = self.stream(path, body.to_string()).await?;
        let answer = answers.pop().unwrap_or(Value::Null);
        Ok((sent, answer))
    }

    /// Sends one or more messages and reads answers until there are no more.
    pub(super) async fn stream(&self, path: &str, body: String) -> Result<(Moment, Vec<Value>), Failed> {
        let answered = tokio::time::timeout(ANSWER_TIMEOUT, async {
            let (addr, sent, response) = self.begin(path, body).await?;
            let body = Limited::new(response.into_body(), ANSWER_MAX).collect().await;
            let body = body.map_err(|error| Failed::NoAnswer(unreachable(&addr, cause_of(&*error))))?.to_bytes();
            let answers = serde_json::Deserializer::from_slice(&body).into_iter::<Value>();
            let answers: Vec<Value> =
                answers.collect::<Result<_, _>>().map_err(|error| Failed::NoAnswer(strange(&addr, &error)))?;
            answers.into_iter().map(|answer| checked(&addr, answer)).collect::<Result<_, _>>().map(|all| (sent, all))
        });
        match answered.await {
            Ok(answered) => answered,
            Err(_) => {
                let addr = self.endpoints.at(self.current.fetch_add(1, Ordering::Relaxed));
                Err(Failed::NoAnswer(unreachable(addr, "no answer in time".to_owned())))
            }
        }
    }

    /// Waits until a key changes after `revision`, at most for `patience`.
    pub(super) async fn await_change(&self, key: &str, revision: u64, patience: Duration) -> Result<(), Failed> {
        let create = serde_json::json!({"create_request": {
            "key": base64(key), "start_revision": (revision + 1).to_string(),
        }});
        let watch = async {
            let (addr, _, response) = self.begin("/v3/watch", create.to_string()).await?;
            let mut body = response.into_body();
            let mut received = BytesMut::new();
            while let Some(frame) = body.frame().await {
                let frame = frame.map_err(|error| Failed::NoAnswer(unreachable(&addr, cause_of(&error))))?;
                received.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
                while let Some(end) = received.iter().position(|byte| *byte == b'\n') {
                    let line = received.split_to(end + 1);
                    let message: Value =
                        serde_json::from_slice(&line).map_err(|error| Failed::NoAnswer(strange(&addr, &error)))?;
                    let message = checked(&addr, message)?;
                    // A cancelled watch, one that begins before what etcd still keeps, is a reason to look again too.
                    if message["events"].is_array() || message["canceled"] == true {
                        return Ok(());
                    }
                }
            }
            Err(Failed::NoAnswer(unreachable(&addr, "the watch ended".to_owned())))
        };
        tokio::time::timeout(patience, watch).await.unwrap_or(Ok(()))
    }

    /// Sends a request to the first address that can be reached.
    async fn begin(&self, path: &str, body: String) -> Result<(String, Moment, Response<Incoming>), Failed> {
        let body = Bytes::from(body);
        let first = self.current.load(Ordering::Relaxed);
        let mut failures = Vec::new();
        for index in first..first + self.endpoints.count() {
            let addr = self.endpoints.at(index);
            let request = Request::post(format!("{addr}{path}")).body(Full::new(body.clone()));
            let request = request.expect("a checked address and a fixed path make a request");
            let sent = Moment::now();
            match self.http.request(request).await {
                Ok(response) => {
                    self.current.store(index % self.endpoints.count(), Ordering::Relaxed);
                    return Ok((addr.to_owned(), sent, response));
                }
                Err(error) if error.is_connect() => failures.push((addr, cause_of(&error))),
                Err(error) => return Err(Failed::NoAnswer(unreachable(addr, cause_of(&error)))),
            }
        }
        let addr = self.endpoints.to_string();
        let cause = failures.pop().map_or_else(String::new, |(_, cause)| cause);
        Err(Failed::NoAnswer(Error::Unreachable { addr, cause }))
    }
}

/// An answer without its envelope, or the refusal in it.
fn checked(addr: &str, mut answer: Value) -> Result<Value, Failed> {
    // A stream wraps its messages, and a refusal on it has another shape.
    let refusal = if answer["error"].is_object() { answer["error"].take() } else { answer.clone() };
    let code = refusal["code"].as_u64().or_else(|| refusal["grpc_code"].as_u64());
    if let (Some(code), Some(message)) = (code, refusal["message"].as_str()) {
        let error = match code {
            PERMISSION_DENIED | UNAUTHENTICATED => foreign::denied(format!("{addr} refuses: {message}")),
            _ => unreachable(addr, message.to_owned()),
        };
        return Err(Failed::Refused { code, error });
    }
    Ok(if answer["result"].is_object() { answer["result"].take() } else { answer })
}

fn unreachable(addr: &str, cause: String) -> Error {
    Error::Unreachable { addr: addr.to_owned(), cause }
}

fn strange(addr: &str, error: &serde_json::Error) -> Error {
    unreachable(addr, format!("the answer makes no sense: {error}"))
}

/// Text as the gateway takes bytes.
pub(super) fn base64(text: &str) -> String {
    STANDARD.encode(text)
}

/// Bytes of an answer as text.
pub(super) fn text(value: &Value) -> String {
    let bytes = STANDARD.decode(value.as_str().unwrap_or_default()).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A 64-bit number of an answer; zero if it was left out.
pub(super) fn number(value: &Value) -> i64 {
    match value {
        Value::String(text) => text.parse().unwrap_or(0),
        Value::Number(number) => number.as_i64().unwrap_or(0),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_refusal_is_found_in_both_shapes() {
        let plain = json!({"error": "lease already exists", "message": "lease already exists", "code": 9});
        assert!(checked("a", plain).unwrap_err().is(FAILED_PRECONDITION));
        let streamed = json!({"error": {"grpc_code": 5, "message": "not found", "http_code": 404}});
        assert!(checked("a", streamed).unwrap_err().is(NOT_FOUND));
        let denied = json!({"error": "permission denied", "message": "permission denied", "code": 7});
        assert!(matches!(Error::from(checked("a", denied).unwrap_err()), Error::Denied(_)));
    }

    #[test]
    fn numbers_travel_as_text_and_zero_is_left_out() {
        let answer = checked("a", json!({"result": {"TTL": "10"}})).unwrap();
        assert_eq!((number(&answer["TTL"]), number(&answer["ID"])), (10, 0));
        assert_eq!(text(&json!(base64("orders/7"))), "orders/7");
    }
}

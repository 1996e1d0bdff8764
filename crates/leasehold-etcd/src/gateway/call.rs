//! One call of the gateway: read, carried out within its time, answered.
//!
//! Headers become metadata as etcd's gateway makes them: `Grpc-Metadata-X` is `x`, `Authorization` is the token,
//! `Grpc-Timeout` is how long the client will wait. A stream that is refused before its first answer is refused as any
//! call is; later the refusal is its last line.

use std::future::Future;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, Request as HttpRequest};
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, stream};
use http_body_util::BodyExt as _;
use prost::{Message, Name};
use tokio::time::Instant;
use tonic::metadata::MetadataMap;
use tonic::{Request, Status};

use super::objects::Objects;
use super::{BODY_MAX, json, refusal, too_large};
use crate::dialect::ClientAddress;
use crate::errors::EtcdError;
use crate::streams::{Answers, Requests};

/// How the headers begin that are metadata.
const METADATA_PREFIX: &str = "grpc-metadata-";
/// The header that says how long a client will wait, and the metadata with the token of a call.
const TIMEOUT: &str = "grpc-timeout";
const TOKEN: HeaderName = HeaderName::from_static("token");

/// A call as it comes in.
pub(crate) struct Call {
    metadata: MetadataMap,
    extensions: http::Extensions,
    deadline: Option<Instant>,
    body: Body,
}

impl<S: Sync> FromRequest<S> for Call {
    type Rejection = Response;

    async fn from_request(request: HttpRequest, _state: &S) -> Result<Call, Response> {
        let (parts, body) = request.into_parts();
        if parts.headers.contains_key(header::ORIGIN) {
            return Err(refusal::answer(&of_a_web_page()));
        }
        let deadline = deadline(&parts.headers).map_err(|status| refusal::answer(&status))?;
        let mut extensions = http::Extensions::new();
        if let Some(client) = parts.extensions.get::<ClientAddress>() {
            extensions.insert(*client);
        }
        Ok(Call { metadata: metadata(&parts.headers), extensions, deadline, body })
    }
}

impl Call {
    /// Answers a call of one request and one answer.
    pub(crate) async fn one<Q, A, F>(self, carry_out: impl FnOnce(Request<Q>) -> F) -> Response
    where
        Q: Message + Default + Name,
        A: Message + Name,
        F: Future<Output = Result<tonic::Response<A>, Status>>,
    {
        let deadline = self.deadline;
        let carried_out = async { json::write(carry_out(self.request().await?).await?.get_ref()) };
        match within(deadline, carried_out).await {
            Ok(text) => json_of(text),
            Err(status) => refusal::answer(&status),
        }
    }

    /// Answers a call of one request and many answers.
    pub(crate) async fn many<Q, A, T, F>(self, carry_out: impl FnOnce(Request<Q>) -> F) -> Response
    where
        Q: Message + Default + Name,
        A: Message + Name + 'static,
        T: Stream<Item = Result<A, Status>> + Send + 'static,
        F: Future<Output = Result<tonic::Response<T>, Status>>,
    {
        let deadline = self.deadline;
        let opened = async { Ok(carry_out(self.request().await?).await?.into_inner()) };
        match within(deadline, opened).await {
            Ok(answers) => lines(answers.boxed(), deadline).await,
            Err(status) => refusal::answer(&status),
        }
    }

    /// Answers a call of many requests and many answers.
    pub(crate) async fn exchange<Q, A>(self, carry_out: impl FnOnce(Requests<Q>) -> Answers<A>) -> Response
    where
        Q: Message + Default + Name + 'static,
        A: Message + Name + 'static,
    {
        let mut objects = Objects::new(self.body);
        let requests = match within(self.deadline, next_request(&mut objects)).await {
            Ok(None) => stream::empty().boxed(),
            Ok(Some(first)) => stream::iter([Ok(first)]).chain(requests(objects)).boxed(),
            Err(status) => return refusal::answer(&status),
        };
        lines(carry_out(Requests::new(requests, &self.metadata)), self.deadline).await
    }

    async fn request<Q: Message + Default + Name>(self) -> Result<Request<Q>, Status> {
        let body = http_body_util::Limited::new(self.body, BODY_MAX).collect().await.map_err(|error| {
            let is_limit = error.is::<http_body_util::LengthLimitError>();
            if is_limit { too_large() } else { json::malformed(&error) }
        })?;
        Ok(Request::from_parts(self.metadata, self.extensions, json::read(&body.to_bytes())?))
    }
}

/// Browsers say where a page comes from, and clients of etcd are no pages: without this, any page that somebody opens could
/// use a server on the same machine.
fn of_a_web_page() -> Status {
    Status::permission_denied("leasehold: requests of web pages are not taken")
}

/// The requests that are still to come; what cannot be read ends them.
fn requests<Q: Message + Default + Name>(objects: Objects) -> impl Stream<Item = Result<Q, Status>> + Send {
    stream::unfold(Some(objects), async |objects| {
        let mut objects = objects?;
        match next_request(&mut objects).await {
            Ok(request) => Some((Ok(request?), Some(objects))),
            Err(status) => Some((Err(status), None)),
        }
    })
}

async fn next_request<Q: Message + Default + Name>(objects: &mut Objects) -> Result<Option<Q>, Status> {
    objects.next().await?.map(|text| json::read(&text)).transpose()
}

/// Sends answers, one per line. It waits for the first: until then the whole call can be refused.
async fn lines<A: Message + Name + 'static>(mut answers: Answers<A>, deadline: Option<Instant>) -> Response {
    let first = match next_line(&mut answers, deadline).await {
        Ok(first) => first,
        Err(status) => return refusal::answer(&status),
    };
    let more = first.is_some().then_some(answers);
    let rest = stream::unfold(more, move |answers| async move {
        let mut answers = answers?;
        match next_line(&mut answers, deadline).await {
            Ok(line) => Some((line?, Some(answers))),
            Err(status) => Some((refusal::line(&status).into(), None)),
        }
    });
    let lines = stream::iter(first).chain(rest).map(Ok::<Bytes, std::convert::Infallible>);
    ([(header::CONTENT_TYPE, "application/json")], Body::from_stream(lines)).into_response()
}

async fn next_line<A: Message + Name>(
    answers: &mut Answers<A>,
    deadline: Option<Instant>,
) -> Result<Option<Bytes>, Status> {
    let Some(answer) = within(deadline, async { answers.next().await.transpose() }).await? else { return Ok(None) };
    let mut line = b"{\"result\":".to_vec();
    line.extend(json::write(&answer)?);
    line.extend(b"}\n");
    Ok(Some(line.into()))
}

fn json_of(text: Vec<u8>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}

/// Gives up when the client's time is over.
async fn within<T>(deadline: Option<Instant>, work: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
    let Some(deadline) = deadline else { return work.await };
    let late = |_| Err(Status::deadline_exceeded(EtcdError::DeadlineExceeded.text()));
    tokio::time::timeout_at(deadline, work).await.unwrap_or_else(late)
}

fn metadata(headers: &HeaderMap) -> MetadataMap {
    let mut found = HeaderMap::new();
    for (name, value) in headers {
        let name = name.as_str().strip_prefix(METADATA_PREFIX).and_then(|name| name.parse::<HeaderName>().ok());
        if let Some(name) = name {
            found.append(name, value.clone());
        }
    }
    if let Some(token) = headers.get(header::AUTHORIZATION) {
        found.insert(TOKEN, token.clone());
    }
    MetadataMap::from_headers(found)
}

fn deadline(headers: &HeaderMap) -> Result<Option<Instant>, Status> {
    let Some(value) = headers.get(TIMEOUT) else { return Ok(None) };
    let invalid =
        || Status::invalid_argument(format!("invalid grpc-timeout: {}", String::from_utf8_lossy(value.as_bytes())));
    let patience = patience(value).ok_or_else(invalid)?;
    Ok(Instant::now().checked_add(patience))
}

/// A duration as gRPC writes it: at most eight digits and a unit.
fn patience(value: &HeaderValue) -> Option<Duration> {
    let (number, unit) = value.to_str().ok()?.split_at_checked(value.len().checked_sub(1)?)?;
    if number.len() > 8 {
        return None;
    }
    let number: u64 = number.parse().ok()?;
    match unit {
        "H" => Some(Duration::from_secs(number * 3600)),
        "M" => Some(Duration::from_secs(number * 60)),
        "S" => Some(Duration::from_secs(number)),
        "m" => Some(Duration::from_millis(number)),
        "u" => Some(Duration::from_micros(number)),
        "n" => Some(Duration::from_nanos(number)),
        _ => None,
    }
}

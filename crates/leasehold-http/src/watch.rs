//! Watches, as server-sent events.
//!
//! `change` carries all events of one revision and has it as its id; `progress` is a point to resume after when
//! nothing concerned the watch; `too_slow` ends a watch that did not keep up and can be resumed. What is too old
//! to be resumed is refused before the stream begins.

use std::convert::Infallible;
use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::{Stream, stream};
use leasehold_api::{Change, Mark, NamespaceName, WatchMessage};
use leasehold_core::Revision;
use leasehold_service::{Delivery, Watch, WatchFilter};
use serde::{Deserialize, Serialize};
use utoipa::IntoParams;

use crate::call::Call;
use crate::errors::Refusal;
use crate::extract::{Params, number_in};

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Asks proxies not to hold events back.
const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");
/// How often a silent stream shows that it is alive.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// What to watch, and from where.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct WatchParams {
    /// Only resources and keys that begin so.
    #[serde(default)]
    prefix: String,
    /// Everything after this revision; from now on if absent. The header `Last-Event-ID` goes before it.
    since: Option<u64>,
}

/// Watches what happens.
#[utoipa::path(get, operation_id = "watch_events", path = "/v1/ns/{ns}/watch", tag = "watch", params(("ns" = NamespaceName, Path), WatchParams,
        ("Last-Event-ID" = Option<u64>, Header, description = "resumes after this revision")),
    responses((status = 200, description = "A stream of server-sent events; the schema is that of one message",
            body = WatchMessage, content_type = "text/event-stream")))]
pub(crate) async fn open(
    call: Call,
    headers: HeaderMap,
    Params(params): Params<WatchParams>,
) -> Result<Response, Refusal> {
    let since = number_in(&headers, &LAST_EVENT_ID)?.or(params.since).map(Revision);
    let filter = WatchFilter { prefix: params.prefix };
    let watch = call.app.service.watch(&call.caller, &call.namespace, filter, since).await?;
    let keep_alive = KeepAlive::new().interval(KEEP_ALIVE);
    let mut response = Sse::new(messages(watch)).keep_alive(keep_alive).into_response();
    response.headers_mut().insert(ACCEL_BUFFERING, HeaderValue::from_static("no"));
    Ok(response)
}

/// The messages of a watch: until the server stops, or the watcher is cut.
fn messages(watch: Watch) -> impl Stream<Item = Result<Event, Infallible>> {
    stream::unfold(Some(watch), |watch| async move {
        let mut watch = watch?;
        let delivery = watch.next().await?;
        let goes_on = !matches!(delivery, Delivery::TooSlow(_));
        Some((Ok(message(&delivery)), goes_on.then_some(watch)))
    })
}

fn message(delivery: &Delivery) -> Event {
    let (name, revision, data) = match said(delivery) {
        WatchMessage::Change { id, data } => ("change", id, json(&data)),
        WatchMessage::Progress { id, data } => ("progress", id, json(&data)),
        WatchMessage::TooSlow { id, data } => ("too_slow", id, json(&data)),
    };
    Event::default().id(revision).event(name).data(data)
}

/// The message that a delivery is sent as: what `/openapi.json` describes.
fn said(delivery: &Delivery) -> WatchMessage {
    match delivery {
        Delivery::Change(change) => {
            let events = change.events.iter().map(leasehold_api::Event::from).collect();
            let revision = change.revision.0;
            WatchMessage::Change { id: revision.to_string(), data: Change { revision, events } }
        }
        Delivery::Progress(Revision(revision)) => {
            WatchMessage::Progress { id: revision.to_string(), data: Mark { revision: *revision } }
        }
        Delivery::TooSlow(Revision(revision)) => {
            WatchMessage::TooSlow { id: revision.to_string(), data: Mark { revision: *revision } }
        }
    }
}

/// JSON text has no line breaks of its own, so it is always one line of data.
fn json(data: &impl Serialize) -> String {
    serde_json::to_string(data).unwrap_or_default()
}

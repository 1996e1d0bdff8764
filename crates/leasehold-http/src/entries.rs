//! Entries: put, get, list, delete.
//!
//! A body of `application/json` is a [`PutRequest`]; any other body is the value itself, so a JSON document is
//! stored as it is under `application/octet-stream`. Reading gives JSON, or the bare value to
//! `Accept: application/octet-stream`. The `ETag` of an entry is the revision that last changed it.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Uri, header};
use axum::response::{IntoResponse, Response};
use leasehold_api::{
    Code, DeleteAnswer, Entry, EntryKey, EntryList, Id, Invalid, NamespaceName, PutAnswer, PutRequest, TxnSession,
    page_cursor, range_after, range_of,
};
use leasehold_core::{Binding, Key, KeyRange, LeaseId, Once, Outcome, Write, WriteOp, WriteResult, Written};
use leasehold_core::{Command, EntryView};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::call::Call;
use crate::errors::Refusal;
use crate::extract::{Params, is_json, page_limit, parse, read_body};
use crate::reply::{At, ReadConsistency, ReadParams};
use crate::server::App;
use crate::{conditions, path};

/// Which entries to list.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListParams {
    /// Only those whose key begins so.
    prefix: Option<String>,
    /// Only those from this key on.
    #[param(value_type = Option<EntryKey>)]
    from: Option<String>,
    /// Up to, not including, this key.
    #[param(value_type = Option<EntryKey>)]
    to: Option<String>,
    /// At most this many, up to 1000; 100 if absent.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// The `next` of the part before.
    page: Option<String>,
    /// `linearizable` (the default) or `stale`.
    #[serde(default)]
    consistency: ReadConsistency,
}

/// How to put an entry.
#[derive(Clone, Copy, Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct PutParams {
    /// The lease to bind it to: it goes when the lease ends.
    #[param(value_type = Option<Id>)]
    lease: Option<Id>,
    /// A lease of the caller that makes a repetition harmless.
    #[param(value_type = Option<Id>)]
    session: Option<Id>,
    /// The number of the command on that lease, rising; a repetition has the same one.
    #[param(minimum = 1)]
    seq: Option<u64>,
    /// The client has the outcomes of all commands up to this number.
    acked: Option<u64>,
}

/// Which entries to delete.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeleteParams {
    /// Those whose key begins so.
    prefix: Option<String>,
    /// Those from this key on.
    #[param(value_type = Option<EntryKey>)]
    from: Option<String>,
    /// Up to, not including, this key.
    #[param(value_type = Option<EntryKey>)]
    to: Option<String>,
    /// A lease of the caller that makes a repetition harmless.
    #[param(value_type = Option<Id>)]
    session: Option<Id>,
    /// The number of the command on that lease, rising; a repetition has the same one.
    #[param(minimum = 1)]
    seq: Option<u64>,
    /// The client has the outcomes of all commands up to this number.
    acked: Option<u64>,
}

/// How to delete one entry. A range is refused here with a word about where to delete one, so it is not described.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeleteOneParams {
    #[param(ignore)]
    prefix: Option<String>,
    #[param(ignore)]
    from: Option<String>,
    #[param(ignore)]
    to: Option<String>,
    /// A lease of the caller that makes a repetition harmless.
    #[param(value_type = Option<Id>)]
    session: Option<Id>,
    /// The number of the command on that lease, rising; a repetition has the same one.
    #[param(minimum = 1)]
    seq: Option<u64>,
    /// The client has the outcomes of all commands up to this number.
    acked: Option<u64>,
}

/// Puts an entry.
#[utoipa::path(put, operation_id = "put_entry", path = "/v1/ns/{ns}/entries/{key}", tag = "entries",
    params(("ns" = NamespaceName, Path), ("key" = EntryKey, Path), PutParams,
        ("If-Match" = Option<String>, Header, description = "the revision in quotes that it must have, or `*`"),
        ("If-None-Match" = Option<String>, Header, description = "`*`: there must be no entry")),
    request_body(description = "A body that is not `application/json` is the value itself, whatever its type",
        content((Vec<u8> = "application/octet-stream"), (PutRequest = "application/json"))),
    responses((status = 200, description = "The entry was put", body = PutAnswer)))]
pub(crate) async fn put(
    call: Call,
    State(app): State<App>,
    Params(params): Params<PutParams>,
    request: Request,
) -> Result<Response, Refusal> {
    let (parts, body) = request.into_parts();
    let key = path::key(&parts.uri)?;
    let compares = conditions::compares(&parts.headers, &key)?;
    let session = session(params.session, params.seq, params.acked)?;
    let bytes = read_body(&parts.headers, body, app.options.body_limit).await?;
    let (value, lease) = match is_json(&parts.headers) {
        true => from_json(parse(&bytes)?, params.lease)?,
        false => (Arc::from(&bytes[..]), params.lease),
    };
    let binding = lease.map_or(Binding::None, |id| Binding::To(id.0));
    let then = vec![WriteOp::Put { key: key.clone(), value: Some(value), binding }];
    let otherwise = look_again(&key, !compares.is_empty());
    let (at, written) = write(&call, Write { session, compares, then, otherwise }).await?;
    if !written.succeeded {
        return Err(conditions::failed(&key, &written));
    }
    let version = match written.results.first() {
        Some(WriteResult::Put { previous }) => Some(previous.as_ref().map_or(1, |entry| entry.version + 1)),
        Some(WriteResult::Deleted { .. } | WriteResult::Read { .. } | WriteResult::Nested(_)) | None => None,
    };
    let mut response = at.ok(PutAnswer { revision: written.revision.0, version });
    response.headers_mut().insert(header::ETAG, conditions::etag(written.revision.0));
    Ok(response)
}

fn from_json(request: PutRequest, lease: Option<Id>) -> Result<(Arc<[u8]>, Option<Id>), Invalid> {
    let lease = match (request.lease, lease) {
        (Some(_), Some(_)) => return Err(Invalid::new("lease", "give it in the body or in the query, not both")),
        (one, other) => one.or(other),
    };
    Ok((request.into_value()?, lease))
}

/// Gets an entry.
#[utoipa::path(get, operation_id = "get_entry", path = "/v1/ns/{ns}/entries/{key}", tag = "entries",
    params(("ns" = NamespaceName, Path), ("key" = EntryKey, Path), ReadParams),
    responses((status = 200, description = "The entry, or its bare value for `Accept: application/octet-stream`",
        content((Entry = "application/json"), (Vec<u8> = "application/octet-stream")))))]
pub(crate) async fn one(
    call: Call,
    uri: Uri,
    headers: HeaderMap,
    Params(params): Params<ReadParams>,
) -> Result<Response, Refusal> {
    let key = path::key(&uri)?;
    let answered = call.read(params.consistency.into(), |state, ns| state.entry(ns, &key)).await?;
    let Some(view) = &answered.value else {
        return Err(Refusal::new(Code::NotFound, format!("there is no entry {key}")));
    };
    let at = At::from(&answered);
    let mut response = match wants_bytes(&headers) {
        true => at.on(raw(view)),
        false => at.ok(Entry::from(view)),
    };
    response.headers_mut().insert(header::ETAG, conditions::etag(view.modified.0));
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("accept"));
    Ok(response)
}

fn wants_bytes(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    accept.split(',').any(|kind| kind.split(';').next().unwrap_or_default().trim() == "application/octet-stream")
}

/// The bare value. A browser must not take it for a page of ours.
fn raw(view: &EntryView) -> Response {
    let mut response = view.value.to_vec().into_response();
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// Lists entries by key.
#[utoipa::path(get, operation_id = "list_entries", path = "/v1/ns/{ns}/entries", tag = "entries", params(("ns" = NamespaceName, Path), ListParams),
    responses((status = 200, description = "A part of the entries", body = EntryList)))]
pub(crate) async fn list(call: Call, Params(params): Params<ListParams>) -> Result<Response, Refusal> {
    let limit = page_limit(params.limit)?;
    let prefix = match (&params.from, &params.to) {
        (None, None) => params.prefix.or(Some(String::new())),
        (Some(_), _) | (_, Some(_)) => params.prefix,
    };
    let range = range_of(None, prefix, params.from, params.to)?;
    let range = match params.page {
        Some(page) => range_after(range, &page)?,
        None => Some(range),
    };
    let query = |state: &leasehold_core::State, ns: &leasehold_core::Namespace| match &range {
        Some(range) => state.entries(ns, range, limit),
        None => (Vec::new(), 0),
    };
    let answered = call.read(params.consistency.into(), query).await?;
    let (entries, count) = &answered.value;
    let more = *count > entries.len() as u64;
    Ok(At::from(&answered).ok(EntryList {
        entries: entries.iter().map(Entry::from).collect(),
        count: *count,
        next: entries.last().filter(|_| more).map(|last| page_cursor(&last.key)),
    }))
}

/// Deletes an entry; it is no mistake if there is none.
#[utoipa::path(delete, operation_id = "delete_entry", path = "/v1/ns/{ns}/entries/{key}", tag = "entries",
    params(("ns" = NamespaceName, Path), ("key" = EntryKey, Path), DeleteOneParams,
        ("If-Match" = Option<String>, Header, description = "the revision in quotes that it must have, or `*`"),
        ("If-None-Match" = Option<String>, Header, description = "`*`: there must be no entry")),
    responses((status = 200, description = "The entries are gone", body = DeleteAnswer)))]
pub(crate) async fn delete_one(
    call: Call,
    uri: Uri,
    headers: HeaderMap,
    Params(params): Params<DeleteOneParams>,
) -> Result<Response, Refusal> {
    let key = path::key(&uri)?;
    for (field, given) in [("prefix", &params.prefix), ("from", &params.from), ("to", &params.to)] {
        if given.is_some() {
            return Err(Invalid::new(field, "a range is deleted at …/entries, without a key in the path").into());
        }
    }
    let compares = conditions::compares(&headers, &key)?;
    let otherwise = look_again(&key, !compares.is_empty());
    let session = session(params.session, params.seq, params.acked)?;
    let then = vec![WriteOp::Delete { range: KeyRange::One(key.clone()) }];
    let (at, written) = write(&call, Write { session, compares, then, otherwise }).await?;
    match written.succeeded {
        true => Ok(at.ok(deleted(&written))),
        false => Err(conditions::failed(&key, &written)),
    }
}

/// Deletes all entries of a range.
#[utoipa::path(delete, operation_id = "delete_entries", path = "/v1/ns/{ns}/entries", tag = "entries", params(("ns" = NamespaceName, Path), DeleteParams),
    responses((status = 200, description = "The entries are gone", body = DeleteAnswer)))]
pub(crate) async fn delete_range(call: Call, Params(params): Params<DeleteParams>) -> Result<Response, Refusal> {
    let session = session(params.session, params.seq, params.acked)?;
    if params.prefix.is_none() && params.from.is_none() && params.to.is_none() {
        return Err(Invalid::new("prefix", "say what to delete: a `prefix`, or `from` (and `to`)").into());
    }
    let range = range_of(None, params.prefix, params.from, params.to)?;
    let (at, written) =
        write(&call, Write { session, then: vec![WriteOp::Delete { range }], ..Write::default() }).await?;
    Ok(at.ok(deleted(&written)))
}

fn deleted(written: &Written) -> DeleteAnswer {
    let deleted = match written.results.first() {
        Some(WriteResult::Deleted { previous }) => Some(previous.len() as u64),
        Some(WriteResult::Put { .. } | WriteResult::Read { .. } | WriteResult::Nested(_)) | None => None,
    };
    DeleteAnswer { revision: written.revision.0, deleted }
}

/// Where a condition may fail: a look at the entry, for the refusal to tell how it is.
fn look_again(key: &Key, conditional: bool) -> Vec<WriteOp> {
    match conditional {
        true => vec![WriteOp::Read { range: KeyRange::One(key.clone()), limit: 1 }],
        false => Vec::new(),
    }
}

fn session(lease: Option<Id>, seq: Option<u64>, acked: Option<u64>) -> Result<Option<(LeaseId, Once)>, Invalid> {
    match (lease, seq) {
        (Some(lease), Some(seq)) => TxnSession { lease, seq, acked }.into_pair(),
        (Some(_), None) => Err(Invalid::new("seq", "it is missing: a `session` goes with a `seq`")),
        (None, Some(_)) => Err(Invalid::new("session", "it is missing: a `seq` numbers commands of a lease")),
        (None, None) if acked.is_some() => Err(Invalid::new("acked", "it goes with `session` and `seq`")),
        (None, None) => Ok(None),
    }
}

/// Carries out a write.
pub(crate) async fn write(call: &Call, write: Write) -> Result<(At, Written), Refusal> {
    let done = call.carry_out(Command::Write(write)).await?;
    let at = At::from(&done);
    match done.outcome {
        Outcome::Written(written) => Ok((at, *written)),
        Outcome::Granted(_)
        | Outcome::Renewed(_)
        | Outcome::Released { .. }
        | Outcome::Revoked { .. }
        | Outcome::Claimed(_)
        | Outcome::Unclaimed
        | Outcome::Left
        | Outcome::HandoverAsked { .. }
        | Outcome::Configured => Err(Refusal::bug("a write")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_and_its_number_go_together() {
        let id = "0000000000000001".parse().ok();
        assert!(session(None, None, None).unwrap().is_none());
        assert_eq!(session(id, Some(3), Some(2)).unwrap().map(|(_, once)| once.seq), Some(3));
        assert_eq!(session(id, None, None).unwrap_err().field, "seq");
        assert_eq!(session(None, Some(1), None).unwrap_err().field, "session");
        assert_eq!(session(None, None, Some(1)).unwrap_err().field, "acked");
    }

    #[test]
    fn the_bare_value_is_for_those_who_ask_for_bytes() {
        let accept = |text: &str| HeaderMap::from_iter([(header::ACCEPT, text.parse().unwrap())]);
        assert!(wants_bytes(&accept("application/octet-stream")));
        assert!(wants_bytes(&accept("text/html, application/octet-stream;q=0.9")));
        assert!(!wants_bytes(&accept("*/*")));
        assert!(!wants_bytes(&HeaderMap::new()));
    }
}

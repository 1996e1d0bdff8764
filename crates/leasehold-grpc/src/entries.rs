//! Entries: put, get, list, delete, and transactions on them.

use std::sync::Arc;

use leasehold_api::grpc::entries_server::Entries;
use leasehold_api::grpc::{
    DeleteRequest, DeleteResponse, Entry, GetEntryRequest, ListEntriesRequest, ListEntriesResponse, PutRequest,
    PutResponse, TxnRequest, TxnResponse,
};
use leasehold_api::{Code, Invalid, Problem, page_cursor, range_after};
use leasehold_core::{Binding, Command, Key, KeyRange, Namespace, Outcome, Write, WriteOp, WriteResult, Written};
use tonic::{Request, Response, Status};

use crate::call::{App, At, namespace, page_limit};
use crate::errors::Refusal;
use crate::wire::{asked, entries, writes};

type Answer<T> = Result<(At, T), Refusal>;

#[tonic::async_trait]
impl Entries for App {
    async fn put(&self, request: Request<PutRequest>) -> Result<Response<PutResponse>, Status> {
        self.answer(put(self, request.into_inner()).await)
    }

    async fn get(&self, request: Request<GetEntryRequest>) -> Result<Response<Entry>, Status> {
        self.answer(one(self, request.into_inner()).await)
    }

    async fn list(&self, request: Request<ListEntriesRequest>) -> Result<Response<ListEntriesResponse>, Status> {
        self.answer(listed(self, request.into_inner()).await)
    }

    async fn delete(&self, request: Request<DeleteRequest>) -> Result<Response<DeleteResponse>, Status> {
        self.answer(deleted(self, request.into_inner()).await)
    }

    async fn txn(&self, request: Request<TxnRequest>) -> Result<Response<TxnResponse>, Status> {
        self.answer(txn(self, request.into_inner()).await)
    }
}

async fn put(app: &App, request: PutRequest) -> Answer<PutResponse> {
    let namespace = namespace(&request.namespace)?;
    let key = entries::key("key", &request.key)?;
    let compares = entries::compares(request.condition, &key)?;
    let binding = match request.lease {
        Some(id) => Binding::To(asked::lease("lease", id)?),
        None => Binding::None,
    };
    let session = writes::session(request.session)?;
    let then = vec![WriteOp::Put { key: key.clone(), value: Some(Arc::from(&request.value[..])), binding }];
    let otherwise = look_again(&key, !compares.is_empty());
    let (at, written) = write(app, &namespace, Write { session, compares, then, otherwise }).await?;
    if !written.succeeded {
        return Err(Problem::not_as_expected(&key, &written).into());
    }
    let version = match written.results.first() {
        Some(WriteResult::Put { previous }) => Some(previous.as_ref().map_or(1, |entry| entry.version + 1)),
        Some(WriteResult::Deleted { .. } | WriteResult::Read { .. } | WriteResult::Nested(_)) | None => None,
    };
    Ok((at, PutResponse { revision: written.revision.0, version }))
}

async fn one(app: &App, request: GetEntryRequest) -> Answer<Entry> {
    let namespace = namespace(&request.namespace)?;
    let key = entries::key("key", &request.key)?;
    let answered = app.read(&namespace, request.consistency, |state| state.entry(&namespace, &key)).await?;
    match &answered.value {
        Some(view) => Ok((At::from(&answered), entries::entry(view))),
        None => Err(Refusal::new(Code::NotFound, format!("there is no entry {key}"))),
    }
}

async fn listed(app: &App, request: ListEntriesRequest) -> Answer<ListEntriesResponse> {
    let namespace = namespace(&request.namespace)?;
    let limit = page_limit(request.limit)?;
    let range = match request.range {
        Some(range) => entries::range(Some(range))?,
        None => KeyRange::Prefix(Arc::from(&b""[..])),
    };
    let range = match request.page {
        Some(page) => range_after(range, &page)?,
        None => Some(range),
    };
    let answered = app
        .read(&namespace, request.consistency, |state| match &range {
            Some(range) => state.entries(&namespace, range, limit),
            None => (Vec::new(), 0),
        })
        .await?;
    let (found, count) = &answered.value;
    let more = *count > found.len() as u64;
    let next = found.last().filter(|_| more).map(|last| page_cursor(&last.key));
    let response = ListEntriesResponse { entries: found.iter().map(entries::entry).collect(), count: *count, next };
    Ok((At::from(&answered), response))
}

async fn deleted(app: &App, request: DeleteRequest) -> Answer<DeleteResponse> {
    let namespace = namespace(&request.namespace)?;
    let range = entries::range(request.range)?;
    let session = writes::session(request.session)?;
    let one = match &range {
        KeyRange::One(key) => Some(key.clone()),
        KeyRange::Prefix(_) | KeyRange::Between(_, _) | KeyRange::From(_) => None,
    };
    let (compares, otherwise) = match (&one, request.condition) {
        (None, Some(_)) => return Err(Invalid::new("condition", "it goes with one `key`, not with many").into()),
        (Some(key), condition @ Some(_)) => (entries::compares(condition, key)?, look_again(key, true)),
        (_, None) => (Vec::new(), Vec::new()),
    };
    let then = vec![WriteOp::Delete { range }];
    let (at, written) = write(app, &namespace, Write { session, compares, then, otherwise }).await?;
    if let (Some(key), false) = (one, written.succeeded) {
        return Err(Problem::not_as_expected(&key, &written).into());
    }
    let deleted = match written.results.first() {
        Some(WriteResult::Deleted { previous }) => Some(previous.len() as u64),
        Some(WriteResult::Put { .. } | WriteResult::Read { .. } | WriteResult::Nested(_)) | None => None,
    };
    Ok((at, DeleteResponse { revision: written.revision.0, deleted }))
}

async fn txn(app: &App, request: TxnRequest) -> Answer<TxnResponse> {
    let namespace = namespace(&request.namespace)?;
    let (at, written) = write(app, &namespace, writes::write(request)?).await?;
    Ok((at, entries::written(&written)))
}

/// Where a condition may fail: a look at the entry, for the refusal to tell how it is.
fn look_again(key: &Key, conditional: bool) -> Vec<WriteOp> {
    match conditional {
        true => vec![WriteOp::Read { range: KeyRange::One(key.clone()), limit: 1 }],
        false => Vec::new(),
    }
}

async fn write(app: &App, namespace: &Namespace, write: Write) -> Answer<Box<Written>> {
    let done = app.carry_out(namespace, Command::Write(write)).await?;
    let at = At::from(&done);
    let Outcome::Written(written) = done.outcome else { return Err(Refusal::bug("a write")) };
    Ok((at, written))
}

//! Resources: who holds them, who waits, what happened, whether a token is current; asking for a hand-over.

use leasehold_api::grpc::kind::remaining_fields;
use leasehold_api::grpc::resources_server::Resources;
use leasehold_api::grpc::{
    CheckRequest, CheckResponse, GetResourceRequest, HandoverRequest, HandoverResponse, HistoryRequest,
    HistoryResponse, ListResourcesRequest, ListResourcesResponse, QueueRequest, QueueResponse, Resource,
};
use leasehold_api::{Code, Invalid, Problem};
use leasehold_core::{Command, Outcome, ResourceName, Token};
use tonic::{Request, Response, Status};

use crate::call::{App, At, namespace, page_limit};
use crate::errors::Refusal;
use crate::wire::{asked, views};

type Answer<T> = Result<(At, T), Refusal>;

#[tonic::async_trait]
impl Resources for App {
    async fn list(&self, request: Request<ListResourcesRequest>) -> Result<Response<ListResourcesResponse>, Status> {
        self.answer(listed(self, request.into_inner()).await)
    }

    async fn get(&self, request: Request<GetResourceRequest>) -> Result<Response<Resource>, Status> {
        self.answer(one(self, request.into_inner()).await)
    }

    async fn queue(&self, request: Request<QueueRequest>) -> Result<Response<QueueResponse>, Status> {
        self.answer(queue(self, request.into_inner()).await)
    }

    async fn history(&self, request: Request<HistoryRequest>) -> Result<Response<HistoryResponse>, Status> {
        self.answer(history(self, request.into_inner()).await)
    }

    async fn check(&self, request: Request<CheckRequest>) -> Result<Response<CheckResponse>, Status> {
        self.answer(checked(self, request.into_inner()).await)
    }

    async fn request_handover(&self, request: Request<HandoverRequest>) -> Result<Response<HandoverResponse>, Status> {
        self.answer(handover(self, request.into_inner()).await)
    }
}

async fn listed(app: &App, request: ListResourcesRequest) -> Answer<ListResourcesResponse> {
    let namespace = namespace(&request.namespace)?;
    let limit = page_limit(request.limit)?;
    let after = match &request.page {
        Some(page) => Some(ResourceName::new(page).map_err(|reason| Invalid::name("page", page, reason))?),
        None => None,
    };
    let answered = app
        .read(&namespace, request.consistency, |state| {
            state.resources(&namespace, &request.prefix, after.as_ref(), limit)
        })
        .await?;
    let resources = answered.value.items.iter().map(views::resource).collect();
    let next = answered.value.next.as_ref().map(ToString::to_string);
    Ok((At::from(&answered), ListResourcesResponse { resources, next }))
}

async fn one(app: &App, request: GetResourceRequest) -> Answer<Resource> {
    let (namespace, name) = (namespace(&request.namespace)?, asked::resource(&request.resource)?);
    let answered = app.read(&namespace, request.consistency, |state| state.resource(&namespace, &name)).await?;
    let Some(view) = &answered.value else { return Err(unknown(&name)) };
    Ok((At::from(&answered), views::resource(view)))
}

async fn queue(app: &App, request: QueueRequest) -> Answer<QueueResponse> {
    let (namespace, name) = (namespace(&request.namespace)?, asked::resource(&request.resource)?);
    let limit = page_limit(request.limit)?;
    let answered = app
        .read(&namespace, request.consistency, |state| {
            state.resource(&namespace, &name).map(|resource| (resource.queue, state.queue(&namespace, &name, limit)))
        })
        .await?;
    let Some((length, waiters)) = &answered.value else { return Err(unknown(&name)) };
    let waiters = waiters.iter().map(views::waiter).collect();
    Ok((At::from(&answered), QueueResponse { length: *length, waiters }))
}

async fn history(app: &App, request: HistoryRequest) -> Answer<HistoryResponse> {
    let (namespace, name) = (namespace(&request.namespace)?, asked::resource(&request.resource)?);
    let answered = app
        .read(&namespace, request.consistency, |state| {
            state.resource(&namespace, &name).map(|_| state.history(&namespace, &name))
        })
        .await?;
    let Some(past) = &answered.value else { return Err(unknown(&name)) };
    Ok((At::from(&answered), HistoryResponse { history: past.iter().rev().map(views::past).collect() }))
}

async fn checked(app: &App, request: CheckRequest) -> Answer<CheckResponse> {
    let (namespace, name) = (namespace(&request.namespace)?, asked::resource(&request.resource)?);
    let token = Token(request.token);
    let answered = app.read(&namespace, 0, |state| state.check(&namespace, &name, token)).await?;
    let at = At::from(&answered);
    let checked = answered.value?;
    let (remaining_ms, remaining_endless) = remaining_fields(checked.remaining);
    Ok((at, CheckResponse { holder: checked.holder.to_string(), remaining_ms, remaining_endless }))
}

async fn handover(app: &App, request: HandoverRequest) -> Answer<HandoverResponse> {
    let namespace = namespace(&request.namespace)?;
    let done = app.carry_out(&namespace, Command::AskHandover(asked::handover(request)?)).await?;
    let Outcome::HandoverAsked { holders } = done.outcome else { return Err(Refusal::bug("an ask for a hand-over")) };
    Ok((At::from(&done), HandoverResponse { holders }))
}

fn unknown(name: &ResourceName) -> Refusal {
    let detail = format!("nobody holds, wants or recently held {name}");
    Problem { resource: Some(name.to_string()), ..Problem::new(Code::NotFound, detail) }.into()
}

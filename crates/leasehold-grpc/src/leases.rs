//! Leases: grant, renew, release, revoke, claim, look at, list; and the stream that carries everything.

use futures_util::stream::BoxStream;
use leasehold_api::grpc::leases_server::Leases;
use leasehold_api::grpc::{
    ClaimRequest, Down, GetLeaseRequest, GrantRequest, Lease, LeaveRequest, LeaveResponse, ListLeasesRequest,
    ListLeasesResponse, ReleaseRequest, ReleaseResponse, RenewRequest, RenewResponse, RevokeRequest, RevokeResponse,
    UnclaimRequest, UnclaimResponse, Up, revoke_request,
};
use leasehold_api::{Invalid, checked_reason, lease_by_digest};
use leasehold_core::{Command, Holder, LeaseFilter, LeaseId, Namespace, Outcome, Release, Revision, Revoke};
use tonic::{Request, Response, Status, Streaming};

use crate::call::{App, At, namespace, page_limit};
use crate::connect;
use crate::errors::Refusal;
use crate::wire::asked::{self, Usual};
use crate::wire::views::{self, For};

type Answer<T> = Result<(At, T), Refusal>;

#[tonic::async_trait]
impl Leases for App {
    type ConnectStream = BoxStream<'static, Result<Down, Status>>;

    async fn connect(&self, request: Request<Streaming<Up>>) -> Result<Response<Self::ConnectStream>, Status> {
        Ok(Response::new(connect::open(self.clone(), request.into_inner())))
    }

    async fn grant(&self, request: Request<GrantRequest>) -> Result<Response<Lease>, Status> {
        self.answer(granted(self, request.into_inner()).await)
    }

    async fn renew(&self, request: Request<RenewRequest>) -> Result<Response<RenewResponse>, Status> {
        self.answer(renewed(self, request.into_inner()).await)
    }

    async fn release(&self, request: Request<ReleaseRequest>) -> Result<Response<ReleaseResponse>, Status> {
        self.answer(released(self, request.into_inner()).await)
    }

    async fn revoke(&self, request: Request<RevokeRequest>) -> Result<Response<RevokeResponse>, Status> {
        self.answer(revoked(self, request.into_inner()).await)
    }

    async fn claim(&self, request: Request<ClaimRequest>) -> Result<Response<Lease>, Status> {
        self.answer(claimed(self, request.into_inner()).await)
    }

    async fn unclaim(&self, request: Request<UnclaimRequest>) -> Result<Response<UnclaimResponse>, Status> {
        self.answer(unclaimed(self, request.into_inner()).await)
    }

    async fn leave(&self, request: Request<LeaveRequest>) -> Result<Response<LeaveResponse>, Status> {
        self.answer(left(self, request.into_inner()).await)
    }

    async fn get(&self, request: Request<GetLeaseRequest>) -> Result<Response<Lease>, Status> {
        self.answer(one(self, request.into_inner()).await)
    }

    async fn list(&self, request: Request<ListLeasesRequest>) -> Result<Response<ListLeasesResponse>, Status> {
        self.answer(listed(self, request.into_inner()).await)
    }
}

impl App {
    /// What a grant that says less is taken to mean.
    pub(crate) fn usual(&self) -> Usual {
        Usual { id: (self.options.new_id)(), seen: self.service.present().0 }
    }
}

async fn granted(app: &App, request: GrantRequest) -> Answer<Lease> {
    let namespace = namespace(&request.namespace)?;
    let grant = asked::grant(request, app.usual())?;
    shown(app, &namespace, Command::Grant(grant)).await
}

async fn claimed(app: &App, request: ClaimRequest) -> Answer<Lease> {
    let namespace = namespace(&request.namespace)?;
    shown(app, &namespace, Command::Claim(asked::claim(request)?)).await
}

/// Carries out what is answered with a lease.
async fn shown(app: &App, namespace: &Namespace, command: Command) -> Answer<Lease> {
    let done = app.carry_out(namespace, command).await?;
    let at = At::from(&done);
    let view = views::shown(done.outcome).ok_or_else(|| Refusal::bug("a grant or claim"))?;
    Ok((at, views::lease(&view, For::Owner)))
}

async fn renewed(app: &App, request: RenewRequest) -> Answer<RenewResponse> {
    let namespace = namespace(&request.namespace)?;
    let renew = asked::renew(request)?;
    let leases = renew.leases.clone();
    let done = app.carry_out(&namespace, Command::Renew(renew)).await?;
    let Outcome::Renewed(results) = &done.outcome else { return Err(Refusal::bug("a renewal")) };
    Ok((At::from(&done), views::renewed(&leases, results)))
}

async fn released(app: &App, request: ReleaseRequest) -> Answer<ReleaseResponse> {
    let namespace = namespace(&request.namespace)?;
    let lease = asked::lease("lease", request.lease)?;
    let done = app.carry_out(&namespace, Command::Release(Release { lease })).await?;
    Ok((At::from(&done), ReleaseResponse {}))
}

async fn revoked(app: &App, request: RevokeRequest) -> Answer<RevokeResponse> {
    let namespace = namespace(&request.namespace)?;
    let reason = checked_reason(&request.reason)?;
    let lease = match request.which {
        Some(revoke_request::Which::Lease(id)) => asked::lease("lease", id)?,
        Some(revoke_request::Which::Digest(text)) => {
            by_digest(app, &namespace, &text, request.resource.as_deref()).await?
        }
        None => return Err(Invalid::new("lease", "say which one: by its `lease` id or by its `digest`").into()),
    };
    let done = app.carry_out(&namespace, Command::Revoke(Revoke { lease, reason, now: request.now })).await?;
    let Outcome::Revoked { may_act } = done.outcome else { return Err(Refusal::bug("a revoke")) };
    Ok((At::from(&done), views::revoked(may_act)))
}

/// The lease with this digest among those that hold or wait for a resource.
async fn by_digest(app: &App, namespace: &Namespace, digest: &str, resource: Option<&str>) -> Result<LeaseId, Refusal> {
    let digest = asked::digest(digest)?;
    let Some(resource) = resource else {
        let detail = "a lease named by its digest is looked for at a `resource` that it holds or waits for";
        return Err(Invalid::new("resource", detail).into());
    };
    let resource = asked::resource(resource)?;
    let found = app.read(namespace, 0, |state| lease_by_digest(state, namespace, &resource, digest)).await?;
    Ok(found.value?)
}

async fn unclaimed(app: &App, request: UnclaimRequest) -> Answer<UnclaimResponse> {
    let namespace = namespace(&request.namespace)?;
    let done = app.carry_out(&namespace, Command::Unclaim(asked::unclaim(request)?)).await?;
    Ok((At::from(&done), UnclaimResponse {}))
}

async fn left(app: &App, request: LeaveRequest) -> Answer<LeaveResponse> {
    let namespace = namespace(&request.namespace)?;
    let done = app.carry_out(&namespace, Command::Leave(asked::leave(request)?)).await?;
    Ok((At::from(&done), LeaveResponse {}))
}

async fn one(app: &App, request: GetLeaseRequest) -> Answer<Lease> {
    let namespace = namespace(&request.namespace)?;
    let id = asked::lease("lease", request.lease)?;
    let answered = app.read(&namespace, request.consistency, |state| state.lease(&namespace, id)).await?;
    let at = At::from(&answered);
    Ok((at, views::lease(&answered.value?, For::Owner)))
}

async fn listed(app: &App, request: ListLeasesRequest) -> Answer<ListLeasesResponse> {
    let namespace = namespace(&request.namespace)?;
    let holder = match &request.holder {
        Some(text) => Some(Holder::new(text).map_err(|reason| Invalid::name("holder", text, reason))?),
        None => None,
    };
    let after = match &request.page {
        Some(page) => Some(Revision(
            page.parse()
                .map_err(|_| Invalid::new("page", "it is not a `next` of this list; begin again without `page`"))?,
        )),
        None => None,
    };
    let filter = LeaseFilter { holder, after, limit: page_limit(request.limit)? };
    let answered = app.read(&namespace, request.consistency, |state| state.leases(&namespace, &filter)).await?;
    let leases = answered.value.items.iter().map(|view| views::lease(view, For::Others)).collect();
    let next = answered.value.next.map(|revision| revision.to_string());
    Ok((At::from(&answered), ListLeasesResponse { leases, next }))
}

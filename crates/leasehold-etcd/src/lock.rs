//! The service of locks.

use bytes::Bytes;
use leasehold_core::{Holder, LeaseId};
use tonic::{Request, Response, Status};

use crate::contest::Contender;
use crate::dialect::{Dialect, holder, lease_id};
use crate::errors::EtcdError;
use crate::proto::etcdserverpb::DeleteRangeRequest;
use crate::proto::v3lockpb::lock_server::Lock;
use crate::proto::v3lockpb::{LockRequest, LockResponse, UnlockRequest, UnlockResponse};
use crate::txn;

/// The ttl of a lease that a client did not bring itself, in seconds; nobody renews it.
const OWN_LEASE: i64 = 60;

#[tonic::async_trait]
impl Lock for Dialect {
    async fn lock(&self, request: Request<LockRequest>) -> Result<Response<LockResponse>, Status> {
        self.check_call(request.metadata())?;
        let holder = holder(request.extensions());
        let LockRequest { name, lease } = request.into_inner();
        let lease = self.lease_of(lease, holder).await?;
        let won = self.contend(Contender::new(&name, lease, Bytes::new())?).await?;
        let key = Bytes::copy_from_slice(won.entry.key.as_bytes());
        Ok(Response::new(LockResponse { header: Some(self.header(won.revision)), key }))
    }

    async fn unlock(&self, request: Request<UnlockRequest>) -> Result<Response<UnlockResponse>, Status> {
        self.check_call(request.metadata())?;
        let delete = DeleteRangeRequest { key: request.into_inner().key, ..DeleteRangeRequest::default() };
        // Deleting the key ends the claim, and the next in line has the lock in that same revision.
        let (_, revision) = self.write_one(txn::delete(&delete).map_err(unknown)?).await?;
        Ok(Response::new(UnlockResponse { header: Some(self.header(revision)) }))
    }
}

impl Dialect {
    /// The lease that a lock or a candidacy lives by: the client's own, or a new one.
    pub(crate) async fn lease_of(&self, id: i64, holder: Holder) -> Result<LeaseId, Status> {
        match id {
            0 => self.grant(0, OWN_LEASE, holder).await.map(|(lease, _, _)| lease),
            id => lease_id(id).ok_or_else(|| EtcdError::LockLeaseNotFound.into()),
        }
    }
}

/// A refusal as the services of locks and elections tell it: with the text alone.
pub(crate) fn unknown(status: Status) -> Status {
    Status::unknown(status.message())
}

//! The service of keys.

use leasehold_core::{Command, EntryView, Outcome, Revision, Write, WriteOp, WriteResult, Written};
use tonic::{Request, Response, Status};

use crate::dialect::Dialect;
use crate::keys::key_value;
use crate::proto::etcdserverpb::kv_server::Kv;
use crate::proto::etcdserverpb::{
    CompactionRequest, CompactionResponse, DeleteRangeRequest, DeleteRangeResponse, PutRequest, PutResponse,
    RangeRequest, RangeResponse, TxnRequest, TxnResponse,
};
use crate::refusal::refused;
use crate::txn;

#[tonic::async_trait]
impl Kv for Dialect {
    async fn range(&self, request: Request<RangeRequest>) -> Result<Response<RangeResponse>, Status> {
        self.check_call(request.metadata())?;
        Ok(Response::new(self.range_of(request.get_ref()).await?))
    }

    async fn put(&self, request: Request<PutRequest>) -> Result<Response<PutResponse>, Status> {
        self.check_call(request.metadata())?;
        let request = request.get_ref();
        let (previous, revision) = match self.write_one(txn::put(request)?).await? {
            (WriteResult::Put { previous }, revision) => (previous, revision),
            (other, _) => return Err(unexpected(&other)),
        };
        let prev_kv = previous.as_ref().filter(|_| request.prev_kv).map(key_value);
        Ok(Response::new(PutResponse { header: Some(self.header(revision)), prev_kv }))
    }

    async fn delete_range(
        &self,
        request: Request<DeleteRangeRequest>,
    ) -> Result<Response<DeleteRangeResponse>, Status> {
        self.check_call(request.metadata())?;
        let request = request.get_ref();
        let (previous, revision): (Vec<EntryView>, _) = match self.write_one(txn::delete(request)?).await? {
            (WriteResult::Deleted { previous }, revision) => (previous, revision),
            (other, _) => return Err(unexpected(&other)),
        };
        Ok(Response::new(txn::deleted(self.header(revision), &previous, request.prev_kv)))
    }

    async fn txn(&self, request: Request<TxnRequest>) -> Result<Response<TxnResponse>, Status> {
        self.check_call(request.metadata())?;
        Ok(Response::new(self.carry_out_txn(request.get_ref()).await?))
    }

    async fn compact(&self, request: Request<CompactionRequest>) -> Result<Response<CompactionResponse>, Status> {
        self.check_call(request.metadata())?;
        let revision = self.compact_at(request.get_ref().revision).await?;
        Ok(Response::new(CompactionResponse { header: Some(self.header(revision)) }))
    }
}

impl Dialect {
    /// Carries out a write of one step.
    pub(crate) async fn write_one(&self, step: WriteOp) -> Result<(WriteResult, Revision), Status> {
        let write = Write { then: vec![step], ..Write::default() };
        let Written { revision, mut results, .. } = self.write(write).await?;
        let result = results.pop().ok_or_else(|| Status::internal("leasehold: a write without a result"))?;
        Ok((result, revision))
    }

    /// Carries out a write.
    pub(crate) async fn write(&self, write: Write) -> Result<Written, Status> {
        let done = self.execute(Command::Write(write)).await.map_err(refused)?;
        let Outcome::Written(written) = done.outcome else {
            return Err(Status::internal("leasehold: a write led to something else"));
        };
        Ok(*written)
    }
}

fn unexpected(result: &WriteResult) -> Status {
    Status::internal(format!("leasehold: a step led to {result:?}"))
}

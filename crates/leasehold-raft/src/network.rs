//! The way to other nodes for a cluster of one: there is none.
//!
//! Every call is refused with a message; above all the two that openraft would otherwise answer by itself:
//! its default pre-vote *grants*, and its default transfer says nothing of why it failed.

use std::future::Future;

use openraft::alias::{SnapshotOf, VoteOf};
use openraft::errors::{RPCError, ReplicationClosed, StreamingError, Unreachable};
use openraft::network::{RPCOption, RaftNetworkFactory, RaftNetworkV2};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, TransferLeaderRequest, TransferLeaderResponse,
    VoteRequest, VoteResponse,
};

use crate::snapshot::SnapshotFile;
use crate::types::{Member, Types};

/// Makes refusing clients.
#[derive(Debug)]
pub(crate) struct NoPeers;

/// A client that reaches nobody.
#[derive(Debug)]
pub(crate) struct NoPeer {
    target: u64,
}

impl NoPeer {
    fn unreachable(&self) -> Unreachable<Types> {
        Unreachable::from_string(format!(
            "node {} cannot be reached: this build runs a cluster of one and has no transport between nodes",
            self.target
        ))
    }
}

impl RaftNetworkFactory<Types> for NoPeers {
    type Network = NoPeer;

    async fn new_client(&mut self, target: u64, _: &Member) -> NoPeer {
        NoPeer { target }
    }
}

impl RaftNetworkV2<Types> for NoPeer {
    type SnapshotData = SnapshotFile;

    async fn append_entries(
        &mut self,
        _: AppendEntriesRequest<Types>,
        _: RPCOption,
    ) -> Result<AppendEntriesResponse<Types>, RPCError<Types>> {
        Err(self.unreachable().into())
    }

    async fn vote(&mut self, _: VoteRequest<Types>, _: RPCOption) -> Result<VoteResponse<Types>, RPCError<Types>> {
        Err(self.unreachable().into())
    }

    async fn pre_vote(&mut self, _: VoteRequest<Types>, _: RPCOption) -> Result<VoteResponse<Types>, RPCError<Types>> {
        Err(self.unreachable().into())
    }

    async fn full_snapshot(
        &mut self,
        _: VoteOf<Types>,
        _: SnapshotOf<Types, SnapshotFile>,
        _: impl Future<Output = ReplicationClosed> + Send + 'static,
        _: RPCOption,
    ) -> Result<SnapshotResponse<Types>, StreamingError<Types>> {
        Err(self.unreachable().into())
    }

    async fn transfer_leader(
        &mut self,
        _: TransferLeaderRequest<Types>,
        _: RPCOption,
    ) -> Result<TransferLeaderResponse<Types>, RPCError<Types>> {
        Err(self.unreachable().into())
    }
}

//! The nodes of the cluster, which etcd calls members.
//!
//! They are listed for clients that look for other addresses. The cluster is not changed from here: our nodes have names,
//! which etcd's calls do not give, and one of them is started otherwise than a member of etcd.

use leasehold_service::{Consistency, Member as Node};
use tonic::{Request, Response, Status};

use crate::dialect::Dialect;
use crate::errors::EtcdError;
use crate::proto::etcdserverpb::cluster_server::Cluster;
use crate::proto::etcdserverpb::*;
use crate::refusal::refused;
use crate::urls;

#[tonic::async_trait]
impl Cluster for Dialect {
    async fn member_list(&self, request: Request<MemberListRequest>) -> Result<Response<MemberListResponse>, Status> {
        let caller = self.caller();
        if request.get_ref().linearizable {
            let proved = self.service().read(&caller, self.namespace(), Consistency::Linearizable, |_| ());
            proved.await.map_err(refused)?;
        }
        let status = self.service().cluster(&caller).map_err(refused)?;
        let (urls, _) = self.read(true, urls::all).await?;
        let members = status.members.iter().map(|node| member(node, urls.get(&node.node))).collect();
        Ok(Response::new(MemberListResponse { header: Some(self.header_without_revision()), members }))
    }

    async fn member_add(&self, _: Request<MemberAddRequest>) -> Result<Response<MemberAddResponse>, Status> {
        Err(not_from_here("`lease cluster add NAME HOST:PORT` admits a node and tells how to start it"))
    }

    async fn member_remove(
        &self,
        request: Request<MemberRemoveRequest>,
    ) -> Result<Response<MemberRemoveResponse>, Status> {
        self.check_member(request.get_ref().id)?;
        Err(not_from_here("`lease cluster remove NAME` removes a node"))
    }

    async fn member_update(
        &self,
        request: Request<MemberUpdateRequest>,
    ) -> Result<Response<MemberUpdateResponse>, Status> {
        self.check_member(request.get_ref().id)?;
        Err(not_from_here(
            "a node with another address is another node: `lease cluster remove NAME`, then `lease cluster add`",
        ))
    }

    async fn member_promote(
        &self,
        request: Request<MemberPromoteRequest>,
    ) -> Result<Response<MemberPromoteResponse>, Status> {
        self.check_member(request.get_ref().id)?;
        Err(not_from_here("a node that `lease cluster add` admitted votes as soon as it has caught up"))
    }
}

impl Dialect {
    fn check_member(&self, id: u64) -> Result<(), Status> {
        let status = self.service().cluster(&self.caller()).map_err(refused)?;
        let is_there = status.members.iter().any(|node| node.node == id);
        if is_there { Ok(()) } else { Err(EtcdError::MemberNotFound.into()) }
    }
}

fn member(node: &Node, client_url: Option<&String>) -> Member {
    let peer_urls = Some(&node.address).filter(|address| !address.is_empty());
    Member {
        id: node.node,
        name: node.name.clone(),
        peer_ur_ls: peer_urls.map(|address| format!("http://{address}")).into_iter().collect(),
        client_ur_ls: client_url.cloned().into_iter().collect(),
        is_learner: !node.voter,
    }
}

fn not_from_here(instead: &str) -> Status {
    Status::unimplemented(format!("the cluster is not changed by calls of etcd; {instead}"))
}

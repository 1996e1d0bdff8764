//! Calls on the cluster itself. Changes are not repeated: a second one could mean something else by then.

use http::Method;
use leasehold_api::{AddMemberRequest, NodeInfo, TransferRequest};

use super::transport::Call;
use super::url::Url;
use super::{Error, HttpClient};

impl HttpClient {
    /// Admits a node, which may then be started with `--join`.
    pub async fn add_member(&self, request: &AddMemberRequest) -> Result<NodeInfo, Error> {
        self.transport().ask(&Call::new(Method::POST, Url::new("/v1/cluster/members")).json(request)).await
    }

    /// Removes a node, by its name or id, for good.
    pub async fn remove_member(&self, node: &str) -> Result<(), Error> {
        let url = Url::new("/v1/cluster/members").segment(node);
        self.transport().call(&Call::new(Method::DELETE, url)).await?.accepted().map(drop)
    }

    /// Hands leadership to another voter, by its name or id, or to the one that is most up to date.
    pub async fn transfer(&self, to: Option<&str>) -> Result<NodeInfo, Error> {
        let request = TransferRequest { to: to.map(str::to_owned) };
        self.transport().ask(&Call::new(Method::POST, Url::new("/v1/cluster/transfer")).json(&request)).await
    }
}

//! The calls that take a stream of requests, apart from what carries them.
//!
//! gRPC and the JSON gateway both make a [`Requests`] of what they receive and send on the [`Answers`] they get. An
//! error among the requests ends the call, as does an error among the answers; the end of the requests alone does not.

use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use tonic::metadata::MetadataMap;
use tonic::{Request, Status, Streaming};

use crate::dialect::TOKEN;
use crate::proto::etcdserverpb::{LeaseKeepAliveRequest, LeaseKeepAliveResponse, WatchRequest, WatchResponse};

/// The metadata by which a client wants its stream to end when there is no leader.
const REQUIRE_LEADER: &str = "hasleader";

/// What a call answers, until it ends.
pub(crate) type Answers<T> = BoxStream<'static, Result<T, Status>>;

/// What a client sends on one stream.
pub(crate) struct Requests<T> {
    /// The messages as they come.
    pub(crate) messages: BoxStream<'static, Result<T, Status>>,
    /// Whether the call is to end when there is no leader.
    pub(crate) require_leader: bool,
    /// Whether the client believes that it has logged in.
    pub(crate) has_token: bool,
}

impl<T> Requests<T> {
    /// Takes messages with the metadata of their call.
    pub(crate) fn new(messages: BoxStream<'static, Result<T, Status>>, metadata: &MetadataMap) -> Requests<T> {
        let has_token = metadata.get(TOKEN).is_some_and(|token| !token.is_empty());
        Requests { messages, require_leader: requires_leader(metadata), has_token }
    }
}

impl<T: Send + 'static> From<Request<Streaming<T>>> for Requests<T> {
    fn from(request: Request<Streaming<T>>) -> Requests<T> {
        let (metadata, _, messages) = request.into_parts();
        Requests::new(messages.boxed(), &metadata)
    }
}

/// Whether the client of a call wants it to fail when there is no leader.
pub(crate) fn requires_leader(metadata: &MetadataMap) -> bool {
    metadata.get(REQUIRE_LEADER).is_some_and(|value| value == "true")
}

/// The streaming calls of the dialect.
pub(crate) trait Streams: Clone + Send + Sync + 'static {
    /// Serves any number of watches.
    fn watch(&self, requests: Requests<WatchRequest>) -> Answers<WatchResponse>;

    /// Renews leases, one per message.
    fn keep_alive(&self, requests: Requests<LeaseKeepAliveRequest>) -> Answers<LeaseKeepAliveResponse>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leader_is_required_only_by_those_who_say_so() {
        let mut metadata = MetadataMap::new();
        assert!(!requires_leader(&metadata));
        metadata.insert(REQUIRE_LEADER, "false".parse().unwrap());
        assert!(!requires_leader(&metadata));
        metadata.insert(REQUIRE_LEADER, "true".parse().unwrap());
        assert!(requires_leader(&metadata));
    }
}

//! Watches of one stream, beside each other and from the past.

use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use leasehold_service::Options;
use tokio::sync::mpsc;
use tonic::Request;
use tonic::metadata::MetadataMap;

use super::dialect;
use crate::dialect::Dialect;
use crate::proto::etcdserverpb::kv_server::Kv as _;
use crate::proto::etcdserverpb::lease_server::Lease as _;
use crate::proto::etcdserverpb::watch_request::RequestUnion;
use crate::proto::etcdserverpb::*;
use crate::streams::{Answers, Requests};

/// A stream of watches.
struct Stream {
    send: mpsc::UnboundedSender<WatchRequest>,
    answers: Answers<WatchResponse>,
}

impl Stream {
    fn open(dialect: &Dialect) -> Stream {
        let (send, receive) = mpsc::unbounded_channel();
        let messages = stream::unfold(receive, |mut receive| async {
            let request = receive.recv().await?;
            Some((Ok(request), receive))
        });
        let requests = Requests::new(messages.boxed(), &MetadataMap::new());
        Stream { send, answers: dialect.watches(requests) }
    }

    fn ask(&self, request: RequestUnion) {
        self.send.send(WatchRequest { request_union: Some(request) }).unwrap();
    }

    async fn create(&mut self, request: WatchCreateRequest) -> i64 {
        self.ask(RequestUnion::CreateRequest(request));
        let answer = self.next().await;
        assert!(answer.created, "{answer:?}");
        answer.watch_id
    }

    async fn next(&mut self) -> WatchResponse {
        let next = tokio::time::timeout(Duration::from_secs(20), self.answers.next()).await;
        next.expect("an answer comes").expect("the stream goes on").expect("it is no error")
    }

    /// The next events, as `watch: type key`, until so many have come.
    async fn events(&mut self, count: usize) -> Vec<String> {
        let mut events = Vec::new();
        while events.len() < count {
            let answer = self.next().await;
            for event in answer.events {
                let kind = if event.r#type == 0 { "put" } else { "delete" };
                let kv = event.kv.unwrap();
                let before = event.prev_kv.map_or(String::new(), |kv| format!(" over {}", text(&kv.value)));
                events.push(format!("{}: {kind} {}{before}", answer.watch_id, text(&kv.key)));
            }
        }
        events
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn on(key: &str, range_end: &str) -> WatchCreateRequest {
    WatchCreateRequest { key: key.to_owned().into(), range_end: range_end.to_owned().into(), ..Default::default() }
}

async fn put(dialect: &Dialect, key: &str, lease: i64) -> i64 {
    let request = PutRequest { key: key.to_owned().into(), value: "v".into(), lease, ..PutRequest::default() };
    dialect.put(Request::new(request)).await.unwrap().into_inner().header.unwrap().revision
}

#[tokio::test]
async fn several_watches_share_a_stream_and_each_gets_its_own() {
    let dialect = dialect(Options::default()).await;
    let mut stream = Stream::open(&dialect);
    let one = stream.create(on("a", "")).await;
    let range = stream.create(WatchCreateRequest { prev_kv: true, ..on("a", "c") }).await;
    let asked = stream.create(WatchCreateRequest { watch_id: 77, filters: vec![0], ..on("", "\0") }).await;
    assert_eq!((one, range, asked), (0, 1, 77));
    put(&dialect, "a", 0).await;
    put(&dialect, "b", 0).await;
    put(&dialect, "b", 0).await;
    let delete = DeleteRangeRequest { key: "b".into(), ..DeleteRangeRequest::default() };
    dialect.delete_range(Request::new(delete)).await.unwrap();
    let mut events = stream.events(6).await;
    events.sort();
    let expected = ["0: put a", "1: delete b over v", "1: put a", "1: put b", "1: put b over v", "77: delete b"];
    assert_eq!(events, expected);
    stream.ask(RequestUnion::CreateRequest(WatchCreateRequest { watch_id: 77, ..on("a", "") }));
    let refused = stream.next().await;
    assert!(refused.created && refused.canceled && refused.watch_id == -1, "{refused:?}");
    stream.ask(RequestUnion::CancelRequest(WatchCancelRequest { watch_id: one }));
    let canceled = stream.next().await;
    assert!(canceled.canceled && canceled.watch_id == one);
    stream.ask(RequestUnion::CancelRequest(WatchCancelRequest { watch_id: 500 }));
    let revision = put(&dialect, "a", 0).await;
    assert_eq!(stream.events(1).await, ["1: put a over v"]);
    stream.ask(RequestUnion::ProgressRequest(WatchProgressRequest {}));
    let progress = stream.next().await;
    assert_eq!((progress.watch_id, progress.header.unwrap().revision), (-1, revision));
}

#[tokio::test]
async fn a_watch_from_the_past_is_told_everything_once_and_then_goes_on() {
    let dialect = dialect(Options::default()).await;
    let first = put(&dialect, "k0", 0).await;
    for n in 1..1500 {
        put(&dialect, &format!("k{n}"), 0).await;
    }
    let mut stream = Stream::open(&dialect);
    stream.create(WatchCreateRequest { start_revision: first, ..on("k", "l") }).await;
    put(&dialect, "k1500", 0).await;
    let expected: Vec<String> = (0..=1500).map(|n| format!("0: put k{n}")).collect();
    assert_eq!(stream.events(1501).await, expected);
    // One that begins in the future is told of nothing before.
    let revision = put(&dialect, "k1501", 0).await;
    assert_eq!(stream.events(1).await, ["0: put k1501"]);
    stream.create(WatchCreateRequest { start_revision: revision + 2, ..on("x", "") }).await;
    for _ in 0..3 {
        put(&dialect, "x", 0).await;
    }
    assert_eq!(stream.events(2).await, ["1: put x", "1: put x"]);
    let compact = CompactionRequest { revision, physical: false };
    dialect.compact(Request::new(compact)).await.unwrap();
    let id = stream.create(WatchCreateRequest { start_revision: first, ..on("k", "l") }).await;
    let cut = stream.next().await;
    assert!(cut.canceled && cut.watch_id == id && cut.compact_revision == revision, "{cut:?}");
}

#[tokio::test]
async fn all_keys_of_an_ended_lease_go_in_one_answer_by_key() {
    let dialect = dialect(Options::default()).await;
    let grant = LeaseGrantRequest { ttl: 60, id: 0 };
    let lease = dialect.lease_grant(Request::new(grant)).await.unwrap().into_inner().id;
    for key in ["c", "a", "b"] {
        put(&dialect, key, lease).await;
    }
    let mut stream = Stream::open(&dialect);
    stream.create(WatchCreateRequest { prev_kv: true, ..on("\0", "\0") }).await;
    dialect.lease_revoke(Request::new(LeaseRevokeRequest { id: lease })).await.unwrap();
    let answer = stream.next().await;
    let keys: Vec<String> = answer.events.iter().map(|event| text(&event.kv.as_ref().unwrap().key)).collect();
    assert_eq!(keys, ["a", "b", "c"]);
    let revisions: Vec<i64> = answer.events.iter().map(|event| event.kv.as_ref().unwrap().mod_revision).collect();
    assert_eq!(revisions, vec![answer.header.unwrap().revision; 3]);
    assert_eq!(answer.events[0].prev_kv.as_ref().unwrap().lease, lease);
}

#[tokio::test]
async fn a_large_revision_comes_in_pieces_only_to_those_who_can_put_them_together() {
    let dialect = dialect(Options::default()).await;
    let mut stream = Stream::open(&dialect);
    let whole = stream.create(on("big", "bih")).await;
    let pieces = stream.create(WatchCreateRequest { fragment: true, ..on("big", "bih") }).await;
    let put = |n: u8| {
        let key = format!("big{n}").into();
        let put = PutRequest { key, value: vec![n; 100 << 10].into(), ..PutRequest::default() };
        RequestOp { request: Some(request_op::Request::RequestPut(Box::new(put))) }
    };
    let txn = TxnRequest { success: (0..15).map(put).collect(), ..TxnRequest::default() };
    dialect.txn(Request::new(txn)).await.unwrap();
    let mut seen = Vec::new();
    while seen.len() < 3 {
        let answer = stream.next().await;
        seen.push((answer.watch_id, answer.events.len(), answer.fragment));
    }
    assert_eq!(seen, [(whole, 15, false), (pieces, 10, true), (pieces, 5, false)]);
}

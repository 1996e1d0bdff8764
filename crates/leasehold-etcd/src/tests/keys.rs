//! Keys as they are and as they were.

use leasehold_core::WRITE_DEPTH_MAX;
use leasehold_service::Options;
use tonic::{Request, Status};

use super::dialect;
use crate::dialect::Dialect;
use crate::proto::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use crate::proto::etcdserverpb::kv_server::Kv as _;
use crate::proto::etcdserverpb::range_request::{SortOrder, SortTarget};
use crate::proto::etcdserverpb::{
    CompactionRequest, Compare, DeleteRangeRequest, PutRequest, RangeRequest, RangeResponse, RequestOp, TxnRequest,
    request_op, response_op,
};

async fn fresh() -> Dialect {
    dialect(Options::default()).await
}

async fn put(dialect: &Dialect, key: &'static str, value: &'static str) -> i64 {
    let request = PutRequest { key: key.into(), value: value.into(), ..PutRequest::default() };
    dialect.put(Request::new(request)).await.unwrap().into_inner().header.unwrap().revision
}

async fn range(dialect: &Dialect, request: RangeRequest) -> Result<RangeResponse, Status> {
    dialect.range(Request::new(request)).await.map(tonic::Response::into_inner)
}

/// Everything, as `key=value`.
async fn all_at(dialect: &Dialect, revision: i64) -> Result<Vec<String>, Status> {
    let all = RangeRequest { key: "\0".into(), range_end: "\0".into(), revision, ..RangeRequest::default() };
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let found = range(dialect, all).await?;
    Ok(found.kvs.iter().map(|kv| format!("{}={}", text(&kv.key), text(&kv.value))).collect())
}

#[tokio::test]
async fn keys_are_read_as_they_were_until_that_is_compacted() {
    let dialect = fresh().await;
    let first = put(&dialect, "a", "1").await;
    let second = put(&dialect, "b", "1").await;
    let third = put(&dialect, "a", "2").await;
    let delete = DeleteRangeRequest { key: "b".into(), ..DeleteRangeRequest::default() };
    let fourth = dialect.delete_range(Request::new(delete)).await.unwrap().into_inner().header.unwrap().revision;
    let fifth = put(&dialect, "b", "3").await;
    for (revision, expected) in [
        (first, vec!["a=1"]),
        (second, vec!["a=1", "b=1"]),
        (third, vec!["a=2", "b=1"]),
        (fourth, vec!["a=2"]),
        (fifth, vec!["a=2", "b=3"]),
        (0, vec!["a=2", "b=3"]),
    ] {
        assert_eq!(all_at(&dialect, revision).await.unwrap(), expected, "at {revision}");
    }
    let future = all_at(&dialect, fifth + 1).await.unwrap_err();
    assert_eq!(future.message(), "etcdserver: mvcc: required revision is a future revision");
    let compact = async |revision| {
        let request = CompactionRequest { revision, physical: false };
        dialect.compact(Request::new(request)).await.map(drop).map_err(|status| status.message().to_owned())
    };
    compact(third).await.unwrap();
    let gone = "etcdserver: mvcc: required revision has been compacted";
    assert_eq!(all_at(&dialect, second).await.unwrap_err().message(), gone);
    assert_eq!(all_at(&dialect, third).await.unwrap(), ["a=2", "b=1"], "what it was compacted at is there");
    assert_eq!(compact(third).await, Err(gone.to_owned()), "not twice");
    assert_eq!(compact(first).await, Err(gone.to_owned()), "not back");
    let future = "etcdserver: mvcc: required revision is a future revision".to_owned();
    assert_eq!(compact(1 << 40).await, Err(future));
    compact(fourth).await.unwrap();
}

#[tokio::test]
async fn counts_are_of_the_whole_range_and_more_says_that_some_were_left_out() {
    let dialect = fresh().await;
    for (key, value) in [("k1", "c"), ("k2", "a"), ("k3", "b")] {
        put(&dialect, key, value).await;
    }
    put(&dialect, "k1", "c").await;
    let asked = |limit, order, target| RangeRequest {
        key: "k".into(),
        range_end: "l".into(),
        limit,
        sort_order: order as i32,
        sort_target: target as i32,
        ..RangeRequest::default()
    };
    let keys = async |request| {
        let found = range(&dialect, request).await.unwrap();
        let keys: Vec<String> = found.kvs.iter().map(|kv| String::from_utf8(kv.key.to_vec()).unwrap()).collect();
        (keys.join(" "), found.more, found.count)
    };
    let (up, down, none) = (SortOrder::Ascend, SortOrder::Descend, SortOrder::None);
    assert_eq!(keys(asked(2, none, SortTarget::Key)).await, ("k1 k2".into(), true, 3));
    assert_eq!(keys(asked(3, none, SortTarget::Key)).await, ("k1 k2 k3".into(), false, 3));
    assert_eq!(keys(asked(2, down, SortTarget::Key)).await, ("k3 k2".into(), true, 3));
    assert_eq!(keys(asked(0, up, SortTarget::Value)).await, ("k2 k3 k1".into(), false, 3));
    assert_eq!(keys(asked(1, down, SortTarget::Mod)).await, ("k1".into(), true, 3));
    assert_eq!(keys(asked(1, down, SortTarget::Create)).await, ("k3".into(), true, 3));
    assert_eq!(keys(asked(1, down, SortTarget::Version)).await, ("k1".into(), true, 3));
    let count = RangeRequest { count_only: true, ..asked(1, none, SortTarget::Key) };
    assert_eq!(keys(count).await, (String::new(), false, 3));
    let wrong = RangeRequest { sort_target: 9, ..asked(1, none, SortTarget::Key) };
    assert_eq!(range(&dialect, wrong).await.unwrap_err().message(), "etcdserver: invalid sort option");
}

fn op(request: request_op::Request) -> RequestOp {
    RequestOp { request: Some(request) }
}

fn put_op(key: &'static str) -> RequestOp {
    op(request_op::Request::RequestPut(Box::new(PutRequest { key: key.into(), ..PutRequest::default() })))
}

fn txn_op(success: Vec<RequestOp>, failure: Vec<RequestOp>) -> RequestOp {
    op(request_op::Request::RequestTxn(TxnRequest { success, failure, ..TxnRequest::default() }))
}

fn delete_op(key: &'static str, range_end: &'static str) -> RequestOp {
    let request = DeleteRangeRequest { key: key.into(), range_end: range_end.into(), prev_kv: false };
    op(request_op::Request::RequestDeleteRange(Box::new(request)))
}

#[tokio::test]
async fn a_key_is_written_once_in_a_transaction_but_in_both_of_its_branches_if_need_be() {
    let dialect = fresh().await;
    let twice = "etcdserver: duplicate key given in txn request";
    let refused = async |success: Vec<RequestOp>| {
        let request = TxnRequest { success, ..TxnRequest::default() };
        dialect.txn(Request::new(request)).await.map(drop).map_err(|status| status.message().to_owned())
    };
    for success in [
        vec![put_op("a"), put_op("a")],
        vec![put_op("b"), delete_op("a", "c")],
        vec![put_op("a"), txn_op(vec![put_op("a")], vec![])],
        vec![put_op("a"), txn_op(vec![], vec![put_op("a")])],
        vec![txn_op(vec![put_op("a")], vec![]), txn_op(vec![], vec![put_op("a")])],
        vec![txn_op(vec![delete_op("a", "c")], vec![]), put_op("b")],
    ] {
        assert_eq!(refused(success.clone()).await, Err(twice.to_owned()), "{success:?}");
    }
    for success in [
        vec![txn_op(vec![put_op("a")], vec![put_op("a")])],
        vec![put_op("a"), delete_op("b", "c")],
        vec![delete_op("a", ""), delete_op("a", "")],
    ] {
        assert_eq!(refused(success.clone()).await, Ok(()), "{success:?}");
    }
    let many = "etcdserver: too many operations in txn request".to_owned();
    assert_eq!(refused((0..129).map(|_| delete_op("a", "")).collect()).await, Err(many.clone()));
    assert_eq!(refused(vec![txn_op((0..129).map(|_| delete_op("a", "")).collect(), vec![])]).await, Err(many));
}

#[tokio::test]
async fn a_transaction_nested_too_deep_is_refused_and_does_no_harm() {
    let dialect = fresh().await;
    let nested = async |levels: usize| {
        let innermost = TxnRequest { success: vec![put_op("deep")], ..TxnRequest::default() };
        let around = |within, _| TxnRequest {
            success: vec![op(request_op::Request::RequestTxn(within))],
            ..TxnRequest::default()
        };
        let request = (1..levels).fold(innermost, around);
        dialect.txn(Request::new(request)).await.map(drop).map_err(|status| status.message().to_owned())
    };
    assert_eq!(nested(WRITE_DEPTH_MAX).await, Ok(()));
    for levels in [WRITE_DEPTH_MAX + 1, 30] {
        let refused = nested(levels).await.unwrap_err();
        assert!(refused.contains("levels of nested writes"), "{refused}");
    }
    assert_eq!(nested(1).await, Ok(()), "the log can still be read");
}

#[tokio::test]
async fn compares_below_zero_are_those_of_numbers() {
    let dialect = fresh().await;
    put(&dialect, "a", "1").await;
    let holds = async |result: CompareResult, version| {
        let compare = Compare {
            result: result as i32,
            target: CompareTarget::Version as i32,
            key: "a".into(),
            range_end: "".into(),
            target_union: Some(TargetUnion::Version(version)),
        };
        let request = TxnRequest { compare: vec![compare], ..TxnRequest::default() };
        dialect.txn(Request::new(request)).await.unwrap().into_inner().succeeded
    };
    assert!(holds(CompareResult::Greater, -1).await && holds(CompareResult::NotEqual, -1).await);
    assert!(!holds(CompareResult::Less, -1).await && !holds(CompareResult::Equal, -1).await);
    assert!(holds(CompareResult::Equal, 1).await && holds(CompareResult::Less, 2).await);
}

#[tokio::test]
async fn a_transaction_reads_what_it_has_written_and_what_was() {
    let dialect = fresh().await;
    let before = put(&dialect, "a", "old").await;
    put(&dialect, "a", "new").await;
    let read = |revision| {
        let request = RangeRequest { key: "a".into(), revision, ..RangeRequest::default() };
        op(request_op::Request::RequestRange(Box::new(request)))
    };
    let values = async |success: Vec<RequestOp>| {
        let request = TxnRequest { success, ..TxnRequest::default() };
        let response = dialect.txn(Request::new(request)).await?.into_inner();
        let values = response.responses.into_iter().filter_map(|response| match response.response {
            Some(response_op::Response::ResponseRange(range)) => Some(range.kvs[0].value.clone()),
            _ => None,
        });
        Ok::<_, Status>(values.collect::<Vec<_>>())
    };
    let newest = PutRequest { key: "a".into(), value: "newest".into(), ..PutRequest::default() };
    let newest = op(request_op::Request::RequestPut(Box::new(newest)));
    assert_eq!(values(vec![read(0), newest, read(0), read(before)]).await.unwrap(), ["new", "newest", "old"]);
    assert_eq!(values(vec![read(before), read(0)]).await.unwrap(), ["old", "newest"], "it only reads");
    assert!(values(vec![read(1 << 40)]).await.unwrap_err().message().contains("future"));
}

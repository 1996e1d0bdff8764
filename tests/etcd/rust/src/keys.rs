//! Keys, ranges and transactions, and what the server tells of itself.

use etcd_client::{
    AlarmAction, AlarmType, Client, Compare, CompareOp, DeleteOptions, GetOptions, PutOptions, SortOrder, SortTarget,
    Txn, TxnOp, TxnOpResponse,
};
use serde_json::json;

use crate::support::{Answer, LONG, Scene, When, refusal, revision, scene, text, value};

pub fn scenes() -> Vec<Scene> {
    vec![
        scene("keys: what is put is read back, and its revisions tell its life", When::InTurn, put_and_get),
        scene("ranges: limit, order, count and bounds", When::InTurn, ranges),
        scene("ranges: as they were", When::InTurn, old),
        scene("transactions: every target decides", When::InTurn, compares),
        scene("transactions: nested, in one revision", When::InTurn, nested),
        scene("refusals: keys and transactions", When::InTurn, refusals),
        scene("server: status, members, alarms, hashes", When::InTurn, server),
        scene("server: users where nobody asked for them", When::InTurn, users),
        scene("compaction: below it nothing is read", When::Last, compaction),
    ]
}

async fn put_and_get(mut client: Client) -> Answer {
    let first = revision(client.put("rust/put", "1", None).await?.header());
    let second = client.put("rust/put", "2", Some(PutOptions::new().with_prev_key())).await?;
    let answer = client.get("rust/put", None).await?;
    let kv = &answer.kvs()[0];
    let deleted = client.delete("rust/put", Some(DeleteOptions::new().with_prev_key())).await?;
    Ok(json!({
        "previous": second.prev_key().map(|kv| text(kv.value())),
        "now": [text(kv.value()), kv.version(), kv.lease()],
        "created with the first put": kv.create_revision() == first,
        "modified by the second": kv.mod_revision() == revision(second.header()) && kv.mod_revision() > first,
        "deleted": [deleted.deleted(), deleted.prev_kvs().len()],
        "afterwards": value(&mut client, "rust/put").await?,
    }))
}

async fn ranges(mut client: Client) -> Answer {
    let mut made = Vec::new();
    for (name, value) in [("b", "2"), ("a", "3"), ("c", "1"), ("b", "4")] {
        made.push(revision(client.put(format!("rust/range/{name}"), value, None).await?.header()));
    }
    let all = || GetOptions::new().with_prefix();
    let cases = [
        ("all", all()),
        ("limit", all().with_limit(2)),
        ("oldest", all().with_limit(1).with_sort(SortTarget::Create, SortOrder::Ascend)),
        ("newest", all().with_limit(1).with_sort(SortTarget::Create, SortOrder::Descend)),
        ("by value", all().with_sort(SortTarget::Value, SortOrder::Descend)),
        ("count only", all().with_count_only()),
        ("keys only", all().with_keys_only()),
        ("created since", all().with_min_create_revision(made[1])),
        ("created until", all().with_max_create_revision(made[1])),
        ("changed since", all().with_min_mod_revision(made[2])),
        ("changed until", all().with_max_mod_revision(made[2])),
    ];
    let mut answers = serde_json::Map::new();
    for (name, options) in cases {
        let found = client.get("rust/range/", Some(options)).await?;
        let keys: Vec<String> =
            found.kvs().iter().map(|kv| format!("{}={}", text(&kv.key()[11..]), text(kv.value()))).collect();
        answers.insert(name.to_owned(), json!([keys, found.more(), found.count()]));
    }
    Ok(answers.into())
}

async fn old(mut client: Client) -> Answer {
    let first = revision(client.put("rust/old", "1", None).await?.header());
    client.put("rust/old", "2", None).await?;
    let then = client.get("rust/old", Some(GetOptions::new().with_revision(first))).await?;
    let future = client.get("rust/old", Some(GetOptions::new().with_revision(first + 1000))).await;
    Ok(json!([text(then.kvs()[0].value()), value(&mut client, "rust/old").await?, refusal(future)]))
}

async fn compares(mut client: Client) -> Answer {
    let lease = client.lease_grant(LONG, None).await?.id();
    client.put("rust/compare", "m", Some(PutOptions::new().with_lease(lease))).await?;
    let kv = client.get("rust/compare", None).await?.kvs()[0].clone();
    let mut answers = serde_json::Map::new();
    for (name, op) in
        [("=", CompareOp::Equal), (">", CompareOp::Greater), ("<", CompareOp::Less), ("!=", CompareOp::NotEqual)]
    {
        for (off, by) in [("less", -1), ("same", 0), ("more", 1)] {
            let value = ["l", "m", "n"][(by + 1) as usize];
            let targets = [
                Compare::version("rust/compare", op, 1 + by),
                Compare::create_revision("rust/compare", op, kv.create_revision() + by),
                Compare::mod_revision("rust/compare", op, kv.mod_revision() + by),
                Compare::value("rust/compare", op, value),
                Compare::lease("rust/compare", op, lease + by),
            ];
            let mut decided = Vec::new();
            for target in targets {
                decided.push(client.txn(Txn::new().when([target])).await?.succeeded());
            }
            answers.insert(format!("{name} {off}"), json!(decided));
        }
    }
    Ok(answers.into())
}

async fn nested(mut client: Client) -> Answer {
    let missing = || Compare::create_revision("rust/nested/a", CompareOp::Equal, 0);
    let inner = Txn::new()
        .when([Compare::value("rust/nested/a", CompareOp::Equal, "outer")])
        .and_then([TxnOp::put("rust/nested/b", "wrong", None)])
        .or_else([TxnOp::put("rust/nested/b", "inner", None), TxnOp::get("rust/nested/b", None)]);
    let outer = Txn::new().when([missing()]).and_then([TxnOp::txn(inner), TxnOp::put("rust/nested/a", "outer", None)]);
    let done = client.txn(outer).await?;
    let inside = match done.op_responses().first() {
        Some(TxnOpResponse::Txn(inner)) => json!([inner.succeeded(), inner.op_responses().len()]),
        other => json!(format!("{other:?}")),
    };
    let again = client.txn(Txn::new().when([missing()]).or_else([TxnOp::delete("rust/nested/a", None)])).await?;
    let b = client.get("rust/nested/b", None).await?;
    Ok(json!({
        "succeeded": [done.succeeded(), again.succeeded()],
        "inside": inside,
        "left": [value(&mut client, "rust/nested/a").await?, text(b.kvs()[0].value())],
        "one revision": b.kvs()[0].mod_revision() == revision(done.header()),
    }))
}

async fn refusals(mut client: Client) -> Answer {
    let puts = |count: usize| -> Vec<TxnOp> {
        (0..count).map(|number| TxnOp::put(format!("rust/many/{number}"), "", None)).collect()
    };
    let twice = [TxnOp::put("rust/twice", "1", None), TxnOp::put("rust/twice", "2", None)];
    let ignore_value = || Some(PutOptions::new().with_ignore_value());
    Ok(json!({
        "no key": refusal(client.put("", "1", None).await),
        "no key to read": refusal(client.get("", None).await),
        "unknown lease": refusal(client.put("rust/refused", "1", Some(PutOptions::new().with_lease(99))).await),
        "a key twice": refusal(client.txn(Txn::new().and_then(twice)).await),
        "129 operations": refusal(client.txn(Txn::new().and_then(puts(129))).await),
        "128 operations": refusal(client.txn(Txn::new().and_then(puts(128))).await),
        "value of a missing key": refusal(client.put("rust/refused", "", ignore_value()).await),
        "value given": refusal(client.put("rust/refused", "1", ignore_value()).await),
        "lease given": refusal(client.put("rust/refused", "1", Some(PutOptions::new().with_lease(1).with_ignore_lease())).await),
        "too large": refusal(client.put("rust/large", vec![0; 1_600_000], None).await),
    }))
}

async fn server(mut client: Client) -> Answer {
    let status = client.status().await?;
    let members = client.member_list().await?;
    let leads = members.members().iter().any(|member| member.id() == status.leader());
    let alarms = client.alarm(AlarmAction::Get, AlarmType::None, None).await?;
    Ok(json!({
        "version": status.version().split('.').count(),
        "leads": leads,
        "numbers": [status.db_size() > 0, status.raft_term() > 0, status.raft_index() > 0, status.raft_applied_index() > 0],
        "learner": status.is_learner(),
        "members": members.members().iter().all(|member| !member.name().is_empty() && !member.client_urls().is_empty()),
        "alarms": alarms.alarms().len(),
        "hash of keys": client.hash_kv(0).await?.hash_revision() >= 0,
        "leadership to nobody": refusal(client.move_leader(99).await),
        "removal of nobody": refusal(client.member_remove(99).await),
    }))
}

async fn users(mut client: Client) -> Answer {
    Ok(json!({ "enable": refusal(client.auth_enable().await), "disable": refusal(client.auth_disable().await) }))
}

async fn compaction(mut client: Client) -> Answer {
    let first = revision(client.put("rust/compact", "1", None).await?.header());
    let second = revision(client.put("rust/compact", "2", None).await?.header());
    client.compact(second, None).await?;
    let at = |revision| Some(GetOptions::new().with_revision(revision));
    let mut watch =
        client.watch("rust/compact", Some(etcd_client::WatchOptions::new().with_start_revision(first))).await?;
    let ended = loop {
        let answer = watch.message().await?.ok_or("the watch ended")?;
        if answer.canceled() {
            break json!([answer.compact_revision() == second, answer.cancel_reason()]);
        }
    };
    Ok(json!({
        "below": refusal(client.get("rust/compact", at(first)).await),
        "at it": text(client.get("rust/compact", at(second)).await?.kvs()[0].value()),
        "again": refusal(client.compact(second, None).await),
        "the future": refusal(client.compact(second + 1000, None).await),
        "watch from below": ended,
    }))
}

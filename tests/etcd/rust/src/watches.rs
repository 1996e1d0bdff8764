//! Watches: created, cancelled, filtered, from now on and from the past, many on one stream.

use etcd_client::{Client, Txn, TxnOp, WatchFilterType, WatchOptions, WatchResponse};
use serde_json::{Value, json};

use crate::support::{Answer, Scene, When, events, revision, scene, shown};

pub fn scenes() -> Vec<Scene> {
    vec![
        scene("watches: puts and deletes in order, with what was before", When::InTurn, order),
        scene("watches: many on one stream, with ids, cancelled", When::InTurn, many),
        scene("watches: from the past, filtered", When::InTurn, past),
        scene("watches: a transaction is one answer", When::InTurn, together),
        scene("watches: progress on request", When::InTurn, progress),
    ]
}

fn answered(answer: Option<WatchResponse>) -> Value {
    answer.map_or(json!("ended"), |answer| {
        json!([answer.watch_id(), answer.created(), answer.canceled(), answer.cancel_reason()])
    })
}

async fn order(mut client: Client) -> Answer {
    client.put("rust/watch", "0", None).await?;
    let mut watch = client.watch("rust/watch", Some(WatchOptions::new().with_prev_key())).await?;
    let created = answered(watch.message().await?);
    client.put("rust/watch", "1", None).await?;
    client.put("rust/watch/other", "x", None).await?;
    client.delete("rust/watch", None).await?;
    client.put("rust/watch", "2", None).await?;
    Ok(json!({ "created": created, "events": events(&mut watch, 3).await? }))
}

async fn many(mut client: Client) -> Answer {
    let mut watch = client.watch("rust/many/a", None).await?;
    let first = answered(watch.message().await?);
    watch.watch("rust/many/b", Some(WatchOptions::new().with_watch_id(9))).await?;
    let second = answered(watch.message().await?);
    client.put("rust/many/b", "1", None).await?;
    let from_second = watch.message().await?.map(|answer| answer.watch_id());
    watch.cancel(9).await?;
    let cancelled = answered(watch.message().await?);
    client.put("rust/many/b", "2", None).await?;
    client.put("rust/many/a", "3", None).await?;
    Ok(json!([first, second, from_second, cancelled, events(&mut watch, 1).await?]))
}

async fn past(mut client: Client) -> Answer {
    let start = revision(client.put("rust/past", "1", None).await?.header());
    client.delete("rust/past", None).await?;
    client.put("rust/past", "2", None).await?;
    let from = || WatchOptions::new().with_start_revision(start).with_prev_key();
    let mut all = client.watch("rust/past", Some(from())).await?;
    let mut no_puts = client.watch("rust/past", Some(from().with_filters([WatchFilterType::NoPut]))).await?;
    let mut no_deletes = client.watch("rust/past", Some(from().with_filters([WatchFilterType::NoDelete]))).await?;
    Ok(json!({
        "all": events(&mut all, 3).await?,
        "no puts": events(&mut no_puts, 1).await?,
        "no deletes": events(&mut no_deletes, 2).await?,
    }))
}

async fn together(mut client: Client) -> Answer {
    let mut watch = client.watch("rust/together/", Some(WatchOptions::new().with_prefix())).await?;
    watch.message().await?;
    let ops = [TxnOp::put("rust/together/b", "1", None), TxnOp::put("rust/together/a", "2", None)];
    let done = client.txn(Txn::new().and_then(ops)).await?;
    let answer = watch.message().await?.ok_or("the watch ended")?;
    let at_once = revision(answer.header()) == revision(done.header());
    Ok(json!([answer.events().iter().map(shown).collect::<Vec<_>>(), at_once]))
}

async fn progress(mut client: Client) -> Answer {
    let mut watch = client.watch("rust/progress", None).await?;
    watch.message().await?;
    let put = revision(client.put("rust/progress", "1", None).await?.header());
    events(&mut watch, 1).await?;
    watch.request_progress().await?;
    let answer = watch.message().await?.ok_or("the watch ended")?;
    Ok(json!([answer.watch_id(), answer.events().len(), revision(answer.header()) >= put]))
}

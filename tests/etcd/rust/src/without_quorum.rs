//! What clients are told when most of a cluster is dead: streams that require a leader end, writes and reads fail in time,
//! reads that may be old are answered.
//!
//! The endpoint is one that stays. When everything is under way it says `ready` and waits for a line: meanwhile the others
//! are killed.

use std::time::Duration;

use etcd_client::{Client, ConnectOptions, Error, GetOptions};
use serde_json::{Value, json};

use crate::support::{Broken, LONG, refusal, text};

const PATIENCE: Duration = Duration::from_secs(60);

pub async fn play(endpoint: &str) -> Vec<(String, Result<Value, String>)> {
    let answer = tokio::time::timeout(2 * PATIENCE, told(endpoint)).await;
    let answer = answer.map_err(|late| late.to_string()).and_then(|answer| answer.map_err(|why| why.to_string()));
    vec![("without a quorum: what clients are told".to_owned(), answer)]
}

async fn told(endpoint: &str) -> Result<Value, Broken> {
    let strict = ConnectOptions::new().with_require_leader(true);
    let mut strict = Client::connect([endpoint], Some(strict)).await?;
    let mut client = Client::connect([endpoint], None).await?;
    client.put("alone/a", "1", None).await?;
    let lease = client.lease_grant(LONG, None).await?.id();
    let mut watch = strict.watch("alone/a", None).await?;
    watch.message().await?;
    let (mut keeper, mut answers) = strict.lease_keep_alive(lease).await?;
    keeper.keep_alive().await?;
    answers.message().await?;
    crate::go_on_after("ready").await;
    let watch = tokio::time::timeout(PATIENCE, watch.message()).await?;
    let kept: Result<(), Error> = loop {
        // If it cannot be sent the stream has ended, and tells why.
        let _ = keeper.keep_alive().await;
        match tokio::time::timeout(PATIENCE, answers.message()).await? {
            Ok(Some(_)) => tokio::time::sleep(Duration::from_millis(100)).await,
            Ok(None) => break Err(Error::LeaseKeepAliveError("the stream ended".to_owned())),
            Err(why) => break Err(why),
        }
    };
    let old = client.get("alone/a", Some(GetOptions::new().with_serializable())).await?;
    Ok(json!({
        "a watch that requires a leader": refusal(watch.map(drop)),
        "a keep-alive that requires a leader": refusal(kept),
        "a put": refusal(client.put("alone/a", "2", None).await),
        "a put that requires a leader": refusal(strict.put("alone/a", "2", None).await),
        "a read": refusal(client.get("alone/a", None).await),
        "a read that may be old": text(old.kvs()[0].value()),
    }))
}

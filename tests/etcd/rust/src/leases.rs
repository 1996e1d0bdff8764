//! Leases: granted, read, kept alive, ended by command and by time.

use std::time::Duration;

use etcd_client::{Client, GetOptions, LeaseGrantOptions, LeaseTimeToLiveOptions, PutOptions, WatchOptions};
use serde_json::json;

use crate::support::{Answer, LONG, SHORT, Scene, When, refusal, scene, shown, text};

pub fn scenes() -> Vec<Scene> {
    vec![
        scene("leases: granted, listed, read, renewed, revoked", When::InTurn, life),
        scene("leases: an id can be chosen, once", When::InTurn, chosen),
        scene("leases: refusals", When::InTurn, refusals),
        scene("leases: a lost lease is told to who keeps it alive", When::InTurn, lost),
        scene("leases: a watch sees all keys of an ended lease go at once, in order", When::Together, expiry),
        scene("leases: one kept alive outlives one that is not", When::Together, kept),
    ]
}

async fn life(mut client: Client) -> Answer {
    let lease = client.lease_grant(LONG, None).await?;
    let bound = || Some(PutOptions::new().with_lease(lease.id()));
    client.put("rust/lease/b", "2", bound()).await?;
    client.put("rust/lease/a", "1", bound()).await?;
    let listed = client.leases().await?.leases().iter().any(|one| one.id() == lease.id());
    let (mut keeper, mut answers) = client.lease_keep_alive(lease.id()).await?;
    keeper.keep_alive().await?;
    let renewed = answers.message().await?.ok_or("the stream ended")?;
    let read = client.lease_time_to_live(lease.id(), Some(LeaseTimeToLiveOptions::new().with_keys())).await?;
    let mut keys: Vec<String> = read.keys().iter().map(|key| text(key)).collect();
    keys.sort();
    client.lease_revoke(lease.id()).await?;
    let left = client.get("rust/lease/", Some(GetOptions::new().with_prefix())).await?.count();
    let after = client.lease_time_to_live(lease.id(), None).await?;
    Ok(json!({
        "ttl": lease.ttl(),
        "own id": lease.id() > 0 && keeper.id() == lease.id(),
        "listed": listed,
        "renewed": renewed.ttl(),
        "granted": read.granted_ttl(),
        "remaining is at most that": read.ttl() <= LONG && read.ttl() > LONG - 10,
        "keys": keys,
        "left": left,
        "afterwards": [after.ttl(), after.granted_ttl()],
    }))
}

async fn chosen(mut client: Client) -> Answer {
    let with_id = || Some(LeaseGrantOptions::new().with_id(1234));
    let first = client.lease_grant(LONG, with_id()).await?.id();
    let second = client.lease_grant(LONG, with_id()).await;
    client.lease_revoke(first).await?;
    Ok(json!([first, refusal(second), client.lease_grant(LONG, with_id()).await?.id()]))
}

async fn refusals(mut client: Client) -> Answer {
    let unknown = client.lease_time_to_live(99, None).await?;
    Ok(json!({
        "revoke an unknown one": refusal(client.lease_revoke(99).await),
        "too long": refusal(client.lease_grant(9_000_000_001, None).await),
        "raised": client.lease_grant(0, None).await?.ttl() > 0,
        "unknown": [unknown.ttl(), unknown.granted_ttl()],
    }))
}

async fn lost(mut client: Client) -> Answer {
    let lease = client.lease_grant(LONG, None).await?.id();
    let (mut keeper, mut answers) = client.lease_keep_alive(lease).await?;
    client.lease_revoke(lease).await?;
    keeper.keep_alive().await?;
    let told = answers.message().await?.ok_or("the stream ended")?.ttl();
    let unknown = client.lease_keep_alive(99).await.map(|_| ());
    Ok(json!({ "ttl": told, "to begin with an unknown one": refusal(unknown) }))
}

async fn expiry(mut client: Client) -> Answer {
    let lease = client.lease_grant(SHORT, None).await?.id();
    let options = WatchOptions::new().with_prefix().with_prev_key();
    let mut watch = client.watch("rust/expiry/", Some(options)).await?;
    watch.message().await?;
    for name in ["c", "a", "b"] {
        client.put(format!("rust/expiry/{name}"), name, Some(PutOptions::new().with_lease(lease))).await?;
    }
    let mut put = 0;
    while put < 3 {
        put += watch.message().await?.ok_or("the watch ended")?.events().len();
    }
    let answer = watch.message().await?.ok_or("the watch ended")?;
    let revisions: Vec<i64> =
        answer.events().iter().filter_map(|event| event.kv()).map(|kv| kv.mod_revision()).collect();
    Ok(json!({
        "events": answer.events().iter().map(shown).collect::<Vec<_>>(),
        "one revision": revisions.iter().all(|revision| *revision == revisions[0]),
    }))
}

async fn kept(mut client: Client) -> Answer {
    let kept = client.lease_grant(SHORT, None).await?;
    let left = client.lease_grant(SHORT, None).await?.id();
    let (mut keeper, mut answers) = client.lease_keep_alive(kept.id()).await?;
    let mut least = i64::MAX;
    while client.lease_time_to_live(left, None).await?.ttl() >= 0 {
        keeper.keep_alive().await?;
        least = least.min(answers.message().await?.ok_or("the stream ended")?.ttl());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(json!({ "always renewed in full": least == kept.ttl(), "the other": refusal(client.lease_revoke(left).await) }))
}

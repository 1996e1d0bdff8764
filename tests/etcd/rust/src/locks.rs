//! The Lock service: what it calls its keys, who gets a lock when, and what becomes of the dead.

use std::time::Duration;

use etcd_client::{Client, GetOptions, LockOptions, PutOptions};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::support::{Answer, Broken, LONG, SHORT, Scene, When, refusal, scene, text, until};

pub fn scenes() -> Vec<Scene> {
    vec![
        scene("locks: the key is the name and the lease, and tells the order", When::InTurn, key_form),
        scene("locks: the same lease finds what it has", When::InTurn, again),
        scene("locks: handed over in the order of arrival", When::InTurn, order),
        scene("locks: a waiter that gives up leaves the queue", When::InTurn, gives_up),
        scene("locks: a deleted or revoked holder hands over, too", When::InTurn, revoked),
        scene("locks: a dead holder's lock goes to the waiter", When::Together, death),
        scene("locks: a waiter whose lease ended is passed over", When::Together, dead_waiter),
        scene("locks: without a lease the server makes one", When::InTurn, own_lease),
        scene("locks: refusals", When::InTurn, refusals),
    ]
}

fn with(lease: i64) -> Option<LockOptions> {
    Some(LockOptions::new().with_lease(lease))
}

async fn lease(client: &mut Client, ttl: i64) -> Result<i64, Broken> {
    Ok(client.lease_grant(ttl, None).await?.id())
}

/// The queue of a lock: its keys in the order of their creation.
async fn queue(client: &mut Client, name: &str) -> Result<Vec<String>, etcd_client::Error> {
    use etcd_client::{SortOrder, SortTarget};
    let options = GetOptions::new().with_prefix().with_sort(SortTarget::Create, SortOrder::Ascend);
    Ok(client.get(format!("{name}/"), Some(options)).await?.kvs().iter().map(|kv| text(kv.key())).collect())
}

/// Waits for a lock in the background, and returns when it is in the queue at this place.
async fn wait_for(
    client: &Client,
    name: &'static str,
    lease: i64,
    place: usize,
) -> Result<JoinHandle<Result<String, String>>, Broken> {
    let mut waiter = client.clone();
    let waiting = tokio::spawn(async move {
        waiter.lock(name, with(lease)).await.map(|held| text(held.key())).map_err(|error| error.to_string())
    });
    let key = format!("{name}/{lease:x}");
    until("a place in the queue", || {
        let (mut client, key) = (client.clone(), key.clone());
        async move { Ok((queue(&mut client, name).await?.get(place) == Some(&key)).then_some(())) }
    })
    .await?;
    Ok(waiting)
}

async fn key_form(mut client: Client) -> Answer {
    let lease = lease(&mut client, LONG).await?;
    let held = client.lock("rust/form", with(lease)).await?;
    let found = client.get(held.key(), None).await?;
    let kv = &found.kvs()[0];
    client.unlock(held.key()).await?;
    let left = client.get(held.key(), None).await?.count();
    Ok(json!({
        "name and lease": text(held.key()) == format!("rust/form/{lease:x}"),
        "value": text(kv.value()),
        "version": kv.version(),
        "lease": kv.lease() == lease,
        "unlocked": left,
    }))
}

async fn again(mut client: Client) -> Answer {
    let lease = lease(&mut client, LONG).await?;
    let first = client.lock("rust/again", with(lease)).await?;
    let second = client.lock("rust/again", with(lease)).await?;
    let unlocked = [refusal(client.unlock(first.key()).await), refusal(client.unlock(first.key()).await)];
    Ok(json!([first.key() == second.key(), unlocked, refusal(client.unlock("rust/again/none").await)]))
}

async fn order(mut client: Client) -> Answer {
    let leases = [lease(&mut client, LONG).await?, lease(&mut client, LONG).await?, lease(&mut client, LONG).await?];
    let first = text(client.lock("rust/order", with(leases[0])).await?.key());
    let second = wait_for(&client, "rust/order", leases[1], 1).await?;
    let third = wait_for(&client, "rust/order", leases[2], 2).await?;
    let before = [second.is_finished(), third.is_finished()];
    client.unlock(first).await?;
    let second = second.await??;
    let between = third.is_finished();
    client.unlock(second.clone()).await?;
    let third = third.await??;
    let right = second.ends_with(&format!("/{:x}", leases[1])) && third.ends_with(&format!("/{:x}", leases[2]));
    client.unlock(third).await?;
    Ok(
        json!({ "waited": [before[0], before[1], between], "right": right, "left": queue(&mut client, "rust/order").await? }),
    )
}

async fn gives_up(mut client: Client) -> Answer {
    let (ann, bob) = (lease(&mut client, LONG).await?, lease(&mut client, LONG).await?);
    let held = client.lock("rust/give-up", with(ann)).await?;
    let waiter = wait_for(&client, "rust/give-up", bob, 1).await?;
    waiter.abort();
    until("an empty place", || {
        let mut client = client.clone();
        async move { Ok((queue(&mut client, "rust/give-up").await?.len() == 1).then_some(())) }
    })
    .await?;
    client.unlock(held.key()).await?;
    Ok(json!(queue(&mut client, "rust/give-up").await?))
}

async fn revoked(mut client: Client) -> Answer {
    let (ann, bob, cid) =
        (lease(&mut client, LONG).await?, lease(&mut client, LONG).await?, lease(&mut client, LONG).await?);
    let held = client.lock("rust/revoked", with(ann)).await?;
    let second = wait_for(&client, "rust/revoked", bob, 1).await?;
    let third = wait_for(&client, "rust/revoked", cid, 2).await?;
    client.delete(held.key(), None).await?;
    let second = second.await?;
    client.lease_revoke(bob).await?;
    Ok(json!([second.is_ok(), third.await?.is_ok()]))
}

async fn death(mut client: Client) -> Answer {
    let (dead, alive) = (lease(&mut client, SHORT).await?, lease(&mut client, LONG).await?);
    client.lock("rust/death", with(dead)).await?;
    let mut waiter = client.clone();
    let held = waiter.lock("rust/death", with(alive)).await?;
    Ok(json!({
        "who holds": text(held.key()).ends_with(&format!("/{alive:x}")),
        "queue": queue(&mut client, "rust/death").await?.len(),
        "the dead one": client.lease_time_to_live(dead, None).await?.ttl(),
    }))
}

async fn dead_waiter(mut client: Client) -> Answer {
    let (ann, dead, cid) =
        (lease(&mut client, LONG).await?, lease(&mut client, SHORT).await?, lease(&mut client, LONG).await?);
    let held = client.lock("rust/passed", with(ann)).await?;
    let second = wait_for(&client, "rust/passed", dead, 1).await?;
    let third = wait_for(&client, "rust/passed", cid, 2).await?;
    until("the end of the waiter", || {
        let mut client = client.clone();
        async move { Ok((client.lease_time_to_live(dead, None).await?.ttl() < 0).then_some(())) }
    })
    .await?;
    client.unlock(held.key()).await?;
    let third = third.await?.is_ok();
    let second: Value = match tokio::time::timeout(Duration::from_secs(10), second).await {
        Ok(answered) => answered?.map_or_else(|error| json!(error), |_| json!("it was told that it holds")),
        Err(_) => json!("no answer"),
    };
    Ok(json!({ "the third got it": third, "the dead one was told": second }))
}

async fn own_lease(mut client: Client) -> Answer {
    let held = client.lock("rust/own", None).await?;
    let key = text(held.key());
    let made = i64::from_str_radix(key.rsplit('/').next().unwrap_or_default(), 16)?;
    let read = client.lease_time_to_live(made, None).await?;
    client.unlock(held.key()).await?;
    let other = lease(&mut client, LONG).await?;
    let nameless = client.lock("", with(other)).await?;
    client.unlock(nameless.key()).await?;
    Ok(json!({ "its ttl": read.granted_ttl(), "without a name": text(nameless.key()).starts_with('/') }))
}

async fn refusals(mut client: Client) -> Answer {
    let lease = lease(&mut client, LONG).await?;
    client.put("rust/refused-lock/held", "", Some(PutOptions::new().with_lease(lease))).await?;
    Ok(json!({
        "unknown lease": refusal(client.lock("rust/refused-lock/free", with(99)).await),
        "unlock what is not there": refusal(client.unlock("rust/refused-lock/none").await),
        "unlock nothing": refusal(client.unlock("").await),
    }))
}

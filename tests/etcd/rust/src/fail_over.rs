//! What must survive when the leader is killed in the middle: leases kept alive, locks and their waiters, elections,
//! watches, and the time that a lease has left.
//!
//! The endpoints are the leader's first, then those of the others. When everything is under way it says `ready` and waits
//! for a line: meanwhile the leader is killed and another leads. Clients of the others must notice nothing; clients of the
//! killed one go on elsewhere.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use etcd_client::{Client, Compare, CompareOp, LockOptions, ProclaimOptions, Txn, TxnOp, WatchOptions, WatchStream};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::support::{Broken, LONG, text, until};

/// Short enough to end if nobody kept it alive, in seconds.
const TTL: i64 = 5;
const PATIENCE: Duration = Duration::from_secs(60);

/// What is left to do when the leader is dead; it gives the answer.
type Rest = Result<Pin<Box<dyn Future<Output = Result<Value, Broken>> + Send>>, Broken>;

pub async fn play(endpoints: &[String]) -> Vec<(String, Result<Value, String>)> {
    let place = Place { endpoints: endpoints.to_vec() };
    let under_way = [
        ("fail-over: a stream keeps a lease alive", keep_alive(&place).await),
        ("fail-over: a lock stays with its holder, then goes to who waited", lock(&place).await),
        ("fail-over: who waited at the killed one finds its place again", lost_waiter(&place).await),
        ("fail-over: an incumbent leads on, and observers hear of it", election(&place).await),
        ("fail-over: a watch sees everything once", watch(&place).await),
        ("fail-over: a watch at the killed one goes on elsewhere", lost_watch(&place).await),
        ("fail-over: the time left is not given again", time_left(&place).await),
    ];
    crate::go_on_after("ready").await;
    let playing = under_way.map(|(name, rest)| {
        let rest = rest.map(|rest| tokio::spawn(tokio::time::timeout(PATIENCE, rest)));
        (name, rest)
    });
    let mut played = Vec::new();
    for (name, playing) in playing {
        let answer = match playing {
            Ok(playing) => crate::outcome(playing.await),
            Err(why) => Err(why.to_string()),
        };
        played.push((name.to_owned(), answer));
    }
    played
}

/// Where clients connect to.
#[derive(Clone)]
struct Place {
    endpoints: Vec<String>,
}

impl Place {
    /// A client of one endpoint; the first is the one that is killed.
    async fn at(&self, number: usize) -> Result<Client, etcd_client::Error> {
        Client::connect([&self.endpoints[number]], None).await
    }
}

/// A lease that is kept alive over one stream.
struct Kept {
    lease: i64,
    stop: Arc<AtomicBool>,
    /// The least ttl that was answered.
    keeping: JoinHandle<Result<i64, Broken>>,
}

impl Kept {
    async fn begin(mut client: Client) -> Result<Kept, Broken> {
        let lease = client.lease_grant(TTL, None).await?.id();
        let stop = Arc::new(AtomicBool::new(false));
        let (mut keeper, mut answers) = client.lease_keep_alive(lease).await?;
        let stopped = Arc::clone(&stop);
        let keeping = tokio::spawn(async move {
            let mut least = TTL;
            while !stopped.load(Ordering::Relaxed) {
                keeper.keep_alive().await?;
                least = least.min(answers.message().await?.ok_or("the stream ended")?.ttl());
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
            Ok(least)
        });
        Ok(Kept { lease, stop, keeping })
    }

    async fn end(self) -> Result<i64, Broken> {
        self.stop.store(true, Ordering::Relaxed);
        self.keeping.await?
    }
}

async fn keep_alive(place: &Place) -> Rest {
    let kept = Kept::begin(place.at(1).await?).await?;
    let mut other = place.at(2).await?;
    Ok(Box::pin(async move {
        // Longer than it would live if a renewal had been forgotten.
        tokio::time::sleep(Duration::from_secs(TTL as u64 + 2)).await;
        let left = other.lease_time_to_live(kept.lease, None).await?.ttl();
        Ok(json!({ "renewed each time, in full": kept.end().await? == TTL, "lives": left >= 0 }))
    }))
}

async fn lock(place: &Place) -> Rest {
    let mut client = place.at(1).await?;
    let kept = Kept::begin(client.clone()).await?;
    let held = client.lock("over/lock", Some(LockOptions::new().with_lease(kept.lease))).await?;
    let mut waiter = place.at(2).await?;
    let lease = waiter.lease_grant(LONG, None).await?.id();
    let waiting = tokio::spawn({
        let mut waiter = waiter.clone();
        async move { waiter.lock("over/lock", Some(LockOptions::new().with_lease(lease))).await }
    });
    in_queue(&waiter, format!("over/lock/{lease:x}")).await?;
    Ok(Box::pin(async move {
        let before = [client.get(held.key(), None).await?.count() == 1, waiting.is_finished()];
        client.unlock(held.key()).await?;
        let got = waiting.await?.map(|held| text(held.key()).ends_with(&format!("/{lease:x}")));
        kept.end().await?;
        Ok(
            json!({ "still held": before[0], "not yet handed over": !before[1], "then handed over": got.map_err(|why| why.to_string()) }),
        )
    }))
}

async fn lost_waiter(place: &Place) -> Rest {
    let (mut client, mut lost) = (place.at(1).await?, place.at(0).await?);
    let (ann, bob, cid) = (
        client.lease_grant(LONG, None).await?.id(),
        client.lease_grant(LONG, None).await?.id(),
        client.lease_grant(LONG, None).await?.id(),
    );
    let with = |lease| Some(LockOptions::new().with_lease(lease));
    let held = client.lock("over/waiter", with(ann)).await?;
    let waiting = tokio::spawn(async move { lost.lock("over/waiter", with(bob)).await.map(drop) });
    in_queue(&client, format!("over/waiter/{bob:x}")).await?;
    Ok(Box::pin(async move {
        let told = waiting.await?.is_err();
        let again = tokio::spawn({
            let mut client = client.clone();
            async move { client.lock("over/waiter", with(bob)).await.map(|held| text(held.key())) }
        });
        in_queue(&client, format!("over/waiter/{bob:x}")).await?;
        let last = tokio::spawn({
            let mut client = client.clone();
            async move { client.lock("over/waiter", with(cid)).await.map(|held| text(held.key())) }
        });
        in_queue(&client, format!("over/waiter/{cid:x}")).await?;
        client.unlock(held.key()).await?;
        let got = again.await??;
        let early = last.is_finished();
        client.unlock(got.clone()).await?;
        last.await??;
        Ok(json!({ "told": told, "served before who came later": got.ends_with(&format!("/{bob:x}")) && !early }))
    }))
}

async fn in_queue(client: &Client, key: String) -> Result<(), Broken> {
    until("a place in the queue", || {
        let (mut client, key) = (client.clone(), key.clone());
        async move { Ok((client.get(key, None).await?.count() == 1).then_some(())) }
    })
    .await
}

async fn election(place: &Place) -> Rest {
    let mut client = place.at(1).await?;
    let kept = Kept::begin(client.clone()).await?;
    let won = client.campaign("over/elect", "before", kept.lease).await?;
    let leader = won.leader().ok_or("a campaign is answered with its key")?.clone();
    let mut observer = place.at(2).await?.observe("over/elect").await?;
    let first = observer.message().await?.and_then(|answer| answer.kv().map(|kv| text(kv.value())));
    Ok(Box::pin(async move {
        client.proclaim("after", Some(ProclaimOptions::new().with_leader(leader.clone()))).await?;
        let second = observer.message().await?.and_then(|answer| answer.kv().map(|kv| text(kv.value())));
        let now = client.leader("over/elect").await?;
        let same = now.kv().is_some_and(|kv| kv.create_revision() == leader.rev());
        kept.end().await?;
        Ok(json!({ "heard": [first, second], "the same incumbent": same }))
    }))
}

/// Creates numbered keys one after the other, each once, however often it must ask.
fn write(place: &Place, prefix: &'static str) -> (Arc<AtomicBool>, JoinHandle<Result<usize, Broken>>) {
    let (place, stop) = (place.clone(), Arc::new(AtomicBool::new(false)));
    let stopped = Arc::clone(&stop);
    let writing = tokio::spawn(async move {
        let mut number = 0;
        let asked = Instant::now();
        while !stopped.load(Ordering::Relaxed) {
            let key = format!("{prefix}{number:05}");
            let absent = Compare::create_revision(key.as_str(), CompareOp::Equal, 0);
            let create = Txn::new().when([absent]).and_then([TxnOp::put(key, "", None)]);
            let done = async { place.at(1 + number % 2).await?.txn(create).await };
            match tokio::time::timeout(Duration::from_secs(5), done).await {
                Ok(Ok(_)) => number += 1,
                Ok(Err(_)) | Err(_) if asked.elapsed() < PATIENCE => {
                    tokio::time::sleep(Duration::from_millis(20)).await
                }
                Ok(Err(why)) => return Err(why.into()),
                Err(late) => return Err(late.into()),
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(number)
    });
    (stop, writing)
}

/// The numbers that a watch tells of, until it has told of the last one; and the revision of the last event.
async fn told(watch: &mut WatchStream, last: Option<usize>, seen: &mut Vec<usize>, at: &mut i64) -> Result<(), Broken> {
    while last.is_none_or(|last| seen.last() != Some(&last)) {
        let answer = watch.message().await?.ok_or("the watch ended")?;
        for kv in answer.events().iter().filter_map(|event| event.kv()) {
            seen.push(text(&kv.key()[kv.key().len() - 5..]).parse()?);
            *at = kv.mod_revision();
        }
    }
    Ok(())
}

async fn watch(place: &Place) -> Rest {
    let mut watch = place.at(1).await?.watch("over/watch/", Some(WatchOptions::new().with_prefix())).await?;
    let (mut seen, mut at) = (Vec::new(), 0);
    watch.message().await?;
    let (stop, writing) = write(place, "over/watch/");
    told(&mut watch, Some(9), &mut seen, &mut at).await?;
    Ok(Box::pin(async move {
        tokio::time::sleep(Duration::from_millis(500)).await;
        stop.store(true, Ordering::Relaxed);
        let count = writing.await??;
        told(&mut watch, Some(count - 1), &mut seen, &mut at).await?;
        Ok(json!({ "every event once, in order": seen == (0..count).collect::<Vec<_>>(), "some": count > 10 }))
    }))
}

async fn lost_watch(place: &Place) -> Rest {
    let mut watch = place.at(0).await?.watch("over/lost/", Some(WatchOptions::new().with_prefix())).await?;
    let (mut seen, mut at) = (Vec::new(), 0);
    watch.message().await?;
    let (stop, writing) = write(place, "over/lost/");
    told(&mut watch, Some(9), &mut seen, &mut at).await?;
    let place = place.clone();
    Ok(Box::pin(async move {
        let broke = told(&mut watch, None, &mut seen, &mut at).await.is_err();
        let from = WatchOptions::new().with_prefix().with_start_revision(at + 1);
        let mut watch = place.at(2).await?.watch("over/lost/", Some(from)).await?;
        stop.store(true, Ordering::Relaxed);
        let count = writing.await??;
        told(&mut watch, Some(count - 1), &mut seen, &mut at).await?;
        Ok(json!({ "told": broke, "every event once, in order": seen == (0..count).collect::<Vec<_>>() }))
    }))
}

async fn time_left(place: &Place) -> Rest {
    let mut client = place.at(1).await?;
    let lease = client.lease_grant(LONG, None).await?.id();
    let before = until("some seconds", || {
        let mut client = client.clone();
        async move { Ok(Some(client.lease_time_to_live(lease, None).await?.ttl()).filter(|left| *left < LONG - 3)) }
    })
    .await?;
    Ok(Box::pin(async move {
        let after = client.lease_time_to_live(lease, None).await?.ttl();
        Ok(json!({ "not more than before": after <= before, "not lost": after > 0 }))
    }))
}

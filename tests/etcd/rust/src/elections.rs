//! The Election service: campaigns, proclamations, who is told what, and what becomes of the dead.

use etcd_client::{CampaignResponse, Client, LeaderKey, ObserveStream, ProclaimOptions, ResignOptions};
use serde_json::{Value, json};

use crate::support::{Answer, Broken, LONG, SHORT, Scene, When, refusal, scene, text, until};

pub fn scenes() -> Vec<Scene> {
    vec![
        scene("elections: campaign, leader, proclaim, resign", When::InTurn, life),
        scene("elections: observers hear the leader first, then every change", When::InTurn, observe),
        scene("elections: the next candidate follows who resigned", When::InTurn, hand_over),
        scene("elections: the next candidate follows who died", When::Together, death),
        scene("elections: the same lease campaigns twice", When::InTurn, twice),
        scene("elections: refusals", When::InTurn, refusals),
    ]
}

fn leader_of(won: &CampaignResponse) -> Result<LeaderKey, Broken> {
    Ok(won.leader().ok_or("a campaign is answered with its key")?.clone())
}

fn proclaim_as(leader: &LeaderKey) -> Option<ProclaimOptions> {
    Some(ProclaimOptions::new().with_leader(leader.clone()))
}

fn resign_as(leader: &LeaderKey) -> Option<ResignOptions> {
    Some(ResignOptions::new().with_leader(leader.clone()))
}

async fn value_of_leader(client: &mut Client, name: &str) -> Result<Option<String>, etcd_client::Error> {
    Ok(client.leader(name).await?.kv().map(|kv| text(kv.value())))
}

async fn heard(observer: &mut ObserveStream) -> Result<Value, Broken> {
    let answer = observer.message().await?.ok_or("the stream ended")?;
    Ok(json!(answer.kv().map(|kv| text(kv.value()))))
}

async fn life(mut client: Client) -> Answer {
    let lease = client.lease_grant(LONG, None).await?.id();
    let leader = leader_of(&client.campaign("rust/elect", "ann", lease).await?)?;
    let before = client.leader("rust/elect").await?;
    client.proclaim("ann again", proclaim_as(&leader)).await?;
    let after = client.leader("rust/elect").await?;
    let (before, after) = (before.kv().ok_or("no leader")?, after.kv().ok_or("no leader")?);
    let resigned = [refusal(client.resign(resign_as(&leader)).await), refusal(client.resign(resign_as(&leader)).await)];
    Ok(json!({
        "name": text(leader.name()),
        "key is name and lease": text(leader.key()) == format!("rust/elect/{lease:x}"),
        "rev is its creation": leader.rev() == before.create_revision() && leader.rev() == after.create_revision(),
        "lease": leader.lease() == lease,
        "values": [text(before.value()), text(after.value())],
        "versions": [before.version(), after.version()],
        "resigned": resigned,
        "afterwards": refusal(client.leader("rust/elect").await),
    }))
}

async fn observe(mut client: Client) -> Answer {
    let (ann, bob) = (client.lease_grant(LONG, None).await?.id(), client.lease_grant(LONG, None).await?.id());
    let leader = leader_of(&client.campaign("rust/observe", "ann", ann).await?)?;
    let mut observer = client.observe("rust/observe").await?;
    let mut seen = vec![heard(&mut observer).await?];
    client.proclaim("ann 2", proclaim_as(&leader)).await?;
    seen.push(heard(&mut observer).await?);
    client.resign(resign_as(&leader)).await?;
    let next = leader_of(&client.campaign("rust/observe", "bob", bob).await?)?;
    seen.push(heard(&mut observer).await?);
    client.resign(resign_as(&next)).await?;
    Ok(json!(seen))
}

async fn hand_over(mut client: Client) -> Answer {
    let (ann, bob) = (client.lease_grant(LONG, None).await?.id(), client.lease_grant(LONG, None).await?.id());
    let first = leader_of(&client.campaign("rust/hand", "ann", ann).await?)?;
    let mut second = client.clone();
    let waiting = tokio::spawn(async move { second.campaign("rust/hand", "bob", bob).await });
    until("a second candidate", || {
        let mut client = client.clone();
        async move { Ok((client.get(format!("rust/hand/{bob:x}"), None).await?.count() == 1).then_some(())) }
    })
    .await?;
    let before = (value_of_leader(&mut client, "rust/hand").await?, waiting.is_finished());
    let early =
        LeaderKey::new().with_name("rust/hand").with_key(format!("rust/hand/{bob:x}")).with_rev(1).with_lease(bob);
    let early = refusal(client.proclaim("bob", proclaim_as(&early)).await);
    client.resign(resign_as(&first)).await?;
    let won = leader_of(&waiting.await??)?;
    Ok(json!({
        "before": before,
        "a proclamation by who does not lead": early,
        "after": value_of_leader(&mut client, "rust/hand").await?,
        "revs rise": won.rev() > first.rev(),
        "a proclamation by who resigned": refusal(client.proclaim("ann", proclaim_as(&first)).await),
    }))
}

async fn death(mut client: Client) -> Answer {
    let (dead, alive) = (client.lease_grant(SHORT, None).await?.id(), client.lease_grant(LONG, None).await?.id());
    let first = leader_of(&client.campaign("rust/death-of-leader", "dead", dead).await?)?;
    let mut observer = client.observe("rust/death-of-leader").await?;
    let mut seen = vec![heard(&mut observer).await?];
    let won = leader_of(&client.campaign("rust/death-of-leader", "alive", alive).await?)?;
    seen.push(heard(&mut observer).await?);
    Ok(json!({
        "seen": seen,
        "revs rise": won.rev() > first.rev(),
        "a proclamation by the dead": refusal(client.proclaim("ghost", proclaim_as(&first)).await),
        "leader": value_of_leader(&mut client, "rust/death-of-leader").await?,
    }))
}

async fn twice(mut client: Client) -> Answer {
    let lease = client.lease_grant(LONG, None).await?.id();
    let first = leader_of(&client.campaign("rust/twice-elected", "1", lease).await?)?;
    let second = leader_of(&client.campaign("rust/twice-elected", "2", lease).await?)?;
    Ok(json!([
        first.rev() == second.rev(),
        first.key() == second.key(),
        value_of_leader(&mut client, "rust/twice-elected").await?
    ]))
}

async fn refusals(mut client: Client) -> Answer {
    Ok(json!({
        "no leader": refusal(client.leader("rust/nobody").await),
        "unknown lease": refusal(client.campaign("rust/nobody", "x", 99).await),
        "proclaim without a leader": refusal(client.proclaim("x", None).await),
        "resign without a leader": refusal(client.resign(None).await),
    }))
}

//! A client whose leases have children, and that revokes leases of others as an operator would.

use std::time::Duration;

use leasehold_core::{Command, Patience, Release as Give, Revoke as Take};

use super::locker::{self, Holding};
use super::{Client, Heard, Sure, view_of};
use crate::history::{Kinship, Release, Revoke};

/// The ttl of a parent, in milliseconds.
const PARENT: u64 = 3_000;

pub(super) async fn run(client: Client) {
    while !client.is_resting() {
        client.nap(100, 1500).await;
        if client.chance(40) {
            revoke_somebody(&client).await;
        } else {
            raise(&client).await;
        }
    }
}

/// Grants a parent and a child that holds something, and ends the parent.
async fn raise(client: &Client) {
    let (id, parent) = client.new_lease();
    let grant = client.grant(id, &parent, PARENT, &[], Patience::None);
    let (first, heard) = client.command(Command::Grant(grant), Duration::from_millis(500), 3).await;
    let Some(Heard { sent, sent_here, answer: Sure::Answered(Ok(done)) }) = heard else {
        return client.note_attempt(&parent, first);
    };
    let Some(view) = view_of(&done.outcome) else { return };
    client.acknowledge(&parent, PARENT, done.now, view.remaining, &Heard { sent, sent_here, answer: () });
    let Some(mut child) = bear(client, id, &parent).await else { return };
    for _ in 0..client.pick(4) {
        client.nap(100, 900).await;
        if !locker::renew(client, &mut child).await {
            return;
        }
        locker::look(client, &child).await;
    }
    if client.chance(60) {
        // Whoever gives the parent back gives everything of it back.
        let (sent, heard) = client.command(Command::Release(Give { lease: id }), Duration::from_millis(500), 4).await;
        let answered = matches!(heard, Some(Heard { answer: Sure::Answered(Ok(_)), .. })).then(|| client.now());
        let mut history = client.shared.history.lock();
        for lease in [parent, child.holder] {
            history.releases.push(Release { lease, resource: None, sent, answered });
        }
    }
}

async fn bear(client: &Client, parent: leasehold_core::LeaseId, parent_name: &str) -> Option<Holding> {
    let (id, holder) = client.new_lease();
    let (name, ttl) = (client.resource(), 800 + client.pick(4000));
    let mut grant = client.grant(id, &holder, ttl, std::slice::from_ref(&name), Patience::None);
    grant.parent = Some(parent);
    let kinship = Kinship { child: holder.clone(), parent: parent_name.to_owned() };
    client.shared.history.lock().kinships.push(kinship);
    let (first, heard) = client.command(Command::Grant(grant), Duration::from_millis(500), 3).await;
    let Some(Heard { sent, sent_here, answer: Sure::Answered(Ok(done)) }) = heard else {
        client.note_attempt(&holder, first);
        return None;
    };
    let view = view_of(&done.outcome)?;
    let heard = Heard { sent, sent_here, answer: () };
    let validity = client.acknowledge(&holder, ttl, done.now, view.remaining, &heard);
    client.note_holds(&holder, view, first);
    let token = view.held.first()?.token.0;
    Some(Holding { id, holder, ttl, resource: name, token, validity })
}

/// Revokes the lease of somebody; its holder may believe for as long as it was promised.
async fn revoke_somebody(client: &Client) {
    let chosen = {
        let mut known = client.shared.known.lock();
        if known.is_empty() {
            return;
        }
        let count = known.len() as u64;
        // One of the newest: older ones have mostly ended.
        known.remove((count - 1 - client.pick(count.min(3))) as usize)
    };
    let (lease, holder) = chosen;
    client.shared.trace.say(format_args!("{} revokes {holder}", client.name));
    let take = Command::Revoke(Take { lease, reason: "an operator wants it".into(), now: false });
    let (sent, heard) = client.command(take, Duration::from_millis(500), 2).await;
    let answered = matches!(heard, Some(Heard { answer: Sure::Answered(Ok(_)), .. })).then(|| client.now());
    client.shared.history.lock().revokes.push(Revoke { lease: holder, now: false, sent, answered });
}

//! A client that grants many leases at once and forgets them, so that they all end at once.

use std::time::Duration;

use leasehold_core::{Binding, Command, Key, Patience, Write, WriteOp};

use super::{Client, Heard, Sure, view_of};
use crate::talk::Question;

pub(super) async fn run(client: Client) {
    while !client.is_resting() {
        client.nap(1000, 6000).await;
        let (count, ttl) = (10 + client.pick(60), 600 + client.pick(2000));
        client.shared.trace.say(format_args!("{} grants {count} leases of {ttl} ms", client.name));
        let mut tasks = Vec::new();
        for _ in 0..count {
            let client = client.clone();
            tasks.push(tokio::spawn(async move { grant_and_forget(&client, ttl).await }));
        }
        for task in tasks {
            let _ = task.await;
        }
    }
}

async fn grant_and_forget(client: &Client, ttl: u64) {
    let (id, holder) = client.new_lease();
    let grant = client.grant(id, &holder, ttl, &[format!("crowd/{holder}")], Patience::None);
    let (first, heard) = client.command(Command::Grant(grant), Duration::from_millis(500), 2).await;
    let Some(Heard { sent, sent_here, answer: Sure::Answered(Ok(done)) }) = heard else {
        return client.note_attempt(&holder, first);
    };
    let Some(view) = view_of(&done.outcome) else { return };
    client.acknowledge(&holder, ttl, done.now, view.remaining, &Heard { sent, sent_here, answer: () });
    client.note_holds(&holder, view, first);
    let key = Key::new(format!("beside/{holder}").as_bytes()).expect("it is a well-formed key");
    let put = WriteOp::Put { key, value: Some(b"here".as_slice().into()), binding: Binding::To(id) };
    let write = Command::Write(Write { then: vec![put], ..Write::default() });
    client.ask_once(Question::Command(write), Duration::from_millis(500)).await;
}

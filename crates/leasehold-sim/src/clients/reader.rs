//! A client that reads what others count, at all nodes at once: one that wrongly believes to lead is caught so.

use std::time::Duration;

use super::{CLIENTS_FROM, Client, writer};

pub(super) async fn run(client: Client) {
    let plan = client.shared.plan.clone();
    while !client.is_resting() {
        client.nap(20, 150).await;
        let counted = CLIENTS_FROM + plan.lockers + client.pick(plan.writers.into()) as u16;
        for node in 0..plan.nodes {
            let (client, key) = (client.clone(), format!("count/c{counted}"));
            tokio::spawn(async move { writer::read_at(&client, node, &key, Duration::from_millis(900)).await });
        }
    }
}

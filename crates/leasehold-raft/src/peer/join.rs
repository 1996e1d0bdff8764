//! The way of an empty directory into a running cluster: it asks the members it was told of until one admits it.
//!
//! The answer is the node's id; it is written down by the caller. Asking twice gives the same id, because the cluster
//! knows the directory by its incarnation, so a crash at any point costs nothing. A refusal ends the attempt; a cluster
//! that has no leader now, or cannot be reached, is asked again.

use std::time::Duration;

use super::Local;
use super::link::LinkError;
use super::question::{Joiner, Question, Verdict, ask_as_joiner, cluster_at};
use crate::directory::Identity;
use crate::error::OpenError;

const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// Asks until the node is admitted; `tell` hears, once each, why it is not yet.
pub(crate) async fn be_admitted(
    local: &Local,
    addresses: &[String],
    joiner: Joiner,
    tell: impl Fn(&str),
) -> Result<Identity, OpenError> {
    let question = Question::Join(joiner);
    let mut pause = PAUSE_MIN;
    let mut said = String::new();
    loop {
        for address in addresses {
            let waits = match ask_as_joiner(local, address, &question).await {
                Ok((cluster, Verdict::Done(node))) => return Ok(Identity { cluster, node }),
                Ok((_, Verdict::Refused(words))) => {
                    return Err(OpenError::NotAdmitted { address: address.clone(), words });
                }
                Ok((_, Verdict::NotNow(words) | Verdict::Unknown(words))) => words,
                Err(LinkError::Unreachable(words)) => words,
                Err(LinkError::Broken(words)) => format!("{address}: {words}"),
            };
            if said != waits {
                tell(&format!("waiting to be admitted to the cluster: {waits}"));
                said = waits;
            }
        }
        tokio::time::sleep(pause.mul_f64(rand::random_range(0.5..1.0))).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// Looks whether a member answers at one of these addresses that belongs to another cluster than this directory.
pub(crate) async fn find_another(local: &Local, addresses: &[String]) -> Option<(String, u128)> {
    let ask = |address: &String| {
        let address = address.clone();
        async move { cluster_at(local, &address).await.map(|cluster| (address, cluster)) }
    };
    let answers = futures_util::future::join_all(addresses.iter().map(ask)).await;
    answers.into_iter().flatten().find(|(_, cluster)| *cluster != local.identity.cluster)
}

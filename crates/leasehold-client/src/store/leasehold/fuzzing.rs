//! A door for `leasehold-fuzz`: what a server says on the stream, translated as the client does.
//!
//! Not part of the API: it is hidden from the documents and changes without notice.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold_api::Mode;
use leasehold_api::grpc::answer::Outcome;
use leasehold_api::grpc::{Down, WatchDelivery};
use leasehold_core::{LeaseId, Patience, Span, Ttl};
use prost::Message as _;

use super::wire;
use crate::store::Wish;
use crate::{Class, Moment};

/// Reads a message of the stream and translates all that is in it; says whether it was one.
pub fn down(bytes: &[u8]) -> bool {
    if let Ok(delivery) = WatchDelivery::decode(bytes) {
        let _ = wire::concerns(&delivery, "a");
    }
    let Ok(down) = Down::decode(bytes) else { return false };
    let wish = wish();
    for answer in down.answers {
        let Some(outcome) = answer.outcome else { continue };
        let _ = (wire::is_by_entry(&outcome), wire::is_of_this_server(&outcome));
        // One command was answered at the beginning of lease time, another one just now.
        let pairs = [(Moment::at(Duration::ZERO), 0), (Moment::now(), answer.now)];
        if let Outcome::Granted(lease) | Outcome::Claimed(lease) = &outcome {
            let _ = wire::granted(lease, &wish, &pairs, answer.now).map(|granted| granted.validity.left());
        }
        if let Outcome::Renewed(renewed) = &outcome {
            for result in &renewed.results {
                let _ = wire::renewed(result, Moment::now()).map(|validity| validity.is_over());
            }
        }
        drop(wire::refused("http://127.0.0.1:1", outcome).to_string());
    }
    down.progress.into_iter().flat_map(|progress| progress.places).for_each(|place| drop(wire::progress(place)));
    down.notices.into_iter().for_each(|notice| drop(wire::notice(notice)));
    true
}

fn wish() -> Wish {
    Wish {
        id: LeaseId::new(1).expect("one is an id"),
        holder: "ann".into(),
        resources: vec!["a".into(), "b".into()],
        mode: Mode::Exclusive,
        ttl: Ttl::For(Span(1000)),
        class: Class::Lock,
        patience: Patience::None,
        fair: false,
        priority: 0,
        cooldown: Duration::ZERO,
        metadata: BTreeMap::new(),
    }
}

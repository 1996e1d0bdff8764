//! What a store does not promise it refuses, and one that is not there is named.

use std::sync::Arc;
use std::time::Duration;

use leasehold_api::Mode;
use leasehold_client::Error;
use leasehold_client::store::{Capability, HandoverAsk, Wish};
use leasehold_core::{Span, Ttl};

use crate::harness::Case;

pub(super) async fn what_is_not_promised_is_refused(case: Case) {
    let client = case.client();
    let can = client.0.capabilities();
    let plain = case.wish("ann");
    let two = vec![format!("{}/a", case.resource), format!("{}/b", case.resource)];
    let beyond = [
        (Capability::FairQueue, Wish { fair: true, ..plain.clone() }),
        (Capability::SubSecondTtl, Wish { ttl: Ttl::For(Span(60_500)), ..plain.clone() }),
        (Capability::SharedMode, Wish { mode: Mode::Shared, ..plain.clone() }),
        (Capability::SeveralResources, Wish { resources: two, ..plain.clone() }),
        (Capability::Priority, Wish { priority: 1, ..plain.clone() }),
        (Capability::Cooldown, Wish { cooldown: Duration::from_secs(1), ..plain.clone() }),
        (Capability::EndlessTtl, Wish { ttl: Ttl::Endless, ..plain.clone() }),
    ];
    for (wanted, wish) in beyond.into_iter().filter(|(wanted, _)| !can.has(*wanted)) {
        let refused = Error::Unsupported { store: client.0.name(), wanted };
        assert_eq!(wish.check(&*client.0), Err(refused.clone()));
        assert_eq!(client.grant(&wish).await, Err(refused));
        for resource in &wish.resources {
            assert_eq!(client.incumbent(resource).await, None);
        }
    }
    if !can.handover {
        let ask = HandoverAsk { resource: case.resource.clone(), by: "bob".to_owned(), reason: None };
        let refused = client.0.request_handover(ask).await;
        assert_eq!(refused, Err(Error::Unsupported { store: client.0.name(), wanted: Capability::Handover }));
    }
}

pub(super) async fn an_absent_store_is_named(case: Case) {
    let Some((client, addr)) = case.absent() else { return };
    let wish = case.wish("ann");
    let shared = Arc::new(wish.clone());
    for failed in [
        client.grant(&wish).await.map(drop),
        client.renew(&wish).await.map(drop),
        client.0.release(shared.clone()).await,
        client.0.abandon(shared).await,
        client.0.incumbent(&case.resource).await.map(drop),
    ] {
        let Err(Error::Unreachable { addr: named, cause }) = failed else { panic!("nobody is there: {failed:?}") };
        assert!(named.contains(&addr), "{named} does not name {addr}");
        assert_eq!(cause, "connection refused");
    }
}

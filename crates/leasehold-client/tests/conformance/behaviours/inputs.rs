//! Wishes that make no sense.

use leasehold_client::Error;
use leasehold_client::store::Wish;
use leasehold_core::{Span, Ttl};

use crate::harness::Case;

pub(super) async fn what_makes_no_sense_is_refused(case: Case) {
    let client = case.client();
    let plain = case.wish("ann");
    let named = |name: &str| Wish { resources: vec![name.to_owned()], ..plain.clone() };
    for wish in [
        named(""),
        named("a//b"),
        named("/a"),
        named("a/../b"),
        named("a\nb"),
        named("a\0b"),
        named(&"x".repeat(513)),
        Wish { resources: Vec::new(), ..plain.clone() },
        Wish { holder: String::new(), ..plain.clone() },
        Wish { holder: "an\u{1b}n".to_owned(), ..plain.clone() },
        Wish { ttl: Ttl::For(Span::ZERO), ..plain.clone() },
        Wish { ttl: Ttl::For(Span::seconds(u64::MAX / 1000)), ..plain.clone() },
    ] {
        let refused = client.grant(&wish).await;
        assert!(matches!(refused, Err(Error::Invalid(_))), "{wish:?}: {refused:?}");
    }
    assert!(matches!(client.0.incumbent("a//b").await, Err(Error::Invalid(_))));
    client.grant(&plain).await.unwrap();
}

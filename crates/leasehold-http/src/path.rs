//! Names in paths.
//!
//! Names of resources and keys contain `/` and are written as they are: `/resources/orders/7`. They are taken
//! from the path before it is decoded, so an encoded slash is part of a name too: `/resources/orders%2F7` is the
//! same resource. The last segments `queue`, `history`, `check` and `handover` after a resource's name ask for
//! something of it. A resource whose own name ends so is reached by encoding any character of that segment or
//! the slash before it: `/resources/orders%2Fqueue` is the resource `orders/queue`, and
//! `/resources/orders/queue/queue` is its queue.

use axum::http::Uri;
use leasehold_api::{Code, Digest, Id, Invalid};
use leasehold_core::{Key, LeaseId, Namespace, ResourceName};
use percent_encoding::percent_decode_str;

use crate::errors::Refusal;

/// Where the namespace stands: `/v1/ns/{ns}/…`.
const NAMESPACE: usize = 3;
/// Where a member of the cluster is named: `/v1/cluster/members/{node}`.
const CLUSTER_MEMBER: usize = 4;
/// Where what follows the collection begins: `/v1/ns/{ns}/leases/…`.
const MEMBER: usize = 5;
/// Where what follows a lease's collection begins: `/v1/ns/{ns}/leases/{id}/claims/…`.
const MEMBER_OF_LEASE: usize = 7;

/// What is asked of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aspect {
    Itself,
    Queue,
    History,
    Check,
    Handover,
}

impl Aspect {
    /// Those that are asked for by a last segment of their own, with it and the one method they take.
    pub(crate) const NAMED: [(&str, &str, Aspect); 4] = [
        ("queue", "GET", Aspect::Queue),
        ("history", "GET", Aspect::History),
        ("check", "POST", Aspect::Check),
        ("handover", "POST", Aspect::Handover),
    ];
}

pub(crate) fn namespace(uri: &Uri) -> Result<Namespace, Refusal> {
    let text = segment(uri, NAMESPACE)?;
    Namespace::new(&text).map_err(|reason| Invalid::name("namespace", &text, reason).into())
}

/// The digest of a lease, where it stands in place of the id.
pub(crate) fn digest(uri: &Uri) -> Result<Option<Digest>, Refusal> {
    Ok(segment(uri, MEMBER)?.parse().ok())
}

pub(crate) fn lease(uri: &Uri) -> Result<LeaseId, Refusal> {
    let text = segment(uri, MEMBER)?;
    match text.parse::<Id>() {
        Ok(id) => Ok(id.0),
        Err(reason) => Err(Invalid::new("id", reason.to_string()).into()),
    }
}

/// The name or id of a member of the cluster.
pub(crate) fn member(uri: &Uri) -> Result<String, Refusal> {
    segment(uri, CLUSTER_MEMBER)
}

/// The resource of a claim.
pub(crate) fn claimed(uri: &Uri) -> Result<ResourceName, Refusal> {
    resource_name(&decoded(rest(uri, MEMBER_OF_LEASE))?)
}

pub(crate) fn key(uri: &Uri) -> Result<Key, Refusal> {
    let text = decoded(rest(uri, MEMBER))?;
    Key::new(text.as_bytes()).map_err(|reason| Invalid::name("key", &text, reason).into())
}

/// A resource, and what is asked of it.
pub(crate) fn resource(uri: &Uri) -> Result<(ResourceName, Aspect), Refusal> {
    let raw = rest(uri, MEMBER);
    let named = raw.rsplit_once('/').and_then(|(name, last)| {
        let (_, _, aspect) = Aspect::NAMED.into_iter().find(|(segment, _, _)| *segment == last)?;
        Some((name, aspect))
    });
    let (name, aspect) = named.unwrap_or((raw, Aspect::Itself));
    Ok((resource_name(&decoded(name)?)?, aspect))
}

pub(crate) fn resource_name(text: &str) -> Result<ResourceName, Refusal> {
    ResourceName::new(text).map_err(|reason| Invalid::name("resource", text, reason).into())
}

fn segment(uri: &Uri, index: usize) -> Result<String, Refusal> {
    decoded(uri.path().split('/').nth(index).unwrap_or_default())
}

/// Everything from the segment at `index` on, not decoded.
fn rest(uri: &Uri, index: usize) -> &str {
    uri.path().splitn(index + 1, '/').nth(index).unwrap_or_default()
}

/// Decodes percent signs; the result must be text.
pub(crate) fn decoded(raw: &str) -> Result<String, Refusal> {
    match percent_decode_str(raw).decode_utf8() {
        Ok(text) => Ok(text.into_owned()),
        Err(error) => {
            let at = error.valid_up_to();
            Err(Refusal::new(Code::Malformed, format!("the address is not UTF-8 after its first {at} decoded bytes")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uri(path: &str) -> Uri {
        path.parse().unwrap()
    }

    fn found(path: &str) -> (String, Aspect) {
        let (name, aspect) = resource(&uri(&format!("/v1/ns/default/resources/{path}"))).unwrap();
        (name.to_string(), aspect)
    }

    #[test]
    fn a_name_is_the_rest_of_the_path() {
        assert_eq!(found("orders/7"), ("orders/7".into(), Aspect::Itself));
        assert_eq!(found("orders%2F7"), ("orders/7".into(), Aspect::Itself));
        assert_eq!(found("orders/7/queue"), ("orders/7".into(), Aspect::Queue));
        assert_eq!(found("orders%2F7/history"), ("orders/7".into(), Aspect::History));
        assert_eq!(found("a%20b/check"), ("a b".into(), Aspect::Check));
        assert_eq!(found("orders/7/handover"), ("orders/7".into(), Aspect::Handover));
    }

    #[test]
    fn a_name_that_ends_like_an_aspect_is_reached_encoded() {
        assert_eq!(found("orders%2Fqueue"), ("orders/queue".into(), Aspect::Itself));
        assert_eq!(found("orders/%71ueue"), ("orders/queue".into(), Aspect::Itself));
        assert_eq!(found("orders/queue/queue"), ("orders/queue".into(), Aspect::Queue));
        assert_eq!(found("queue"), ("queue".into(), Aspect::Itself));
        assert_eq!(found("queue/queue"), ("queue".into(), Aspect::Queue));
    }

    #[test]
    fn what_is_not_a_name_is_refused_with_the_reason() {
        let refused = |path: &str| resource(&uri(&format!("/v1/ns/default/resources/{path}"))).unwrap_err().problem;
        assert_eq!(refused("a%FFb").code, "malformed");
        for bad in ["a/../b", "a//b", "%2Fa", "a%00b", "a/"] {
            assert_eq!(refused(bad).code, "invalid_name", "{bad}");
        }
        assert!(refused("a%0Ab").detail.contains("U+000A"), "{}", refused("a%0Ab").detail);
    }

    #[test]
    fn other_parts_of_the_path_are_checked_too() {
        assert_eq!(namespace(&uri("/v1/ns/Shop/leases")).unwrap_err().problem.code, "invalid_name");
        assert_eq!(lease(&uri("/v1/ns/a/leases/xyz")).unwrap_err().problem.field.as_deref(), Some("id"));
        assert_eq!(lease(&uri("/v1/ns/a/leases/0000000000000001/renew")).unwrap().number(), 1);
        let claim = uri("/v1/ns/a/leases/0000000000000001/claims/orders/7");
        assert_eq!(claimed(&claim).unwrap().as_str(), "orders/7");
        assert_eq!(key(&uri("/v1/ns/a/entries//x/")).unwrap().as_bytes(), b"/x/");
    }
}

//! Requests for leases and claims, and how they become commands.
//!
//! What a type of the core demands is checked here and blamed on its field; bounds are the core's business.

use std::collections::BTreeMap;

use leasehold_core as core;
use leasehold_core::{Ask, Asks, Grant, Holder, LeaseId, LeaseTime, Metadata, Once, Patience, ResourceName};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{Class, HolderName, Id, Invalid, Mode, ResourcePath, SpanInput, SpanText, TtlInput, TtlText};

/// Asks for a lease, with claims on resources: all or none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GrantRequest {
    /// Chosen by the client at random, never reused; repeating a grant with its id is safe. The server chooses one
    /// if it is absent, and then a repetition is another grant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<Id>,
    /// Whom it is granted to, in words of the caller's choice.
    #[schema(value_type = HolderName)]
    pub holder: String,
    /// For how long; `none` needs a right. One of `ttl` and `class` must be given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<TtlInput>)]
    pub ttl: Option<TtlText>,
    /// What kind of use it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<Class>,
    /// The resource it asks for; short for `resources` with one name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<ResourcePath>)]
    pub resource: Option<String>,
    /// The resources it asks for: all or none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<ResourcePath>>)]
    pub resources: Option<Vec<String>>,
    /// Alone or with others; exclusive if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// The lease it ends with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Id>,
    /// What people should know about it: short texts by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<BTreeMap<String, String>>,
    /// Why it is asked for; short for the metadata of that name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Where to read more; short for the metadata of that name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// Higher goes first in a queue; 0 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// How long each resource rests if the lease expires while holding it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<SpanInput>)]
    pub cooldown: Option<SpanText>,
    /// The lease time its client last saw, as of the header `Lease-Time`; a repetition sends the first one's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<u64>,
    /// Not available yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(ignore)]
    pub pool: Option<serde_json::Value>,
    /// Not available yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(ignore)]
    pub slots: Option<serde_json::Value>,
}

/// What a grant request does not say itself.
#[derive(Clone, Copy, Debug)]
pub struct GrantContext {
    /// The id of a grant that names none.
    pub id: LeaseId,
    /// The lease time of a grant that names none.
    pub seen: LeaseTime,
    /// How long to wait.
    pub patience: Patience,
}

impl GrantRequest {
    /// The command that is asked for.
    pub fn into_grant(self, context: GrantContext) -> Result<Grant, Invalid> {
        for (field, given) in [("pool", self.pool.is_some()), ("slots", self.slots.is_some())] {
            if given {
                return Err(Invalid::new(field, "pools are not available yet; claim a resource instead"));
            }
        }
        let ttl = match (self.ttl, self.class) {
            (Some(ttl), _) => ttl.0,
            (None, Some(class)) => class.default_ttl(),
            (None, None) => return Err(Invalid::new("ttl", "it is missing; give a `ttl` like \"10s\", or a `class`")),
        };
        let holder = Holder::new(&self.holder).map_err(|reason| Invalid::name("holder", &self.holder, reason))?;
        let claims = asks(self.resource, self.resources, self.mode)?;
        Ok(Grant {
            id: self.id.map_or(context.id, |id| id.0),
            holder,
            ttl,
            class: self.class.unwrap_or_default().into(),
            parent: self.parent.map(|id| id.0),
            metadata: metadata(self.metadata, self.reason, self.link)?,
            asks: Asks {
                claims,
                patience: context.patience,
                priority: self.priority.unwrap_or(0),
                cooldown: self.cooldown.unwrap_or_default().0,
            },
            seen: self.seen.map_or(context.seen, LeaseTime),
        })
    }
}

/// Asks for more resources on a living lease.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ClaimRequest {
    /// The resource; short for `resources` with one name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<ResourcePath>)]
    pub resource: Option<String>,
    /// The resources: all or none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<ResourcePath>>)]
    pub resources: Option<Vec<String>>,
    /// Alone or with others; exclusive if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// Higher goes first in a queue; 0 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// How long each resource rests if the lease expires while holding it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<SpanInput>)]
    pub cooldown: Option<SpanText>,
    /// The number of the command on its lease, rising; a repetition has the same one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub seq: Option<u64>,
    /// The client has the outcomes of all commands up to this number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acked: Option<u64>,
}

impl ClaimRequest {
    /// The command that is asked for, on `lease`.
    pub fn into_claim(self, lease: LeaseId, patience: Patience) -> Result<core::Claim, Invalid> {
        Ok(core::Claim {
            lease,
            once: once(self.seq, self.acked)?,
            asks: Asks {
                claims: asks(self.resource, self.resources, self.mode)?,
                patience,
                priority: self.priority.unwrap_or(0),
                cooldown: self.cooldown.unwrap_or_default().0,
            },
        })
    }
}

/// The resources asked for, by one name or a list.
fn asks(one: Option<String>, many: Option<Vec<String>>, mode: Option<Mode>) -> Result<Vec<Ask>, Invalid> {
    let mode = mode.unwrap_or_default().into();
    let ask = |field: String, name: String| match ResourceName::new(&name) {
        Ok(resource) => Ok(Ask { resource, mode }),
        Err(reason) => Err(Invalid::name(field, &name, reason)),
    };
    match (one, many) {
        (Some(_), Some(_)) => Err(Invalid::new("resource", "give `resource` or `resources`, not both")),
        (Some(name), None) => Ok(vec![ask("resource".to_owned(), name)?]),
        (None, Some(names)) => {
            names.into_iter().enumerate().map(|(i, name)| ask(format!("resources[{i}]"), name)).collect()
        }
        (None, None) => Ok(Vec::new()),
    }
}

/// The metadata, with the shorthands among it.
fn metadata(
    texts: Option<BTreeMap<String, String>>,
    reason: Option<String>,
    link: Option<String>,
) -> Result<Metadata, Invalid> {
    let mut texts = texts.unwrap_or_default();
    for (name, short) in [("reason", reason), ("link", link)] {
        let Some(text) = short else { continue };
        if texts.insert(name.to_owned(), text).is_some() {
            return Err(Invalid::new(name, format!("give `{name}` once: by itself or in `metadata`")));
        }
    }
    for (name, text) in &texts {
        let field = || format!("metadata.{}", name.chars().take(64).collect::<String>().escape_debug());
        if name.is_empty() || name.chars().any(char::is_control) {
            return Err(Invalid::new(field(), "a name of metadata is not empty and has no control characters"));
        }
        if text.chars().any(|c| c.is_control() && c != '\n' && c != '\t') {
            return Err(Invalid::new(field(), "the text has control characters"));
        }
    }
    Ok(Metadata::new(texts))
}

/// The numbers that make a command on a lease take effect once.
pub fn once(seq: Option<u64>, acked: Option<u64>) -> Result<Option<Once>, Invalid> {
    match (seq, acked) {
        (Some(0), _) => Err(Invalid::new("seq", "commands on a lease are numbered from 1")),
        (Some(seq), acked) if acked.unwrap_or(0) < seq => Ok(Some(Once { seq, acked: acked.unwrap_or(0) })),
        (Some(_), _) => Err(Invalid::new("acked", "it is below `seq`: this command's own outcome is not known yet")),
        (None, Some(_)) => Err(Invalid::new("acked", "it goes with a `seq`")),
        (None, None) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use leasehold_core::{Span, Ttl};

    use super::*;
    use crate::Code;

    fn grant(json: &str) -> Result<Grant, Invalid> {
        let request: GrantRequest = serde_json::from_str(json).unwrap();
        let id = LeaseId::new(7).unwrap();
        request.into_grant(GrantContext { id, seen: LeaseTime(42), patience: Patience::None })
    }

    #[test]
    fn a_grant_takes_a_ttl_or_the_one_of_its_class() {
        assert_eq!(grant(r#"{"holder":"ann","ttl":1500}"#).unwrap().ttl, Ttl::For(Span(1500)));
        let session = grant(r#"{"holder":"ann","class":"session"}"#).unwrap();
        assert_eq!(session.ttl, Ttl::For(Span::seconds(900)));
        assert_eq!(session.class, core::Class::Session);
        assert_eq!(grant(r#"{"holder":"ann","ttl":"none"}"#).unwrap().ttl, Ttl::Endless);
        assert_eq!(grant(r#"{"holder":"ann"}"#).unwrap_err().field, "ttl");
    }

    #[test]
    fn what_a_grant_leaves_out_comes_from_its_context() {
        let found = grant(r#"{"holder":"ann","ttl":"1s"}"#).unwrap();
        assert_eq!((found.id.number(), found.seen), (7, LeaseTime(42)));
        let found = grant(r#"{"holder":"ann","ttl":"1s","id":"0000000000000001","seen":9}"#).unwrap();
        assert_eq!((found.id.number(), found.seen), (1, LeaseTime(9)));
    }

    #[test]
    fn the_field_that_is_wrong_is_named() {
        let bad = grant(r#"{"holder":"ann","ttl":"1s","resources":["a","b/../c"]}"#).unwrap_err();
        assert_eq!((bad.code, bad.field.as_str()), (Code::InvalidName, "resources[1]"));
        let bad = grant(r#"{"holder":"","ttl":"1s"}"#).unwrap_err();
        assert_eq!((bad.code, bad.field.as_str()), (Code::InvalidName, "holder"));
        for (json, field) in [
            (r#"{"holder":"a","ttl":"1s","resource":"a","resources":["b"]}"#, "resource"),
            (r#"{"holder":"a","ttl":"1s","pool":"gpus","slots":2}"#, "pool"),
            (r#"{"holder":"a","ttl":"1s","reason":"x","metadata":{"reason":"y"}}"#, "reason"),
            (r#"{"holder":"a","ttl":"1s","metadata":{"":"y"}}"#, "metadata."),
        ] {
            assert_eq!(grant(json).unwrap_err().field, field);
        }
    }

    #[test]
    fn numbers_of_commands_rise_from_one() {
        assert_eq!(once(Some(3), Some(2)), Ok(Some(Once { seq: 3, acked: 2 })));
        assert_eq!(once(Some(1), None), Ok(Some(Once { seq: 1, acked: 0 })));
        assert_eq!(once(Some(0), None).unwrap_err().field, "seq");
        assert_eq!(once(Some(2), Some(2)).unwrap_err().field, "acked");
        assert_eq!(once(None, Some(2)).unwrap_err().field, "acked");
    }
}

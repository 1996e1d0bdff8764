//! JSON Schemas of the texts that travel, for `/openapi.json`.
//!
//! Types whose JSON form is written by hand have their schema here, beside the patterns and limits it shares with others.
//! The types of this module that hold nothing stand for texts that are plain `String`s in requests. A pattern can say
//! less than the server checks (lengths there are bytes, here characters), never more.

use std::borrow::Cow;

use leasehold_core::{HOLDER_MAX, KEY_MAX, NAMESPACE_MAX, RESOURCE_MAX};
use utoipa::openapi::schema::{ObjectBuilder, OneOfBuilder, Schema, Type};
use utoipa::openapi::{KnownFormat, RefOr, SchemaFormat};
use utoipa::{PartialSchema, ToSchema};

use crate::{Digest, Id, NODE_NAME_MAX, NodeId, REASON_MAX, RemainingText, SpanText, Timestamp, TtlText, WaitText};

/// Amounts with their units, larger units first; a schema adds that it is not empty.
const DURATION: &str = r"([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?";
/// The longest duration that a request may have, in milliseconds: 36500 days.
const DURATION_MAX_MS: u64 = 36_500 * 86_400_000;
const LEASE_ID: &str = "[0-7][0-9a-fA-F]{15}";
const LEASE_DIGEST: &str = "~[0-9a-fA-F]{10}";
const NO_CONTROL: &str = r"^[^\x00-\x1f\x7f-\x9f]+$";

/// A string schema with a pattern, an example and what to know about it.
fn text(pattern: &str, example: &str, description: &str) -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .pattern((!pattern.is_empty()).then_some(pattern))
        .examples([serde_json::Value::from(example)])
        .description(Some(description))
}

/// A duration, or one of these words in place of it.
fn duration(words: &[&str], example: &str, description: &str) -> ObjectBuilder {
    let words: String = words.iter().map(|word| format!("{word}|")).collect();
    let builder = text(&format!("^({words}{DURATION})$"), example, description);
    if words.starts_with('0') { builder.min_length(Some(1)) } else { builder.min_length(Some(2)) }
}

/// A duration as text, or a number of milliseconds.
fn text_or_millis(text: ObjectBuilder, least: u64, description: &str) -> Schema {
    let millis = ObjectBuilder::new()
        .schema_type(Type::Integer)
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)))
        .minimum(Some(least))
        .maximum(Some(DURATION_MAX_MS))
        .description(Some("Milliseconds"));
    OneOfBuilder::new().item(text).item(millis).description(Some(description)).build().into()
}

/// The beginning and end of a path segment that is neither empty nor `.` nor `..`.
fn resource_pattern() -> String {
    let any = r"[^/\x00-\x1f\x7f-\x9f]";
    let first = r"[^/.\x00-\x1f\x7f-\x9f]";
    let segment = format!(r"({first}{any}*|\.{first}{any}*|\.\.{any}+)");
    format!("^{segment}(/{segment})*$")
}

macro_rules! schemas {
    ($($type:ident => $schema:expr;)*) => { $(
        impl PartialSchema for $type {
            fn schema() -> RefOr<Schema> {
                RefOr::T(Schema::from($schema))
            }
        }

        impl ToSchema for $type {
            fn name() -> Cow<'static, str> {
                Cow::Borrowed(stringify!($type))
            }
        }
    )* };
}

macro_rules! stand_ins {
    ($($(#[$doc:meta])* $type:ident => $schema:expr;)*) => {
        $($(#[$doc])* #[derive(Clone, Copy, Debug)] pub enum $type {})*
        schemas! { $($type => $schema;)* }
    };
}

schemas! {
    SpanText => duration(&[], "10s", "A duration with units, larger ones first: `1m30s`, `1500ms`.");
    TtlText => duration(&["none"], "10s", "A ttl with units, or `none` for a lease that does not end by time.");
    RemainingText => duration(&["none"], "9900ms", "The time left, or `none` if the lease does not end by time.");
    WaitText => duration(&["0", "forever"], "30s", "How long to wait: a duration with units, `forever`, or `0`.");
    Id => text(
        &format!("^{LEASE_ID}$"),
        "05f31c09a4e2b7d8",
        "A lease id: 16 hex digits, from 1 to 2^63 - 1. Whoever knows it may use the lease: keep it secret.",
    );
    Digest => text(&format!("^{LEASE_DIGEST}$"), "~1a2b3c4d5e", "What others see of a lease id; it opens nothing.");
    NodeId => text("^[0-9a-fA-F]{16}$", "619fce19f9f3b1f0", "The id of a node: 16 hex digits.");
    Timestamp => text("", "2026-11-03T19:02:11.250Z", "Wall time in UTC, for people to read.")
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)));
}

stand_ins! {
    /// A duration in a request: text, or a number of milliseconds.
    SpanInput => text_or_millis(duration(&[], "10s", "With units"), 0, "A duration: `1m30s`, or milliseconds.");
    /// A ttl in a request: text, or a number of milliseconds.
    TtlInput => text_or_millis(
        duration(&["none"], "10s", "With units, or `none`"),
        1,
        "A ttl longer than zero: `10s`, milliseconds, or `none` for a lease that does not end by time.",
    );
    /// A lease by its id or, for operators, by its digest.
    LeaseRef => text(&format!("^({LEASE_ID}|{LEASE_DIGEST})$"), "05f31c09a4e2b7d8", "A lease id or its digest.");
    /// The name of a namespace.
    NamespaceName => text(
        "^[a-z0-9_-][a-z0-9._-]*$",
        "default",
        "A namespace: lower-case letters, digits, `-`, `_` and `.`; it does not begin with `.`.",
    ).min_length(Some(1)).max_length(Some(NAMESPACE_MAX));
    /// The name of a resource.
    ResourcePath => text(
        &resource_pattern(),
        "orders/7",
        "A resource: segments separated by `/`, none of them empty, `.` or `..`; no control characters; at most 512 bytes.",
    ).min_length(Some(1)).max_length(Some(RESOURCE_MAX));
    /// The name of a holder.
    HolderName => text(NO_CONTROL, "ann", "Words of the caller's choice, at most 256 bytes.")
        .min_length(Some(1)).max_length(Some(HOLDER_MAX));
    /// The key of an entry, where it is UTF-8.
    EntryKey => text("", "config/app", "A key of 1 to 1024 bytes.").min_length(Some(1)).max_length(Some(KEY_MAX));
    /// Why something is asked for or taken.
    ReasonText => text(
        r"[^\s\x00-\x1f\x7f-\x9f]",
        "stuck since noon",
        "Why, for people: at most 1024 bytes, not blank, without control characters.",
    ).min_length(Some(1)).max_length(Some(REASON_MAX));
    /// The name of a node.
    NodeName => text(
        "^[0-9]*[A-Za-z._-][A-Za-z0-9._-]*$",
        "n4",
        "A node's name: letters, digits, `-`, `_` and `.`, not digits alone.",
    ).min_length(Some(1)).max_length(Some(NODE_NAME_MAX));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json<T: PartialSchema>() -> serde_json::Value {
        serde_json::to_value(T::schema()).unwrap()
    }

    #[test]
    fn requests_take_durations_as_text_or_milliseconds() {
        for schema in [json::<SpanInput>(), json::<TtlInput>()] {
            let kinds: Vec<_> = schema["oneOf"].as_array().unwrap().iter().map(|one| one["type"].clone()).collect();
            assert_eq!(kinds, ["string", "integer"]);
        }
        assert_eq!(json::<SpanText>()["type"], "string");
    }

    #[test]
    fn the_longest_number_of_a_duration_is_the_longest_the_server_takes() {
        assert!(SpanText::from_millis(DURATION_MAX_MS).is_ok());
        assert!(SpanText::from_millis(DURATION_MAX_MS + 1).is_err());
    }
}

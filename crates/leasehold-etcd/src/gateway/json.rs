//! Messages as JSON, in the way of etcd's gateway.
//!
//! Out: names as in the contract, bytes as base64, 64-bit numbers as text, enums by name, nothing that is unset. In:
//! names as in the contract or in camel case, numbers as numbers or text, enums by name or number; names that nobody
//! knows are ignored, as etcd ignores them, but an enum's name that nobody knows is refused: a condition must not
//! become another one by a typing error.

use std::sync::LazyLock;

use prost::{Message, Name};
use prost_reflect::{DescriptorPool, DeserializeOptions, DynamicMessage, Kind, MessageDescriptor, SerializeOptions};
use serde_json::Value;
use tonic::Status;

use crate::errors::EtcdError;
use crate::proto::DESCRIPTORS;

/// The longest list of a request that is read at all: far above what a transaction may have, far below what would
/// make a large thing of a small body.
const ITEMS_MAX: usize = 4096;

static CONTRACT: LazyLock<DescriptorPool> =
    LazyLock::new(|| DescriptorPool::decode(DESCRIPTORS).expect("the contract was compiled, so it can be described"));

/// Reads the message that a text begins with; nothing is the empty message, and what follows is ignored.
pub(crate) fn read<M: Message + Default + Name>(text: &[u8]) -> Result<M, Status> {
    if text.trim_ascii().is_empty() {
        return Ok(M::default());
    }
    let first = serde_json::Deserializer::from_slice(text).into_iter().next();
    let mut value: Value = first.transpose().map_err(|error| malformed(&error))?.unwrap_or_default();
    if value.is_null() {
        return Ok(M::default());
    }
    let kind = described::<M>();
    drop_unknown(&kind, &mut value)?;
    let message = DynamicMessage::deserialize_with_options(kind, value, &DeserializeOptions::new())
        .map_err(|error| malformed(&error))?;
    message.transcode_to().map_err(|error| malformed(&error))
}

/// Writes a message.
pub(crate) fn write<M: Message + Name>(message: &M) -> Result<Vec<u8>, Status> {
    static OPTIONS: SerializeOptions = SerializeOptions::new().use_proto_field_name(true);
    let unwritable = |error: &dyn std::fmt::Display| {
        tracing::error!(%error, name = M::NAME, "an answer cannot be written as JSON");
        Status::internal("the answer cannot be written as JSON")
    };
    let mut dynamic = DynamicMessage::new(described::<M>());
    dynamic.transcode_from(message).map_err(|error| unwritable(&error))?;
    let mut text = Vec::new();
    dynamic
        .serialize_with_options(&mut serde_json::Serializer::new(&mut text), &OPTIONS)
        .map_err(|error| unwritable(&error))?;
    Ok(text)
}

/// A request that is not what it should be.
pub(crate) fn malformed(why: &dyn std::fmt::Display) -> Status {
    Status::invalid_argument(format!("the request cannot be read: {why}"))
}

fn described<M: Name>() -> MessageDescriptor {
    CONTRACT.get_message_by_name(&M::full_name()).expect("every message of the contract is described")
}

/// Drops fields that the contract does not have, at any depth, and refuses endless lists.
fn drop_unknown(kind: &MessageDescriptor, value: &mut Value) -> Result<(), Status> {
    let Value::Object(fields) = value else { return Ok(()) };
    fields.retain(|name, _| field(kind, name).is_some());
    for (name, value) in fields {
        let inner = match field(kind, name).map(|field| field.kind()) {
            Some(Kind::Message(inner)) => Some(inner),
            _ => None,
        };
        match (value, inner) {
            (Value::Array(items), _) if items.len() > ITEMS_MAX => return Err(EtcdError::TooManyOps.into()),
            (Value::Array(items), Some(inner)) => items.iter_mut().try_for_each(|item| drop_unknown(&inner, item))?,
            (value, Some(inner)) => drop_unknown(&inner, value)?,
            (_, None) => {}
        }
    }
    Ok(())
}

fn field(kind: &MessageDescriptor, name: &str) -> Option<prost_reflect::FieldDescriptor> {
    kind.get_field_by_json_name(name).or_else(|| kind.get_field_by_name(name))
}

//! A request that makes no sense, and which of its fields is to blame.

use leasehold_core::InvalidName;

use crate::Code;

/// Tells which field of a request is wrong, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {detail}")]
pub struct Invalid {
    /// The code of the refusal.
    pub code: Code,
    /// The field, as the caller wrote it.
    pub field: String,
    /// What is wrong with it and what would be right.
    pub detail: String,
}

impl Invalid {
    /// A field with a value that makes no sense.
    pub fn new(field: impl Into<String>, detail: impl Into<String>) -> Invalid {
        Invalid { code: Code::Invalid, field: field.into(), detail: detail.into() }
    }

    /// A field with a name that is not well formed.
    pub fn name(field: impl Into<String>, name: &str, reason: InvalidName) -> Invalid {
        // A hostile name may be huge; its beginning is enough to recognize it.
        let shown: String = name.chars().take(64).collect();
        let more = if shown.len() < name.len() { "…" } else { "" };
        Invalid {
            code: Code::InvalidName,
            field: field.into(),
            detail: format!("the name {shown:?}{more} is not valid: {reason}"),
        }
    }
}

//! Asking the holders of a resource to hand it over.
//!
//! The request becomes the core's command; the reason is checked here, because it is shown to people.

use leasehold_core::{AskHandover, Holder, ResourceName};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{HolderName, Invalid, ReasonText, checked_reason};

/// Asks the holders of a resource to hand it over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HandoverRequest {
    /// Who asks.
    #[schema(value_type = HolderName)]
    pub by: String,
    /// Why, for the holders and for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<ReasonText>)]
    pub reason: Option<String>,
}

/// The holders were asked; it is theirs to agree, to finish or to refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HandoverAnswer {
    /// How many holders were asked.
    pub holders: u32,
}

impl HandoverRequest {
    /// The command that asks the holders of `resource`.
    pub fn into_ask(self, resource: ResourceName) -> Result<AskHandover, Invalid> {
        let by = Holder::new(&self.by).map_err(|reason| Invalid::name("by", &self.by, reason))?;
        let reason = self.reason.as_deref().map(checked_reason).transpose()?;
        Ok(AskHandover { resource, by, reason })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(text: &str) -> Result<AskHandover, Invalid> {
        let request: HandoverRequest = serde_json::from_str(text).unwrap();
        request.into_ask(ResourceName::new("orders/7").unwrap())
    }

    #[test]
    fn an_ask_says_who_asks_and_maybe_why() {
        let asked = ask(r#"{"by":"bob","reason":" deploy "}"#).unwrap();
        assert_eq!((asked.resource.as_str(), asked.by.as_str()), ("orders/7", "bob"));
        assert_eq!(asked.reason.as_deref(), Some("deploy"));
        assert_eq!(ask(r#"{"by":"bob"}"#).unwrap().reason, None);
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_its_field() {
        for (text, field) in [
            (r#"{"by":""}"#, "by"),
            (r#"{"by":"a\nb"}"#, "by"),
            (r#"{"by":"bob","reason":" "}"#, "reason"),
            (r#"{"by":"bob","reason":"a\u001bb"}"#, "reason"),
        ] {
            assert_eq!(ask(text).unwrap_err().field, field, "{text}");
        }
        assert!(serde_json::from_str::<HandoverRequest>(r#"{"by":"bob","token":1}"#).is_err());
    }
}

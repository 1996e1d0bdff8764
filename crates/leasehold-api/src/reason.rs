//! Why somebody takes a lease or asks for it: a text that its holder and others read.
//!
//! It is kept with tombstones and histories and shown on terminals, so it is short and has no control characters.

use crate::Invalid;

/// The longest reason, in bytes.
pub const REASON_MAX: usize = 1024;

/// The reason without the space around it, if it is one that people can read.
pub fn checked_reason(text: &str) -> Result<Box<str>, Invalid> {
    let text = text.trim();
    if text.is_empty() {
        return Err(Invalid::new("reason", "it is empty; its holder and others will ask why"));
    }
    if text.len() > REASON_MAX {
        return Err(Invalid::new("reason", format!("it has {} bytes, at most {REASON_MAX} are allowed", text.len())));
    }
    if text.chars().any(char::is_control) {
        return Err(Invalid::new("reason", "it has control characters"));
    }
    Ok(text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_one_people_can_read() {
        assert_eq!(&*checked_reason(" stuck since noon ").unwrap(), "stuck since noon");
        for bad in ["", "  ", "a\nb", &"x".repeat(REASON_MAX + 1)] {
            assert_eq!(checked_reason(bad).unwrap_err().field, "reason");
        }
    }
}

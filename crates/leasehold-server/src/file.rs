//! Configuration files of any shape: read whole, or refused with the line and what was probably meant.
//!
//! Which keys there are is said by the type that is read; it must refuse those it does not know.

use std::path::Path;

use serde::de::DeserializeOwned;

use crate::ConfigError;

/// How alike two words must be for one to be meant by the other.
const ALIKE: f64 = 0.8;

/// Reads a configuration file.
pub fn read_file<T: DeserializeOwned>(path: &Path) -> Result<T, ConfigError> {
    let text =
        std::fs::read_to_string(path).map_err(|source| ConfigError::Unreadable { path: path.to_path_buf(), source })?;
    parse(&text, path)
}

/// Reads the text of a configuration file; `path` is for messages.
pub(crate) fn parse<T: DeserializeOwned>(text: &str, path: &Path) -> Result<T, ConfigError> {
    toml::from_str(text).map_err(|error| {
        let message = error.message();
        ConfigError::Invalid {
            path: path.to_path_buf(),
            line: error.span().map_or(1, |span| line_of(text, span.start)),
            what: words(message),
            suggestion: suggestion(message),
        }
    })
}

/// The number of the line that has this byte.
fn line_of(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
}

/// The complaint in our words: a file has keys.
fn words(message: &str) -> String {
    let text = message.replacen("unknown field", "unknown key", 1).replacen("unknown variant", "unknown value", 1);
    match text.split_once(", expected one of") {
        // A long list helps nobody; the documents have it with explanations.
        Some((what, _)) if suggestion(message).is_some() => what.to_owned(),
        Some(_) | None => text,
    }
}

/// What was probably meant, if a word is not known and another one is like it.
fn suggestion(message: &str) -> Option<String> {
    let mut quoted = message.split('`').skip(1).step_by(2);
    let given = quoted.next().filter(|_| message.starts_with("unknown "))?;
    let likeness = |known: &&str| strsim::jaro_winkler(given, known);
    let best = quoted.max_by(|one, two| likeness(one).total_cmp(&likeness(two)))?;
    (likeness(&best) >= ALIKE).then(|| best.to_owned())
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Sample {
        #[expect(dead_code, reason = "it is only read")]
        listen: Option<String>,
        #[expect(dead_code, reason = "it is only read")]
        data: Option<u64>,
        #[expect(dead_code, reason = "it is only read")]
        kind: Option<Kind>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Kind {
        Text,
        Json,
    }

    fn complaint(text: &str) -> String {
        parse::<Sample>(text, Path::new("a.toml")).unwrap_err().to_string()
    }

    #[test]
    fn a_key_that_is_not_known_is_told_with_its_line_and_what_was_meant() {
        assert_eq!(complaint("\ndata = 1\nlisen = 'x'\n"), "a.toml:3: unknown key `lisen`; did you mean `listen`?");
        assert_eq!(
            complaint("kind = 'txt'"),
            "a.toml:1: unknown value `txt`, expected `text` or `json`; did you mean `text`?"
        );
        let text = complaint("zzz = 1");
        assert_eq!(text, "a.toml:1: unknown key `zzz`, expected one of `listen`, `data`, `kind`");
    }

    #[test]
    fn what_is_no_toml_is_told_with_its_line() {
        assert!(complaint("data = 1\ndata =\n").starts_with("a.toml:2: "), "{}", complaint("data = 1\ndata =\n"));
        assert!(complaint("data = 'x'").contains("expected u64"), "{}", complaint("data = 'x'"));
    }
}

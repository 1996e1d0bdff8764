//! Conditions on entries: `If-Match` and `If-None-Match`, where the tag of an entry is its revision.

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use leasehold_api::{Invalid, Problem};
use leasehold_core::{Compare, Key, KeyRange, Operand, Relation, Revision, Written};

use crate::errors::Refusal;

/// What the headers demand of the entry `key` before it is written.
pub(crate) fn compares(headers: &HeaderMap, key: &Key) -> Result<Vec<Compare>, Invalid> {
    let compare = |relation, operand| Compare { range: KeyRange::One(key.clone()), relation, operand };
    let mut found = Vec::new();
    match tag(headers, header::IF_MATCH)?.as_deref() {
        None => {}
        Some("*") => found.push(compare(Relation::Greater, Operand::Version(0))),
        Some(text) => {
            let revision = revision(text).ok_or_else(|| {
                Invalid::new("if-match", "it is `*` or one revision in quotes, like \"12\"; weak tags do not compare")
            })?;
            found.push(compare(Relation::Equal, Operand::Modified(revision)));
        }
    }
    match tag(headers, header::IF_NONE_MATCH)?.as_deref() {
        None => {}
        Some("*") => found.push(compare(Relation::Equal, Operand::Version(0))),
        Some(_) => return Err(Invalid::new("if-none-match", "only `*` is taken here: write if there is no entry yet")),
    }
    Ok(found)
}

/// The tag of an entry with this revision.
pub(crate) fn etag(revision: u64) -> HeaderValue {
    HeaderValue::try_from(format!("\"{revision}\"")).unwrap_or(HeaderValue::from_static("\"0\""))
}

/// The refusal of a write whose conditions did not hold; it tells how the entry is now.
pub(crate) fn failed(key: &Key, written: &Written) -> Refusal {
    let problem = Problem::not_as_expected(key, written);
    let current = problem.current_revision;
    let mut refusal = Refusal::from(problem);
    if let Some(revision @ 1..) = current {
        refusal.headers.insert(header::ETAG, etag(revision));
    }
    refusal
}

fn tag(headers: &HeaderMap, name: HeaderName) -> Result<Option<String>, Invalid> {
    let mut values = headers.get_all(&name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    match (value.to_str(), values.next()) {
        (Ok(text), None) => Ok(Some(text.trim().to_owned())),
        (Ok(_), Some(_)) => Err(Invalid::new(name.as_str(), "the header is given twice")),
        (Err(_), _) => Err(Invalid::new(name.as_str(), "the header is not text")),
    }
}

fn revision(text: &str) -> Option<Revision> {
    let number = text.strip_prefix('"')?.strip_suffix('"')?;
    if !number.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    number.parse().ok().map(Revision)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operands(pairs: &[(HeaderName, &str)]) -> Result<Vec<(Relation, Operand)>, Invalid> {
        let headers = pairs.iter().map(|(name, text)| (name.clone(), text.parse().unwrap())).collect();
        let found = compares(&headers, &Key::new(b"a").unwrap())?;
        Ok(found.into_iter().map(|compare| (compare.relation, compare.operand)).collect())
    }

    #[test]
    fn headers_become_compares() {
        assert_eq!(operands(&[]), Ok(vec![]));
        assert_eq!(
            operands(&[(header::IF_MATCH, "\"12\"")]),
            Ok(vec![(Relation::Equal, Operand::Modified(Revision(12)))])
        );
        assert_eq!(operands(&[(header::IF_MATCH, "*")]), Ok(vec![(Relation::Greater, Operand::Version(0))]));
        assert_eq!(operands(&[(header::IF_NONE_MATCH, "*")]), Ok(vec![(Relation::Equal, Operand::Version(0))]));
    }

    #[test]
    fn tags_that_mean_nothing_here_are_refused() {
        for bad in ["12", "W/\"12\"", "\"x\"", "\"1\", \"2\"", "\"+1\"", "\"99999999999999999999\""] {
            assert_eq!(operands(&[(header::IF_MATCH, bad)]).unwrap_err().field, "if-match", "{bad}");
        }
        assert_eq!(operands(&[(header::IF_NONE_MATCH, "\"1\"")]).unwrap_err().field, "if-none-match");
    }
}

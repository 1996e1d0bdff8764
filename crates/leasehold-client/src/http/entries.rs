//! Calls on entries. Writes are not repeated: without a session nothing tells a repetition from a second write.

use http::header::{HeaderValue, IF_MATCH, IF_NONE_MATCH};
use http::{HeaderMap, Method};
use leasehold_api::{DeleteAnswer, Entry, EntryList, Id, PutAnswer, PutRequest, bytes_fields};

use super::client::listing;
use super::transport::Call;
use super::{Error, HttpClient};

/// What must be true of an entry for a write to happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Condition {
    /// Nothing.
    #[default]
    Always,
    /// It was last changed at this revision.
    Revision(u64),
    /// There is none.
    Absent,
}

impl Condition {
    fn headers(self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        match self {
            Condition::Always => {}
            Condition::Revision(revision) => {
                let tag = HeaderValue::try_from(format!("\"{revision}\"")).expect("digits fit into a header");
                headers.insert(IF_MATCH, tag);
            }
            Condition::Absent => {
                headers.insert(IF_NONE_MATCH, HeaderValue::from_static("*"));
            }
        }
        headers
    }
}

impl HttpClient {
    /// Puts an entry, bound to a lease or to none.
    pub async fn put(
        &self,
        key: impl AsRef<[u8]>,
        value: &[u8],
        lease: Option<Id>,
        condition: Condition,
    ) -> Result<PutAnswer, Error> {
        let (text, base64) = bytes_fields(value);
        let request = PutRequest { value: text, value_base64: base64, lease };
        let mut call = Call::new(Method::PUT, self.url("entries").segment(key)).json(&request);
        call.headers.extend(condition.headers());
        self.transport().ask(&call).await
    }

    /// An entry as it is.
    pub async fn entry(&self, key: impl AsRef<[u8]>) -> Result<Entry, Error> {
        self.get(self.url("entries").segment(key)).await
    }

    /// Removes an entry.
    pub async fn delete(&self, key: impl AsRef<[u8]>, condition: Condition) -> Result<DeleteAnswer, Error> {
        let mut call = Call::new(Method::DELETE, self.url("entries").segment(key));
        call.headers.extend(condition.headers());
        self.transport().ask(&call).await
    }

    /// A part of the entries whose keys begin with `prefix`, from `page` on.
    pub async fn entries(&self, prefix: impl AsRef<[u8]>, page: Option<&str>) -> Result<EntryList, Error> {
        self.get(listing(self.url("entries"), prefix, page)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_travel_as_entity_tags() {
        assert!(Condition::Always.headers().is_empty());
        assert_eq!(Condition::Revision(12).headers()[IF_MATCH], "\"12\"");
        assert_eq!(Condition::Absent.headers()[IF_NONE_MATCH], "*");
    }
}

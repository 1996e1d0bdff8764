//! Query strings and bodies, with a clear refusal for whatever cannot be read.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::rejection::QueryRejection;
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use leasehold_api::{Code, Invalid, Problem};
use serde::de::DeserializeOwned;
use serde_json::error::Category;

use crate::errors::Refusal;
use crate::path::decoded;
use crate::server::App;

/// A caller whose body does not arrive within this time is refused: it holds a connection that others want.
const BODY_WITHIN: Duration = Duration::from_secs(20);

/// The parameters of a query string.
#[derive(Debug)]
pub(crate) struct Params<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Sync> FromRequestParts<S> for Params<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refusal> {
        // Reading the pairs would put a replacement character for bytes that are not text.
        decoded(parts.uri.query().unwrap_or_default())?;
        match Query::<T>::try_from_uri(&parts.uri) {
            Ok(Query(params)) => Ok(Params(params)),
            Err(rejection) => Err(bad_query(&rejection)),
        }
    }
}

fn bad_query(rejection: &QueryRejection) -> Refusal {
    let text = rejection.body_text();
    let reason = text.strip_prefix("Failed to deserialize query string: ").unwrap_or(&text);
    // `field: reason` where the reader got as far as a field.
    let field = reason.split_once(": ").map(|(field, _)| field).filter(|field| !field.contains(' '));
    let problem = Problem::new(Code::Invalid, format!("the query cannot be read: {reason}"));
    Problem { field: field.map(str::to_owned), ..problem }.into()
}

/// A JSON body.
#[derive(Debug)]
pub(crate) struct JsonBody<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<App> for JsonBody<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, app: &App) -> Result<Self, Refusal> {
        let (parts, body) = request.into_parts();
        require_json(&parts.headers)?;
        let bytes = read_body(&parts.headers, body, app.options.body_limit).await?;
        parse(&bytes).map(JsonBody)
    }
}

/// A JSON body, or none.
#[derive(Debug)]
pub(crate) struct MaybeJsonBody<T>(pub(crate) T);

impl<T: DeserializeOwned + Default> FromRequest<App> for MaybeJsonBody<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, app: &App) -> Result<Self, Refusal> {
        let (parts, body) = request.into_parts();
        let bytes = read_body(&parts.headers, body, app.options.body_limit).await?;
        if bytes.is_empty() {
            return Ok(MaybeJsonBody(T::default()));
        }
        require_json(&parts.headers)?;
        parse(&bytes).map(MaybeJsonBody)
    }
}

/// Tells whether the body is declared as JSON.
pub(crate) fn is_json(headers: &HeaderMap) -> bool {
    let declared = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = declared.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    kind == "application/json" || (kind.starts_with("application/") && kind.ends_with("+json"))
}

// Also what keeps a web page elsewhere from posting to a server on loopback: browsers ask before they send JSON.
fn require_json(headers: &HeaderMap) -> Result<(), Refusal> {
    if is_json(headers) {
        return Ok(());
    }
    Err(Refusal::new(
        Code::UnsupportedMediaType,
        "the body must be JSON and say so; send the header `Content-Type: application/json`",
    ))
}

/// Reads a body of at most `limit` bytes.
pub(crate) async fn read_body(headers: &HeaderMap, body: Body, limit: usize) -> Result<Bytes, Refusal> {
    let too_large = || unread(Code::TooLarge, format!("the body is larger than {limit} bytes"));
    let declared = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if declared.is_some_and(|length| length > limit as u64) {
        return Err(too_large());
    }
    let Ok(read) = tokio::time::timeout(BODY_WITHIN, axum::body::to_bytes(body, limit)).await else {
        let detail = format!("the body did not arrive within {} s", BODY_WITHIN.as_secs());
        return Err(unread(Code::Malformed, detail));
    };
    read.map_err(|error| {
        let error = error.into_inner();
        match error.downcast_ref::<http_body_util::LengthLimitError>() {
            Some(_) => too_large(),
            None => Refusal::new(Code::Malformed, format!("the body cannot be read: {error}")),
        }
    })
}

/// A refusal of a body that is not read to its end: the connection cannot be used again, and the caller is told so.
fn unread(code: Code, detail: String) -> Refusal {
    let mut refusal = Refusal::new(code, detail);
    refusal.headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    refusal
}

/// Reads JSON; a refusal says where it is wrong.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Refusal> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let parsed = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = error.path().to_string();
        bad_json(Some(path).filter(|path| path != "."), error.inner())
    })?;
    reader.end().map_err(|error| bad_json(None, &error))?;
    Ok(parsed)
}

fn bad_json(field: Option<String>, error: &serde_json::Error) -> Refusal {
    let code = match error.classify() {
        Category::Data => Code::Invalid,
        Category::Syntax | Category::Eof | Category::Io => Code::Malformed,
    };
    let place = field.as_ref().map(|field| format!(" at `{field}`")).unwrap_or_default();
    let problem = Problem::new(code, format!("the JSON body cannot be read{place}: {error}"));
    Problem { field, ..problem }.into()
}

/// The number in a header, if there is one.
pub(crate) fn number_in(headers: &HeaderMap, name: &HeaderName) -> Result<Option<u64>, Refusal> {
    let Some(value) = headers.get(name) else { return Ok(None) };
    match value.to_str().ok().and_then(|text| text.trim().parse().ok()) {
        Some(number) => Ok(Some(number)),
        None => Err(Invalid::new(name.as_str(), "the header is not a whole number").into()),
    }
}

/// Checks how many items a page may have.
pub(crate) fn page_limit(asked: Option<usize>) -> Result<usize, Refusal> {
    const USUAL: usize = 100;
    const MAX: usize = 1000;
    match asked {
        None => Ok(USUAL),
        Some(limit @ 1..=MAX) => Ok(limit),
        Some(_) => Err(Invalid::new("limit", format!("it is between 1 and {MAX}")).into()),
    }
}

#[cfg(test)]
mod tests {
    use leasehold_api::{CheckRequest, GrantRequest, RenewManyRequest, RevokeRequest, WaitText};
    use serde::Deserialize;

    use super::*;

    fn refused<T: DeserializeOwned + std::fmt::Debug>(json: &str) -> Problem {
        *parse::<T>(json.as_bytes()).unwrap_err().problem
    }

    #[test]
    fn broken_json_is_told_with_its_place() {
        let problem = refused::<GrantRequest>("{\"holder\":\"ann\",\n \"ttl\": }");
        assert_eq!((problem.code.as_str(), problem.status), ("malformed", 400));
        assert!(problem.detail.contains("line 2 column 9"), "{}", problem.detail);
        assert_eq!(refused::<GrantRequest>("").code, "malformed");
        assert_eq!(refused::<GrantRequest>("{\"holder\":\"ann\"} x").code, "malformed");
        assert_eq!(refused::<GrantRequest>("{\"holder\":\"a\u{0}\"}").code, "malformed");
    }

    #[test]
    fn an_unknown_field_is_told_with_the_known_ones() {
        let problem = refused::<RevokeRequest>(r#"{"reson":"x"}"#);
        assert_eq!((problem.code.as_str(), problem.status), ("invalid", 422));
        for word in ["`reson`", "`reason`", "`now`"] {
            assert!(problem.detail.contains(word), "{}", problem.detail);
        }
    }

    #[test]
    fn wrong_types_and_missing_fields_name_the_field() {
        let problem = refused::<GrantRequest>(r#"{"holder":7,"ttl":"1s"}"#);
        assert_eq!(problem.field.as_deref(), Some("holder"));
        assert!(refused::<GrantRequest>(r#"{"ttl":"1s"}"#).detail.contains("missing field `holder`"));
        let problem = refused::<RenewManyRequest>(r#"{"leases":["0000000000000001","x"]}"#);
        assert_eq!(problem.field.as_deref(), Some("leases[1]"));
        assert!(problem.detail.contains("16 hex digits"), "{}", problem.detail);
        for ttl in ["0", "-1", "\"-5s\"", "\"0s\"", "18446744073709551615", "1e400", "\"10\"", "[]"] {
            let problem = refused::<GrantRequest>(&format!(r#"{{"holder":"a","ttl":{ttl}}}"#));
            assert!(problem.status == 422 || ttl == "1e400", "{ttl}: {}", problem.detail);
        }
        assert_eq!(refused::<CheckRequest>(r#"{"token":-1}"#).field.as_deref(), Some("token"));
    }

    #[test]
    fn deep_nesting_is_refused() {
        let deep = format!(r#"{{"holder":"a","metadata":{}"#, "[".repeat(100_000));
        assert!(refused::<GrantRequest>(&deep).status < 500);
        let deep = format!(r#"{{"holder":"a","pool":{}"#, "[".repeat(100_000));
        assert!(refused::<GrantRequest>(&deep).status < 500);
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Waiting {
        #[expect(dead_code, reason = "only its reading is tested")]
        wait: Option<WaitText>,
    }

    async fn query(text: &str) -> Result<(), Problem> {
        let request = Request::builder().uri(format!("/x?{text}")).body(()).unwrap();
        let (mut parts, ()) = request.into_parts();
        let found = Params::<Waiting>::from_request_parts(&mut parts, &()).await;
        found.map(|_| ()).map_err(|refusal| *refusal.problem)
    }

    #[tokio::test]
    async fn a_query_is_read_or_refused_with_its_field() {
        assert!(query("wait=30s").await.is_ok());
        assert!(query("wait=forever").await.is_ok());
        let problem = query("wait=30").await.unwrap_err();
        assert_eq!((problem.code.as_str(), problem.field.as_deref()), ("invalid", Some("wait")));
        assert!(query("wiat=30s").await.unwrap_err().detail.contains("`wait`"));
        assert_eq!(query("wait=%FF").await.unwrap_err().code, "malformed");
        assert_eq!(query("wait=1s&wait=2s").await.unwrap_err().status, 422);
    }

    #[tokio::test]
    async fn a_body_past_the_limit_is_refused_declared_or_not() {
        let small = read_body(&HeaderMap::new(), Body::from("1234"), 4).await.unwrap();
        assert_eq!(&small[..], b"1234");
        let refusal = read_body(&HeaderMap::new(), Body::from("12345"), 4).await.unwrap_err();
        assert_eq!(refusal.problem.code, "too_large");
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_LENGTH, "5".parse().unwrap());
        let refusal = read_body(&headers, Body::empty(), 4).await.unwrap_err();
        assert_eq!(refusal.problem.status, 413);
    }

    #[test]
    fn json_must_be_declared() {
        let with = |kind: &str| HeaderMap::from_iter([(header::CONTENT_TYPE, kind.parse().unwrap())]);
        assert!(require_json(&with("application/json; charset=utf-8")).is_ok());
        assert!(require_json(&with("application/merge-patch+json")).is_ok());
        for bad in [HeaderMap::new(), with("application/x-www-form-urlencoded"), with("text/plain")] {
            assert_eq!(require_json(&bad).unwrap_err().problem.status, 415);
        }
    }
}

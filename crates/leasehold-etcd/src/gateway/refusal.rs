//! Refusals of the gateway: a whole answer, or the last line of a stream that has begun.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde::Serialize;
use tonic::{Code, Status};

/// The same text twice: clients read one or the other.
#[derive(Serialize)]
struct Whole<'a> {
    error: &'a str,
    code: i32,
    message: &'a str,
}

#[derive(Serialize)]
struct Line<'a> {
    error: Details<'a>,
}

#[derive(Serialize)]
struct Details<'a> {
    grpc_code: i32,
    http_code: u16,
    message: &'a str,
    http_status: &'a str,
}

/// A refusal as the whole answer.
pub(crate) fn answer(status: &Status) -> Response {
    let (code, message) = (status.code() as i32, status.message());
    let text = serde_json::to_vec(&Whole { error: message, code, message }).unwrap_or_default();
    (http_status(status.code()), [(header::CONTENT_TYPE, "application/json")], text).into_response()
}

/// A refusal as the last line of a stream.
pub(crate) fn line(status: &Status) -> Vec<u8> {
    let http = http_status(status.code());
    let error = Details {
        grpc_code: status.code() as i32,
        http_code: http.as_u16(),
        message: status.message(),
        http_status: http.canonical_reason().unwrap_or_default(),
    };
    serde_json::to_vec(&Line { error }).unwrap_or_default()
}

/// The status of HTTP that etcd's gateway gives to a code of gRPC.
fn http_status(code: Code) -> StatusCode {
    match code {
        Code::Ok => StatusCode::OK,
        Code::Cancelled => StatusCode::REQUEST_TIMEOUT,
        Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange => StatusCode::BAD_REQUEST,
        Code::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::AlreadyExists | Code::Aborted => StatusCode::CONFLICT,
        Code::PermissionDenied => StatusCode::FORBIDDEN,
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        Code::Unimplemented => StatusCode::NOT_IMPLEMENTED,
        Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Code::Unknown | Code::Internal | Code::DataLoss => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

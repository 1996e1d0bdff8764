//! A backup of the whole cluster, as a stream of bytes.
//!
//! The bytes have an end mark and checksums of their own: a transfer that breaks off cannot pass for a whole backup.

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;

use crate::errors::Refusal;
use crate::reply::At;
use crate::server::App;

/// Copies the whole state of the cluster, as of now.
#[utoipa::path(get, operation_id = "take_backup", path = "/v1/cluster/backup", tag = "cluster",
    responses((status = 200, description = "The backup file; `lease restore` takes it",
            body = Vec<u8>, content_type = "application/octet-stream")))]
pub(crate) async fn take(State(app): State<App>) -> Result<Response, Refusal> {
    let backup = app.service.backup(&app.service.anonymous()).await?;
    let (at, revision) = (At::new(backup.now(), backup.revision()), backup.revision());
    let pieces = stream::unfold(backup, async |mut backup| backup.next().await.map(|piece| (piece, backup)));
    let mut response = at.on(Body::from_stream(pieces).into_response());
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    let name = format!("attachment; filename=\"leasehold-{revision}.backup\"");
    headers.insert(header::CONTENT_DISPOSITION, HeaderValue::from_str(&name).expect("a number has plain digits"));
    Ok(response)
}

//! Transactions on entries.

use axum::response::Response;
use leasehold_api::{NamespaceName, TxnAnswer, TxnRequest};

use crate::call::Call;
use crate::entries::write;
use crate::errors::Refusal;
use crate::extract::JsonBody;

/// Compares entries, then does one list of steps or the other, all in one revision.
#[utoipa::path(post, operation_id = "run_transaction", path = "/v1/ns/{ns}/txn", tag = "entries", params(("ns" = NamespaceName, Path)),
    request_body = TxnRequest,
    responses((status = 200, description = "Done, one way or the other", body = TxnAnswer)))]
pub(crate) async fn carry_out(call: Call, JsonBody(request): JsonBody<TxnRequest>) -> Result<Response, Refusal> {
    let (at, written) = write(&call, request.into_write()?).await?;
    Ok(at.ok(TxnAnswer::from(&written)))
}

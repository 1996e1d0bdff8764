//! Watches, as streams.
//!
//! What is too old to be resumed is refused before the stream begins. A watcher that is too slow is told so and cut; the
//! end of the server is a status, so that nobody takes it for the end of what happens.

use futures_util::stream::{self, BoxStream, StreamExt as _};
use leasehold_api::grpc::watch_server::Watch;
use leasehold_api::grpc::{WatchDelivery, WatchRequest};
use leasehold_core::Revision;
use leasehold_service::{Delivery, Failure, WatchFilter};
use tonic::{Request, Response, Status};

use crate::call::{App, At, namespace};
use crate::errors::Refusal;
use crate::wire::events;

type Deliveries = BoxStream<'static, Result<WatchDelivery, Status>>;

#[tonic::async_trait]
impl Watch for App {
    type EventsStream = Deliveries;

    async fn events(&self, request: Request<WatchRequest>) -> Result<Response<Deliveries>, Status> {
        self.answer(opened(self, request.into_inner()).await)
    }
}

async fn opened(app: &App, request: WatchRequest) -> Result<(At, Deliveries), Refusal> {
    let namespace = namespace(&request.namespace)?;
    let filter = WatchFilter { prefix: request.prefix };
    let watch = app.service.watch(&app.caller(), &namespace, filter, request.since.map(Revision)).await?;
    let at = At::new(app.service.present().0, watch.since());
    let app = app.clone();
    let deliveries = stream::unfold(Some(watch), move |watch| {
        let app = app.clone();
        async move {
            let mut watch = watch?;
            match watch.next().await {
                Some(delivery @ Delivery::TooSlow(_)) => Some((Ok(events::delivery(&delivery)), None)),
                Some(delivery) => Some((Ok(events::delivery(&delivery)), Some(watch))),
                None => {
                    let stopping = Refusal::from(Failure::ShuttingDown { may_have_happened: false });
                    Some((Err(stopping.status(app.service.present())), None))
                }
            }
        }
    });
    Ok((at, deliveries.boxed()))
}

//! What a leader takes from those who follow it: parcels of commands, and requests to prove that it still leads.
//!
//! Parcels of one connection are handed on in the order they came. Where they are handed to has room for few: then they wait
//! here, and this connection with them, but no other one; a proof never waits behind them. A parcel is handed on only while
//! this node leads exactly as its sender believes.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use leasehold_core::LeaderId;
use leasehold_service::log::{Leadership, Machine, Parcel, Unavailable};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::time::{Instant, timeout, timeout_at};

use super::frame::{self, Frame, FrameError};
use super::parcel::{self, BARRIER, PARCEL, PARCEL_BODY_MAX};
use super::serve::{Door, WRITE_PATIENCE, failed, put, reply, unexpected};
use crate::task::AbortOnDrop;

/// Parcels and proofs of one connection in work at once: twice what a link sends.
const IN_WORK: usize = 2 * super::PARCELS_IN_FLIGHT;
/// Another node may know of this one's election a moment before it is ready to lead.
const READY_PATIENCE: Duration = Duration::from_millis(250);

/// A parcel that waits to be handed on.
struct Waiting {
    to: LeaderId,
    bytes: Bytes,
    came: Instant,
    delivered: oneshot::Sender<Result<(), Unavailable>>,
}

impl<M: Machine> Door<M> {
    pub(super) async fn serve_forwards(
        &self,
        mut read: impl AsyncRead + Unpin,
        mut write: impl AsyncWrite + Unpin + Send + 'static,
    ) -> FrameError {
        let (answers, mut done) = mpsc::channel::<Vec<u8>>(IN_WORK);
        let mut writer = AbortOnDrop(tokio::spawn(async move {
            while let Some(mut bytes) = done.recv().await {
                while let Ok(more) = done.try_recv() {
                    bytes.extend_from_slice(&more);
                }
                if put(&mut write, &bytes).await.is_err() {
                    return;
                }
            }
        }));
        let (waiting, queue) = mpsc::channel(IN_WORK);
        let hand_on = hand_on(queue, self.inside.leadership.clone(), self.inside.parcels.clone());
        let hander = AbortOnDrop(tokio::spawn(hand_on));
        let ended = self.read_forwards(&mut read, waiting, answers).await;
        drop(hander);
        // What was answered already still goes out.
        let _ = timeout(WRITE_PATIENCE, &mut writer.0).await;
        ended
    }

    async fn read_forwards(
        &self,
        read: &mut (impl AsyncRead + Unpin),
        waiting: mpsc::Sender<Waiting>,
        answers: mpsc::Sender<Vec<u8>>,
    ) -> FrameError {
        let places = Arc::new(Semaphore::new(IN_WORK));
        let mut tasks = tokio::task::JoinSet::new();
        loop {
            let frame = match frame::read(read, PARCEL_BODY_MAX).await {
                Ok(frame) => frame,
                Err(error) => {
                    if let FrameError::Newer { number, .. } = &error {
                        let _ = answers.send(failed(*number, &error.to_string())).await;
                    }
                    return error;
                }
            };
            let Ok(place) = places.clone().acquire_owned().await else { return FrameError::Closed };
            while tasks.try_join_next().is_some() {}
            let Frame { kind, number, body } = frame;
            let answers = answers.clone();
            let say = move |answer| async move { drop((answers.send(reply(kind, number, answer)).await, place)) };
            match kind {
                PARCEL => match parcel::parcel(body) {
                    Ok((to, bytes)) => {
                        let (delivered, outcome) = oneshot::channel();
                        // There is room for as many as there are places.
                        let _ = waiting.send(Waiting { to, bytes, came: Instant::now(), delivered }).await;
                        tasks.spawn(async move {
                            let lost = || Err(Unavailable::Unknown("the leader let go of it".into()));
                            let outcome = outcome.await.unwrap_or_else(|_| lost());
                            say(Ok(parcel::put_delivery(&outcome))).await;
                        });
                    }
                    Err(error) => drop(tasks.spawn(say(Err(error.to_string())))),
                },
                BARRIER => {
                    let prover = self.inside.prover.clone();
                    tasks.spawn(async move { say(Ok(parcel::put_proof(&prover.prove().await))).await });
                }
                kind => drop(tasks.spawn(say(Err(unexpected(kind))))),
            }
        }
    }
}

/// Hands parcels on in their order.
async fn hand_on(
    mut queue: mpsc::Receiver<Waiting>,
    mut leadership: watch::Receiver<Leadership>,
    parcels: mpsc::Sender<Parcel>,
) {
    while let Some(Waiting { to, bytes, came, delivered }) = queue.recv().await {
        let known = leadership.wait_for(|present| !matches!(present, Leadership::Unknown));
        let _ = timeout_at(came + READY_PATIENCE, known).await;
        let Ok(place) = parcels.reserve().await else { return };
        // Looked at after the last wait; whoever proposes looks again.
        let present = *leadership.borrow();
        if present != Leadership::Leads(to) {
            let _ = delivered.send(Err(refusal(present)));
            continue;
        }
        let done = Box::new(move |outcome| drop(delivered.send(outcome)));
        place.send(Parcel { to, bytes, done });
    }
}

fn refusal(present: Leadership) -> Unavailable {
    let leader = match present {
        Leadership::Follows(leader) | Leadership::Leads(leader) => Some(leader),
        Leadership::CutOff(_) | Leadership::Unknown => None,
    };
    Unavailable::NotLeader { leader }
}
